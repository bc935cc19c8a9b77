//! Every small case against the naive model, and the promises that hold in all of them.

use candor_planner::{Fallback, Requirement, Verdict, View, admit, explain, recheck};
use candor_proto::Redirect;

use crate::domain::{few_peers, own_views, peers, requirements};
use crate::model::{expected, said};

/// S04, S05, S06, S13, S15, S16, S17, S18, S19, S20, S45, S54, S58, S68: own copy × one peer in every state × every clause.
#[test]
fn s04_the_verdict_is_that_of_the_naive_model_with_one_peer() {
    let (requirements, peers) = (requirements(), peers("n1"));
    for mut view in own_views() {
        for peer in &peers {
            view.peers = vec![peer.clone()];
            for requirement in &requirements {
                check(requirement, &view);
                check_rows(requirement, &view);
            }
        }
    }
}

/// The same, and the ranking, with two peers in the states that ranking looks at.
#[test]
fn s04_the_verdict_is_that_of_the_naive_model_with_two_peers() {
    let (requirements, first, second) = (requirements(), few_peers("n2"), few_peers("n1"));
    for mut view in own_views() {
        for one in &first {
            for other in &second {
                view.peers = vec![one.clone(), other.clone()];
                for requirement in &requirements {
                    check(requirement, &view);
                }
            }
        }
    }
}

#[test]
fn s05_a_node_without_peers_follows_the_naive_model_too() {
    for view in own_views() {
        for requirement in &requirements() {
            check(requirement, &view);
            check_rows(requirement, &view);
        }
    }
}

fn check(requirement: &Requirement, view: &View) {
    let verdict = admit(requirement, view);
    assert_eq!(
        said(&verdict),
        expected(requirement, view),
        "{requirement:?}\n{view:#?}"
    );
    check_promises(requirement, view, &verdict);
    // The second look, when the snapshot is taken, agrees with the first while nothing has changed.
    assert_eq!(
        recheck(requirement, view).is_ok(),
        matches!(verdict, Verdict::Here { .. }),
        "{requirement:?}\n{view:#?}"
    );
}

/// What no verdict may ever break, said without the model.
fn check_promises(requirement: &Requirement, view: &View, verdict: &Verdict) {
    let to = match verdict {
        Verdict::Redirect(to) => to,
        Verdict::Wait { otherwise, .. } => {
            assert!(!matches!(**otherwise, Verdict::Here { .. } | Verdict::Wait { .. }));
            check_promises(requirement, view, otherwise);
            return;
        }
        Verdict::Here { .. } | Verdict::Refuse(_) => return,
    };
    let Redirect { node, epoch, .. } = to;
    let peer = view
        .peers
        .iter()
        .find(|peer| peer.node == *node)
        .expect("a redirect names a peer");
    let report = peer.report().expect("a redirect names a node with a copy");
    assert_eq!(
        *epoch,
        view.newest_epoch(),
        "S54: a redirect names the newest epoch that this node knows"
    );
    assert_eq!(report.epoch, *epoch, "S19: and that is the one the peer published");
    if requirement.needs_leader() {
        assert!(report.leads, "S18: a node that did not prove its leadership was named");
    } else if let Some(bound) = requirement.staleness {
        let fresh = peer.copy_age_now().is_some_and(|age| age <= bound);
        assert!(fresh || report.leads, "S68: an age beyond the bound was admitted");
        assert!(
            !report.leads || requirement.fallback == Fallback::Leader,
            "S04: the leader was named unasked"
        );
    }
}

/// `EXPLAIN (ROUTE)`: every node has a row and a reason; the chosen one is the verdict's, and it is admitted.
fn check_rows(requirement: &Requirement, view: &View) {
    let verdict = admit(requirement, view);
    let rows = explain(requirement, view);
    assert_eq!(rows.len(), view.peers.len() + 1);
    assert!(rows.iter().all(|row| !row.reason.is_empty()));
    let chosen: Vec<_> = rows.iter().filter(|row| row.chosen).collect();
    match verdict {
        Verdict::Here { .. } => assert!(chosen.len() == 1 && chosen[0].admitted && chosen[0].node == view.own.node),
        Verdict::Redirect(to) => assert!(chosen.len() == 1 && chosen[0].admitted && chosen[0].node == to.node),
        Verdict::Wait { .. } => assert!(chosen.len() == 1 && chosen[0].node == view.own.node),
        Verdict::Refuse(_) => {
            assert!(chosen.is_empty() && rows.iter().all(|row| !row.admitted || row.heard_ago.is_some()));
        }
    }
}
