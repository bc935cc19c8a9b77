//! What an open transaction has written so far.
//!
//! Each statement of a transaction is evaluated into definitions and rows ([`Evaluated`]) that go nowhere until COMMIT.
//! They are merged here, so that later statements see them: a scan leaves out the rows that the transaction has ended
//! and adds those it has begun. A row that was begun and ended again inside the transaction leaves no trace. Rows of
//! collections without a primary key that are not in the store yet go by ids from [`PENDING_ROW_ID`] up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use candor_proto::LogIndex;
use candor_storage::{
    Catalog, CollectionDef, CollectionId, ROW_ID_COLUMN, SchemaChange, Snapshot, TableChange, Transaction,
};

use crate::error::EngineError;
use crate::keys::{self, Key, KeyCoder};
use crate::write::Evaluated;

/// Ids of rows that only this transaction has; the store never reaches them.
pub(crate) const PENDING_ROW_ID: u64 = 1 << 63;

/// The private writes of one open transaction.
#[derive(Clone, Debug, Default)]
pub struct PendingWrites {
    schema: Vec<SchemaChange>,
    catalog: Arc<Catalog>,
    tables: BTreeMap<CollectionId, Arc<PendingTable>>,
}

impl PendingWrites {
    /// Nothing written yet, over the definitions of `snapshot`.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self {
            schema: Vec::new(),
            catalog: Arc::clone(snapshot.catalog()),
            tables: BTreeMap::new(),
        }
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
        self.catalog = catalog;
        self.schema.extend(evaluated.schema.iter().cloned());
        self.tables.retain(|id, _| self.catalog.collection_by_id(*id).is_some());
        for (def, change) in checked {
            // No copy: whoever planned this statement has let go of the table by now.
            Arc::make_mut(self.tables.entry(change.collection).or_default()).absorb(&def, change)?;
        }
        Ok(())
    }

    /// The transaction as it goes to the log, decided against `snapshot`.
    ///
    /// # Errors
    /// Only for impossible states.
    pub fn into_transaction(self, snapshot: LogIndex) -> Result<Transaction, EngineError> {
        let mut changes = Vec::new();
        for (id, table) in &self.tables {
            let def = self.catalog.collection_by_id(*id);
            let def = def.ok_or_else(|| EngineError::internal("rows for a collection that is not there"))?;
            changes.extend(table.change(def)?);
        }
        Ok(Transaction {
            snapshot,
            schema: self.schema,
            changes,
            parts: None,
            mutation: None,
        })
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
    /// Where the standing row of a key is; only with a primary key.
    by_key: HashMap<Key, (usize, usize)>,
}

impl PendingTable {
    fn is_empty(&self) -> bool {
        self.ended_keys.is_empty() && self.row_count() == 0
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

    /// The standing rows with these keys.
    pub(crate) fn lookup(
        &self,
        keys: &RecordBatch,
        def: &CollectionDef,
        projection: &[usize],
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let mut found = Vec::new();
        for key in KeyCoder::of_types(keys)?.encode(keys.columns())? {
            if let Some((batch, row)) = self.by_key.get(&key) {
                let row = UInt64Array::from(vec![*row as u64]);
                let batch = by_definition(def, &self.begun[*batch])?.project(projection)?;
                found.push(take_record_batch(&batch, &row)?);
            }
        }
        Ok(found)
    }

    /// Refuses a change that begins a key which stands already.
    fn check(&self, def: &CollectionDef, change: &TableChange) -> Result<(), EngineError> {
        let Some(begun) = change.begun.as_ref().filter(|_| !def.key.is_empty()) else {
            return Ok(());
        };
        let coder = KeyCoder::new(def)?;
        let ended: HashSet<Key> = match &change.ended {
            Some(ended) => coder.encode_named(def, ended)?.into_iter().collect(),
            None => HashSet::new(),
        };
        let mut seen = HashSet::new();
        for (row, key) in coder.encode_named(def, begun)?.into_iter().enumerate() {
            let stands = self.by_key.contains_key(&key) && !ended.contains(&key);
            if stands || !seen.insert(key) {
                return Err(EngineError::Unique {
                    collection: def.name.clone(),
                    key: crate::text::key_text(&keys::named_columns(def, begun)?, row),
                    row: Some(row as u64 + 1),
                });
            }
        }
        Ok(())
    }

    fn absorb(&mut self, def: &CollectionDef, change: &TableChange) -> Result<(), EngineError> {
        if let Some(ended) = &change.ended {
            if def.key.is_empty() {
                self.end_rows(ended)?;
            } else {
                self.end_keys(def, ended)?;
            }
        }
        if let Some(begun) = &change.begun {
            self.begin(def, begun)?;
        }
        Ok(())
    }

    fn end_rows(&mut self, ended: &RecordBatch) -> Result<(), EngineError> {
        let ids = ended.column(0).as_any().downcast_ref::<UInt64Array>();
        let ids = ids.ok_or_else(|| EngineError::internal("row ids are not UInt64"))?;
        let mut stored = Vec::with_capacity(ids.len());
        for id in ids.values() {
            stored.push(match id.checked_sub(PENDING_ROW_ID) {
                Some(ordinal) => {
                    self.end_pending(ordinal as usize);
                    false
                }
                None => self.ended_keys.insert(keys::row_id_key(*id)),
            });
        }
        self.ended
            .push(filter_record_batch(ended, &BooleanArray::from(stored))?);
        Ok(())
    }

    /// Ends the row begun as the `ordinal`-th of this transaction.
    fn end_pending(&mut self, mut ordinal: usize) {
        for live in &mut self.live {
            if ordinal < live.len() {
                self.standing -= usize::from(std::mem::replace(&mut live[ordinal], false));
                return;
            }
            ordinal -= live.len();
        }
    }

    fn end_keys(&mut self, def: &CollectionDef, ended: &RecordBatch) -> Result<(), EngineError> {
        let ended = keys::named_columns(def, ended)?;
        let mut stored = Vec::with_capacity(ended.num_rows());
        for key in KeyCoder::new(def)?.encode(ended.columns())? {
            if let Some((batch, row)) = self.by_key.remove(&key) {
                self.standing -= usize::from(std::mem::replace(&mut self.live[batch][row], false));
                stored.push(false);
            } else {
                stored.push(self.ended_keys.insert(key));
            }
        }
        self.ended
            .push(filter_record_batch(&ended, &BooleanArray::from(stored))?);
        Ok(())
    }

    fn begin(&mut self, def: &CollectionDef, begun: &RecordBatch) -> Result<(), EngineError> {
        if !def.key.is_empty() {
            let at = self.begun.len();
            let keys = KeyCoder::new(def)?.encode_named(def, begun)?;
            self.by_key
                .extend(keys.into_iter().enumerate().map(|(row, key)| (key, (at, row))));
        }
        self.standing += begun.num_rows();
        self.live.push(vec![true; begun.num_rows()]);
        self.begun.push(begun.clone());
        Ok(())
    }

    /// The net change, if there is one.
    fn change(&self, def: &CollectionDef) -> Result<Option<TableChange>, EngineError> {
        let ended = concat(&self.ended)?;
        let all: Vec<usize> = (0..def.columns.len()).collect();
        let begun = concat(&self.rows(def, &all, false)?)?;
        Ok((ended.is_some() || begun.is_some()).then_some(TableChange {
            collection: def.id,
            ended,
            begun,
        }))
    }
}

/// One batch of all rows; `None` when there are none.
pub(crate) fn concat(batches: &[RecordBatch]) -> Result<Option<RecordBatch>, EngineError> {
    let Some(first) = batches.iter().find(|batch| batch.num_rows() > 0) else {
        return Ok(None);
    };
    Ok(Some(concat_batches(&first.schema(), batches)?))
}

/// The columns of `def` in its order; NULL where the batch has none, because the column came later.
fn by_definition(def: &CollectionDef, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let columns: Vec<ArrayRef> = def
        .columns
        .iter()
        .map(|column| match batch.column_by_name(&column.name) {
            Some(present) => Arc::clone(present),
            None => new_null_array(&column.ty.arrow(), batch.num_rows()),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(def.schema(), columns, &options)?)
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
