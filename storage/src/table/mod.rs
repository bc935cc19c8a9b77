//! One collection's rows, all versions of them.
//!
//! A row gets its id when it begins: its ordinal in the table, counted in the order of the log, so the same on every
//! replica, and it keeps it for good. An update ends one row and begins another. The parts each have a module:
//! [`block`] the values of rows in memory, [`ends`] when rows ended, [`keys`] which rows have a key, [`delta`] these
//! three together; [`layers`] which rows stand in memory and which in segments, [`history`] how many had begun and ended
//! at each version. [`stage`] decides whether a change fits, [`distinct`] whether keys of many rows do, [`read`] and
//! [`part`] are how others see it, [`freeze`] how rows move from memory to segments; [`alter`] and [`refer`] what another
//! definition and foreign keys ask of them.
//!
//! Invariants: ids grow with versions; for each key and version at most one row is visible; a row ends once; which layer
//! a row stands in changes no answer.

pub(crate) mod alter;
pub(crate) mod block;
pub(crate) mod delta;
mod distinct;
pub(crate) mod ends;
pub(crate) mod freeze;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod layers;
mod part;
mod read;
pub(crate) mod refer;
mod stage;
mod statistics;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::schema::CollectionDef;
use delta::Delta;
use history::{History, Step};
use keys::KeyList;
use layers::{Layers, MainSegment};
use statistics::KeptSummary;

pub(crate) use keys::{KeySpec, key_text};
pub use part::TablePart;
pub use read::{RowChanges, TableSnapshot};
pub(crate) use stage::{StagedChange, Staging, Unfit, fit_columns, stage};
pub use statistics::{ColumnSummary, TableSummary};

/// The place of a row in its table: given when it begins, and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All rows of one collection.
pub(crate) struct Table {
    /// What rows are found by under the newest definition, the primary key first.
    keys: RwLock<KeyList>,
    has_primary: AtomicBool,
    layers: RwLock<Arc<Layers>>,
    history: RwLock<History>,
    summary: Mutex<KeptSummary>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(def: &CollectionDef) -> Self {
        Self::restored(def, Vec::new(), History::default())
    }

    /// A table whose rows all stand in segments.
    pub(crate) fn restored(def: &CollectionDef, mut main: Vec<Arc<MainSegment>>, history: History) -> Self {
        main.sort_by_key(|main| main.segment.info().row_ids.0);
        let keys = KeySpec::all(def);
        let delta = Delta::new(history.at(u64::MAX).rows, &keys);
        Self {
            has_primary: AtomicBool::new(!def.key.is_empty()),
            keys: RwLock::new(keys),
            layers: RwLock::new(Arc::new(Layers {
                main,
                deltas: vec![delta],
            })),
            history: RwLock::new(history),
            summary: Mutex::default(),
        }
    }

    /// What rows are found by under the newest definition.
    pub(crate) fn keys(&self) -> KeyList {
        Arc::clone(&self.keys.read())
    }

    /// Whether the first of [`Table::keys`] is the primary key.
    fn has_primary(&self) -> bool {
        self.has_primary.load(Ordering::Relaxed)
    }

    /// Has rows that begin from now on be found by `keys`.
    fn set_keys(&self, keys: &KeyList, has_primary: bool) {
        self.has_primary.store(has_primary, Ordering::Relaxed);
        let same = keys.len() == self.keys().len();
        if same
            && keys
                .iter()
                .zip(self.keys().iter())
                .all(|(new, old)| Arc::ptr_eq(new, old))
        {
            return;
        }
        *self.keys.write() = Arc::clone(keys);
        let mut layers = self.layers.write();
        let (first_row, row_end) = (layers.active().first_row, layers.active().row_end());
        let deltas = &mut Arc::make_mut(&mut layers).deltas;
        if first_row == row_end {
            deltas.pop();
        }
        deltas.push(Delta::new(row_end, keys));
    }

    pub(crate) fn at(&self, version: u64) -> Step {
        self.history.read().at(version)
    }

    /// Where its rows stand now.
    pub(crate) fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.layers.read())
    }

    /// Takes a change in that was found to fit, as `version`, which cannot be read yet.
    ///
    /// Readers meet the pieces as they come, and pass over them: they look at rows that had begun at their version, and
    /// at ends up to it.
    pub(crate) fn commit(&self, version: u64, change: &StagedChange) {
        let begun = change.begun_count();
        self.set_keys(&change.keys, change.has_primary);
        for ended in &change.ended {
            ended.place.end(version);
        }
        if !change.attached.is_empty() {
            let mut layers = self.layers.write();
            Arc::make_mut(&mut layers).attach(change.attached.clone(), change.attached_count(), &change.keys);
        }
        let layers = self.layers();
        for batch in &change.begun {
            layers.active().push(batch, &change.column_ids);
        }
        let ended: Vec<u64> = change.ended.iter().map(|ended| ended.row).collect();
        let mut history = self.history.write();
        history.push(version, begun, &ended);
        let newest = history.at(u64::MAX);
        assert!(newest.ended <= newest.rows, "only rows that began have ended");
        assert_eq!(layers.active().row_end(), newest.rows, "the history counts every row");
    }

    /// Forgets what no version from `horizon` on needs.
    pub(crate) fn forget_before(&self, horizon: u64) {
        self.history.write().forget_before(horizon);
    }

    /// Rows in memory, and the bytes they take, about.
    pub(crate) fn delta_size(&self) -> (u64, usize) {
        let layers = self.layers();
        let rows = layers
            .deltas
            .iter()
            .map(|delta| delta.row_end() - delta.first_row)
            .sum();
        (rows, layers.deltas.iter().map(|delta| delta.size()).sum())
    }
}
