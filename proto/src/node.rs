//! What a node publishes about itself in each greeting.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BootId, Chain, Epoch, NodeName, Position, RangeId, RangeName};

/// What a declared peer may do. A declaration, not a fact: who leads is published by the node itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerRole {
    /// Answers reads from its copy.
    Readable,
    /// Votes.
    Coordinating,
    /// Votes and may lead.
    Writable,
}

/// How loaded a node says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything is served.
    #[default]
    Normal,
    /// Work is grouped to catch up.
    Batching,
    /// Reads are refused to catch up.
    Shed,
}

/// One node's own word about itself at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Who speaks.
    pub node: NodeName,
    /// Which process of that node speaks; an older process never replaces a newer one.
    pub boot_id: BootId,
    /// Wall-clock start of that process in milliseconds: orders boot ids, decides nothing else.
    pub booted_at_ms: u64,
    /// Grows with every state that this process publishes.
    pub sequence: u64,
    /// Where the node says it stands, if it says so.
    pub region: Option<String>,
    /// Its view of every range it holds.
    pub ranges: Vec<RangeReport>,
    /// How loaded it is.
    pub mode: Mode,
    /// It is going away: place nothing new there.
    pub draining: bool,
}

impl NodeState {
    /// What this node says about `range`, if it holds a copy.
    pub fn range(&self, range: &RangeName) -> Option<&RangeReport> {
        self.ranges.iter().find(|report| report.range == *range)
    }

    /// Whether this state may replace `earlier`, which came from the node of the same name: a newer process, or a
    /// later word of the same one.
    pub fn supersedes(&self, earlier: &Self) -> bool {
        if self.boot_id == earlier.boot_id {
            self.sequence > earlier.sequence
        } else {
            self.booted_at_ms >= earlier.booted_at_ms
        }
    }
}

/// One node's copy of one range, as it publishes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReport {
    /// Which range.
    pub range: RangeName,
    /// Which range of that name.
    pub range_id: RangeId,
    /// The node proved within the last awareness interval that it leads the range, so it may write now.
    pub leads: bool,
    /// The newest epoch the node knows for the range; the epoch it leads at when `leads`.
    pub epoch: Epoch,
    /// The last entry the node applied.
    pub position: Position,
    /// The running hash at that position.
    pub chain: Chain,
    /// Upper bound on how old the copy is; `None` is beyond every bound. Zero at the leader.
    pub copy_age: Option<Duration>,
}
