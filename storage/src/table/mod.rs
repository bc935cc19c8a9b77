//! One collection's rows, all versions of them.
//!
//! A row gets its id when it begins: its ordinal in the table, counted in the order of the log, so the same on every
//! replica, and it keeps it for good. An update ends one row and begins another. The parts each have a module:
//! [`block`] the values, [`ends`] when rows ended, [`history`] how many had begun and ended at each version, [`keys`]
//! which rows have a key. [`stage`] decides whether a change fits, [`read`] is how others see it.
//!
//! Invariants: ids grow with versions; for each key and version at most one row is visible; a row ends once.

pub(crate) mod block;
pub(crate) mod ends;
pub(crate) mod history;
pub(crate) mod keys;
mod read;
mod stage;

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::schema::CollectionDef;
use block::{BLOCK_ROWS_MAX, Block, Blocks};
use ends::Ends;
use history::{History, Step};
use keys::KeyIndex;

pub use read::{BlockSnapshot, RowChanges, TableSnapshot};
pub(crate) use stage::{StagedChange, stage};

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
    keys: Vec<KeyIndex>,
    has_primary: bool,
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    rows: u64,
    blocks: Blocks,
    ends: Ends,
    history: History,
}

impl Table {
    pub(crate) fn new(def: &CollectionDef) -> Self {
        let primary = KeyIndex::new(def, &def.key);
        let unique = def.unique.iter().filter_map(|key| KeyIndex::new(def, key));
        Self {
            has_primary: primary.is_some(),
            keys: primary.into_iter().chain(unique).collect(),
            inner: RwLock::default(),
        }
    }

    fn primary(&self) -> Option<&KeyIndex> {
        self.keys.first().filter(|_| self.has_primary)
    }

    fn at(&self, version: u64) -> Step {
        self.inner.read().history.at(version)
    }

    /// Whether the row has not ended.
    fn lives(&self, row: u64) -> bool {
        self.inner.read().ends.lives_at(row, u64::MAX)
    }

    /// Takes a change in that was found to fit, as `version`, which cannot be read yet.
    ///
    /// Readers meet the pieces as they come, and pass over them: they look at rows that had begun at their version, and
    /// at ends up to it. So the lock is only held for one piece at a time.
    pub(crate) fn commit(&self, version: u64, change: StagedChange) {
        let before = self.inner.read();
        for row in &change.ended {
            before.ends.end(*row, version);
        }
        let mut next = before.rows;
        drop(before);
        let begun = change.begun_count();
        let ids = change.column_ids;
        for batch in change.begun {
            for (index, keys) in self.keys.iter().zip(&batch.keys) {
                for row in 0..keys.len() {
                    if let Some((hash, key)) = keys.key(row) {
                        index.insert(hash, key, next + row as u64);
                    }
                }
            }
            for at in (0..batch.rows).step_by(BLOCK_ROWS_MAX) {
                let rows = BLOCK_ROWS_MAX.min(batch.rows - at);
                let columns = batch.columns.iter().map(|column| column.slice(at, rows)).collect();
                let block = Block::new(next, rows, Arc::clone(&ids), columns);
                next += rows as u64;
                let mut inner = self.inner.write();
                inner.ends.grow_to(next);
                inner.blocks.push(block);
            }
        }
        let mut inner = self.inner.write();
        inner.rows = next;
        inner.history.push(version, begun, &change.ended);
        inner.check_invariants();
    }

    /// Forgets what no version from `horizon` on needs.
    pub(crate) fn forget_before(&self, horizon: u64) {
        self.inner.write().history.forget_before(horizon);
    }
}

impl Inner {
    /// Ids, blocks and history agree on how many rows there are.
    fn check_invariants(&self) {
        let newest = self.history.at(u64::MAX);
        assert_eq!(newest.rows, self.rows, "the history counts every row");
        assert!(newest.ended <= newest.rows, "only rows that began have ended");
        assert_eq!(self.blocks.row_end(), self.rows, "every row stands in a block");
    }
}
