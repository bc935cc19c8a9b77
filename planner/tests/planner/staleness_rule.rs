//! The rule of the public max-staleness specification of `MongoDB` for a replica set with a primary, as a cross-check: a secondary is
//! eligible when its lag plus one heartbeat interval is within the bound, and the primary is not picked for it.

use candor_planner::{Requirement, Verdict, View, admit, explain};

use crate::domain::{AWARENESS, peer, report, secs};

/// S04, S66: `copy_age + awareness_interval ≤ bound` for peers that were heard one interval ago.
#[test]
fn s04_admission_agrees_with_the_max_staleness_rule() {
    for bound in 2..12 {
        for (lag_a, lag_b) in (0..12).flat_map(|a| (0..12).map(move |b| (a, b))) {
            let mut view = View::alone("n0", AWARENESS);
            let leader = peer("n1", Some(report(true, 1, 9, Some(secs(0)))));
            let follower = |name, lag| peer(name, Some(report(false, 1, 9, Some(secs(lag)))));
            view.peers = vec![leader, follower("n2", lag_a), follower("n3", lag_b)];
            let read = Requirement::read("main").within(secs(bound));

            let eligible = |lag: u64| secs(lag) + AWARENESS <= secs(bound);
            let admitted = |name: &str| {
                explain(&read, &view)
                    .iter()
                    .any(|row| row.node.as_str() == name && row.admitted)
            };
            assert_eq!(admitted("n2"), eligible(lag_a), "lag {lag_a}, bound {bound}");
            assert_eq!(admitted("n3"), eligible(lag_b), "lag {lag_b}, bound {bound}");
            assert!(!admitted("n1"), "S04: no freshness read is promoted to the leader");

            let nearest = if lag_b < lag_a { ("n3", lag_b) } else { ("n2", lag_a) };
            match admit(&read, &view) {
                Verdict::Redirect(to) => assert_eq!((to.node.as_str(), eligible(nearest.1)), (nearest.0, true)),
                Verdict::Refuse(refusal) => {
                    assert!(!eligible(nearest.1));
                    let body = refusal.to_body();
                    assert_eq!(body.facts["best_age_ms"], (nearest.1 + 1) * 1000);
                    assert_eq!(body.facts["best_node"], nearest.0);
                    assert_eq!(
                        (&body.facts["floor_ms"], &body.facts["leader"]),
                        (&2000.into(), &"n1".into())
                    );
                    assert!(body.error.contains("ANSWERED BY LEADER"), "{}", body.error);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// S06, S07: the floor is twice the awareness interval, whatever that is, and the refusal names it.
#[test]
fn s07_the_floor_follows_the_awareness_interval() {
    for interval in [secs(1), secs(3), std::time::Duration::from_millis(50)] {
        let view = View::alone("n0", interval);
        let tight =
            Requirement::read("main").within((interval * 2).saturating_sub(std::time::Duration::from_millis(1)));
        let Verdict::Refuse(refusal) = admit(&tight, &view) else {
            panic!("below the floor")
        };
        let body = refusal.to_body();
        assert_eq!(
            body.facts["floor_ms"].as_u64().map(u128::from),
            Some((interval * 2).as_millis())
        );
        assert!(
            body.error
                .contains(&format!("the floor is {}", candor_planner::span(interval * 2))),
            "{}",
            body.error
        );
        let enough = Requirement::read("main").within(interval * 2);
        assert!(!admit(&enough, &view).summary(&"n0".into()).contains("floor is"));
    }
}
