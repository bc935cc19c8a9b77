//! How one node stands to one requirement: admitted, or the first reason why not.
//!
//! `admit` and `explain` read the same judgement, so a route is never explained by a rule other than the one that chose
//! it. Nothing here allocates: a verdict looks at every peer.

use std::time::Duration;

use candor_proto::{Epoch, LogIndex, Mode};

use crate::address::advertised;
use crate::{OwnCopy, PeerView, Requirement, View};

/// The judgement on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// May answer.
    Admitted,
    /// May answer, and is named only if no follower can: the leader, for a read that did not ask for it.
    LastResort,
    /// May answer once its copy has grown.
    Behind { at_least: LogIndex, newest: LogIndex },
    /// Nothing was heard from it yet.
    NotHeard,
    /// It holds no copy of the range.
    NoCopy,
    /// It does not say that it leads.
    NotLeader,
    /// What it said belongs to an epoch that is over.
    OldEpoch { knows: Epoch, newest: Epoch },
    /// It leads, and this is a freshness read.
    LeaderLeftOut,
    /// The link to it is down.
    Unreachable,
    /// It is going away.
    Draining,
    /// It refuses reads to catch up.
    Shedding,
    /// Its copy does not hold the version yet.
    VersionAhead { version: LogIndex, newest: LogIndex },
    /// Its copy no longer holds the version.
    VersionGone { version: LogIndex, horizon: LogIndex },
    /// The age of its copy is not known.
    AgeUnknown,
    /// Its copy is older than the bound.
    TooOld { age: Duration, bound: Duration },
    /// Its row names nothing that a client can dial.
    NoAddress,
}

/// This node proved that it leads, and no peer knows a newer epoch.
pub(crate) fn own_leads(view: &View) -> bool {
    view.own.copy.as_ref().is_some_and(|copy| copy.leads) && view.newest_epoch() == view.own.known_epoch
}

/// The age that counts for this node's own copy: zero at the leader, unknown at a leader that was overtaken.
pub(crate) fn own_age(copy: &OwnCopy, leads: bool) -> Option<Duration> {
    match (leads, copy.leads) {
        (true, _) => Some(Duration::ZERO),
        (false, true) => None,
        (false, false) => copy.copy_age,
    }
}

/// How this node itself stands.
pub(crate) fn judge_own(requirement: &Requirement, view: &View) -> Standing {
    let Some(copy) = &view.own.copy else {
        return Standing::NoCopy;
    };
    let leads = copy.leads && own_leads(view);
    if requirement.needs_leader() && !leads {
        return match (copy.leads, view.newest_epoch()) {
            (true, newest) => Standing::OldEpoch {
                knows: view.own.known_epoch,
                newest,
            },
            (false, _) => Standing::NotLeader,
        };
    }
    let newest = copy.position.index;
    if let Some(version) = requirement.version {
        if version > newest {
            return Standing::VersionAhead { version, newest };
        }
        if version < copy.horizon {
            return Standing::VersionGone {
                version,
                horizon: copy.horizon,
            };
        }
    }
    if let Some(at_least) = requirement.at_least.filter(|at_least| *at_least > newest) {
        return Standing::Behind { at_least, newest };
    }
    judge_age(requirement.staleness, own_age(copy, leads)).unwrap_or(Standing::Admitted)
}

/// How a peer stands, where `newest` is the newest epoch that this node knows of.
pub(crate) fn judge_peer(requirement: &Requirement, newest: Epoch, peer: &PeerView) -> Standing {
    match judge_copy(requirement, newest, peer) {
        Standing::Admitted | Standing::LastResort if advertised(peer).is_none() => Standing::NoAddress,
        standing => standing,
    }
}

/// The same without a look at the peer's addresses: they lie elsewhere in memory, and only the one that is named needs
/// them.
pub(crate) fn judge_copy(requirement: &Requirement, newest: Epoch, peer: &PeerView) -> Standing {
    let Some(heard) = &peer.heard else {
        return Standing::NotHeard;
    };
    let Some(report) = &heard.report else {
        return Standing::NoCopy;
    };
    if requirement.needs_leader() {
        // Named although its link may be down or it may be draining: nobody else can answer.
        return match () {
            () if !report.leads => Standing::NotLeader,
            () if report.epoch < newest => Standing::OldEpoch {
                knows: report.epoch,
                newest,
            },
            () => Standing::Admitted,
        };
    }
    if report.epoch < newest {
        return Standing::OldEpoch {
            knows: report.epoch,
            newest,
        };
    }
    if report.leads && !requirement.may_fall_back_to_leader() {
        return Standing::LeaderLeftOut;
    }
    if !peer.linked {
        return Standing::Unreachable;
    }
    if heard.draining {
        return Standing::Draining;
    }
    if heard.mode == Mode::Shed {
        return Standing::Shedding;
    }
    if let Some(version) = requirement
        .lowest_version()
        .filter(|version| *version > report.position.index)
    {
        return Standing::VersionAhead {
            version,
            newest: report.position.index,
        };
    }
    if report.leads {
        // Level with itself, however long ago it said so; it proves its leadership again on arrival.
        return Standing::LastResort;
    }
    judge_age(requirement.staleness, peer.copy_age_now()).unwrap_or(Standing::Admitted)
}

/// The reason why a copy of this age may not answer, if there is one.
fn judge_age(bound: Option<Duration>, age: Option<Duration>) -> Option<Standing> {
    let bound = bound?;
    match age {
        None => Some(Standing::AgeUnknown),
        Some(age) if age > bound => Some(Standing::TooOld { age, bound }),
        Some(_) => None,
    }
}
