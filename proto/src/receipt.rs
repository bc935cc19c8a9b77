//! The receipt: who answered, under which epoch, at which version, from how old a copy.

use serde::{Deserialize, Serialize};

use crate::{Epoch, LogIndex, NodeName, RangeName};

/// What the answering node was for the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It decides the range's writes.
    Leader,
    /// It holds a copy that it collects.
    Follower,
}

/// Stands in every answer: something to log and to read again from, in addition to the guarantee, never instead of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Who answered.
    pub node: NodeName,
    /// What that node was for the range, `None` where no range was asked (`SELECT 1` on an empty node).
    pub role: Option<Role>,
    /// The range that was read or written.
    pub range: Option<RangeName>,
    /// The epoch it was answered under.
    pub epoch: Epoch,
    /// The version that was read, or that the write made.
    pub version: LogIndex,
    /// Upper bound on the age of the copy in milliseconds, rounded up; 0 at the leader, `None` = unknown.
    pub copy_age_ms: Option<u64>,
    /// The bound the statement named in milliseconds, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ms: Option<u64>,
}
