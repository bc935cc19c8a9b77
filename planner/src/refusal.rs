//! Refusals: what was asked, what is known, and what would be accepted, in plain English and as facts.

use std::fmt::{self, Write as _};
use std::time::Duration;

use candor_proto::{Epoch, ErrorBody, ErrorCode, LogIndex, NodeName, RangeName, Retry};

use crate::span::{millis, span};

/// Why a request is not answered and not sent anywhere else.
///
/// ```
/// use std::time::Duration;
/// use candor_planner::Refusal;
/// let refusal = Refusal::BelowFloor { bound: Duration::from_secs(1), floor: Duration::from_secs(2) };
/// let body = refusal.to_body();
/// assert_eq!(body.facts["floor_ms"], 2000);
/// assert!(body.error.contains("the floor is 2s"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The bound is tighter than anything that this node can check.
    #[error(
        "STALENESS {} cannot be checked: the floor is {}, twice the awareness interval at which this node learns \
         anything about its peers",
        span(*bound), span(*floor)
    )]
    BelowFloor {
        /// What the statement asked.
        bound: Duration,
        /// The tightest bound this node accepts.
        floor: Duration,
    },
    /// The leader must answer, and nobody is known to lead.
    #[error(
        "{}: this node does not lead, and no peer it has greeted says it does. Declare one with \
         `DEFINE REPLICA … ROLES writable`",
        asked_for_leader(*write)
    )]
    NoLeader {
        /// The range that was asked.
        range: RangeName,
        /// A write, or a read that said `ANSWERED BY LEADER`.
        write: bool,
    },
    /// The leader must answer and is known, but its declaration names nothing that a client can dial.
    #[error(
        "{}: {leader} leads range {range}, and its declaration names no address a client can reach. Give it one with \
         `DEFINE REPLICA {leader} … CLIENTS AT … HTTP AT …`",
        asked_for_leader(*write)
    )]
    NoAddress {
        /// The range that was asked.
        range: RangeName,
        /// A write, or a read that said `ANSWERED BY LEADER`.
        write: bool,
        /// The node that leads.
        leader: NodeName,
        /// The epoch it leads under.
        epoch: Epoch,
    },
    /// No node that may answer is fresh enough.
    #[error("{}", .0.sentence())]
    StalenessUnmet(Box<StalenessUnmet>),
    /// The version is not there yet.
    #[error("version {version} of range {range} is not there yet: {}", ahead_words(*newest, *newest_known))]
    VersionAhead {
        /// The range that was asked.
        range: RangeName,
        /// What the statement asked.
        version: LogIndex,
        /// The newest version of this node's copy, if it has one.
        newest: Option<LogIndex>,
        /// The newest version that this node or any peer it heard from holds.
        newest_known: LogIndex,
    },
    /// The version is below what this node keeps.
    #[error("version {version} of range {range} is gone: versions before {horizon} are no longer kept")]
    VersionGone {
        /// The range that was asked.
        range: RangeName,
        /// What the statement asked.
        version: LogIndex,
        /// The oldest version that can still be read.
        horizon: LogIndex,
    },
    /// This node has no copy of the range, and no peer that has one can be named.
    #[error("this node holds no copy of range {range} yet, and no peer that holds one can be named now")]
    NoCopy {
        /// The range that was asked.
        range: RangeName,
    },
    /// Neither this node nor any peer it heard from holds the range.
    #[error("namespace {range} does not exist here, and no peer that this node has greeted holds it")]
    UnknownRange {
        /// The range that was asked.
        range: RangeName,
    },
    /// The redirected request was meant for another node.
    #[error("this request was redirected to {expected}, and this node is {here}")]
    WrongNode {
        /// The node that the redirect named.
        expected: NodeName,
        /// This node.
        here: NodeName,
    },
    /// The redirect was decided under a leadership that is over.
    #[error("this redirect was decided under epoch {named} of range {range}, and epoch {newest} has begun since")]
    EpochStale {
        /// The range that was asked.
        range: RangeName,
        /// The epoch that the redirect named.
        named: Epoch,
        /// The newest epoch that this node knows.
        newest: Epoch,
    },
    /// The request has been redirected too often.
    #[error("this request has followed {hops} redirects, and a client follows at most {max}: the nodes disagree about who may answer", max = candor_proto::limits::HOPS_MAX)]
    RedirectLoop {
        /// How many redirects were followed.
        hops: u8,
    },
}

/// The figures behind a staleness refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalenessUnmet {
    /// The range that was asked.
    pub range: RangeName,
    /// What the statement asked.
    pub bound: Duration,
    /// The tightest bound this node accepts.
    pub floor: Duration,
    /// The node with the freshest copy among those that could have answered, and the age of that copy.
    pub best: Option<(NodeName, Duration)>,
    /// Who leads, as far as this node knows: left out, because the read did not ask for it.
    pub leader: Option<NodeName>,
}

impl StalenessUnmet {
    fn sentence(&self) -> String {
        let mut text = format!(
            "no node may answer range {} within STALENESS {}: ",
            self.range,
            span(self.bound)
        );
        // Writing to a String cannot fail.
        let _ = match &self.best {
            Some((node, age)) => write!(text, "the best known copy is {} old, on {node}", span(*age)),
            None => write!(text, "no copy that could answer has a known age"),
        };
        let _ = write!(text, "; the floor is {}", span(self.floor));
        text.push_str(". The leader is asked only by `ANSWERED BY LEADER`");
        if let Some(leader) = &self.leader {
            let _ = write!(text, "; {leader} says it leads");
        }
        text
    }
}

/// The clause of a statement that a refusal is about, for whoever holds the text and can point at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `STALENESS …`
    Staleness,
    /// `ANSWERED BY …`
    AnsweredBy,
    /// `VERSION …` or `AT LEAST VERSION …`
    Version,
    /// The whole statement.
    Statement,
}

impl Refusal {
    /// The code a machine may act on.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::BelowFloor { .. } => ErrorCode::BelowFloor,
            Self::NoLeader { .. } => ErrorCode::NoLeader,
            Self::NoAddress { .. } => ErrorCode::NotLeader,
            Self::StalenessUnmet(_) => ErrorCode::StalenessUnmet,
            Self::VersionAhead { .. } => ErrorCode::VersionAhead,
            Self::VersionGone { .. } => ErrorCode::VersionGone,
            Self::NoCopy { .. } => ErrorCode::Starting,
            Self::UnknownRange { .. } => ErrorCode::UnknownNamespace,
            Self::WrongNode { .. } => ErrorCode::WrongNode,
            Self::EpochStale { .. } => ErrorCode::EpochStale,
            Self::RedirectLoop { .. } => ErrorCode::RedirectLoop,
        }
    }

    /// What the caller may do: the code's rule.
    pub fn retry(&self) -> Retry {
        self.code().retry()
    }

    /// Which clause it is about.
    pub fn clause(&self) -> Clause {
        match self {
            Self::BelowFloor { .. } | Self::StalenessUnmet(_) => Clause::Staleness,
            Self::NoLeader { write: false, .. } | Self::NoAddress { write: false, .. } => Clause::AnsweredBy,
            Self::VersionAhead { .. } | Self::VersionGone { .. } => Clause::Version,
            _ => Clause::Statement,
        }
    }

    /// What to do about it, where the message does not say so already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::BelowFloor { floor, .. } => Some(format!("write `STALENESS {}` or more", span(*floor))),
            Self::StalenessUnmet(unmet) => {
                let wider = unmet
                    .best
                    .as_ref()
                    .map(|(_, age)| format!("widen the bound beyond {}, ", span(*age)));
                Some(format!(
                    "{}add `ANSWERED BY LEADER`, or `SET staleness_fallback = 'leader'` for the session",
                    wider.unwrap_or_default()
                ))
            }
            Self::VersionAhead { version, .. } => Some(format!(
                "`AT LEAST VERSION {version} WAIT 2s` waits for it; `VERSION` never does"
            )),
            Self::EpochStale { .. } => {
                Some("ask the first node again: it knows the newer leadership by now".to_owned())
            }
            _ => None,
        }
    }

    /// The error object, with the facts of this refusal beside its words.
    pub fn to_body(&self) -> ErrorBody {
        let mut body = ErrorBody::new(self.code(), self.to_string());
        body.help = self.help();
        match self {
            Self::BelowFloor { bound, floor } => body
                .with_fact("bound_ms", millis(*bound))
                .with_fact("floor_ms", millis(*floor)),
            Self::NoLeader { range, .. } | Self::NoCopy { range } | Self::UnknownRange { range } => {
                body.with_fact("range", range.as_str())
            }
            Self::NoAddress {
                range, leader, epoch, ..
            } => body
                .with_fact("range", range.as_str())
                .with_fact("leader", leader.as_str())
                .with_fact("epoch", epoch.0),
            Self::StalenessUnmet(unmet) => unmet.add_facts(body),
            Self::VersionAhead {
                range,
                version,
                newest,
                newest_known,
            } => body
                .with_fact("range", range.as_str())
                .with_fact("version", version.0)
                .with_fact("newest", newest.map(|newest| newest.0))
                .with_fact("newest_known", newest_known.0),
            Self::VersionGone {
                range,
                version,
                horizon,
            } => body
                .with_fact("range", range.as_str())
                .with_fact("version", version.0)
                .with_fact("horizon", horizon.0),
            Self::WrongNode { expected, here } => body
                .with_fact("expected", expected.as_str())
                .with_fact("node", here.as_str()),
            Self::EpochStale { range, named, newest } => body
                .with_fact("range", range.as_str())
                .with_fact("epoch", named.0)
                .with_fact("newest", newest.0),
            Self::RedirectLoop { hops } => body.with_fact("hops", *hops),
        }
    }
}

impl StalenessUnmet {
    fn add_facts(&self, body: ErrorBody) -> ErrorBody {
        let best = self.best.as_ref();
        body.with_fact("range", self.range.as_str())
            .with_fact("bound_ms", millis(self.bound))
            .with_fact("floor_ms", millis(self.floor))
            .with_fact("best_age_ms", best.map(|(_, age)| millis(*age)))
            .with_fact("best_node", best.map(|(node, _)| node.to_string()))
            .with_fact("leader", self.leader.as_ref().map(NodeName::to_string))
    }
}

impl miette::Diagnostic for Refusal {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code()))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
}

fn asked_for_leader(write: bool) -> &'static str {
    if write {
        "a write is decided by the leader"
    } else {
        "this read asked to be answered by the leader"
    }
}

fn ahead_words(newest: Option<LogIndex>, newest_known: LogIndex) -> String {
    match newest {
        Some(newest) if newest >= newest_known => format!("the newest here is {newest}"),
        Some(newest) => format!("the newest here is {newest}, and the newest known anywhere is {newest_known}"),
        None => format!("this node holds no copy, and the newest known anywhere is {newest_known}"),
    }
}
