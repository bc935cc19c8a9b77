//! What an entry does to the state of a range: a pure function of the two, the same on every replica.
//!
//! The state is the catalog at each version and the tables. An entry that does not fit is refused as a whole, stays
//! in the log, and leaves nothing behind but its version.

use std::collections::BTreeMap;
use std::sync::Arc;

use candor_proto::{Epoch, LogIndex, Position};

use crate::batch::SchemaCache;
use crate::catalog::{Catalog, no_collection};
use crate::entry::Entry;
use crate::error::{ApplyRefusal, StorageError};
use crate::record::{Record, TableChange, Transaction, TransactionPart};
use crate::schema::CollectionId;
use crate::table::{StagedChange, Table, Unfit, stage};

/// What an entry did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A transaction took effect.
    Applied {
        /// Rows that ended.
        ended: u64,
        /// Rows that began.
        begun: u64,
    },
    /// A transaction had no effect at all.
    Refused(ApplyRefusal),
    /// The entry was not a transaction.
    Other,
}

/// All tables of a range that some version can still see.
pub(crate) type Tables = BTreeMap<CollectionId, Arc<Table>>;

/// The state of a range after one entry.
#[derive(Clone, Default)]
pub(crate) struct RangeState {
    pub(crate) horizon: LogIndex,
    /// Oldest first; the newest is the current one.
    pub(crate) catalogs: Arc<Vec<Arc<Catalog>>>,
    pub(crate) tables: Arc<Tables>,
    /// The first version of each epoch, oldest first; that of the horizon is still among them.
    pub(crate) epochs: Arc<Vec<(LogIndex, Epoch)>>,
}

impl RangeState {
    /// The catalog at a version that is not older than the horizon.
    pub(crate) fn catalog_at(&self, version: LogIndex) -> Arc<Catalog> {
        let after = self.catalogs.partition_point(|catalog| catalog.changed_at() <= version);
        after
            .checked_sub(1)
            .map_or_else(Arc::default, |place| Arc::clone(&self.catalogs[place]))
    }

    /// The epoch of a version that is not older than the horizon.
    pub(crate) fn epoch_at(&self, version: LogIndex) -> Epoch {
        let after = self.epochs.partition_point(|(first, _)| *first <= version);
        after.checked_sub(1).map_or(Epoch::ZERO, |place| self.epochs[place].1)
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.catalogs.last().map(Arc::clone).unwrap_or_default()
    }
}

/// Applies entries in the order of the log. The tables it changes are shared with readers, who see a version only once
/// the state with it is published.
#[derive(Default)]
pub(crate) struct Applier {
    pub(crate) state: RangeState,
    /// Parts that wait for their transaction. The log holds them too, so what is here is bounded by what a leader
    /// appends between two transactions of its own.
    parts: BTreeMap<u128, Parts>,
    schemas: SchemaCache,
}

/// The parts of a transaction that has not come yet.
struct Parts {
    /// The entry of the first of them.
    first: LogIndex,
    changes: Vec<TableChange>,
}

/// A transaction that fits.
struct Staged {
    catalog: Option<Catalog>,
    tables: Vec<(Arc<Table>, StagedChange)>,
    new_tables: Tables,
}

impl Applier {
    /// One that goes on from `state`.
    pub(crate) fn new(state: RangeState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// The first entry that is needed to apply those to come: the first part of a transaction that has not come yet.
    pub(crate) fn first_part(&self) -> Option<LogIndex> {
        self.parts.values().map(|parts| parts.first).min()
    }

    /// Takes in the parts in an entry that was applied before the state was stored, and forgets those whose transaction
    /// came.
    ///
    /// # Errors
    /// A record that this version does not read.
    pub(crate) fn gather_again(&mut self, entry: &Entry) -> Result<(), StorageError> {
        if entry.kind == Record::HORIZON {
            return Ok(());
        }
        let index = entry.position.index;
        match self.decode(entry)? {
            Record::LeaderElected { .. } => self.parts.clear(),
            Record::Part(part) => self.take_part(index, part),
            Record::Discard { txn } => drop(self.parts.remove(&txn)),
            Record::Transaction(transaction) => {
                if let Some((txn, _)) = transaction.parts {
                    self.parts.remove(&txn);
                }
            }
            Record::Horizon { .. } => {}
        }
        Ok(())
    }

    /// # Errors
    /// A record that this version does not read, or rows that cannot be read; nothing has changed then.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<Outcome, StorageError> {
        let Position { epoch, index } = entry.position;
        let record = self.decode(entry)?;
        let outcome = match record {
            Record::LeaderElected { .. } => {
                // Whoever proposed them leads no more, and will not finish.
                self.parts.clear();
                Outcome::Other
            }
            Record::Part(part) => {
                self.take_part(index, part);
                Outcome::Other
            }
            Record::Discard { txn } => {
                self.parts.remove(&txn);
                Outcome::Other
            }
            Record::Horizon { index: horizon } => {
                self.move_horizon(horizon.min(index));
                Outcome::Other
            }
            Record::Transaction(transaction) => match self.stage(index, transaction) {
                Ok(staged) => self.commit(index, staged),
                Err(Unfit::Refused(refusal)) => Outcome::Refused(refusal),
                Err(Unfit::Unreadable(error)) => return Err(error),
            },
        };
        if self.state.epochs.last().is_none_or(|(_, newest)| *newest != epoch) {
            Arc::make_mut(&mut self.state.epochs).push((index, epoch));
        }
        Ok(outcome)
    }

    fn decode(&mut self, entry: &Entry) -> Result<Record, StorageError> {
        let index = entry.position.index;
        Record::decode_with(entry.kind, &entry.payload, &mut self.schemas)
            .map_err(|source| StorageError::Record { index, source })
    }

    fn take_part(&mut self, index: LogIndex, part: TransactionPart) {
        let parts = self.parts.entry(part.txn).or_insert_with(|| Parts {
            first: index,
            changes: Vec::new(),
        });
        parts.changes.push(part.change);
    }

    fn stage(&mut self, index: LogIndex, transaction: Transaction) -> Result<Staged, Unfit> {
        let changes = self.gather(transaction.parts, transaction.changes)?;
        let current = self.state.catalog();
        let catalog = match &transaction.schema[..] {
            [] => None,
            schema => Some(
                current
                    .changed(index, schema)
                    .map_err(|why| ApplyRefusal::Schema { why })?,
            ),
        };
        let after = catalog.as_ref().unwrap_or(&current);
        let mut new_tables = Tables::new();
        for def in after
            .all_collections()
            .filter(|def| !self.state.tables.contains_key(&def.id))
        {
            if catalog.is_some() {
                new_tables.insert(def.id, Arc::new(Table::new(def)));
            }
        }
        let mut tables = Vec::with_capacity(changes.len());
        let snapshot = (transaction.snapshot >= self.state.horizon).then_some(transaction.snapshot.0);
        for (id, changes) in changes {
            let table = self.state.tables.get(&id).or_else(|| new_tables.get(&id));
            let def = after.collection_by_id(id).zip(after.layout_of(id));
            let (Some((def, layout)), Some(table)) = (def, table) else {
                return Err(ApplyRefusal::Schema { why: no_collection(id) }.into());
            };
            tables.push((Arc::clone(table), stage(table, (def, layout), snapshot, &changes)?));
        }
        Ok(Staged {
            catalog,
            tables,
            new_tables,
        })
    }

    /// All changes of a transaction, those in its parts first, by collection.
    fn gather(
        &mut self,
        parts: Option<(u128, u32)>,
        own: Vec<TableChange>,
    ) -> Result<BTreeMap<CollectionId, Vec<TableChange>>, ApplyRefusal> {
        let mut all = Vec::new();
        if let Some((txn, expected)) = parts {
            all = self.parts.remove(&txn).map(|parts| parts.changes).unwrap_or_default();
            if all.len() != expected as usize {
                return Err(ApplyRefusal::Incomplete {
                    found: all.len() as u32,
                    expected,
                });
            }
        }
        let mut changes: BTreeMap<_, Vec<TableChange>> = BTreeMap::new();
        for change in all.into_iter().chain(own) {
            changes.entry(change.collection).or_default().push(change);
        }
        Ok(changes)
    }

    fn commit(&mut self, index: LogIndex, staged: Staged) -> Outcome {
        let (mut ended, mut begun) = (0, 0);
        for (table, change) in staged.tables {
            ended += change.ended_count();
            begun += change.begun_count();
            table.commit(index.0, &change);
        }
        if let Some(catalog) = staged.catalog {
            Arc::make_mut(&mut self.state.catalogs).push(Arc::new(catalog));
        }
        if !staged.new_tables.is_empty() {
            Arc::make_mut(&mut self.state.tables).extend(staged.new_tables);
        }
        Outcome::Applied { ended, begun }
    }

    /// Forgets the catalogs, tables and epochs that no version from `horizon` on needs. What the tables may forget waits
    /// for their readers.
    fn move_horizon(&mut self, horizon: LogIndex) {
        if horizon <= self.state.horizon {
            return;
        }
        self.state.horizon = horizon;
        let catalogs = Arc::make_mut(&mut self.state.catalogs);
        let needed = catalogs.partition_point(|catalog| catalog.changed_at() <= horizon);
        catalogs.drain(..needed.saturating_sub(1));
        let visible = |id: &CollectionId| catalogs.iter().any(|catalog| catalog.collection_by_id(*id).is_some());
        Arc::make_mut(&mut self.state.tables).retain(|id, _| visible(id));
        let epochs = Arc::make_mut(&mut self.state.epochs);
        let needed = epochs.partition_point(|(first, _)| *first <= horizon);
        epochs.drain(..needed.saturating_sub(1));
    }
}
