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
        let segment_rows = segment_rows.clamp(1, SEGMENT_ROWS_MAX) as usize;
        let sorted = self
            .sorted()
            .map_err(|error| super::writer::encode_error(files.as_ref(), &error))?;
        let mut infos = Vec::new();
        let mut at = 0;
        while at < sorted.rows {
            let end = sorted.rows.min(at + segment_rows);
            let mut writer = SegmentWriter::new(Arc::clone(files), sorted.spec.clone())?;
            while at < end {
                let rows = COPY_ROWS.min(end - at);
                let copied = sorted.copy(at, rows);
                let (columns, ids) = copied.map_err(|error| super::writer::encode_error(files.as_ref(), &error))?;
                writer.push(&columns, &ids)?;
                at += rows;
            }
            infos.extend(writer.finish()?);
        }
        Ok(infos)
    }

    fn sorted(self) -> Result<Sorted, ArrowError> {
        let order = if self.spec.key.is_empty() {
            self.order_by_id()
        } else {
            self.order_by_key()?
        };
        Ok(Sorted {
            spec: self.spec,
            batches: self.batches,
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

struct Sorted {
    spec: SegmentSpec,
    batches: Vec<(Vec<ArrayRef>, UInt64Array)>,
    rows: usize,
    /// Batch and row of each row; `None`: as they came.
    order: Option<Vec<(u32, u32)>>,
}

impl Sorted {
    fn copy(&self, at: usize, rows: usize) -> Result<(Vec<ArrayRef>, UInt64Array), ArrowError> {
        let places: Vec<(usize, usize)> = match &self.order {
            Some(order) => order[at..at + rows]
                .iter()
                .map(|(batch, row)| (*batch as usize, *row as usize))
                .collect(),
            None => self.unsorted(at, rows),
        };
        let column = |place: usize| {
            let arrays: Vec<&dyn Array> = self
                .batches
                .iter()
                .map(|(columns, _)| columns[place].as_ref())
                .collect();
            interleave(&arrays, &places)
        };
        let columns = (0..self.spec.columns.len()).map(column).collect::<Result<_, _>>()?;
        let ids: Vec<&dyn Array> = self.batches.iter().map(|(_, ids)| ids as &dyn Array).collect();
        let ids = interleave(&ids, &places)?;
        Ok((columns, ids.as_primitive::<UInt64Type>().clone()))
    }

    fn unsorted(&self, at: usize, rows: usize) -> Vec<(usize, usize)> {
        let mut before = 0;
        let mut places = Vec::with_capacity(rows);
        for (batch, (_, ids)) in self.batches.iter().enumerate() {
            let range = at.max(before)..(at + rows).min(before + ids.len());
            places.extend(range.map(|row| (batch, row - before)));
            before += ids.len();
        }
        places
    }
}
