//! The verdict: here, elsewhere, or not at all.
//!
//! The order is fixed: floor, then who may answer, then how fresh. The second never overturns the third, because the
//! leader satisfies every bound; the other way round it could. The own copy is judged before any peer is looked at, so
//! the usual verdict costs a few comparisons and allocates nothing.

use std::time::Duration;

use candor_proto::{LogIndex, NodeName, Redirect, RedirectKind, RedirectReason, Role};

use crate::address::advertised;
use crate::refusal::StalenessUnmet;
use crate::span::span;
use crate::standing::{Standing, judge_copy, judge_own, judge_peer, own_age, own_leads};
use crate::{Access, PeerView, Refusal, Requirement, View};

/// What becomes of a statement, decided before anything runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// This node answers.
    Here {
        /// As what.
        role: Role,
        /// What it rests on.
        basis: Basis,
    },
    /// Another node can answer, and this is where it is.
    Redirect(Redirect),
    /// This node can answer once it has applied `at_least`. Whoever waits asks for a new verdict when that happened, or
    /// takes `otherwise` from a new verdict when the time is up.
    Wait {
        /// The version to wait for.
        at_least: LogIndex,
        /// The verdict for when waiting did not help; never `Here` or `Wait`.
        otherwise: Box<Verdict>,
    },
    /// Nobody that this node can name may answer.
    Refuse(Refusal),
}

/// What an answer given here rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The node proved that it leads: it is level with itself.
    Leads,
    /// Its copy is within the bound.
    Fresh {
        /// Upper bound on the age of the copy at the verdict.
        copy_age: Duration,
        /// What the statement asked.
        bound: Duration,
    },
    /// Its copy holds the version.
    Version,
    /// Any copy would do.
    Any,
}

impl Basis {
    /// Whether the answer may still be given after `waited` more time without looking at the copy again: an upper bound
    /// on the age grows no faster than the clock, and queueing uses the bound up.
    pub fn holds_after(self, waited: Duration) -> bool {
        match self {
            Self::Fresh { copy_age, bound } => copy_age.saturating_add(waited) <= bound,
            Self::Leads | Self::Version | Self::Any => true,
        }
    }
}

impl Verdict {
    /// The verdict once waiting has ended without success: `otherwise` of a wait, every other verdict as it is.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        match self {
            Self::Wait { otherwise, .. } => *otherwise,
            verdict => verdict,
        }
    }

    /// One sentence for people: the last line of `EXPLAIN (ROUTE)`.
    pub fn summary(&self, own: &NodeName) -> String {
        match self {
            Self::Here { role, basis } => format!("answered here by {own}, {}", basis.words(*role)),
            Self::Redirect(redirect) => {
                let kind = match redirect.kind {
                    RedirectKind::Settled => "settled: the session moves",
                    RedirectKind::Transient => "transient: the session stays",
                };
                format!("redirected to {} at epoch {} ({kind})", redirect.node, redirect.epoch)
            }
            Self::Wait { at_least, otherwise } => {
                format!(
                    "waits here for version {at_least}, otherwise {}",
                    otherwise.summary(own)
                )
            }
            Self::Refuse(refusal) => format!("refused: {refusal}"),
        }
    }
}

impl Basis {
    fn words(self, role: Role) -> String {
        match (self, role) {
            (Self::Leads, _) => "which leads".to_owned(),
            (Self::Fresh { copy_age, bound }, _) => {
                format!("whose copy is at most {} old, bound {}", span(copy_age), span(bound))
            }
            (Self::Version, _) => "whose copy holds the version".to_owned(),
            (Self::Any, Role::Leader) => "which leads; any copy would do".to_owned(),
            (Self::Any, Role::Follower) => "a follower; any copy would do".to_owned(),
        }
    }
}

/// Decides who answers. Pure and local: it is a function of what this node has heard, and asks nobody.
///
/// ```
/// use std::time::Duration;
/// use candor_planner::{Refusal, Requirement, Verdict, View, admit};
/// let view = View::alone("n1", Duration::from_secs(1));
/// let verdict = admit(&Requirement::read("main").within(Duration::from_millis(1999)), &view);
/// assert!(matches!(verdict, Verdict::Refuse(Refusal::BelowFloor { .. })));
/// ```
pub fn admit(requirement: &Requirement, view: &View) -> Verdict {
    if let Some(refusal) = below_floor(requirement, view.floor) {
        return Verdict::Refuse(refusal);
    }
    match judge_own(requirement, view) {
        Standing::Admitted => here(requirement, view),
        Standing::Behind { at_least, newest } => {
            let otherwise = elsewhere(requirement, view, Standing::Behind { at_least, newest });
            Verdict::Wait {
                at_least,
                otherwise: Box::new(otherwise),
            }
        }
        standing => elsewhere(requirement, view, standing),
    }
}

/// Checks once more, at the moment the snapshot is taken, that this node may still answer; only `view.own` and the
/// epochs of the peers are looked at.
///
/// # Errors
/// The refusal of a node that stands alone. Asking `admit` again may find another node instead.
pub fn recheck(requirement: &Requirement, view: &View) -> Result<Role, Refusal> {
    if let Some(refusal) = below_floor(requirement, view.floor) {
        return Err(refusal);
    }
    match judge_own(requirement, view) {
        Standing::Admitted => Ok(own_role(view)),
        standing => Err(refuse(requirement, view, standing)),
    }
}

/// The floor comes first: a bound that nobody can check is wrong on every node, whoever would answer.
pub(crate) fn below_floor(requirement: &Requirement, floor: Duration) -> Option<Refusal> {
    let bound = requirement.staleness.filter(|bound| *bound < floor)?;
    Some(Refusal::BelowFloor { bound, floor })
}

fn own_role(view: &View) -> Role {
    if own_leads(view) { Role::Leader } else { Role::Follower }
}

fn here(requirement: &Requirement, view: &View) -> Verdict {
    let role = own_role(view);
    let copy_age = view
        .own
        .copy
        .as_ref()
        .and_then(|copy| own_age(copy, role == Role::Leader));
    let basis = match (requirement.staleness, copy_age) {
        _ if requirement.needs_leader() => Basis::Leads,
        (Some(_), _) if role == Role::Leader => Basis::Leads,
        (Some(bound), Some(copy_age)) => Basis::Fresh { copy_age, bound },
        _ if requirement.lowest_version().is_some() => Basis::Version,
        _ => Basis::Any,
    };
    Verdict::Here { role, basis }
}

/// The verdict of a node that may not answer itself, for the reason `own`.
fn elsewhere(requirement: &Requirement, view: &View, own: Standing) -> Verdict {
    // A version that is gone here may be gone everywhere, and peers do not publish their horizon: sending the caller
    // around would find that out one hop at a time.
    let hopeless = matches!(own, Standing::VersionGone { .. }) || own_is_the_leader_asked_for(requirement, view);
    if !hopeless && let Some(redirect) = best_peer(requirement, view).and_then(|peer| redirect(requirement, own, peer))
    {
        return Verdict::Redirect(redirect);
    }
    Verdict::Refuse(refuse(requirement, view, own))
}

fn own_is_the_leader_asked_for(requirement: &Requirement, view: &View) -> bool {
    requirement.needs_leader() && own_leads(view)
}

/// The peer that ranks first: followers before the leader, own region before others, lowest age, then name.
pub(crate) fn best_peer<'a>(requirement: &Requirement, view: &'a View) -> Option<&'a PeerView> {
    let newest = view.newest_epoch();
    let mut best = None;
    for peer in &view.peers {
        let last = match judge_copy(requirement, newest, peer) {
            Standing::Admitted => false,
            Standing::LastResort => true,
            _ => continue,
        };
        let elsewhere = view.own.region.is_none() || peer.region != view.own.region;
        let rank = (
            last,
            elsewhere,
            peer.copy_age_now().unwrap_or(Duration::MAX),
            &peer.node,
        );
        if best.as_ref().is_none_or(|(lowest, _)| rank < *lowest) && advertised(peer).is_some() {
            best = Some((rank, peer));
        }
    }
    best.map(|(_, peer)| peer)
}

fn redirect(requirement: &Requirement, own: Standing, peer: &PeerView) -> Option<Redirect> {
    let told = advertised(peer)?;
    let (kind, reason) = match own {
        _ if requirement.access == Access::Write => (RedirectKind::Settled, RedirectReason::Write),
        _ if requirement.answered_by_leader => (RedirectKind::Settled, RedirectReason::AnsweredByLeader),
        Standing::NoCopy => (RedirectKind::Transient, RedirectReason::NoCopy),
        Standing::VersionAhead { .. } | Standing::Behind { .. } => (RedirectKind::Transient, RedirectReason::Version),
        _ => (RedirectKind::Transient, RedirectReason::Staleness),
    };
    Some(Redirect {
        kind,
        range: requirement.range.clone(),
        node: peer.node.clone(),
        address: told.address.to_owned(),
        http: told.http.map(str::to_owned),
        epoch: peer.report()?.epoch,
        reason,
    })
}

/// The words for "nobody", given why this node itself may not answer.
fn refuse(requirement: &Requirement, view: &View, own: Standing) -> Refusal {
    let range = requirement.range.clone();
    match own {
        Standing::VersionGone { version, horizon } => Refusal::VersionGone {
            range,
            version,
            horizon,
        },
        Standing::VersionAhead { version, newest }
        | Standing::Behind {
            at_least: version,
            newest,
        } => Refusal::VersionAhead {
            range,
            version,
            newest: Some(newest),
            newest_known: newest_version(view),
        },
        _ if view.own.copy.is_none() && view.peers.iter().all(|peer| peer.report().is_none()) => {
            Refusal::UnknownRange { range }
        }
        _ if requirement.needs_leader() => no_leader(requirement, view),
        _ if requirement.staleness.is_some() => Refusal::StalenessUnmet(Box::new(staleness_unmet(requirement, view))),
        _ => match requirement
            .lowest_version()
            .filter(|version| *version > newest_version(view))
        {
            Some(version) => Refusal::VersionAhead {
                range,
                version,
                newest: None,
                newest_known: newest_version(view),
            },
            None => Refusal::NoCopy { range },
        },
    }
}

fn no_leader(requirement: &Requirement, view: &View) -> Refusal {
    let range = requirement.range.clone();
    let write = requirement.access == Access::Write;
    match known_leader(view) {
        Some(peer) => Refusal::NoAddress {
            range,
            write,
            leader: peer.node.clone(),
            epoch: view.newest_epoch(),
        },
        None => Refusal::NoLeader { range, write },
    }
}

fn staleness_unmet(requirement: &Requirement, view: &View) -> StalenessUnmet {
    let own = view
        .own
        .copy
        .as_ref()
        .and_then(|copy| own_age(copy, false))
        .map(|age| (&view.own.node, age));
    let newest = view.newest_epoch();
    let peers = view
        .peers
        .iter()
        .filter_map(|peer| match judge_peer(requirement, newest, peer) {
            Standing::TooOld { age, .. } => Some((&peer.node, age)),
            _ => None,
        });
    let best = own.into_iter().chain(peers).min_by_key(|(node, age)| (*age, *node));
    StalenessUnmet {
        range: requirement.range.clone(),
        bound: requirement.staleness.unwrap_or_default(),
        floor: view.floor,
        best: best.map(|(node, age)| (node.clone(), age)),
        leader: known_leader(view).map(|peer| peer.node.clone()),
    }
}

/// The peer whose last word proves the newest leadership, reachable or not.
fn known_leader(view: &View) -> Option<&PeerView> {
    let newest = view.newest_epoch();
    let leads = |peer: &&PeerView| {
        peer.report()
            .is_some_and(|report| report.leads && report.epoch == newest)
    };
    view.peers.iter().filter(leads).min_by_key(|peer| &peer.node)
}

fn newest_version(view: &View) -> LogIndex {
    let own = view
        .own
        .copy
        .as_ref()
        .map_or(LogIndex::ZERO, |copy| copy.position.index);
    view.peers
        .iter()
        .filter_map(PeerView::report)
        .map(|report| report.position.index)
        .fold(own, LogIndex::max)
}
