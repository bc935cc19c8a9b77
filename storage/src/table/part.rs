//! The rows of a table in parts that can be read one beside the other: blocks in memory and row groups of segments.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;

use super::block::Block;
use super::ends::{CHUNK_ROWS, EndChunk};
use crate::error::ReadError;
use crate::layout::{Layout, batch_of};
use crate::schema::ROW_ID_COLUMN;
use crate::segments::{ColumnBounds, PartRead, PartRows, SegmentPart};

/// Some rows of a table at a version that stand together.
#[derive(Clone)]
pub struct TablePart(Kind);

#[derive(Clone)]
enum Kind {
    Memory(Arc<BlockPart>),
    Main(SegmentPart),
}

/// A block at a version.
pub(super) struct BlockPart {
    pub(super) block: Arc<Block>,
    /// How many of the block's rows had begun.
    pub(super) rows: usize,
    pub(super) ends: Vec<Arc<EndChunk>>,
    pub(super) layout: Arc<Layout>,
    pub(super) version: u64,
}

impl TablePart {
    pub(super) fn memory(part: BlockPart) -> Self {
        Self(Kind::Memory(Arc::new(part)))
    }

    pub(super) fn main(part: SegmentPart) -> Self {
        Self(Kind::Main(part))
    }

    /// How many rows it holds, visible or not: at least as many as [`TablePart::read`] gives.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Memory(part) => part.rows,
            Kind::Main(part) => part.len(),
        }
    }

    /// Whether it holds no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bounds of a column over its rows, visible or not; `None` if they are not known.
    pub fn bounds(&self, ordinal: usize) -> Option<ColumnBounds> {
        match &self.0 {
            Kind::Memory(_) => None,
            Kind::Main(part) => part.bounds(ordinal),
        }
    }

    /// Whether its rows come in the order of the primary key.
    pub fn is_sorted_by_key(&self) -> bool {
        match &self.0 {
            Kind::Memory(_) => false,
            Kind::Main(part) => part.is_sorted_by_key(),
        }
    }

    /// The ordinal of the column by which its rows are sorted, ascending; rows that are equal there may stand in any
    /// order. `None` if there is none.
    pub fn sorted_by(&self) -> Option<usize> {
        match &self.0 {
            Kind::Memory(_) => None,
            Kind::Main(part) => part.sorted_by(),
        }
    }

    /// The visible rows that the filter of `request` keeps, in the order they stand, in batches of at least one row.
    ///
    /// # Errors
    /// A column that is not there; a damaged file, or a disk that refuses; what the filter met. Some of them only come
    /// with the batches.
    pub fn read(&self, request: &PartRead) -> Result<PartRows, ReadError> {
        match &self.0 {
            Kind::Main(part) => part.read(request),
            Kind::Memory(part) => {
                let filtered = request.filter.iter().flat_map(|filter| filter.columns());
                let mut ordinals = request.projection.iter().chain(filtered);
                if let Some(missing) = ordinals.find(|ordinal| **ordinal >= part.layout.columns.len()) {
                    return Err(ReadError::NoColumn(*missing));
                }
                let read = part.read(request).transpose();
                let step = request.batch_rows.max(1);
                let batches = read.into_iter().flat_map(move |batch| match batch {
                    Err(error) => vec![Err(ReadError::Arrow(error.to_string()))],
                    Ok(batch) => cut(&batch, step).map(Ok).collect(),
                });
                Ok(PartRows::new(batches.collect::<Vec<_>>().into_iter()))
            }
        }
    }
}

/// The batch in pieces of at most `rows` rows, which share its memory.
fn cut(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(move |at| batch.slice(at, rows.min(batch.num_rows() - at)))
}

impl BlockPart {
    /// `None` if no row is left. A block that is wholly visible costs no copy.
    fn read(&self, request: &PartRead) -> Result<Option<RecordBatch>, ArrowError> {
        let mut mask = self.visible().map(BooleanArray::from);
        if self.rows == 0 || mask.as_ref().is_some_and(|mask| mask.true_count() == 0) {
            return Ok(None);
        }
        if let Some(filter) = &request.filter {
            let kept = filter.keep(&self.batch(filter.columns(), false)?)?;
            let kept = match kept.null_count() {
                0 => kept,
                _ => prep_null_mask_filter(&kept),
            };
            let both = match &mask {
                Some(visible) => and(visible, &kept)?,
                None => kept,
            };
            if both.true_count() == 0 {
                return Ok(None);
            }
            mask = (both.true_count() < self.rows).then_some(both);
        }
        let batch = self.batch(&request.projection, request.with_row_id)?;
        let Some(mask) = mask else {
            return Ok(Some(batch));
        };
        // Rows that are not visible may have needed a looser schema than those that are.
        let (_, columns, _) = filter_record_batch(&batch, &mask)?.into_parts();
        let schema = self.schema(&request.projection, request.with_row_id);
        batch_of(&schema, columns, mask.true_count()).map(Some)
    }

    /// All rows that had begun.
    fn batch(&self, ordinals: &[usize], with_row_id: bool) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(ordinals.len() + 1);
        for ordinal in ordinals {
            columns.push(self.block.column(&self.layout.columns[*ordinal]).slice(0, self.rows));
        }
        if with_row_id {
            let first = self.block.first_row;
            columns.push(Arc::new(UInt64Array::from_iter_values(first..first + self.rows as u64)));
        }
        batch_of(&self.schema(ordinals, with_row_id), columns, self.rows)
    }

    fn schema(&self, ordinals: &[usize], with_row_id: bool) -> Schema {
        let fields = ordinals
            .iter()
            .map(|ordinal| Arc::clone(&self.layout.schema.fields()[*ordinal]));
        let row_id = with_row_id.then(|| Arc::new(Field::new(ROW_ID_COLUMN, DataType::UInt64, false)));
        Schema::new(fields.chain(row_id).collect::<Vec<_>>())
    }

    /// Which rows are visible; `None` if all are.
    fn visible(&self) -> Option<BooleanBuffer> {
        if self.ends.iter().all(|chunk| chunk.is_untouched()) {
            return None;
        }
        let first = self.block.first_row;
        let first_chunk = first / CHUNK_ROWS;
        let mask = BooleanBuffer::collect_bool(self.rows, |place| {
            let row = first + place as u64;
            let chunk = &self.ends[(row / CHUNK_ROWS - first_chunk) as usize];
            chunk.lives_at((row % CHUNK_ROWS) as usize, self.version)
        });
        (mask.count_set_bits() < self.rows).then_some(mask)
    }
}
