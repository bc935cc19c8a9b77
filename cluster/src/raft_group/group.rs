//! One group without threads and without time: propose, ask for a read index, settle.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{Epoch, LogIndex, NodeName, Position};
use candor_storage::{Entry, Outcome, RangeStore, Record};
use raft::{Config, RawNode, StateRole};

use super::SELF_VOTER;
use super::log::GroupLog;
use super::vote_file::{Vote, VoteFile};
use crate::error::ClusterError;
use crate::raft_log_lines;

/// Ticks of an election timeout and of a heartbeat. A group of one voter is never ticked: it campaigns when it starts.
const ELECTION_TICKS: usize = 10;
const HEARTBEAT_TICKS: usize = 1;

/// A record as the log takes it.
pub(crate) type RawRecord = (u8, Bytes);

/// What became of everything that was put in since the last time.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Entries applied, in order.
    pub(crate) outcomes: Vec<(LogIndex, Outcome)>,
    /// The committed tail, proved by the library after the last [`Group::read_index`].
    pub(crate) read: Option<Position>,
}

/// The group of one range of which this node is the only voter, and leader since [`Group::start`].
pub(crate) struct Group {
    raw: RawNode<GroupLog>,
    store: Arc<RangeStore>,
    vote_file: VoteFile,
    node: NodeName,
    /// Payloads of the entries that the library holds as headers and has not handed out yet, in their order.
    payloads: VecDeque<RawRecord>,
    /// Entries that are in the log and not applied yet.
    appended: Vec<Entry>,
}

impl Group {
    /// Applies what the log holds, wins an election and commits the leader-elected entry of the new epoch.
    ///
    /// # Errors
    /// The log or the vote file cannot be used. The range does not serve then.
    pub(crate) fn start(store: Arc<RangeStore>, folder: &Path, node: NodeName) -> Result<Self, ClusterError> {
        // What a killed process left in the page cache counts only once it is durable.
        store.sync().map_err(|source| storage(&store, source))?;
        let last = store.last().0.index;
        store.apply_to(last).map_err(|source| storage(&store, source))?;

        let vote_file = VoteFile::of(folder);
        let vote = vote_file.read()?.unwrap_or_default();
        let cfg = Config {
            id: SELF_VOTER,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: last.0,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        let log = GroupLog::new(Arc::clone(&store), vote);
        let logger = raft_log_lines::logger(store.name());
        let raw = RawNode::new(&cfg, log, &logger).map_err(|source| raft(&store, source))?;
        let mut group = Self {
            raw,
            store,
            vote_file,
            node,
            payloads: VecDeque::new(),
            appended: Vec::new(),
        };
        group.raw.campaign().map_err(|source| raft(&group.store, source))?;
        group.settle()?;
        assert!(group.leads(), "the only voter wins its election");
        Ok(group)
    }

    /// The epoch this node leads at.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.raw.raft.term)
    }

    /// Whether this node leads and has applied an entry of its own epoch.
    pub(crate) fn leads(&self) -> bool {
        self.raw.raft.state == StateRole::Leader && self.store.applied().0.epoch == self.epoch()
    }

    /// Puts records at the end of the log, in order, in memory; [`settle`](Self::settle) makes them durable.
    /// Returns the index of the last one, `None` if this node does not lead.
    pub(crate) fn propose(&mut self, records: Vec<RawRecord>) -> Option<LogIndex> {
        for (kind, payload) in records {
            // The kind keeps the header from being empty, which is how the library's own entry looks.
            if self.raw.propose(Vec::new(), vec![kind]).is_err() {
                return None;
            }
            self.payloads.push_back((kind, payload));
        }
        Some(LogIndex(self.raw.raft.raft_log.last_index()))
    }

    /// Asks for a proof of leadership; [`settle`](Self::settle) brings it.
    pub(crate) fn read_index(&mut self) {
        self.raw.read_index(Vec::new());
    }

    /// Performs everything the library wants: vote and entries to disk with one fsync, committed entries applied.
    ///
    /// # Errors
    /// Of the disk. The process must stop.
    pub(crate) fn settle(&mut self) -> Result<Settled, ClusterError> {
        let mut settled = Settled::default();
        while self.raw.has_ready() {
            let mut ready = self.raw.ready();
            if let Some(state) = ready.read_states().last() {
                settled.read = self.store.position_of(LogIndex(state.index));
            }
            if ready.must_sync()
                && let Some(hard) = ready.hs()
            {
                self.vote_file.write(Vote {
                    term: hard.term,
                    vote: hard.vote,
                })?;
            }
            let entries = ready.take_entries();
            if !entries.is_empty() {
                self.append(&entries)?;
            }
            let mut upto = ready.take_committed_entries().last().map(|entry| entry.index);
            // The vote file is written before its own epoch's entries; only now may the library count them.
            let mut light = self.raw.advance(ready);
            upto = light.take_committed_entries().last().map(|entry| entry.index).or(upto);
            if let Some(index) = upto {
                let is_behind = |entry: &Entry| entry.position.index.0 > index;
                let behind = self.appended.iter().position(is_behind).unwrap_or(self.appended.len());
                let committed: Vec<Entry> = self.appended.drain(..behind).collect();
                let outcomes = self.store.apply(&committed);
                settled
                    .outcomes
                    .extend(outcomes.map_err(|source| storage(&self.store, source))?);
            }
            self.raw.advance_apply();
        }
        self.check_invariants();
        Ok(settled)
    }

    /// One append and one fsync for all of them.
    fn append(&mut self, headers: &[raft::eraftpb::Entry]) -> Result<(), ClusterError> {
        let epoch = headers.last().expect("not empty").term;
        assert!(
            headers.iter().all(|header| header.term == epoch),
            "a sole voter appends in its own epoch only"
        );
        assert_eq!(
            headers[0].index,
            self.store.last().0.index.0 + 1,
            "the log grows at its end"
        );
        let mut records = Vec::with_capacity(headers.len());
        for header in headers {
            records.push(if header.data.is_empty() {
                self.leader_elected()?
            } else {
                self.payloads.pop_front().expect("each proposed header has its payload")
            });
        }
        let appended = self.store.append(Epoch(epoch), &records);
        self.appended
            .extend(appended.map_err(|source| storage(&self.store, source))?);
        self.store.sync().map_err(|source| storage(&self.store, source))
    }

    fn leader_elected(&self) -> Result<RawRecord, ClusterError> {
        let record = Record::LeaderElected {
            node: self.node.clone(),
        };
        record.encode().map_err(|source| {
            let index = self.store.last().0.index.next();
            storage(&self.store, candor_storage::StorageError::Record { index, source })
        })
    }

    fn check_invariants(&self) {
        assert!(self.payloads.is_empty(), "nothing proposed is left behind");
        let log = &self.raw.raft.raft_log;
        assert_eq!(
            log.last_index(),
            self.store.last().0.index.0,
            "library and log end together"
        );
        assert_eq!(
            log.applied,
            self.store.applied().0.index.0,
            "library and tables are level"
        );
    }
}

fn storage(store: &RangeStore, source: candor_storage::StorageError) -> ClusterError {
    ClusterError::Storage {
        range: store.name().clone(),
        source,
    }
}

fn raft(store: &RangeStore, source: raft::Error) -> ClusterError {
    ClusterError::Raft {
        range: store.name().clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use candor_proto::{RangeId, RangeName};
    use candor_storage::StoreOptions;
    use candor_storage::disk::{CrashDisk, Faults};

    use super::*;

    const LOG: &str = "/log";

    struct Bench {
        votes: tempfile::TempDir,
        disk: CrashDisk,
    }

    impl Bench {
        fn new() -> Self {
            let bench = Self {
                votes: tempfile::tempdir().expect("tempdir"),
                disk: CrashDisk::new(1),
            };
            RangeStore::create_with(bench.options(), Path::new(LOG), &RangeName::new("main"), RangeId(7))
                .expect("creates");
            bench
        }

        fn options(&self) -> StoreOptions {
            StoreOptions {
                disk: Arc::new(self.disk.clone()),
                ..StoreOptions::default()
            }
        }

        fn start(&self) -> Group {
            let store = RangeStore::open_with(self.options(), Path::new(LOG)).expect("opens");
            Group::start(store, self.votes.path(), NodeName::new("n1")).expect("starts")
        }
    }

    fn horizon(index: u64) -> RawRecord {
        let record = Record::Horizon { index: LogIndex(index) };
        record.encode().expect("encodes")
    }

    #[test]
    fn each_start_wins_an_epoch_and_says_so_in_the_log() {
        let bench = Bench::new();
        for start in 1..=3 {
            let group = bench.start();
            assert!(group.leads());
            assert_eq!(group.epoch(), Epoch(start));
            let (last, _) = group.store.last();
            assert_eq!(last, Position::new(Epoch(start), LogIndex(start)));
            let entry = group
                .store
                .read(LogIndex(start - 1), last.index, 1 << 20)
                .expect("reads")
                .remove(0);
            let elected = Record::LeaderElected {
                node: NodeName::new("n1"),
            };
            assert_eq!(Record::decode(entry.kind, &entry.payload).expect("decodes"), elected);
        }
    }

    #[test]
    fn an_epoch_is_never_used_twice_though_its_entry_was_lost() {
        let bench = Bench::new();
        drop(bench.start());
        // The vote for the next epoch was written, and then the process ended before its first entry.
        VoteFile::of(bench.votes.path())
            .write(Vote {
                term: 5,
                vote: SELF_VOTER,
            })
            .expect("writes");
        assert_eq!(bench.start().epoch(), Epoch(6));
        // A lost vote file leaves the log's own word.
        std::fs::remove_file(bench.votes.path().join("raft.vote")).expect("removes");
        assert_eq!(bench.start().epoch(), Epoch(7));
    }

    #[test]
    fn many_proposals_share_one_fsync_and_keep_their_order() {
        let bench = Bench::new();
        let mut group = bench.start();
        bench.disk.set_faults(Faults {
            syncs_last: Some(1),
            ..Faults::default()
        });
        let indexes: Vec<_> = (0..100).map(|_| group.propose(vec![horizon(1), horizon(1)])).collect();
        let settled = group.settle().expect("one fsync is enough");
        assert_eq!(indexes.first(), Some(&Some(LogIndex(3))));
        assert_eq!(indexes.last(), Some(&Some(LogIndex(201))));
        let applied: Vec<u64> = settled.outcomes.iter().map(|(index, _)| index.0).collect();
        assert_eq!(applied, (2..=201).collect::<Vec<_>>());
        assert!(group.propose(vec![horizon(1)]).is_some());
        assert!(group.settle().is_err(), "the second fsync fails, and that is an error");
    }

    #[test]
    fn nothing_acknowledged_is_lost_with_the_power() {
        for seed in 0..20 {
            let mut bench = Bench::new();
            bench.disk = CrashDisk::new(seed);
            RangeStore::create_with(bench.options(), Path::new(LOG), &RangeName::new("main"), RangeId(7))
                .expect("creates");
            let mut acknowledged = Vec::new();
            for round in 0..5 {
                let mut group = bench.start();
                assert!(
                    acknowledged
                        .iter()
                        .all(|(index, chain)| group.store.chain_at(*index) == Some(*chain))
                );
                bench.disk.set_faults(Faults {
                    power_lasts: Some(seed % 7 + round),
                    ..Faults::default()
                });
                while let Some(index) = group.propose(vec![horizon(1)]) {
                    if group.settle().is_err() {
                        break;
                    }
                    acknowledged.push((index, group.store.chain_at(index).expect("applied")));
                }
                drop(group);
                bench.disk.restart();
            }
            assert!(!acknowledged.is_empty());
        }
    }

    #[test]
    fn a_read_index_is_the_committed_tail() {
        let bench = Bench::new();
        let mut group = bench.start();
        for index in 2..5 {
            group.propose(vec![horizon(1)]);
            group.settle().expect("settles");
            group.read_index();
            let settled = group.settle().expect("settles");
            assert_eq!(settled.read, Some(Position::new(Epoch(1), LogIndex(index))));
            assert!(settled.outcomes.is_empty());
        }
    }
}
