//! A table as it was at one version.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::block::Block;
use super::delta::Delta;
use super::history::Step;
use super::keys::{KeyList, KeySpec, Keys};
use super::layers::{Layers, MainSegment, Place, Seen};
use super::part::{BlockPart, TablePart};
use super::{RowId, Table};
use crate::error::ReadError;
use crate::layout::{Layout, LayoutColumn, batch_of};
use crate::readers::Reader;
use crate::schema::CollectionDef;
use crate::segments::{SegmentPart, SegmentView, from_stored};

/// A table as it was at one version. Holds no copy and no lock: it stays readable, and the same, whatever is applied and
/// whatever moves to disk.
#[derive(Clone)]
pub struct TableSnapshot {
    pub(super) table: Arc<Table>,
    def: Arc<CollectionDef>,
    pub(super) layout: Arc<Layout>,
    keys: KeyList,
    version: u64,
    step: Step,
    /// Keeps what this version shows.
    _reader: Arc<Reader>,
}

/// Rows that one version ended and began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChanges {
    /// Rows that ended.
    pub ended: Vec<RowId>,
    /// Rows that began.
    pub begun: Range<u64>,
}

impl TableSnapshot {
    pub(crate) fn new(
        table: Arc<Table>,
        (def, layout): (Arc<CollectionDef>, Arc<Layout>),
        version: u64,
        reader: Arc<Reader>,
    ) -> Self {
        let step = table.at(version);
        Self {
            keys: table.keys(),
            table,
            def,
            layout,
            version,
            step,
            _reader: reader,
        }
    }

    /// The definition at this version.
    pub fn def(&self) -> &CollectionDef {
        &self.def
    }

    pub(crate) fn shared_def(&self) -> Arc<CollectionDef> {
        Arc::clone(&self.def)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    /// The Arrow schema of its rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.layout.schema)
    }

    /// How many rows are visible: exact, and known without a scan.
    pub fn row_count(&self) -> usize {
        (self.step.rows - self.step.ended) as usize
    }

    /// All rows: row groups of segments, and blocks of some thousand rows in memory, in the order of their ids as far as
    /// segments are. Rows that are not visible may stand between.
    pub fn parts(&self) -> Vec<TablePart> {
        let layers = self.table.layers();
        let mut parts = Vec::new();
        let has_begun = |main: &&Arc<MainSegment>| main.segment.info().row_ids.0 < self.step.rows;
        let mut deltas = layers.deltas.iter().peekable();
        for main in layers.main.iter().filter(has_begun) {
            while let Some(delta) = deltas.next_if(|delta| delta.first_row < main.segment.info().row_ids.0) {
                self.blocks(delta, &mut parts);
            }
            let view = Arc::new(SegmentView {
                columns: Arc::clone(&self.layout.stored),
                schema: Arc::clone(&self.layout.schema),
                deleted: Arc::clone(&main.ends),
                version: self.version,
                row_limit: self.step.rows,
            });
            parts.extend(SegmentPart::all(&main.segment, &view).into_iter().map(TablePart::main));
        }
        for delta in deltas {
            self.blocks(delta, &mut parts);
        }
        parts
    }

    fn blocks(&self, delta: &Delta, parts: &mut Vec<TablePart>) {
        let limit = self.step.rows;
        let scattered = delta.inner.read().blocks.is_scattered();
        let blocks = if scattered {
            delta.inner.write().blocks.for_scan(limit)
        } else {
            delta.inner.read().blocks.below(limit)
        };
        let inner = delta.inner.read();
        let part = |block: Arc<Block>| BlockPart {
            rows: block.rows.min((limit - block.first_row) as usize),
            ends: inner.ends.covering(block.row_ids()),
            layout: Arc::clone(&self.layout),
            version: self.version,
            block,
        };
        parts.extend(blocks.into_iter().map(part).map(TablePart::memory));
    }

    /// The visible row with each of the primary keys in `keys` (its columns, in the key's order, by place).
    ///
    /// # Errors
    /// The collection has no primary key, or the columns are not of its types; a segment cannot be read.
    pub fn find(&self, keys: &RecordBatch) -> Result<Vec<Option<RowId>>, ReadError> {
        self.find_in(self.primary()?, keys)
    }

    /// The visible row with each of `keys`, which are those of the primary or unique key on the columns of these ids. A
    /// key with a NULL in it is no row's. `None` when this version has no such key.
    ///
    /// # Errors
    /// Columns of other types than the key's; a segment cannot be read.
    pub fn find_by(&self, columns: &[u32], keys: &RecordBatch) -> Result<Option<Vec<Option<RowId>>>, ReadError> {
        let ordinals = columns.iter().map(|id| self.def.ordinal_of(*id).map(|at| at as u32));
        let ordinals: Option<Vec<u32>> = ordinals.collect();
        let ordinals = ordinals.filter(|ordinals| self.def.unique_on(ordinals).is_some());
        let spec = ordinals.and_then(|ordinals| self.spec(&ordinals));
        spec.map(|spec| self.find_in(spec, keys)).transpose()
    }

    fn find_in(&self, spec: &Arc<KeySpec>, keys: &RecordBatch) -> Result<Vec<Option<RowId>>, ReadError> {
        let places = self.places_of(&self.table.layers(), spec, keys)?;
        let id = |place: Option<Place>| Ok(place.map(|place| place.row_id()).transpose()?.map(RowId));
        places.into_iter().map(id).collect()
    }

    /// Whether rows can be found by the columns at `ordinals`: there is an index over them, and it reaches back to this
    /// version.
    pub fn is_indexed(&self, ordinals: &[u32]) -> bool {
        self.spec(ordinals).is_some()
    }

    /// The visible rows that have one of the values in `keys` in the columns at `ordinals`, which must be one of the
    /// lists of [`CollectionDef::indexed`]. Rows come in no order that means anything.
    ///
    /// # Errors
    /// There is no such index; the columns of `keys` are not of its types; a segment cannot be read.
    pub fn find_all(&self, ordinals: &[u32], keys: &RecordBatch) -> Result<Vec<RowId>, ReadError> {
        let spec = self.spec(ordinals);
        let spec = spec.ok_or_else(|| self.key_shape("there is no index over these columns"))?;
        let keys = self.encode(spec, keys)?;
        let layers = self.table.layers();
        let mut found = Vec::new();
        for row in 0..keys.len() {
            for place in layers.all_by_key(spec, &keys, row, self.seen())? {
                found.push(RowId(place.row_id()?));
            }
        }
        Ok(found)
    }

    fn spec(&self, ordinals: &[u32]) -> Option<&Arc<KeySpec>> {
        if ordinals.is_empty() {
            return None;
        }
        let ids = self.def.column_ids(ordinals);
        let fits = |spec: &&Arc<KeySpec>| spec.columns() == ids && spec.is_complete_at(self.version);
        self.keys.iter().find(fits)
    }

    fn seen(&self) -> Seen {
        Seen {
            row_limit: self.step.rows,
            version: self.version,
        }
    }

    fn encode(&self, spec: &KeySpec, keys: &RecordBatch) -> Result<Keys, ReadError> {
        if !spec.types().iter().eq(keys.columns().iter().map(Array::data_type)) {
            return Err(self.key_shape("the columns are of other types"));
        }
        spec.encode(keys.columns())
            .map_err(|error| self.key_shape(&error.to_string()))
    }

    fn key_shape(&self, why: &str) -> ReadError {
        ReadError::KeyShape {
            collection: self.def.id,
            why: why.to_owned(),
        }
    }

    /// The visible rows with the primary keys in `keys`, in the order of the keys; keys that no row has are left out.
    ///
    /// # Errors
    /// As [`TableSnapshot::find`] and [`TableSnapshot::rows`].
    pub fn get(&self, keys: &RecordBatch, projection: Option<&[usize]>) -> Result<RecordBatch, ReadError> {
        let ordinals = self.ordinals(projection)?;
        let places = self.places_of(&self.table.layers(), self.primary()?, keys)?;
        let found: Vec<Place> = places.into_iter().flatten().collect();
        self.gather(&found, &ordinals)
    }

    /// The rows of these ids, in their order. A row is given whether it has ended or not, so that what a version ended
    /// can be looked at; it must have begun at or before this version.
    ///
    /// # Errors
    /// An id that no row has yet; a row that ended before the horizon may be gone, too. A column that is not there; a
    /// segment that cannot be read.
    pub fn rows(&self, rows: &[RowId], projection: Option<&[usize]>) -> Result<RecordBatch, ReadError> {
        let ordinals = self.ordinals(projection)?;
        let layers = self.table.layers();
        let place = |row: &RowId| {
            let place = if row.0 < self.step.rows {
                layers.by_id(row.0)?
            } else {
                None
            };
            place.ok_or(ReadError::NoRow(row.0))
        };
        let places = rows.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        self.gather(&places, &ordinals)
    }

    /// The rows that exactly this version ended and began, for whoever keeps something up to date with the table. Known
    /// for versions above the horizon.
    pub fn changes(&self) -> RowChanges {
        let (begun, ended) = self.table.history.read().changes(self.version);
        RowChanges {
            ended: ended.into_iter().map(RowId).collect(),
            begun,
        }
    }

    fn primary(&self) -> Result<&Arc<KeySpec>, ReadError> {
        let key = self.spec(&self.def.key);
        key.ok_or_else(|| self.key_shape("it has no primary key"))
    }

    /// The places of the rows with these keys of a unique key.
    fn places_of(
        &self,
        layers: &Layers,
        spec: &Arc<KeySpec>,
        keys: &RecordBatch,
    ) -> Result<Vec<Option<Place>>, ReadError> {
        let (keys, seen) = (self.encode(spec, keys)?, self.seen());
        let find = |row| Ok(layers.by_key(spec, &keys, row, seen)?);
        (0..keys.len()).map(find).collect()
    }

    fn ordinals(&self, projection: Option<&[usize]>) -> Result<Vec<usize>, ReadError> {
        let width = self.def.columns.len();
        let ordinals = projection.map_or_else(|| (0..width).collect(), <[usize]>::to_vec);
        match ordinals.iter().find(|ordinal| **ordinal >= width) {
            Some(ordinal) => Err(ReadError::NoColumn(*ordinal)),
            None => Ok(ordinals),
        }
    }

    fn gather(&self, places: &[Place], ordinals: &[usize]) -> Result<RecordBatch, ReadError> {
        let blocks = places.iter().map(block_of).collect::<Result<Vec<_>, _>>()?;
        let column = |ordinal: &usize| gather_column(places, &blocks, &self.layout.columns[*ordinal]);
        let columns = ordinals.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let schema = if ordinals.iter().copied().eq(0..self.layout.columns.len()) {
            Ok(self.schema())
        } else {
            self.layout.schema.project(ordinals).map(Arc::new)
        };
        schema
            .and_then(|schema| batch_of(&schema, columns, places.len()))
            .map_err(|error| arrow_error(&error))
    }
}

/// The block of a row that stands in memory.
fn block_of(place: &Place) -> Result<Option<Arc<Block>>, ReadError> {
    match place {
        Place::Main(..) => Ok(None),
        Place::Delta(delta, row) => {
            let inner = delta.inner.read();
            let block = inner.blocks.find(*row).ok_or(ReadError::NoRow(*row))?;
            Ok(Some(Arc::clone(block)))
        }
    }
}

/// The values of a column in rows that stand anywhere. Each array is looked at once, however many rows stand in it.
fn gather_column(
    places: &[Place],
    blocks: &[Option<Arc<Block>>],
    column: &LayoutColumn,
) -> Result<ArrayRef, ReadError> {
    let mut arrays: Vec<ArrayRef> = Vec::new();
    let mut by_block = HashMap::new();
    let mut rows = Vec::with_capacity(places.len());
    for (place, block) in places.iter().zip(blocks) {
        match (place, block) {
            (Place::Delta(_, row), Some(block)) => {
                // Blocks that start alike are not one: small ones are merged while rows are looked up.
                let array = *by_block.entry(Arc::as_ptr(block)).or_insert_with(|| {
                    arrays.push(block.column(column));
                    arrays.len() - 1
                });
                rows.push((array, (*row - block.first_row) as usize));
            }
            (Place::Main(main, ordinal), _) => {
                rows.push((arrays.len(), 0));
                arrays.push(match main.segment.value(column.id, *ordinal)? {
                    None => column.absent(1),
                    Some((array, at)) => {
                        from_stored(&array.slice(at, 1), &column.ty).map_err(|error| arrow_error(&error))?
                    }
                });
            }
            (Place::Delta(_, row), None) => return Err(ReadError::NoRow(*row)),
        }
    }
    match rows[..] {
        [] => Ok(arrow::array::new_empty_array(&column.ty)),
        [(array, at)] => Ok(arrays[array].slice(at, 1)),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            interleave(&arrays, &rows).map_err(|error| arrow_error(&error))
        }
    }
}

fn arrow_error(error: &ArrowError) -> ReadError {
    ReadError::Arrow(error.to_string())
}
