//! A table as it was at one version.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, interleave};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchOptions;

use super::block::Block;
use super::ends::{CHUNK_ROWS, EndChunk};
use super::history::Step;
use super::{RowId, Table};
use crate::error::ReadError;
use crate::layout::Layout;
use crate::schema::{CollectionDef, ROW_ID_COLUMN};

/// A table as it was at one version. Holds no copy and no lock: it stays readable, and the same, whatever is applied.
#[derive(Clone)]
pub struct TableSnapshot {
    table: Arc<Table>,
    def: Arc<CollectionDef>,
    layout: Arc<Layout>,
    version: u64,
    step: Step,
}

/// Rows that one version ended and began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChanges {
    /// Rows that ended.
    pub ended: Vec<RowId>,
    /// Rows that began.
    pub begun: Range<u64>,
}

/// Some rows of a [`TableSnapshot`] that stand together.
pub struct BlockSnapshot {
    block: Arc<Block>,
    /// How many of the block's rows had begun.
    rows: usize,
    ends: Vec<Arc<EndChunk>>,
    layout: Arc<Layout>,
    version: u64,
}

impl TableSnapshot {
    pub(crate) fn new(table: Arc<Table>, def: Arc<CollectionDef>, layout: Arc<Layout>, version: u64) -> Self {
        let step = table.at(version);
        Self {
            table,
            def,
            layout,
            version,
            step,
        }
    }

    /// The definition at this version.
    pub fn def(&self) -> &CollectionDef {
        &self.def
    }

    /// The Arrow schema of its rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.layout.schema)
    }

    /// How many rows are visible: exact, and known without a scan.
    pub fn row_count(&self) -> usize {
        (self.step.rows - self.step.ended) as usize
    }

    /// All rows in blocks of some thousand, in the order of their ids. Rows that are not visible may stand between.
    pub fn blocks(&self) -> Vec<BlockSnapshot> {
        let limit = self.step.rows;
        let scattered = self.table.inner.read().blocks.is_scattered();
        let blocks = if scattered {
            self.table.inner.write().blocks.for_scan(limit)
        } else {
            self.table.inner.read().blocks.below(limit)
        };
        let inner = self.table.inner.read();
        let snapshot = |block: Arc<Block>| BlockSnapshot {
            rows: block.rows.min((limit - block.first_row) as usize),
            ends: inner.ends.covering(block.row_ids()),
            layout: Arc::clone(&self.layout),
            version: self.version,
            block,
        };
        blocks.into_iter().map(snapshot).collect()
    }

    /// The visible row with each of the primary keys in `keys` (its columns, in the key's order, by place).
    ///
    /// # Errors
    /// The collection has no primary key, or the columns are not of its types.
    pub fn find(&self, keys: &RecordBatch) -> Result<Vec<Option<RowId>>, ReadError> {
        let shape = |why: String| ReadError::KeyShape {
            collection: self.def.id,
            why,
        };
        let index = self
            .table
            .primary()
            .ok_or_else(|| shape("it has no primary key".into()))?;
        if !index.types().iter().eq(keys.columns().iter().map(Array::data_type)) {
            return Err(shape("the columns are of other types".into()));
        }
        let keys = index.encode(keys.columns()).map_err(|error| shape(error.to_string()))?;
        let inner = self.table.inner.read();
        let find = |row| {
            let (hash, key) = keys.key(row)?;
            let found = index.newest_below(self.step.rows, hash, key)?;
            inner.ends.lives_at(found, self.version).then_some(RowId(found))
        };
        Ok((0..keys.len()).map(find).collect())
    }

    /// The visible rows with the primary keys in `keys`, in the order of the keys; keys that no row has are left out.
    ///
    /// # Errors
    /// As [`TableSnapshot::find`] and [`TableSnapshot::rows`].
    pub fn get(&self, keys: &RecordBatch, projection: Option<&[usize]>) -> Result<RecordBatch, ReadError> {
        let found: Vec<RowId> = self.find(keys)?.into_iter().flatten().collect();
        self.rows(&found, projection)
    }

    /// The rows of these ids, in their order. A row is given whether it has ended or not, so that what a version ended
    /// can be looked at; it must have begun at or before this version.
    ///
    /// # Errors
    /// An id that no row has yet; a column that is not there.
    pub fn rows(&self, rows: &[RowId], projection: Option<&[usize]>) -> Result<RecordBatch, ReadError> {
        let ordinals = self.ordinals(projection)?;
        let (blocks, places) = self.places(rows)?;
        let gather = |ordinal: &usize| -> Result<ArrayRef, ArrowError> {
            let column = &self.layout.columns[*ordinal];
            if let [(block, row)] = places[..] {
                return Ok(blocks[block].column(column).slice(row, 1));
            }
            if places.is_empty() {
                return Ok(arrow::array::new_empty_array(&column.ty));
            }
            let columns: Vec<ArrayRef> = blocks.iter().map(|block| block.column(column)).collect();
            let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
            interleave(&columns, &places)
        };
        let columns = ordinals.iter().map(gather).collect::<Result<Vec<_>, _>>();
        let schema = match projection {
            None => Ok(self.schema()),
            Some(ordinals) => self.layout.schema.project(ordinals).map(Arc::new),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(schema?, columns, &options))
            .map_err(|error| ReadError::Arrow(error.to_string()))
    }

    /// The rows that exactly this version ended and began, for whoever keeps something up to date with the table. Known
    /// for versions above the horizon.
    pub fn changes(&self) -> RowChanges {
        let (begun, ended) = self.table.inner.read().history.changes(self.version);
        RowChanges {
            ended: ended.into_iter().map(RowId).collect(),
            begun,
        }
    }

    fn ordinals(&self, projection: Option<&[usize]>) -> Result<Vec<usize>, ReadError> {
        let width = self.def.columns.len();
        let ordinals = projection.map_or_else(|| (0..width).collect(), <[usize]>::to_vec);
        match ordinals.iter().find(|ordinal| **ordinal >= width) {
            Some(ordinal) => Err(ReadError::NoColumn(*ordinal)),
            None => Ok(ordinals),
        }
    }

    /// The blocks that hold these rows, and for each row which of them, and where in it.
    #[allow(clippy::type_complexity)]
    fn places(&self, rows: &[RowId]) -> Result<(Vec<Arc<Block>>, Vec<(usize, usize)>), ReadError> {
        let inner = self.table.inner.read();
        let mut blocks: Vec<Arc<Block>> = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        let mut by_first_row = std::collections::HashMap::new();
        for row in rows {
            let block = inner.blocks.find(row.0).filter(|_| row.0 < self.step.rows);
            let block = block.ok_or(ReadError::NoRow(row.0))?;
            let place = *by_first_row.entry(block.first_row).or_insert_with(|| {
                blocks.push(Arc::clone(block));
                blocks.len() - 1
            });
            places.push((place, (row.0 - block.first_row) as usize));
        }
        Ok((blocks, places))
    }
}

impl BlockSnapshot {
    /// How many rows it holds, visible or not: at least as many as [`BlockSnapshot::read`] gives.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it holds no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Its visible rows: the columns of `projection` (all if `None`), and behind them the row ids, as the column
    /// [`ROW_ID_COLUMN`], if asked for. `None` if no row is visible. A block that is wholly visible costs no copy.
    ///
    /// # Panics
    /// If `projection` names a column that is not there.
    pub fn read(&self, projection: Option<&[usize]>, with_row_id: bool) -> Option<RecordBatch> {
        let visible = self.visible();
        if visible.as_ref().is_some_and(|mask| mask.count_set_bits() == 0) || self.rows == 0 {
            return None;
        }
        let ordinals = projection.map_or_else(|| (0..self.layout.columns.len()).collect(), <[usize]>::to_vec);
        let mut fields = Vec::with_capacity(ordinals.len() + 1);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(ordinals.len() + 1);
        for ordinal in ordinals {
            columns.push(self.block.column(&self.layout.columns[ordinal]).slice(0, self.rows));
            fields.push(Arc::clone(&self.layout.schema.fields()[ordinal]));
        }
        if with_row_id {
            let first = self.block.first_row;
            columns.push(Arc::new(UInt64Array::from_iter_values(first..first + self.rows as u64)));
            fields.push(Arc::new(Field::new(ROW_ID_COLUMN, DataType::UInt64, false)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .expect("columns were checked against the schema when they were written");
        Some(match visible {
            None => batch,
            Some(mask) => filter_record_batch(&batch, &mask.into()).expect("the mask is as long as the batch"),
        })
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
