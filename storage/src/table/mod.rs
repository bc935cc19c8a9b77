//! One collection's rows, all versions of them.
//!
//! A row gets its id when it begins: its ordinal in the table, counted in the order of the log, so the same on every
//! replica, and it keeps it for good. An update ends one row and begins another. The parts each have a module:
//! [`block`] the values of rows in memory, [`ends`] when rows ended, [`keys`] which rows have a key, [`delta`] these
//! three together; [`layers`] which rows stand in memory and which in segments, [`history`] how many had begun and ended
//! at each version. [`stage`] decides whether a change fits, [`read`] and [`part`] are how others see it, [`freeze`]
//! how rows move from memory to segments.
//!
//! Invariants: ids grow with versions; for each key and version at most one row is visible; a row ends once; which layer
//! a row stands in changes no answer.

pub(crate) mod block;
pub(crate) mod delta;
pub(crate) mod ends;
pub(crate) mod freeze;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod layers;
mod part;
mod read;
mod stage;
mod statistics;

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::schema::CollectionDef;
use delta::Delta;
use history::{History, Step};
use keys::KeySpec;
use layers::{Layers, MainSegment};
use statistics::KeptSummary;

pub use part::TablePart;
pub use read::{RowChanges, TableSnapshot};
pub(crate) use stage::{StagedChange, Unfit, stage};
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
    /// The primary key, if there is one, then the unique keys.
    keys: Vec<KeySpec>,
    has_primary: bool,
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
    pub(crate) fn restored(def: &CollectionDef, main: Vec<Arc<MainSegment>>, history: History) -> Self {
        let primary = KeySpec::new(def, &def.key);
        let unique = def.unique.iter().filter_map(|key| KeySpec::new(def, key));
        let has_primary = primary.is_some();
        let keys: Vec<KeySpec> = primary.into_iter().chain(unique).collect();
        let delta = Delta::new(history.at(u64::MAX).rows, &keys);
        Self {
            has_primary,
            keys,
            layers: RwLock::new(Arc::new(Layers {
                main,
                deltas: vec![delta],
            })),
            history: RwLock::new(history),
            summary: Mutex::default(),
        }
    }

    fn primary(&self) -> Option<&KeySpec> {
        self.keys.first().filter(|_| self.has_primary)
    }

    fn at(&self, version: u64) -> Step {
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
        for ended in &change.ended {
            ended.place.end(version);
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
        let rows = layers.active().row_end() - layers.first_in_memory();
        (rows, layers.deltas.iter().map(|delta| delta.size()).sum())
    }
}
