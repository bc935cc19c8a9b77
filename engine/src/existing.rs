//! Rows that a collection has already, found by its primary key or by one of its unique keys: in the store, or among
//! those that the open transaction has begun.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use candor_storage::{CollectionDef, PartRead, ROW_ID_COLUMN, RowId, Snapshot, TableSnapshot};

use crate::context::StatementContext;
use crate::error::EngineError;
use crate::keys::{Key, KeyCoder, columns_on, encode_complete, key_schema, named_columns};
use crate::pending::{PendingPlace, PendingTable, by_definition};

/// Rows are looked at this many at a time where no index has the key.
const SCANNED_ROWS: usize = 8192;

/// Where a row stands that a statement sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// In the store.
    Stored(RowId),
    /// Among the rows of the open transaction.
    Pending(PendingPlace),
}

/// The rows of one collection at a statement's version, seen through the open transaction.
pub(crate) struct Existing {
    def: Arc<CollectionDef>,
    base: Option<TableSnapshot>,
    pending: Option<Arc<PendingTable>>,
}

impl Existing {
    pub(crate) fn of(ctx: &StatementContext, def: &Arc<CollectionDef>) -> Self {
        let pending = ctx.pending.as_ref().and_then(|pending| pending.table(def.id)).cloned();
        let stands = pending.as_ref().is_none_or(|pending| !pending.is_rewritten());
        // Through the definitions of the open transaction, which may have altered this one.
        let table = |snapshot: &Snapshot| match &ctx.pending {
            Some(pending) => snapshot.table_in(pending.catalog(), def.id),
            None => snapshot.table(def.id),
        };
        Self {
            def: Arc::clone(def),
            base: ctx.snapshot.as_ref().filter(|_| stands).and_then(table),
            pending,
        }
    }

    /// For each of `rows`, which hold the columns at `key` by name, the row that has the same key. `key` is the primary
    /// key or one of the unique keys.
    pub(crate) fn find(&self, key: &[u32], rows: &RecordBatch) -> Result<Vec<Option<Place>>, EngineError> {
        let keys = columns_on(&self.def, key, rows)?;
        let stored = match &self.base {
            Some(base) => match base.find_by(&self.def.column_ids(key), &keys)? {
                Some(found) => Some(found),
                None => Some(self.scan_for(base, key, &keys)?),
            },
            None => None,
        };
        let mut found: Vec<Option<Place>> = match stored {
            Some(stored) => stored.into_iter().map(|row| row.map(Place::Stored)).collect(),
            None => vec![None; rows.num_rows()],
        };
        let Some(pending) = &self.pending else {
            return Ok(found);
        };
        if pending.ends_rows() {
            self.leave_out_ended(pending, &mut found)?;
        }
        for (place, encoded) in found.iter_mut().zip(encode_complete(&keys)?) {
            if let Some(standing) = encoded.and_then(|encoded| pending.find(key, &encoded)) {
                *place = Some(Place::Pending(standing));
            }
        }
        Ok(found)
    }

    /// All rows with one of the values in `keys`, which are those of the columns at `on` in this order.
    pub(crate) fn find_all(&self, on: &[u32], keys: &RecordBatch) -> Result<Vec<Place>, EngineError> {
        let keys = columns_on(&self.def, on, keys)?;
        let mut found: Vec<Option<Place>> = match &self.base {
            Some(base) if base.is_indexed(on) => {
                let rows: BTreeSet<RowId> = base.find_all(on, &keys)?.into_iter().collect();
                rows.into_iter().map(|row| Some(Place::Stored(row))).collect()
            }
            Some(base) => {
                let rows = self.scan_all(base, on, &keys)?.into_iter();
                rows.map(|(_, row)| Some(Place::Stored(row))).collect()
            }
            None => Vec::new(),
        };
        let Some(pending) = &self.pending else {
            return Ok(found.into_iter().flatten().collect());
        };
        if pending.ends_rows() {
            self.leave_out_ended(pending, &mut found)?;
        }
        let wanted: HashSet<Key> = encode_complete(&keys)?.into_iter().flatten().collect();
        let begun = pending.find_all(&self.def, on, &wanted)?;
        Ok(found
            .into_iter()
            .flatten()
            .chain(begun.into_iter().map(Place::Pending))
            .collect())
    }

    /// Where the rows are that a change ends, which it tells apart by `identity`.
    pub(crate) fn places_of(&self, identity: &RecordBatch) -> Result<Vec<Place>, EngineError> {
        let gone = || EngineError::internal("a row that ends is not there");
        if !self.def.key.is_empty() {
            let places = self.find(&self.def.key, identity)?;
            return places.into_iter().collect::<Option<_>>().ok_or_else(gone);
        }
        let pending = match &self.pending {
            Some(pending) => pending.places(&self.def, identity)?,
            None => vec![None; identity.num_rows()],
        };
        let ids = identity.column(0).as_primitive::<UInt64Type>().values();
        let place = |(id, pending): (&u64, Option<PendingPlace>)| match pending {
            Some(place) => Place::Pending(place),
            None => Place::Stored(RowId(*id)),
        };
        Ok(ids.iter().zip(pending).map(place).collect())
    }

    /// What [`TableSnapshot::find_by`] would find, where the key is newer than the version or comes with the open
    /// transaction.
    fn scan_for(
        &self,
        base: &TableSnapshot,
        key: &[u32],
        keys: &RecordBatch,
    ) -> Result<Vec<Option<RowId>>, EngineError> {
        let rows: HashMap<Key, RowId> = self.scan_all(base, key, keys)?.into_iter().collect();
        let row = |key: Option<Key>| key.and_then(|key| rows.get(&key)).copied();
        Ok(encode_complete(keys)?.into_iter().map(row).collect())
    }

    /// The rows of the store with one of `keys` in the columns at `key`, each with its key, found by looking at all.
    fn scan_all(
        &self,
        base: &TableSnapshot,
        key: &[u32],
        keys: &RecordBatch,
    ) -> Result<Vec<(Key, RowId)>, EngineError> {
        let request = PartRead {
            projection: key.iter().map(|ordinal| *ordinal as usize).collect(),
            with_row_id: true,
            batch_rows: SCANNED_ROWS,
            filter: None,
        };
        let wanted: HashSet<Key> = encode_complete(keys)?.into_iter().flatten().collect();
        let mut rows = Vec::new();
        for part in base.parts() {
            for batch in part.read(&request)? {
                let batch = batch?;
                let ids = batch.column(key.len()).as_primitive::<UInt64Type>();
                let stored = encode_complete(&columns_on(&self.def, key, &batch)?)?;
                for (stored, id) in stored.into_iter().zip(ids.values()) {
                    if let Some(stored) = stored.filter(|stored| wanted.contains(stored)) {
                        rows.push((stored, RowId(*id)));
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Takes out the rows of the store that the open transaction has ended.
    fn leave_out_ended(&self, pending: &PendingTable, found: &mut [Option<Place>]) -> Result<(), EngineError> {
        let stored = found.iter().enumerate().filter_map(|(at, place)| match place {
            Some(Place::Stored(row)) => Some((at, *row)),
            _ => None,
        });
        let (at, rows): (Vec<usize>, Vec<RowId>) = stored.unzip();
        let (Some(base), false) = (&self.base, rows.is_empty()) else {
            return Ok(());
        };
        let stands = if self.def.key.is_empty() {
            let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0)));
            pending.not_ended_rows(&ids)?
        } else {
            let stored = base.rows(&rows, None)?;
            let keys = named_columns(&self.def, &stored)?;
            pending.not_ended_keys(&KeyCoder::new(&self.def)?.encode(keys.columns())?)
        };
        for (at, stands) in at.into_iter().zip(stands.iter()) {
            if stands != Some(true) {
                found[at] = None;
            }
        }
        Ok(())
    }

    /// The rows at `places`, in this order, with all columns of the definition.
    pub(crate) fn read(&self, places: &[Place]) -> Result<RecordBatch, EngineError> {
        let mut stored = (Vec::new(), Vec::new());
        let mut begun: BTreeMap<usize, (Vec<u64>, Vec<usize>)> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            match place {
                Place::Stored(row) => {
                    stored.0.push(*row);
                    stored.1.push(at);
                }
                Place::Pending(place) => {
                    let part = begun.entry(place.batch).or_default();
                    part.0.push(place.row as u64);
                    part.1.push(at);
                }
            }
        }
        let mut parts = Vec::new();
        let mut order = Vec::with_capacity(places.len());
        if let (Some(base), false) = (&self.base, stored.0.is_empty()) {
            parts.push(by_definition(&self.def, &base.rows(&stored.0, None)?)?);
            order.extend(stored.1);
        }
        if let Some(pending) = &self.pending {
            for (batch, (rows, at)) in begun {
                let batch = by_definition(&self.def, pending.batch(batch))?;
                parts.push(take_record_batch(&batch, &UInt64Array::from(rows))?);
                order.extend(at);
            }
        }
        let all = concat_batches(&self.def.schema(), &parts)?;
        let mut back = vec![0_u64; places.len()];
        for (from, to) in order.into_iter().enumerate() {
            back[to] = from as u64;
        }
        Ok(take_record_batch(&all, &UInt64Array::from(back))?)
    }

    /// What tells the rows at `places` apart in a change; `rows` is what [`Self::read`] gave for them.
    pub(crate) fn identity(&self, places: &[Place], rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        if !self.def.key.is_empty() {
            return named_columns(&self.def, rows);
        }
        let id = |place: &Place| match place {
            Place::Stored(row) => row.0,
            Place::Pending(place) => self.pending.as_ref().map_or(0, |pending| pending.row_id(*place)),
        };
        let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(places.iter().map(id)));
        Ok(RecordBatch::try_new(identity_schema(&self.def), vec![ids])?)
    }
}

/// The schema of what tells rows apart: the primary key, or the row id.
pub(crate) fn identity_schema(def: &CollectionDef) -> SchemaRef {
    if def.key.is_empty() {
        Arc::new(Schema::new(vec![Field::new(ROW_ID_COLUMN, DataType::UInt64, false)]))
    } else {
        key_schema(def)
    }
}
