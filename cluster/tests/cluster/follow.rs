//! Leaders and those who collect from them.

use std::time::Duration;

use candor_proto::{Epoch, ErrorCode, LogIndex, RangeName};
use candor_storage::Transaction;

use crate::support::{
    AWARENESS, Fleet, assert_same, count, declare, define, eventually, insert, name, range, reaches, shutdown,
};

#[tokio::test(flavor = "multi_thread")]
async fn s61_s62_commits_reach_followers_that_the_leader_never_heard_of() {
    let fleet = Fleet::new(&["n1", "n2", "n3"]);
    let (n1, n2, n3) = (
        fleet.start("n1").await,
        fleet.start("n2").await,
        fleet.start("n3").await,
    );
    define(&n1, "main").await;
    let at = n1.link_addr().expect("listens");
    // Only the followers declare: the leader has nobody to dial.
    declare(&n2, "n1", at).await;
    declare(&n3, "n1", at).await;
    let first = insert(&n1, "main", 0..10, 8).await;
    for follower in [&n2, &n3] {
        reaches(follower, "main", &first).await;
        assert_eq!(count(follower, "main"), 10);
        assert_same(&n1, follower, "main");
        assert_eq!(follower.upstream(&range("main")), Some(name("n1")));
    }
    for id in 10..60 {
        let pushed = insert(&n1, "main", id..id + 1, 8).await;
        reaches(&n2, "main", &pushed).await;
    }
    eventually("both stand at the tail", || {
        let tail = n1.store(&range("main")).expect("held").applied().0;
        let rows = n1.followers(&range("main"));
        rows.len() == 2
            && rows
                .iter()
                .all(|row| row.position == tail && row.behind_entries == 0 && row.behind_bytes == 0)
    })
    .await;
    assert!(n1.peers().is_empty(), "followers are not peers");
    shutdown(&[&n1, &n2, &n3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s60_a_silent_peer_is_declared_and_no_follower() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    declare(&n1, "n2", n2.link_addr().expect("listens")).await;
    eventually("n2 is heard", || {
        n1.peers().iter().any(|peer| peer.linked && peer.state.is_some())
    })
    .await;
    assert!(n1.followers(&range("main")).is_empty());
    let peer = &n1.view(&range("main")).peers[0];
    assert_eq!(
        (peer.node.clone(), peer.http_at.as_deref()),
        (name("n2"), Some("n2.example:80"))
    );
    assert!(peer.heard.as_ref().is_some_and(|heard| heard.report.is_none()));
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s65_an_idle_level_copy_stays_fresh_on_both_sides() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    let age = || n2.view(&range("main")).own.copy.and_then(|copy| copy.copy_age);
    let row_age = || n1.followers(&range("main")).first().and_then(|row| row.copy_age);
    // Nothing is written; ages fall again and again, which only echoes and dates can do. A copy at rest would only age.
    for _ in 0..5 {
        for measure in [&age as &dyn Fn() -> Option<Duration>, &row_age] {
            let mut before = None;
            eventually("the age fell", || {
                let (earlier, now) = (before, measure());
                before = now;
                earlier.is_some_and(|earlier| now.is_some_and(|now| now < earlier))
            })
            .await;
        }
    }
    assert_eq!(
        n1.view(&range("main")).own.copy.and_then(|copy| copy.copy_age),
        Some(Duration::ZERO)
    );
    let row = n1.followers(&range("main")).remove(0);
    assert!(
        row.quiet_for < 20 * AWARENESS,
        "an ask that brings nothing counts: {row:?}"
    );
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s58_s72_a_restarted_leader_opens_a_new_epoch_and_followers_converge() {
    let fleet = Fleet::new(&["n1", "n2", "n3"]);
    let (mut n1, n2, n3) = (
        fleet.start("n1").await,
        fleet.start("n2").await,
        fleet.start("n3").await,
    );
    define(&n1, "main").await;
    let at = n1.link_addr().expect("listens");
    declare(&n2, "n1", at).await;
    declare(&n3, "n1", at).await;
    for start in 1..=3u64 {
        let written = insert(&n1, "main", start as i64 * 100..start as i64 * 100 + 10, 8).await;
        assert_eq!(written.position.epoch, Epoch(start));
        for follower in [&n2, &n3] {
            reaches(follower, "main", &written).await;
            assert_eq!(count(follower, "main"), start as usize * 10);
        }
        n1.shutdown().await;
        drop(n1);
        n1 = fleet.start_at("n1", at).await;
        assert!(
            n1.followers(&range("main"))
                .iter()
                .all(|row| row.position.epoch <= Epoch(start))
        );
    }
    let tail = n1.prove_leadership(&range("main")).await.expect("leads");
    assert_eq!(tail.epoch, Epoch(4));
    for follower in [&n2, &n3] {
        assert!(
            follower
                .wait_applied(&range("main"), tail.index, crate::support::DEADLINE)
                .await
        );
        assert_same(&n1, follower, "main");
    }
    eventually("the new epoch is known", || {
        n2.view(&range("main")).own.known_epoch == Epoch(4)
    })
    .await;
    shutdown(&[&n1, &n2, &n3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s56_s57_s59_two_nodes_lead_a_namespace_each_and_refuse_the_others_writes() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "a").await;
    define(&n2, "b").await;
    declare(&n1, "n2", n2.link_addr().expect("listens")).await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    let (in_a, in_b) = (insert(&n1, "a", 0..5, 8).await, insert(&n2, "b", 0..7, 8).await);
    reaches(&n2, "a", &in_a).await;
    reaches(&n1, "b", &in_b).await;
    assert_eq!((count(&n2, "a"), count(&n1, "b")), (5, 7));
    for (node, namespace, leader) in [(&n1, "b", "n2"), (&n2, "a", "n1")] {
        let error = node
            .propose(&range(namespace), Transaction::default())
            .await
            .expect_err("not the leader");
        assert_eq!(error.code(), ErrorCode::NotLeader);
        assert!(node.prove_leadership(&range(namespace)).await.is_err());
        let view = node.view(&range(namespace));
        assert!(view.own.copy.is_some_and(|copy| !copy.leads));
        assert!(view.peers.iter().any(|peer| {
            peer.node == name(leader)
                && peer
                    .report()
                    .is_some_and(|report| report.leads && report.epoch == Epoch(1))
        }));
        assert!(node.remove_range(&range(namespace)).await.is_err());
        let error = node.define_range(range(namespace)).await.expect_err("it exists");
        assert_eq!(error.code(), ErrorCode::AlreadyExists);
    }
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s75_a_follower_far_behind_catches_up_and_says_so_when_it_is_level() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    let mut last = insert(&n1, "main", 0..100, 8).await;
    for block in 1..=12 {
        last = insert(&n1, "main", block * 1000..block * 1000 + 1000, 1000).await;
    }
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    reaches(&n2, "main", &last).await;
    assert_eq!(count(&n2, "main"), 12_100);
    assert_same(&n1, &n2, "main");
    eventually("the copy is proved fresh", || {
        n2.view(&range("main"))
            .own
            .copy
            .is_some_and(|copy| copy.copy_age.is_some())
    })
    .await;
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_follower_goes_on_where_it_was_and_has_no_age_before_the_leader_confirms() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    let at = n1.link_addr().expect("listens");
    declare(&n2, "n1", at).await;
    let first = insert(&n1, "main", 0..10, 8).await;
    reaches(&n2, "main", &first).await;
    n2.shutdown().await;
    drop(n2);
    n1.shutdown().await;
    drop(n1);
    // The follower alone: it serves what it holds and cannot say how old that is.
    let n2 = fleet.start("n2").await;
    let copy = n2.view(&range("main")).own.copy.expect("held");
    assert_eq!(
        (copy.position, copy.copy_age, copy.leads),
        (first.position, None, false)
    );
    assert_eq!((count(&n2, "main"), n2.upstream(&range("main"))), (10, None));
    let n1 = fleet.start_at("n1", at).await;
    let second = insert(&n1, "main", 10..20, 8).await;
    reaches(&n2, "main", &second).await;
    assert_same(&n1, &n2, "main");
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn system_is_each_nodes_own() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    eventually("n1 is heard", || n2.store(&range("main")).is_some()).await;
    assert_ne!(n1.system().id(), n2.system().id());
    let heard = n2.peers().remove(0).state.expect("heard");
    assert!(heard.range(&RangeName::system()).is_none());
    assert_eq!(
        n2.system().snapshot(None).expect("newest").catalog().replicas().count(),
        1
    );
    assert_eq!(n1.system().applied().0.index, LogIndex(1));
    shutdown(&[&n1, &n2]).await;
}
