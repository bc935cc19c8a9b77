//! `EXPLAIN (ROUTE)`: a row and a reason for every node that is known.

use std::time::Duration;

use candor_proto::{Epoch, NodeName, Position, Role};

use crate::admit::below_floor;
use crate::span::span;
use crate::standing::{Standing, judge_own, judge_peer, own_age, own_leads};
use crate::{PeerView, Requirement, Verdict, View, admit};

/// One node's row of an explained route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRow {
    /// Which node.
    pub node: NodeName,
    /// What it is for the range; `None` if it holds no copy or was never heard.
    pub role: Option<Role>,
    /// The newest epoch it knows.
    pub epoch: Option<Epoch>,
    /// How far its copy has got.
    pub position: Option<Position>,
    /// Upper bound on the age of its copy now; `None` = unknown, beyond every bound.
    pub copy_age: Option<Duration>,
    /// How long ago this was heard; `None` for this node itself and for a peer that was never heard.
    pub heard_ago: Option<Duration>,
    /// It may answer.
    pub admitted: bool,
    /// Why, or why not.
    pub reason: String,
    /// It is the one that answers.
    pub chosen: bool,
}

/// The rows behind `admit(requirement, view)`: this node first, then the peers by name. At most one is chosen.
///
/// ```
/// use std::time::Duration;
/// use candor_planner::{OwnCopy, Requirement, View, explain};
/// let mut view = View::alone("n1", Duration::from_secs(1));
/// view.own.copy = Some(OwnCopy { leads: true, ..OwnCopy::default() });
/// let rows = explain(&Requirement::read("main"), &view);
/// assert_eq!((rows.len(), rows[0].chosen), (1, true));
/// ```
pub fn explain(requirement: &Requirement, view: &View) -> Vec<RouteRow> {
    let verdict = admit(requirement, view);
    let floor =
        below_floor(requirement, view.floor).map(|_| format!("the bound is below the floor, {}", span(view.floor)));
    let mut peers: Vec<&PeerView> = view.peers.iter().collect();
    peers.sort_by(|a, b| a.node.cmp(&b.node));
    let mut rows = vec![own_row(requirement, view, &verdict)];
    let newest = view.newest_epoch();
    rows.extend(
        peers
            .into_iter()
            .map(|peer| peer_row(requirement, newest, peer, &verdict)),
    );
    if let Some(reason) = floor {
        for row in &mut rows {
            (row.admitted, row.reason) = (false, reason.clone());
        }
    }
    rows
}

fn own_row(requirement: &Requirement, view: &View, verdict: &Verdict) -> RouteRow {
    let copy = view.own.copy.as_ref();
    let leads = own_leads(view);
    let standing = judge_own(requirement, view);
    let chosen = matches!(verdict, Verdict::Here { .. } | Verdict::Wait { .. });
    RouteRow {
        node: view.own.node.clone(),
        role: copy.map(|_| if leads { Role::Leader } else { Role::Follower }),
        epoch: copy.map(|_| view.own.known_epoch),
        position: copy.map(|copy| copy.position),
        copy_age: copy.and_then(|copy| own_age(copy, leads)),
        heard_ago: None,
        admitted: standing == Standing::Admitted,
        reason: match standing {
            Standing::Admitted => admitted_words(requirement, leads),
            standing => standing_words(standing, requirement),
        },
        chosen,
    }
}

fn peer_row(requirement: &Requirement, newest: Epoch, peer: &PeerView, verdict: &Verdict) -> RouteRow {
    let report = peer.report();
    let leads = report.is_some_and(|report| report.leads && report.epoch == newest);
    let standing = judge_peer(requirement, newest, peer);
    let admitted = matches!(standing, Standing::Admitted | Standing::LastResort);
    let chosen = matches!(verdict, Verdict::Redirect(redirect) if redirect.node == peer.node);
    let mut reason = match standing {
        Standing::Admitted => admitted_words(requirement, leads),
        standing => standing_words(standing, requirement),
    };
    if admitted && !chosen {
        reason.push_str(match verdict {
            Verdict::Here { .. } => "; this node answers first",
            Verdict::Wait { .. } => "; this node waits first",
            Verdict::Redirect(_) => "; another node ranks before it",
            Verdict::Refuse(_) => "; not asked",
        });
    }
    RouteRow {
        node: peer.node.clone(),
        role: report.map(|_| if leads { Role::Leader } else { Role::Follower }),
        epoch: report.map(|report| report.epoch),
        position: report.map(|report| report.position),
        copy_age: peer.copy_age_now(),
        heard_ago: peer.heard.as_ref().map(|heard| heard.ago),
        admitted,
        reason,
        chosen,
    }
}

fn admitted_words(requirement: &Requirement, leads: bool) -> String {
    match requirement.staleness {
        _ if requirement.needs_leader() => "leads".to_owned(),
        Some(_) if leads => "leads: level with itself".to_owned(),
        Some(bound) => format!("within {}", span(bound)),
        None if requirement.lowest_version().is_some() => "holds the version".to_owned(),
        None => "any copy will do".to_owned(),
    }
}

fn standing_words(standing: Standing, requirement: &Requirement) -> String {
    match standing {
        Standing::Admitted => admitted_words(requirement, false),
        Standing::LastResort if requirement.staleness.is_some() => {
            "leads: asked only because the session said staleness_fallback = 'leader'".to_owned()
        }
        Standing::LastResort => "leads: asked only if no follower can answer".to_owned(),
        Standing::Behind { at_least, newest } => format!("at version {newest}, waits for {at_least}"),
        Standing::NotHeard => "not heard from yet".to_owned(),
        Standing::NoCopy => "holds no copy of this range".to_owned(),
        Standing::NotLeader => "does not lead".to_owned(),
        Standing::OldEpoch { knows, newest } => format!("knows epoch {knows} only, and epoch {newest} has begun"),
        Standing::LeaderLeftOut => {
            "leads: a freshness read is never promoted to the leader; `ANSWERED BY LEADER` asks it".to_owned()
        }
        Standing::Unreachable => "its link is down".to_owned(),
        Standing::Draining => "draining: nothing new is placed there".to_owned(),
        Standing::Shedding => "refuses reads to catch up".to_owned(),
        Standing::VersionAhead { version, newest } => format!("at version {newest}, before {version}"),
        Standing::VersionGone { version, horizon } => {
            format!("version {version} is gone: versions before {horizon} are no longer kept")
        }
        Standing::AgeUnknown => "the age of its copy is not known, which is beyond every bound".to_owned(),
        Standing::TooOld { age, bound } => format!("its copy is up to {} old, beyond {}", span(age), span(bound)),
        Standing::NoAddress => "its declaration names no address a client can reach".to_owned(),
    }
}
