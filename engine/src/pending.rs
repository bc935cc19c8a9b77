//! What an open transaction has written so far.
//!
//! Each statement of a transaction is evaluated into definitions and rows ([`Evaluated`]) that go nowhere until COMMIT.
//! They are merged here, so that later statements see them: a scan leaves out the rows that the transaction has ended
//! and adds those it has begun. A row that was begun and ended again inside the transaction leaves no trace. Rows of
//! collections without a primary key that are not in the store yet go by ids from [`PENDING_ROW_ID`] up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::compute::{concat_batches, filter_record_batch, take, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use candor_proto::LogIndex;
use candor_storage::{
    Catalog, CollectionDef, CollectionId, ColumnDef, ROW_ID_COLUMN, SchemaChange, Snapshot, TableChange, Transaction,
};

use crate::error::EngineError;
use crate::keys::{self, Key, KeyCoder, columns_on, encode_complete, key_sets};
use crate::write::Evaluated;

/// Ids of rows that only this transaction has; the store never reaches them.
pub(crate) const PENDING_ROW_ID: u64 = 1 << 63;

/// The private writes of one open transaction.
#[derive(Clone, Debug, Default)]
pub struct PendingWrites {
    schema: Vec<SchemaChange>,
    catalog: Arc<Catalog>,
    tables: BTreeMap<CollectionId, Arc<PendingTable>>,
    /// Collections in which a statement had an answer for keys that exist.
    upserts: BTreeSet<String>,
}

impl PendingWrites {
    /// Nothing written yet, over the definitions of `snapshot`.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self {
            schema: Vec::new(),
            catalog: Arc::clone(snapshot.catalog()),
            tables: BTreeMap::new(),
            upserts: BTreeSet::new(),
        }
    }

    /// Names of the collections for which a statement had an answer to keys that exist: ON CONFLICT or MERGE.
    pub fn upserts(&self) -> &BTreeSet<String> {
        &self.upserts
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.schema.is_empty() && self.tables.values().all(|table| table.is_empty())
    }

    /// Adds what one statement wrote.
    ///
    /// # Errors
    /// [`EngineError::Unique`] when the statement begins a key that the transaction has begun already, and
    /// [`EngineError::Plan`] for a definition that does not fit; nothing is added then.
    pub fn absorb(&mut self, evaluated: &Evaluated) -> Result<(), EngineError> {
        let catalog = if evaluated.schema.is_empty() {
            Arc::clone(&self.catalog)
        } else {
            let changed = self.catalog.changed(self.catalog.changed_at(), &evaluated.schema);
            Arc::new(changed.map_err(EngineError::plan)?)
        };
        let mut checked = Vec::with_capacity(evaluated.changes.len());
        for change in &evaluated.changes {
            let def = catalog.collection_by_id(change.collection).cloned();
            let def = def.ok_or_else(|| EngineError::internal("rows for a collection that is not there"))?;
            if let Some(table) = self.tables.get(&change.collection) {
                table.check(&def, change)?;
            } else {
                PendingTable::default().check(&def, change)?;
            }
            checked.push((def, change));
        }
        self.upserts.extend(evaluated.upsert.clone());
        let before = std::mem::replace(&mut self.catalog, catalog);
        self.alter(&before, &evaluated.schema)?;
        self.schema.extend(evaluated.schema.iter().cloned());
        self.tables.retain(|id, _| self.catalog.collection_by_id(*id).is_some());
        for (def, change) in checked {
            // No copy: whoever planned this statement has let go of the table by now.
            Arc::make_mut(self.tables.entry(change.collection).or_default()).absorb(&def, change)?;
        }
        Ok(())
    }

    /// Brings the rows of collections that were altered into their new form.
    fn alter(&mut self, before: &Catalog, schema: &[SchemaChange]) -> Result<(), EngineError> {
        for change in schema {
            let SchemaChange::AlterCollection(alteration) = change else {
                continue;
            };
            let id = alteration.def.id;
            let (Some(old), Some(new)) = (before.collection_by_id(id), self.catalog.collection_by_id(id)) else {
                continue;
            };
            if let Some(table) = self.tables.get_mut(&id).filter(|table| !table.is_empty()) {
                Arc::make_mut(table).alter(old, new)?;
            }
        }
        Ok(())
    }

    /// The transaction as it goes to the log, decided against `snapshot`.
    ///
    /// # Errors
    /// Only for impossible states.
    pub fn into_transaction(self, snapshot: LogIndex) -> Result<Transaction, EngineError> {
        Ok(Transaction {
            snapshot,
            changes: self.changes()?,
            schema: self.schema,
            parts: None,
            mutation: None,
        })
    }

    /// The net changes of all rows.
    pub(crate) fn changes(&self) -> Result<Vec<TableChange>, EngineError> {
        let mut changes = Vec::new();
        for (id, table) in &self.tables {
            let def = self.catalog.collection_by_id(*id);
            let def = def.ok_or_else(|| EngineError::internal("rows for a collection that is not there"))?;
            changes.extend(table.changes(def)?);
        }
        Ok(changes)
    }

    pub(crate) fn changes_schema(&self) -> bool {
        !self.schema.is_empty()
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub(crate) fn table(&self, id: CollectionId) -> Option<&Arc<PendingTable>> {
        self.tables.get(&id)
    }
}

/// The private writes to one collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingTable {
    /// Keys or row ids of rows in the store that are no more.
    ended: Vec<RecordBatch>,
    ended_keys: HashSet<Key>,
    /// Rows begun, and which of them still stand.
    begun: Vec<RecordBatch>,
    live: Vec<Vec<bool>>,
    /// How many still stand.
    standing: usize,
    /// Where the standing row of a key is, for each key of the collection.
    by_key: Vec<KeyMap>,
    /// Every row of the store was ended and written anew.
    rewritten: bool,
}

/// A row of an open transaction: the batch it was begun in, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PendingPlace {
    pub(crate) batch: usize,
    pub(crate) row: usize,
}

/// The standing rows by one of the collection's keys.
#[derive(Clone, Debug)]
struct KeyMap {
    /// Ordinals of the key's columns.
    on: Vec<u32>,
    rows: HashMap<Key, PendingPlace>,
}

impl PendingTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.ended_keys.is_empty() && self.row_count() == 0 && !self.rewritten
    }

    /// Whether no row of the store is left.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Brings the rows into the form of another definition.
    fn alter(&mut self, old: &CollectionDef, new: &CollectionDef) -> Result<(), EngineError> {
        if old.column_ids(&old.key) != new.column_ids(&new.key) {
            return Err(EngineError::unsupported_try(
                "another primary key for a table that the transaction has written to",
                "COMMIT the rows first",
            ));
        }
        for batch in &mut self.begun {
            let columns = new.columns.iter().map(|column| {
                let before = old.ordinal_of(column.id).map(|at| &old.columns[at].name);
                match before.and_then(|name| batch.column_by_name(name)) {
                    Some(values) => Ok(Arc::clone(values)),
                    None => missing(column, batch.num_rows()),
                }
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            *batch = RecordBatch::try_new(new.schema(), columns).map_err(|error| EngineError::Constraint {
                message: format!("the rows that the transaction has written do not fit: {error}"),
                sqlstate: "23502",
                row: None,
            })?;
        }
        let names = new
            .key
            .iter()
            .map(|ordinal| new.columns[*ordinal as usize].name.as_str());
        let names: Vec<&str> = names.collect();
        for batch in self
            .ended
            .iter_mut()
            .filter(|batch| batch.num_columns() == names.len() && !names.is_empty())
        {
            if batch.schema_ref().field(0).name() == ROW_ID_COLUMN {
                continue;
            }
            let fields = batch.schema_ref().fields().iter().zip(&names);
            let fields = fields.map(|(field, name)| field.as_ref().clone().with_name(*name));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            *batch = RecordBatch::try_new(schema, batch.columns().to_vec())?;
        }
        // Also where the same ordinals are keys as before: they may be those of other columns now.
        self.by_key.clear();
        self.fit_keys(new)
    }

    pub(crate) fn row_count(&self) -> usize {
        self.standing
    }

    pub(crate) fn ends_rows(&self) -> bool {
        !self.ended_keys.is_empty()
    }

    fn has_ended(&self, key: &Key) -> bool {
        self.ended_keys.contains(key)
    }

    /// Which rows with these keys are still there.
    pub(crate) fn not_ended_keys(&self, keys: &[Key]) -> BooleanArray {
        keys.iter().map(|key| Some(!self.has_ended(key))).collect()
    }

    /// Which rows with these ids are still there.
    pub(crate) fn not_ended_rows(&self, ids: &ArrayRef) -> Result<BooleanArray, EngineError> {
        let ids = ids.as_any().downcast_ref::<UInt64Array>();
        let ids = ids.ok_or_else(|| EngineError::internal("row ids are not UInt64"))?;
        Ok(ids
            .values()
            .iter()
            .map(|id| Some(!self.has_ended(&keys::row_id_key(*id))))
            .collect())
    }

    /// The standing rows, columns of `def` at `projection`; the row id counts as one more column when asked for.
    pub(crate) fn rows(
        &self,
        def: &CollectionDef,
        projection: &[usize],
        with_row_id: bool,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let mut first_id = PENDING_ROW_ID;
        let mut rows = Vec::new();
        for (batch, live) in self.begun.iter().zip(&self.live) {
            let mut batch = by_definition(def, batch)?;
            if with_row_id {
                batch = add_row_ids(&batch, first_id)?;
            }
            first_id += live.len() as u64;
            let keep = BooleanArray::from(live.clone());
            let standing = filter_record_batch(&batch.project(projection)?, &keep)?;
            if standing.num_rows() > 0 {
                rows.push(standing);
            }
        }
        Ok(rows)
    }

    /// The keys that this transaction has not ended.
    pub(crate) fn not_ended(&self, keys: &RecordBatch) -> Result<RecordBatch, EngineError> {
        if !self.ends_rows() {
            return Ok(keys.clone());
        }
        let coder = KeyCoder::of_types(keys)?;
        let keep = self.not_ended_keys(&coder.encode(keys.columns())?);
        Ok(filter_record_batch(keys, &keep)?)
    }

    /// The standing rows with these primary keys.
    pub(crate) fn lookup(
        &self,
        keys: &RecordBatch,
        def: &CollectionDef,
        projection: &[usize],
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let mut found = Vec::new();
        for key in KeyCoder::of_types(keys)?.encode(keys.columns())? {
            if let Some(place) = self.find(&def.key, &key) {
                let row = UInt64Array::from(vec![place.row as u64]);
                let batch = by_definition(def, &self.begun[place.batch])?.project(projection)?;
                found.push(take_record_batch(&batch, &row)?);
            }
        }
        Ok(found)
    }

    /// The standing row with this key, which is one of the key on these columns.
    pub(crate) fn find(&self, on: &[u32], key: &Key) -> Option<PendingPlace> {
        let map = self.by_key.iter().find(|map| map.on == on)?;
        map.rows.get(key).copied()
    }

    /// The standing rows with one of these values in the columns at `on`.
    pub(crate) fn find_all(
        &self,
        def: &CollectionDef,
        on: &[u32],
        keys: &HashSet<Key>,
    ) -> Result<Vec<PendingPlace>, EngineError> {
        let mut found = Vec::new();
        for (batch, (rows, live)) in self.begun.iter().zip(&self.live).enumerate() {
            let values = encode_complete(&columns_on(def, on, &by_definition(def, rows)?)?)?;
            for (row, value) in values.into_iter().enumerate() {
                if live[row] && value.is_some_and(|value| keys.contains(&value)) {
                    found.push(PendingPlace { batch, row });
                }
            }
        }
        Ok(found)
    }

    /// A batch as it was begun.
    pub(crate) fn batch(&self, batch: usize) -> &RecordBatch {
        &self.begun[batch]
    }

    /// The id under which a row of a collection without a primary key ends.
    pub(crate) fn row_id(&self, place: PendingPlace) -> u64 {
        let before: usize = self.live[..place.batch].iter().map(Vec::len).sum();
        PENDING_ROW_ID + (before + place.row) as u64
    }

    /// Refuses a change that begins a key which stands already.
    fn check(&self, def: &CollectionDef, change: &TableChange) -> Result<(), EngineError> {
        let Some(begun) = &change.begun else {
            return Ok(());
        };
        let ended: HashSet<PendingPlace> = match &change.ended {
            Some(ended) if !ends_all(def, ended) => self.places(def, ended)?.into_iter().flatten().collect(),
            _ => HashSet::new(),
        };
        for key in key_sets(def) {
            let keys = columns_on(def, key, begun)?;
            let mut seen = HashSet::new();
            for (row, encoded) in encode_complete(&keys)?.into_iter().enumerate() {
                let Some(encoded) = encoded else { continue };
                let stands = self.find(key, &encoded).is_some_and(|place| !ended.contains(&place));
                if stands || !seen.insert(encoded) {
                    return Err(EngineError::Unique {
                        collection: def.name.clone(),
                        key: keys::shown_key(def, key, &keys, row),
                        row: Some(row as u64 + 1),
                    });
                }
            }
        }
        Ok(())
    }

    fn absorb(&mut self, def: &CollectionDef, change: &TableChange) -> Result<(), EngineError> {
        self.fit_keys(def)?;
        if let Some(ended) = &change.ended {
            if ends_all(def, ended) {
                self.ended.push(ended.clone());
                self.rewritten = true;
            } else {
                self.end(def, ended)?;
            }
        }
        if let Some(begun) = &change.begun {
            self.begin(def, begun)?;
        }
        Ok(())
    }

    /// Brings the maps in line with the keys of the definition, which the transaction may have changed.
    fn fit_keys(&mut self, def: &CollectionDef) -> Result<(), EngineError> {
        if self.by_key.iter().map(|map| map.on.as_slice()).eq(key_sets(def)) {
            return Ok(());
        }
        let empty = |on: &[u32]| KeyMap {
            on: on.to_vec(),
            rows: HashMap::new(),
        };
        self.by_key = key_sets(def).map(empty).collect();
        for batch in 0..self.begun.len() {
            self.add_keys(def, batch)?;
        }
        Ok(())
    }

    /// Enters the standing rows of a batch into the maps.
    fn add_keys(&mut self, def: &CollectionDef, batch: usize) -> Result<(), EngineError> {
        let (rows, live) = (by_definition(def, &self.begun[batch])?, &self.live[batch]);
        for map in &mut self.by_key {
            let keys = encode_complete(&columns_on(def, &map.on, &rows)?)?;
            let standing = keys.into_iter().enumerate().filter(|(row, _)| live[*row]);
            map.rows
                .extend(standing.filter_map(|(row, key)| Some((key?, PendingPlace { batch, row }))));
        }
        Ok(())
    }

    /// For each row that a change ends, its place if it is a row of this transaction.
    pub(crate) fn places(
        &self,
        def: &CollectionDef,
        ended: &RecordBatch,
    ) -> Result<Vec<Option<PendingPlace>>, EngineError> {
        if !def.key.is_empty() {
            let keys = keys::named_columns(def, ended)?;
            let encoded = encode_complete(&columns_on(def, &def.key, &keys)?)?;
            return Ok(encoded
                .into_iter()
                .map(|key| key.and_then(|key| self.find(&def.key, &key)))
                .collect());
        }
        let ids = ended.column(0).as_any().downcast_ref::<UInt64Array>();
        let ids = ids.ok_or_else(|| EngineError::internal("row ids are not UInt64"))?;
        let place = |id: &u64| self.place(id.checked_sub(PENDING_ROW_ID)? as usize);
        Ok(ids.values().iter().map(place).collect())
    }

    /// The row begun as the `ordinal`-th of this transaction.
    fn place(&self, mut ordinal: usize) -> Option<PendingPlace> {
        for (batch, live) in self.live.iter().enumerate() {
            if ordinal < live.len() {
                return Some(PendingPlace { batch, row: ordinal });
            }
            ordinal -= live.len();
        }
        None
    }

    /// Ends rows: those of the transaction stand no more, those of the store are kept in mind.
    fn end(&mut self, def: &CollectionDef, ended: &RecordBatch) -> Result<(), EngineError> {
        let places = self.places(def, ended)?;
        self.forget(def, &places)?;
        let keys: Vec<Key> = if def.key.is_empty() {
            let ids = ended.column(0).as_any().downcast_ref::<UInt64Array>();
            let ids = ids.ok_or_else(|| EngineError::internal("row ids are not UInt64"))?;
            ids.values().iter().map(|id| keys::row_id_key(*id)).collect()
        } else {
            KeyCoder::new(def)?.encode_named(def, ended)?
        };
        let mut stored = Vec::with_capacity(keys.len());
        for (place, key) in places.iter().zip(keys) {
            stored.push(match place {
                Some(place) => {
                    self.standing -= usize::from(std::mem::replace(&mut self.live[place.batch][place.row], false));
                    false
                }
                None => self.ended_keys.insert(key),
            });
        }
        let ended = if def.key.is_empty() {
            ended.clone()
        } else {
            keys::named_columns(def, ended)?
        };
        self.ended
            .push(filter_record_batch(&ended, &BooleanArray::from(stored))?);
        Ok(())
    }

    /// Takes the keys of rows that stand no more out of the maps.
    fn forget(&mut self, def: &CollectionDef, places: &[Option<PendingPlace>]) -> Result<(), EngineError> {
        let mut by_batch: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for place in places.iter().flatten() {
            by_batch.entry(place.batch).or_default().push(place.row as u64);
        }
        for (batch, rows) in by_batch {
            let whole = by_definition(def, &self.begun[batch])?;
            let ending = take_record_batch(&whole, &UInt64Array::from(rows.clone()))?;
            for map in &mut self.by_key {
                let keys = encode_complete(&columns_on(def, &map.on, &ending)?)?;
                for (key, row) in keys.into_iter().zip(&rows) {
                    let place = PendingPlace {
                        batch,
                        row: *row as usize,
                    };
                    if let Some(key) = key.filter(|key| map.rows.get(key) == Some(&place)) {
                        map.rows.remove(&key);
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, def: &CollectionDef, begun: &RecordBatch) -> Result<(), EngineError> {
        self.standing += begun.num_rows();
        self.live.push(vec![true; begun.num_rows()]);
        self.begun.push(begun.clone());
        self.add_keys(def, self.begun.len() - 1)
    }

    /// The net change: rows that end by their ids, and rows that end by their keys, each by themselves.
    fn changes(&self, def: &CollectionDef) -> Result<Vec<TableChange>, EngineError> {
        let by_id = |batch: &&RecordBatch| batch.schema_ref().index_of(ROW_ID_COLUMN).is_ok();
        let (ids, keys): (Vec<&RecordBatch>, Vec<&RecordBatch>) = self.ended.iter().partition(by_id);
        let whole = |batches: Vec<&RecordBatch>| concat(&batches.into_iter().cloned().collect::<Vec<_>>());
        let all: Vec<usize> = (0..def.columns.len()).collect();
        let begun = concat(&self.rows(def, &all, false)?)?;
        let change = |ended, begun| TableChange {
            collection: def.id,
            ended,
            begun,
        };
        let changes = [change(whole(ids)?, None), change(whole(keys)?, begun)];
        let is_change = |change: &TableChange| change.ended.is_some() || change.begun.is_some();
        Ok(changes.into_iter().filter(is_change).collect())
    }
}

/// Whether a change ends rows of a keyed collection by their ids, which only writing all rows anew does.
fn ends_all(def: &CollectionDef, ended: &RecordBatch) -> bool {
    !def.key.is_empty() && ended.schema_ref().index_of(ROW_ID_COLUMN).is_ok()
}

/// One batch of all rows; `None` when there are none.
pub(crate) fn concat(batches: &[RecordBatch]) -> Result<Option<RecordBatch>, EngineError> {
    let Some(first) = batches.iter().find(|batch| batch.num_rows() > 0) else {
        return Ok(None);
    };
    Ok(Some(concat_batches(&first.schema(), batches)?))
}

/// The columns of `def` in its order; where the batch has none, because the column came later, what such rows read as.
pub(crate) fn by_definition(def: &CollectionDef, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let column = |column: &ColumnDef| match batch.column_by_name(&column.name) {
        Some(present) => Ok(Arc::clone(present)),
        None => missing(column, batch.num_rows()),
    };
    let columns = def.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(def.schema(), columns, &options)?)
}

/// What rows read as in a column that came later.
fn missing(column: &ColumnDef, rows: usize) -> Result<ArrayRef, EngineError> {
    let Some(value) = &column.missing else {
        return Ok(new_null_array(&column.ty.arrow(), rows));
    };
    let value = value
        .array()
        .map_err(|error| EngineError::internal(error.to_string()))?;
    Ok(take(&value, &UInt64Array::from_value(0, rows), None)?)
}

fn add_row_ids(batch: &RecordBatch, first: u64) -> Result<RecordBatch, EngineError> {
    let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(ROW_ID_COLUMN, DataType::UInt64, false)));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from_iter_values(
        first..first + batch.num_rows() as u64,
    )));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
