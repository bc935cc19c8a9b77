//! What one node knows about one range at one instant, all of it local.

use std::time::Duration;

use candor_proto::limits::staleness_floor;
use candor_proto::{Epoch, LogIndex, Mode, NodeName, PeerRole, Position, RangeReport};

use crate::standing::{own_age, own_leads};

/// Everything a verdict is decided from: this node's own copy and the last word of every declared peer.
///
/// Whoever builds it leaves out reports about another range of the same name (another `RangeId`).
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The tightest bound that this node can check: twice the awareness interval.
    pub floor: Duration,
    /// How often peers greet each other.
    pub awareness: Duration,
    /// This node.
    pub own: OwnView,
    /// Every declared peer, heard from or not.
    pub peers: Vec<PeerView>,
}

impl View {
    /// The view of a node without peers and without a copy of the range.
    pub fn alone(node: impl AsRef<str>, awareness: Duration) -> Self {
        Self {
            floor: staleness_floor(awareness),
            awareness,
            own: OwnView {
                node: NodeName::new(node),
                region: None,
                known_epoch: Epoch::ZERO,
                copy: None,
            },
            peers: Vec::new(),
        }
    }

    /// Upper bound on the age of this node's own copy, by the rule that the verdict goes by: zero while it leads, `None`
    /// without a copy, without a known age, and at a leader that was overtaken.
    pub fn own_age(&self) -> Option<Duration> {
        self.own.copy.as_ref().and_then(|copy| own_age(copy, own_leads(self)))
    }

    /// The newest epoch of the range that this node knows of, its own word or a peer's.
    pub fn newest_epoch(&self) -> Epoch {
        let own = self.own.newest_epoch();
        self.peers
            .iter()
            .filter_map(PeerView::report)
            .map(|report| report.epoch)
            .fold(own, Epoch::max)
    }
}

/// This node, for the range of the statement.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnView {
    /// Its name.
    pub node: NodeName,
    /// Where it says it stands.
    pub region: Option<String>,
    /// The newest epoch it knows for the range; the one it leads at while `copy.leads`.
    pub known_epoch: Epoch,
    /// Its copy of the range, if it has one.
    pub copy: Option<OwnCopy>,
}

impl OwnView {
    pub(crate) fn newest_epoch(&self) -> Epoch {
        let applied = self.copy.as_ref().map_or(Epoch::ZERO, |copy| copy.position.epoch);
        self.known_epoch.max(applied)
    }
}

/// This node's copy of the range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnCopy {
    /// The node has just proved that it leads the range, under `known_epoch`.
    pub leads: bool,
    /// The last entry applied.
    pub position: Position,
    /// The oldest version that can still be read.
    pub horizon: LogIndex,
    /// Upper bound on the age of the copy now; `None` is beyond every bound. Not looked at while the node leads.
    pub copy_age: Option<Duration>,
}

/// One declared peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerView {
    /// Its name.
    pub node: NodeName,
    /// `AT`: where other nodes reach it.
    pub at: String,
    /// `CLIENTS AT`.
    pub clients_at: Option<String>,
    /// `HTTP AT`.
    pub http_at: Option<String>,
    /// `ROLES`: a declaration, not a fact.
    pub roles: Vec<PeerRole>,
    /// Where it says it stands.
    pub region: Option<String>,
    /// A peer link to it is up.
    pub linked: bool,
    /// Its last word, if this node heard any.
    pub heard: Option<Heard>,
}

impl PeerView {
    /// What it said about the range, if it holds a copy.
    pub fn report(&self) -> Option<&RangeReport> {
        self.heard.as_ref()?.report.as_ref()
    }

    /// Upper bound on the age of its copy now: what it published plus the time since that was heard.
    pub fn copy_age_now(&self) -> Option<Duration> {
        let heard = self.heard.as_ref()?;
        Some(heard.report.as_ref()?.copy_age?.saturating_add(heard.ago))
    }
}

/// A peer's last published state, cut down to what concerns the range.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// How long ago this node heard it.
    pub ago: Duration,
    /// Its copy of the range, if it holds one.
    pub report: Option<RangeReport>,
    /// It is going away: nothing new is placed there.
    pub draining: bool,
    /// How loaded it said it is.
    pub mode: Mode,
}
