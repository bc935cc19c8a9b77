//! The log of a range as raft-rs sees it: headers only.

use std::sync::Arc;

use candor_proto::LogIndex;
use candor_storage::RangeStore;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError as RaftStorageError};

use super::SELF_VOTER;
use super::vote_file::Vote;

/// Answers raft-rs from the index that the store keeps in memory, so the library causes no reads of the disk.
pub(super) struct GroupLog {
    store: Arc<RangeStore>,
    vote: Vote,
}

impl GroupLog {
    /// The log as it stands before the group starts, with the vote that was read from disk.
    pub(super) fn new(store: Arc<RangeStore>, vote: Vote) -> Self {
        Self { store, vote }
    }

    fn unavailable() -> raft::Error {
        raft::Error::Store(RaftStorageError::Unavailable)
    }
}

impl Storage for GroupLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let (last, _) = self.store.last();
        // A log cannot be ahead of its vote file, unless the file was lost: the log's own word then counts.
        let term = self.vote.term.max(last.epoch.0);
        let hard = HardState {
            term,
            vote: if term == self.vote.term { self.vote.vote } else { 0 },
            // The only voter holds it durably, so it is committed.
            commit: last.index.0,
            ..HardState::default()
        };
        Ok(RaftState::new(hard, ConfState::from((vec![SELF_VOTER], vec![]))))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        _max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        (low..high)
            .map(|index| {
                Ok(Entry {
                    index,
                    term: self.term(index)?,
                    ..Entry::default()
                })
            })
            .collect()
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == 0 {
            return Ok(0);
        }
        let position = self.store.position_of(LogIndex(index)).ok_or_else(Self::unavailable)?;
        Ok(position.epoch.0)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.store.log_start().0.max(1))
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.store.last().0.index.0)
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        // Only another voter could need one.
        Err(raft::Error::Store(RaftStorageError::SnapshotTemporarilyUnavailable))
    }
}
