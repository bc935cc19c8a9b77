//! Rows in memory: those of neighbouring ids from some id on, with their ends and the indexes of their keys.
//!
//! A table has one delta that takes new rows. A checkpoint *freezes* it: rows that begin later go to a fresh one, so the
//! frozen one has all its rows for good, while they may still end. Once its rows stand in segments it is dropped whole:
//! no map is ever cleaned row by row.

use std::sync::Arc;

use parking_lot::RwLock;

use super::block::{BLOCK_ROWS_MAX, Block, Blocks};
use super::ends::Ends;
use super::keys::{KeyIndex, KeyList, KeySpec};
use super::stage::StagedBatch;

/// Rows in memory.
pub(crate) struct Delta {
    /// The id of its first row.
    pub(crate) first_row: u64,
    /// What its rows are found by.
    keys: Vec<(Arc<KeySpec>, KeyIndex)>,
    pub(crate) inner: RwLock<DeltaRows>,
}

/// The rows of a delta.
pub(crate) struct DeltaRows {
    pub(crate) blocks: Blocks,
    pub(crate) ends: Ends,
}

impl Delta {
    /// An empty one for rows from the id `first_row` on.
    pub(crate) fn new(first_row: u64, keys: &KeyList) -> Arc<Self> {
        Arc::new(Self {
            first_row,
            keys: keys.iter().map(|spec| (Arc::clone(spec), spec.index())).collect(),
            inner: RwLock::new(DeltaRows {
                blocks: Blocks::starting_at(first_row),
                ends: Ends::starting_at(first_row),
            }),
        })
    }

    /// Its rows by these columns; `None` if they were not indexed when it began.
    pub(crate) fn index(&self, spec: &Arc<KeySpec>) -> Option<&KeyIndex> {
        let mut keys = self.keys.iter();
        keys.find(|(known, _)| Arc::ptr_eq(known, spec)).map(|(_, index)| index)
    }

    /// The id behind that of its last row.
    pub(crate) fn row_end(&self) -> u64 {
        self.inner.read().blocks.row_end()
    }

    /// Whether the row had not ended at `version`.
    pub(crate) fn lives_at(&self, row: u64, version: u64) -> bool {
        self.inner.read().ends.lives_at(row, version)
    }

    /// Bytes of memory it takes, about.
    pub(crate) fn size(&self) -> usize {
        let keys: usize = self.keys.iter().map(|(_, index)| index.size()).sum();
        let inner = self.inner.read();
        keys + inner.blocks.size() + inner.ends.size()
    }

    /// Adds rows behind the last one. Readers meet them as they come, and pass over them.
    pub(crate) fn push(&self, batch: &StagedBatch, ids: &Arc<[u32]>) {
        let first = self.row_end();
        for ((_, index), keys) in self.keys.iter().zip(&batch.keys) {
            for row in 0..keys.len() {
                if let Some((hash, key)) = keys.key(row) {
                    index.insert(hash, key, first + row as u64);
                }
            }
        }
        for at in (0..batch.rows).step_by(BLOCK_ROWS_MAX) {
            let rows = BLOCK_ROWS_MAX.min(batch.rows - at);
            let columns = batch.columns.iter().map(|column| column.slice(at, rows)).collect();
            let block = Block::new(first + at as u64, rows, Arc::clone(ids), columns);
            let mut inner = self.inner.write();
            inner.ends.grow_to(block.row_ids().end);
            inner.blocks.push(block);
        }
    }
}
