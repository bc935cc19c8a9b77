//! Bringing rows into the order of a segment.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::interleave;
use arrow::datatypes::UInt64Type;
use arrow::error::ArrowError;

use super::file::SegmentFiles;
use super::info::SegmentInfo;
use super::writer::{SEGMENT_ROWS_MAX, SegmentSpec, SegmentWriter};
use crate::error::StorageError;
use crate::table::KeySpec;

/// Rows that are copied together.
const COPY_ROWS: usize = 16_384;

/// Gathers rows in any order and gives them in the order of the primary key, rows of one key in that of their ids; by id
/// where there is no primary key.
///
/// It holds the rows as they were handed in, and four bytes per row beside them; while it sorts also the encoded keys. What
/// comes in order already is not sorted again.
pub struct RowSorter {
    spec: SegmentSpec,
    batches: Vec<(Vec<ArrayRef>, UInt64Array)>,
    rows: usize,
}

impl RowSorter {
    /// An empty one for rows of `spec`.
    pub fn new(spec: SegmentSpec) -> Self {
        Self {
            spec,
            batches: Vec::new(),
            rows: 0,
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows: the columns of the spec, in its order, and the row ids.
    pub fn push(&mut self, columns: Vec<ArrayRef>, row_ids: UInt64Array) {
        debug_assert_eq!(columns.len(), self.spec.columns.len(), "an array for each column");
        if !row_ids.is_empty() {
            self.rows += row_ids.len();
            self.batches.push((columns, row_ids));
        }
    }

    /// Writes the rows to segments of `segment_rows` rows each, at most [`SEGMENT_ROWS_MAX`], in order: the keys of one
    /// segment come before those of the next.
    ///
    /// # Errors
    /// The disk refuses, or is full. Segments that were finished before are garbage.
    pub fn write(self, files: &Arc<dyn SegmentFiles>, segment_rows: u32) -> Result<Vec<SegmentInfo>, StorageError> {
        let sorted = self
            .sorted()
            .map_err(|error| super::writer::encode_error(files.as_ref(), &error))?;
        sorted.write(files, segment_rows)
    }

    /// The rows in order.
    pub(crate) fn sorted(self) -> Result<SortedRows, ArrowError> {
        let order = if self.spec.key.is_empty() {
            self.order_by_id()
        } else {
            self.order_by_key()?
        };
        let mut starts = Vec::with_capacity(self.batches.len());
        let mut before = 0;
        for (_, ids) in &self.batches {
            starts.push(before);
            before += ids.len();
        }
        Ok(SortedRows {
            spec: self.spec,
            batches: self.batches,
            starts,
            rows: self.rows,
            order,
        })
    }

    /// The places of all rows, as they were handed in.
    fn places(&self) -> Vec<(u32, u32)> {
        let batches = self.batches.iter().enumerate();
        let rows = batches.flat_map(|(batch, (_, ids))| (0..ids.len() as u32).map(move |row| (batch as u32, row)));
        rows.collect()
    }

    fn order_by_id(&self) -> Option<Vec<(u32, u32)>> {
        let id = |(batch, row): (u32, u32)| self.batches[batch as usize].1.value(row as usize);
        let mut places = self.places();
        if places.is_sorted_by_key(|place| id(*place)) {
            return None;
        }
        places.sort_unstable_by_key(|place| id(*place));
        Some(places)
    }

    fn order_by_key(&self) -> Result<Option<Vec<(u32, u32)>>, ArrowError> {
        let key = self.spec.places(&self.spec.key);
        let codec = self.spec.codec(&key)?;
        let encode = |(columns, _): &(Vec<ArrayRef>, UInt64Array)| {
            let columns: Vec<ArrayRef> = key.iter().map(|place| Arc::clone(&columns[*place])).collect();
            codec.encode(&columns)
        };
        let keys = self.batches.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let of = |(batch, row): (u32, u32)| {
            (
                keys[batch as usize].bytes(row as usize),
                self.batches[batch as usize].1.value(row as usize),
            )
        };
        let mut places = self.places();
        if places.is_sorted_by(|a, b| of(*a) <= of(*b)) {
            return Ok(None);
        }
        places.sort_unstable_by(|a, b| of(*a).cmp(&of(*b)));
        Ok(Some(places))
    }
}

/// Rows in the order of a segment.
pub(crate) struct SortedRows {
    spec: SegmentSpec,
    batches: Vec<(Vec<ArrayRef>, UInt64Array)>,
    /// How many rows come before each batch.
    starts: Vec<usize>,
    rows: usize,
    /// Batch and row of each row; `None`: as they came.
    order: Option<Vec<(u32, u32)>>,
}

impl SortedRows {
    /// As [`RowSorter::write`].
    pub(crate) fn write(
        &self,
        files: &Arc<dyn SegmentFiles>,
        segment_rows: u32,
    ) -> Result<Vec<SegmentInfo>, StorageError> {
        let segment_rows = segment_rows.clamp(1, SEGMENT_ROWS_MAX) as usize;
        let mut infos = Vec::new();
        let mut at = 0;
        while at < self.rows {
            let end = self.rows.min(at + segment_rows);
            let mut writer = SegmentWriter::new(Arc::clone(files), self.spec.clone())?;
            while at < end {
                let copied = self.copy(at, COPY_ROWS.min(end - at));
                let (columns, ids) = copied.map_err(|error| super::writer::encode_error(files.as_ref(), &error))?;
                writer.push(&columns, &ids)?;
                at += ids.len();
            }
            infos.extend(writer.finish()?);
        }
        Ok(infos)
    }

    /// The columns of the key, in its order, of a batch, and the row there whose primary key another row has too.
    pub(crate) fn repeated_key(&self, key: &KeySpec) -> Result<Option<(Vec<ArrayRef>, usize)>, ArrowError> {
        let places = self.spec.places(key.columns());
        let mut before: Option<Vec<u8>> = None;
        let mut at = 0;
        while at < self.rows {
            let (columns, ids) = self.copy_of(&places, at, COPY_ROWS.min(self.rows - at))?;
            let keys = key.encode(&columns)?;
            for row in 0..keys.len() {
                let bytes = keys.bytes(row);
                let same = match row.checked_sub(1) {
                    None => before.as_deref() == Some(bytes),
                    Some(before) => keys.bytes(before) == bytes,
                };
                if same {
                    return Ok(Some((columns, row)));
                }
            }
            before = keys.len().checked_sub(1).map(|last| keys.bytes(last).to_vec());
            at += ids.len();
        }
        Ok(None)
    }

    fn copy(&self, at: usize, rows: usize) -> Result<(Vec<ArrayRef>, UInt64Array), ArrowError> {
        let all: Vec<usize> = (0..self.spec.columns.len()).collect();
        self.copy_of(&all, at, rows)
    }

    /// Some of the columns of at most `rows` rows from the `at`th on, one row at least.
    fn copy_of(&self, columns: &[usize], at: usize, rows: usize) -> Result<(Vec<ArrayRef>, UInt64Array), ArrowError> {
        let Some(order) = &self.order else {
            let batch = self.starts.partition_point(|start| *start <= at) - 1;
            let (arrays, ids) = &self.batches[batch];
            let first = at - self.starts[batch];
            let rows = rows.min(ids.len() - first);
            let columns = columns.iter().map(|place| arrays[*place].slice(first, rows));
            return Ok((columns.collect(), ids.slice(first, rows)));
        };
        let places = order[at..at + rows].iter();
        let places: Vec<(usize, usize)> = places.map(|(batch, row)| (*batch as usize, *row as usize)).collect();
        let column = |place: &usize| {
            let arrays: Vec<&dyn Array> = self
                .batches
                .iter()
                .map(|(columns, _)| columns[*place].as_ref())
                .collect();
            interleave(&arrays, &places)
        };
        let columns = columns.iter().map(column).collect::<Result<_, _>>()?;
        let ids: Vec<&dyn Array> = self.batches.iter().map(|(_, ids)| ids as &dyn Array).collect();
        let ids = interleave(&ids, &places)?;
        Ok((columns, ids.as_primitive::<UInt64Type>().clone()))
    }
}
