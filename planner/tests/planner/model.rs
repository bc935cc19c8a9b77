//! The rule of routing once more, as a reader of the design page would write it down: lists and filters over plain facts,
//! in the order of the page, without any care for speed. It shares no code with the planner.

use std::net::SocketAddr;
use std::time::Duration;

use candor_planner::{Access, Fallback, PeerView, Requirement, Verdict, View};
use candor_proto::{ErrorCode, Mode, RedirectKind, Role};

/// A verdict without its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Here(Role),
    Go(String, u64, RedirectKind),
    Wait(u64, Box<Said>),
    No(ErrorCode),
}

pub(crate) fn said(verdict: &Verdict) -> Said {
    match verdict {
        Verdict::Here { role, .. } => Said::Here(*role),
        Verdict::Redirect(to) => Said::Go(to.node.to_string(), to.epoch.0, to.kind),
        Verdict::Wait { at_least, otherwise } => Said::Wait(at_least.0, Box::new(said(otherwise))),
        Verdict::Refuse(refusal) => Said::No(refusal.code()),
    }
}

/// One node as the page talks about it.
#[allow(clippy::struct_excessive_bools)] // independent facts
struct Node<'a> {
    name: &'a str,
    leads: bool,
    epoch: u64,
    index: u64,
    age: Option<Duration>,
    /// Nothing new is placed on it, or it cannot be reached.
    unusable: bool,
    /// A client can be told how to get there.
    addressable: bool,
    near: bool,
}

fn peer_node<'a>(peer: &'a PeerView, view: &View) -> Option<Node<'a>> {
    let heard = peer.heard.as_ref()?;
    let report = heard.report.as_ref()?;
    Some(Node {
        name: peer.node.as_str(),
        leads: report.leads,
        epoch: report.epoch.0,
        index: report.position.index.0,
        age: report.copy_age.map(|age| age + heard.ago),
        unusable: !peer.linked || heard.draining || heard.mode == Mode::Shed,
        addressable: [Some(&peer.at), peer.clients_at.as_ref(), peer.http_at.as_ref()]
            .into_iter()
            .flatten()
            .any(|at| at.parse::<SocketAddr>().map_or(true, |at| !at.ip().is_unspecified())),
        near: peer.region.is_some() && peer.region == view.own.region,
    })
}

pub(crate) fn expected(requirement: &Requirement, view: &View) -> Said {
    // 1. The floor.
    if requirement.staleness.is_some_and(|bound| bound < view.awareness * 2) {
        return Said::No(ErrorCode::BelowFloor);
    }
    let peers: Vec<Node<'_>> = view.peers.iter().filter_map(|peer| peer_node(peer, view)).collect();
    let mut newest = peers.iter().map(|peer| peer.epoch).max().unwrap_or(0);
    newest = newest.max(view.own.known_epoch.0);
    let claims = view.own.copy.as_ref().is_some_and(|copy| copy.leads);
    let i_lead = claims && view.own.known_epoch.0 == newest;
    let my_role = if i_lead { Role::Leader } else { Role::Follower };
    let nobody_has_it = view.own.copy.is_none() && peers.is_empty();
    let newest_index = peers.iter().map(|peer| peer.index).max().unwrap_or(0);

    // 2. Who may answer.
    if requirement.access == Access::Write || requirement.answered_by_leader {
        if i_lead {
            return my_versions(requirement, view).map_or(Said::Here(Role::Leader), |no| match no {
                Said::Wait(version, _) => Said::Wait(version, Box::new(Said::No(ErrorCode::VersionAhead))),
                no => no,
            });
        }
        let mut leaders: Vec<&Node<'_>> = peers.iter().filter(|peer| peer.leads && peer.epoch == newest).collect();
        let known = !leaders.is_empty();
        leaders.retain(|leader| leader.addressable);
        leaders.sort_by_key(|leader| (!leader.near, leader.age.unwrap_or(Duration::MAX), leader.name));
        return match leaders.first() {
            Some(leader) => Said::Go(leader.name.to_owned(), leader.epoch, RedirectKind::Settled),
            None if nobody_has_it => Said::No(ErrorCode::UnknownNamespace),
            None if known => Said::No(ErrorCode::NotLeader),
            None => Said::No(ErrorCode::NoLeader),
        };
    }

    // 3. How fresh, this node first.
    let mut trouble = ErrorCode::StalenessUnmet;
    let mut wait = None;
    if let Some(copy) = &view.own.copy {
        match my_versions(requirement, view) {
            Some(Said::Wait(version, _)) => {
                trouble = ErrorCode::VersionAhead;
                wait = Some(version);
            }
            Some(Said::No(ErrorCode::VersionAhead)) => trouble = ErrorCode::VersionAhead,
            Some(no) => return no,
            None => {
                // A leader that was overtaken knows nothing about the age of its copy.
                let age = if i_lead {
                    Some(Duration::ZERO)
                } else {
                    copy.copy_age.filter(|_| !claims)
                };
                let fresh = requirement
                    .staleness
                    .is_none_or(|bound| age.is_some_and(|age| age <= bound));
                if fresh {
                    return Said::Here(my_role);
                }
            }
        }
    } else if nobody_has_it {
        return Said::No(ErrorCode::UnknownNamespace);
    } else if requirement.staleness.is_none() {
        let version = requirement
            .version
            .or(requirement.at_least)
            .map_or(0, |version| version.0);
        trouble = if version > newest_index {
            ErrorCode::VersionAhead
        } else {
            ErrorCode::Starting
        };
    }

    // The peers: followers first, the leader only where the read is not about freshness or the session said so.
    let version = requirement
        .version
        .or(requirement.at_least)
        .map_or(0, |version| version.0);
    let usable = |peer: &&Node<'_>| !peer.unusable && peer.addressable && peer.epoch == newest && peer.index >= version;
    let mut candidates: Vec<&Node<'_>> = peers.iter().filter(usable).collect();
    candidates.retain(|peer| match (peer.leads, requirement.staleness) {
        (_, None) => true,
        (true, Some(_)) => requirement.fallback == Fallback::Leader,
        (false, Some(bound)) => peer.age.is_some_and(|age| age <= bound),
    });
    candidates.sort_by_key(|peer| (peer.leads, !peer.near, peer.age.unwrap_or(Duration::MAX), peer.name));
    let elsewhere = match candidates.first() {
        Some(peer) => Said::Go(peer.name.to_owned(), peer.epoch, RedirectKind::Transient),
        None => Said::No(trouble),
    };
    match wait {
        Some(version) => Said::Wait(version, Box::new(elsewhere)),
        None => elsewhere,
    }
}

/// What stands against answering from the own copy at the version asked for.
fn my_versions(requirement: &Requirement, view: &View) -> Option<Said> {
    let copy = view.own.copy.as_ref()?;
    let index = copy.position.index;
    match (requirement.version, requirement.at_least) {
        (Some(version), _) if version > index => Some(Said::No(ErrorCode::VersionAhead)),
        (Some(version), _) if version < copy.horizon => Some(Said::No(ErrorCode::VersionGone)),
        (_, Some(at_least)) if at_least > index => {
            Some(Said::Wait(at_least.0, Box::new(Said::No(ErrorCode::VersionAhead))))
        }
        _ => None,
    }
}
