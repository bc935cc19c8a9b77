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
use crate::readers::Readers;
use crate::record::{Record, TableChange, Transaction, TransactionPart};
use crate::runs::{Gathered, PendingImage, PendingParts, PendingRun, RunPiece};
use crate::schema::{Alteration, CollectionId, SchemaChange};
use crate::table::alter::Altered;
use crate::table::freeze::SegmentHome;
use crate::table::refer::{Reference, Side};
use crate::table::{StagedChange, Staging, Table, TableSnapshot, Unfit, stage};

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
pub(crate) struct Applier {
    pub(crate) state: RangeState,
    /// Parts that wait for their transaction.
    parts: BTreeMap<u128, PendingParts>,
    schemas: SchemaCache,
    home: SegmentHome,
}

/// What a transaction changes, by collection.
type AllChanges = (
    BTreeMap<CollectionId, Vec<TableChange>>,
    BTreeMap<CollectionId, Vec<PendingRun>>,
);

/// A transaction that fits.
struct Staged {
    catalog: Option<Catalog>,
    tables: Vec<(Arc<Table>, StagedChange)>,
    new_tables: Tables,
}

impl Applier {
    /// One that goes on from `state`, and has the runs of transactions that have not come yet.
    pub(crate) fn new(state: RangeState, home: SegmentHome, pending: &[PendingImage]) -> Self {
        let restored = pending
            .iter()
            .map(|image| (image.txn, PendingParts::restored(image, &home)));
        Self {
            state,
            parts: restored.collect(),
            schemas: SchemaCache::default(),
            home,
        }
    }

    /// The first entry that is needed to apply those to come, beside what [`Applier::pending`] gives: the first part of a
    /// transaction that has not come yet.
    pub(crate) fn first_part(&self) -> Option<LogIndex> {
        self.parts.values().filter_map(PendingParts::first_needed).min()
    }

    /// The runs of transactions that have not come yet.
    pub(crate) fn pending(&self) -> Vec<PendingImage> {
        let images = self.parts.iter().filter_map(|(txn, parts)| parts.image(*txn));
        images.collect()
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
            Record::Run(piece) => self.take_piece(index, piece)?,
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
            Record::Run(piece) => {
                self.take_piece(index, piece)?;
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
        self.parts.entry(part.txn).or_default().take_change(index, part.change);
    }

    fn take_piece(&mut self, index: LogIndex, piece: RunPiece) -> Result<(), StorageError> {
        let parts = self.parts.entry(piece.txn).or_default();
        parts.take_piece(index, piece, &self.home)
    }

    fn stage(&mut self, index: LogIndex, transaction: Transaction) -> Result<Staged, Unfit> {
        let (mut changes, mut runs) = self.gather(transaction.parts, transaction.changes)?;
        let current = self.state.catalog();
        check_made_for(&current, transaction.snapshot, &transaction.schema, changes.keys())?;
        let catalog = match &transaction.schema[..] {
            [] => None,
            schema => Some(current.changed(index, schema).map_err(ApplyRefusal::schema)?),
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
        for alteration in alterations(&transaction.schema) {
            // Only definitions that are altered and stay; their rows are looked at even if none changes.
            if current.collection_by_id(alteration.def.id).is_some()
                && after.collection_by_id(alteration.def.id).is_some()
            {
                changes.entry(alteration.def.id).or_default();
            }
        }
        let ground = Ground {
            before: &current,
            after,
            version: index.0.saturating_sub(1),
            snapshot: (transaction.snapshot >= self.state.horizon).then_some(transaction.snapshot.0),
            tables: [&self.state.tables, &new_tables],
        };
        ground.check_rows_unchanged(&transaction.schema)?;
        let mut tables = Vec::with_capacity(changes.len());
        for (id, changes) in changes {
            let runs = runs.remove(&id).unwrap_or_default();
            tables.push((id, ground.stage(id, (&changes, &runs, &self.home))?));
        }
        ground.check_references(&tables)?;
        let table = |id: &CollectionId| ground.table(*id).map(Arc::clone);
        let tables = tables
            .into_iter()
            .filter_map(|(id, staged)| Some((table(&id)?, staged)))
            .collect();
        Ok(Staged {
            catalog,
            tables,
            new_tables,
        })
    }

    /// All changes and runs of a transaction by collection, the changes in its parts before its own. A collection that
    /// has runs has a list of changes, if only an empty one.
    fn gather(&mut self, parts: Option<(u128, u32)>, own: Vec<TableChange>) -> Result<AllChanges, ApplyRefusal> {
        let mut gathered = Gathered::default();
        if let Some((txn, expected)) = parts {
            gathered = self.parts.remove(&txn).map(PendingParts::gathered).unwrap_or_default();
            if gathered.count != expected {
                return Err(ApplyRefusal::Incomplete {
                    found: gathered.count,
                    expected,
                });
            }
        }
        let mut changes: BTreeMap<_, Vec<TableChange>> = BTreeMap::new();
        for id in gathered.runs.keys() {
            changes.entry(*id).or_default();
        }
        for change in gathered.changes.into_iter().chain(own) {
            changes.entry(change.collection).or_default().push(change);
        }
        Ok((changes, gathered.runs))
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

/// Whether the definitions that a transaction was made for are still those. What it was made for can be told from its
/// snapshot: a row that was completed and checked under an older definition may not fit the newer one, and whoever
/// altered a definition has looked at everything that stands on it.
fn check_made_for<'a>(
    current: &Catalog,
    snapshot: LogIndex,
    schema: &[SchemaChange],
    written: impl Iterator<Item = &'a CollectionId>,
) -> Result<(), ApplyRefusal> {
    for id in written {
        if current.altered_at(*id).is_some_and(|altered_at| altered_at > snapshot) {
            let def = current.collection_by_id(*id);
            return Err(ApplyRefusal::Conflict {
                collection: def.map(|def| def.name.clone()).unwrap_or_default(),
            });
        }
    }
    let rests_on_others = |change: &SchemaChange| match change {
        SchemaChange::AlterCollection(_) | SchemaChange::DefineView(_) => true,
        SchemaChange::DefineCollection(def) => !def.foreign_keys.is_empty(),
        _ => false,
    };
    if current.defined_at() > snapshot && schema.iter().any(rests_on_others) {
        return Err(ApplyRefusal::schema("other definitions have changed meanwhile"));
    }
    Ok(())
}

fn alterations(schema: &[SchemaChange]) -> impl Iterator<Item = &Alteration> {
    schema.iter().filter_map(|change| match change {
        SchemaChange::AlterCollection(alteration) => Some(alteration),
        _ => None,
    })
}

/// What a transaction is judged by: the state before it, and the definitions after it.
struct Ground<'a> {
    before: &'a Catalog,
    after: &'a Catalog,
    /// The version before the transaction.
    version: u64,
    /// The version it read; none if that is older than the horizon.
    snapshot: Option<u64>,
    tables: [&'a Tables; 2],
}

impl Ground<'_> {
    fn table(&self, id: CollectionId) -> Option<&Arc<Table>> {
        self.tables.iter().find_map(|tables| tables.get(&id))
    }

    /// The rows before the transaction under the definition after it.
    fn rows(&self, id: CollectionId) -> Result<(TableSnapshot, &Arc<Table>), ApplyRefusal> {
        let def = self.after.collection_by_id(id).zip(self.after.layout_of(id));
        let ((def, layout), table) = def
            .zip(self.table(id))
            .ok_or_else(|| ApplyRefusal::schema(no_collection(id)))?;
        let rows = TableSnapshot::new(
            Arc::clone(table),
            (Arc::clone(def), Arc::clone(layout)),
            self.version,
            Arc::new(Arc::new(Readers::default()).open(self.version)),
        );
        Ok((rows, table))
    }

    fn check_rows_unchanged(&self, schema: &[SchemaChange]) -> Result<(), ApplyRefusal> {
        for alteration in alterations(schema).filter(|alteration| alteration.rows_unchanged) {
            let table = self.table(alteration.def.id);
            if table.is_some_and(|table| {
                self.snapshot.map(|snapshot| table.at(snapshot).rows) != Some(table.at(u64::MAX).rows)
            }) {
                return Err(ApplyRefusal::Conflict {
                    collection: alteration.def.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn stage(
        &self,
        id: CollectionId,
        rows_to_come: (&[TableChange], &[PendingRun], &SegmentHome),
    ) -> Result<StagedChange, Unfit> {
        let (rows, table) = self.rows(id)?;
        let (def, layout) = (rows.shared_def(), rows.layout());
        let old = self.before.collection_by_id(id);
        let altered = old.filter(|old| !Arc::ptr_eq(old, &def)).map(|old| Altered {
            table,
            old,
            rows: rows.clone(),
        });
        let staging = Staging {
            table,
            def: &def,
            layout: &layout,
            altered,
        };
        stage(&staging, self.snapshot, rows_to_come)
    }

    /// Whether every child has its parent, as far as the transaction can have changed that.
    fn check_references(&self, staged: &[(CollectionId, StagedChange)]) -> Result<(), Unfit> {
        let side = |id: CollectionId| -> Result<Side<'_>, ApplyRefusal> {
            let (rows, table) = self.rows(id)?;
            let staged = staged
                .iter()
                .find(|(staged, _)| *staged == id)
                .map(|(_, staged)| staged);
            Ok(Side { table, rows, staged })
        };
        for (id, _) in staged {
            let this = side(*id)?;
            let def = this.rows.shared_def();
            let before = self.before.collection_by_id(*id);
            for key in &def.foreign_keys {
                let parent = side(key.parent)?;
                let (child, parent) = (&this, &parent);
                let is_new = before.is_some_and(|before| !before.foreign_keys.iter().any(|old| old.name == key.name));
                Reference { key, child, parent }.check_children(is_new)?;
            }
            for (child, key) in self.after.references_to(*id) {
                let child = side(child.id)?;
                let (child, parent) = (&child, &this);
                Reference { key, child, parent }.check_parents()?;
            }
        }
        Ok(())
    }
}
