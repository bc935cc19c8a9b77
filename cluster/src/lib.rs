#![doc = include_str!("../README.md")]

mod awareness;
pub mod certs;
mod clock;
mod collect;
mod config;
mod error;
mod followers;
mod frame;
mod link;
mod names;
mod node;
mod raft_group;
mod raft_log_lines;
mod split;

pub use config::{ClusterConfig, StorageConfig};
pub use error::{ClusterError, NameError, NotLeader, ProposeError};
pub use followers::FollowerRow;
pub use node::{Bulk, CopyRow, Node, PeerRow};
pub use raft_group::Committed;
