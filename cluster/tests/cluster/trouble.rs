//! Histories that do not belong together, and bytes that belong nowhere.

use std::fs;
use std::path::Path;

use candor_proto::Epoch;

use crate::support::{Fleet, assert_same, count, declare, define, eventually, insert, name, range, reaches, shutdown};

#[tokio::test(flavor = "multi_thread")]
async fn two_ranges_of_one_name_are_reported_and_never_mixed() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    define(&n2, "main").await;
    insert(&n1, "main", 0..10, 8).await;
    insert(&n2, "main", 0..3, 8).await;
    declare(&n1, "n2", n2.link_addr().expect("listens")).await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    for (node, other) in [(&n1, &n2), (&n2, &n1)] {
        eventually("the other range is reported", || !node.copies()[0].foreign.is_empty()).await;
        let row = node.copies().remove(0);
        let theirs = other.store(&range("main")).expect("held").id();
        assert_eq!(row.foreign, vec![(other.name().clone(), theirs)]);
        assert!(row.leads, "its own range is not in question");
        let view = node.view(&range("main"));
        assert!(
            view.peers[0].report().is_none(),
            "reports about another range are no reports"
        );
        assert_eq!(view.own.known_epoch, Epoch(1));
    }
    assert_eq!((count(&n1, "main"), count(&n2, "main")), (10, 3));
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s71_a_leader_that_lost_its_tail_is_followed_anew_and_the_lost_tail_is_kept_aside() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    let at = n1.link_addr().expect("listens");
    declare(&n2, "n1", at).await;
    let kept = insert(&n1, "main", 0..10, 8).await;
    reaches(&n2, "main", &kept).await;
    n1.shutdown().await;
    drop(n1);
    let backup = fleet.data("backup");
    copy_folder(&fleet.data("n1"), &backup);

    let n1 = fleet.start_at("n1", at).await;
    let lost = insert(&n1, "main", 10..20, 8).await;
    reaches(&n2, "main", &lost).await;
    n1.shutdown().await;
    drop(n1);
    // An old copy of the leader's disk comes back: the same epoch number again, with another history.
    fs::remove_dir_all(fleet.data("n1")).expect("remove");
    copy_folder(&backup, &fleet.data("n1"));
    let n1 = fleet.start_at("n1", at).await;
    let other = insert(&n1, "main", 100..103, 8).await;
    assert_eq!(other.position.epoch, lost.position.epoch);
    eventually("the copy is the leader's", || {
        n2.store(&range("main"))
            .is_some_and(|store| store.chain_at(other.position.index) == Some(other.chain))
    })
    .await;
    reaches(&n2, "main", &other).await;
    assert_eq!(count(&n2, "main"), 13);
    assert_same(&n1, &n2, "main");
    let aside: Vec<_> = fs::read_dir(fleet.data("n2").join("set-aside"))
        .expect("kept")
        .collect();
    assert_eq!(aside.len(), 1, "what n2 had is there for whoever wants to know");
    shutdown(&[&n1, &n2]).await;

    // And it stays so: the kept copy is not taken for a range.
    drop(n2);
    let n2 = fleet.start("n2").await;
    assert_eq!(n2.ranges(), vec![range("main")]);
    assert_eq!(n2.copies()[0].upstream, None);
    assert_eq!(n2.name(), &name("n2"));
    n2.shutdown().await;
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create");
    for entry in fs::read_dir(from).expect("list") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copy");
        }
    }
}
