//! Small domains: every value that a rule can tell apart, and no more.

use std::time::Duration;

use candor_planner::{Access, Fallback, Heard, OwnCopy, PeerView, Requirement, View};
use candor_proto::{Chain, Epoch, LogIndex, Mode, PeerRole, Position, RangeId, RangeReport};

pub(crate) const AWARENESS: Duration = Duration::from_secs(1);
pub(crate) const BOUND: Duration = Duration::from_secs(5);

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn report(leads: bool, epoch: u64, index: u64, copy_age: Option<Duration>) -> RangeReport {
    RangeReport {
        range: "main".into(),
        range_id: RangeId(1),
        leads,
        epoch: Epoch(epoch),
        position: Position::new(Epoch(epoch), LogIndex(index)),
        chain: Chain(0),
        copy_age,
    }
}

pub(crate) fn peer(name: &str, report: Option<RangeReport>) -> PeerView {
    PeerView {
        node: name.into(),
        at: format!("{name}:7501"),
        clients_at: None,
        http_at: Some(format!("{name}:7401")),
        roles: vec![PeerRole::Readable],
        region: None,
        linked: true,
        heard: Some(Heard {
            ago: secs(1),
            report,
            draining: false,
            mode: Mode::Normal,
        }),
    }
}

/// What can be wrong with reaching a peer.
fn disturbances() -> [fn(&mut PeerView); 7] {
    fn heard(peer: &mut PeerView) -> &mut Heard {
        peer.heard.as_mut().expect("heard")
    }
    [
        |_| {},
        |peer| peer.linked = false,
        |peer| heard(peer).draining = true,
        |peer| heard(peer).mode = Mode::Shed,
        |peer| heard(peer).mode = Mode::Batching,
        |peer| peer.region = Some("near".to_owned()),
        |peer| (peer.at, peer.http_at) = ("0.0.0.0:7501".to_owned(), None),
    ]
}

fn unheard(name: &str) -> PeerView {
    PeerView {
        heard: None,
        ..peer(name, None)
    }
}

/// Every peer: what it says × what is wrong with it. Heard one second ago, so an age of four seconds is just within the
/// bound, and one of five is not.
pub(crate) fn peers(name: &str) -> Vec<PeerView> {
    let mut peers = vec![unheard(name), peer(name, None)];
    for leads in [false, true] {
        for epoch in [1, 2] {
            for index in [5, 9] {
                for age in [None, Some(secs(4)), Some(secs(5))] {
                    for disturb in disturbances() {
                        let mut one = peer(name, Some(report(leads, epoch, index, age)));
                        disturb(&mut one);
                        peers.push(one);
                    }
                }
            }
        }
    }
    peers
}

/// A dozen peers that differ in what ranking looks at.
pub(crate) fn few_peers(name: &str) -> Vec<PeerView> {
    let mut peers = vec![unheard(name), peer(name, None)];
    for (leads, epoch, index, age) in [
        (false, 2, 9, Some(0)),
        (false, 2, 9, Some(4)),
        (false, 2, 9, None),
        (false, 2, 5, Some(0)),
        (false, 1, 9, Some(0)),
        (false, 2, 9, Some(5)),
        (true, 2, 9, Some(0)),
        (true, 1, 9, Some(0)),
    ] {
        peers.push(peer(name, Some(report(leads, epoch, index, age.map(secs)))));
    }
    let near = |mut peer: PeerView| {
        peer.region = Some("near".to_owned());
        peer
    };
    peers.push(near(peer(name, Some(report(false, 2, 9, Some(secs(4)))))));
    peers.push(near(peer(name, Some(report(true, 2, 9, Some(secs(0)))))));
    peers
}

/// Every state of the own copy: none; leading or not, two epochs, ages around the bound, a horizon.
pub(crate) fn own_views() -> Vec<View> {
    let mut base = View::alone("n0", AWARENESS);
    base.own.region = Some("near".to_owned());
    let mut views = vec![base.clone()];
    for leads in [false, true] {
        for epoch in [1, 2] {
            for age in [None, Some(BOUND), Some(secs(6))] {
                for (horizon, index) in [(0, 5), (6, 9)] {
                    let mut view = base.clone();
                    view.own.known_epoch = Epoch(epoch);
                    view.own.copy = Some(OwnCopy {
                        leads,
                        position: Position::new(Epoch(epoch), LogIndex(index)),
                        horizon: LogIndex(horizon),
                        copy_age: age,
                    });
                    views.push(view);
                }
            }
        }
    }
    views
}

/// Every combination of clauses that the parser lets through.
pub(crate) fn requirements() -> Vec<Requirement> {
    let mut all = vec![Requirement::write("main")];
    for staleness in [None, Some(secs(1)), Some(secs(2)), Some(BOUND)] {
        for answered_by_leader in [false, true] {
            for (version, at_least) in [
                (None, None),
                (Some(5), None),
                (Some(7), None),
                (None, Some(5)),
                (None, Some(7)),
            ] {
                for fallback in [Fallback::Refuse, Fallback::Leader] {
                    if version.is_some() && staleness.is_some() {
                        continue;
                    }
                    all.push(Requirement {
                        range: "main".into(),
                        access: Access::Read,
                        staleness,
                        answered_by_leader,
                        version: version.map(LogIndex),
                        at_least: at_least.map(LogIndex),
                        fallback,
                    });
                }
            }
        }
    }
    all
}
