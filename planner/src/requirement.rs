//! What a statement asks of the node that answers it.

use std::time::Duration;

use candor_proto::{LogIndex, RangeName};

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any copy may do.
    Read,
    /// Decided by the leader of the range.
    Write,
}

/// What becomes of a freshness read that no follower can answer: `SET staleness_fallback`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It is refused.
    #[default]
    Refuse,
    /// It goes to the leader, because the session said so openly.
    Leader,
}

/// One statement's demands, after its own tails and the session's settings are merged.
///
/// ```
/// use std::time::Duration;
/// use candor_planner::Requirement;
/// let read = Requirement::read("main").within(Duration::from_secs(30)).by_leader();
/// assert!(read.needs_leader());
/// assert!(!Requirement::read("main").needs_leader());
/// assert!(Requirement::write("main").needs_leader());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The range it reads or writes.
    pub range: RangeName,
    /// Reads or writes.
    pub access: Access,
    /// `STALENESS`: the oldest copy that may answer.
    pub staleness: Option<Duration>,
    /// `ANSWERED BY LEADER`.
    pub answered_by_leader: bool,
    /// `VERSION n`: exactly this point of history. Never together with `staleness`: the parser refuses that.
    pub version: Option<LogIndex>,
    /// `AT LEAST VERSION n`.
    pub at_least: Option<LogIndex>,
    /// What to do when no follower is fresh enough.
    pub fallback: Fallback,
}

impl Requirement {
    /// A read that any copy may answer.
    pub fn read(range: impl AsRef<str>) -> Self {
        Self {
            range: RangeName::new(range),
            access: Access::Read,
            staleness: None,
            answered_by_leader: false,
            version: None,
            at_least: None,
            fallback: Fallback::Refuse,
        }
    }

    /// A write.
    pub fn write(range: impl AsRef<str>) -> Self {
        Self {
            access: Access::Write,
            ..Self::read(range)
        }
    }

    /// Adds `STALENESS bound`.
    #[must_use]
    pub fn within(mut self, bound: Duration) -> Self {
        self.staleness = Some(bound);
        self
    }

    /// Adds `ANSWERED BY LEADER`.
    #[must_use]
    pub fn by_leader(mut self) -> Self {
        self.answered_by_leader = true;
        self
    }

    /// Adds `VERSION n`.
    #[must_use]
    pub fn at(mut self, version: LogIndex) -> Self {
        self.version = Some(version);
        self
    }

    /// Adds `AT LEAST VERSION n`.
    #[must_use]
    pub fn at_least(mut self, version: LogIndex) -> Self {
        self.at_least = Some(version);
        self
    }

    /// Only the node that decides the range's writes may answer.
    pub fn needs_leader(&self) -> bool {
        self.access == Access::Write || self.answered_by_leader
    }

    /// Whether the leader may be named by a read that did not ask for it: always, except that a freshness read is
    /// never promoted to it unless the session said so.
    pub(crate) fn may_fall_back_to_leader(&self) -> bool {
        self.staleness.is_none() || self.fallback == Fallback::Leader
    }

    /// The lowest version that a copy must hold, by either clause.
    pub(crate) fn lowest_version(&self) -> Option<LogIndex> {
        self.version.max(self.at_least)
    }
}
