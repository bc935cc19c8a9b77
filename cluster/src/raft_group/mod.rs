//! Leadership of one range: a raft-rs group, its storage and the thread that performs it.
//!
//! raft-rs decides which entries stand in which order under which epoch (its term), and which of them are committed.
//! It never sees payloads: an entry of the library is the header `(index, term)` of the entry of the same index in
//! the [`RangeStore`](candor_storage::RangeStore) log, so a transaction is held in memory once and the library's
//! protobuf never touches the network or the disk. The empty entry that a new leader appends becomes the
//! leader-elected record.
//!
//! A group has one voter, this node. Whatever its log holds is therefore committed, an election is won in the step
//! that starts it, and each start of the process is a new epoch. What stays with more voters: every step goes
//! through the library, reads ask it for an index, and the vote is on disk before it counts.
//!
//! One thread per led range: the fsync of one namespace never delays another's, and an idle range costs a parked
//! thread. Proposals that arrive while a batch is on its way to disk share the next append and the next fsync.
//!
//! An error of the log stops the process. What the disk holds after a failed fsync is unknown to the kernel itself, so
//! only a restart, which reads it again, can go on.

mod group;
mod log;
mod range_loop;
mod vote_file;

pub(crate) use group::Group;
pub use range_loop::Committed;
pub(crate) use range_loop::{Answer, RangeHandle, Rejected, stop_process};
pub(crate) use vote_file::{Vote, VoteFile, sync_folder};

/// The library's number of this node in a group of which it is the only voter.
const SELF_VOTER: u64 = 1;
