//! A node alone: leadership, writes, restarts.

use candor_cluster::{ClusterConfig, ClusterError, Node, ProposeError};
use candor_proto::{Epoch, ErrorCode, LogIndex};
use candor_storage::{ApplyRefusal, Outcome, TableChange, Transaction};
use futures::future::join_all;

use crate::support::{ITEMS, alone, count, define, insert, insert_rows, name, range, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_node_holds_no_namespace_and_refuses_to_write() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    assert!(node.ranges().is_empty());
    assert_eq!(node.link_addr(), None);
    let error = node
        .propose(&range("main"), Transaction::default())
        .await
        .expect_err("no such namespace");
    assert_eq!(error.code(), ErrorCode::NotLeader);
    assert!(node.prove_leadership(&range("main")).await.is_err());
    assert!(node.view(&range("main")).own.copy.is_none());
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_defined_namespace_is_led_at_once_and_its_writes_are_visible_when_answered() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    define(&node, "main").await;
    let committed = insert(&node, "main", 0..10, 8).await;
    assert_eq!(committed.position.epoch, Epoch(1));
    assert_eq!(count(&node, "main"), 10);
    assert_eq!(node.prove_leadership(&range("main")).await, Ok(committed.position));
    let own = node.view(&range("main")).own;
    let copy = own.copy.expect("held");
    assert!(copy.leads);
    assert_eq!((own.known_epoch, copy.position), (Epoch(1), committed.position));
    assert_eq!(node.store(&range("main")).expect("held").applied().1, committed.chain);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s58_each_start_is_a_new_epoch_of_each_range_and_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().expect("tempdir");
    let mut chain = None;
    for start in 1..=4 {
        let node = alone(dir.path()).await;
        if start == 1 {
            define(&node, "a").await;
        }
        if start == 3 {
            define(&node, "b").await;
        }
        let store = node.store(&range("a")).expect("held");
        if let Some((position, before)) = chain {
            assert_eq!(store.chain_at(position), Some(before), "the history is continued");
        }
        let committed = insert(&node, "a", start * 10..start * 10 + 5, 8).await;
        assert_eq!(committed.position.epoch, Epoch(start as u64));
        assert_eq!(count(&node, "a"), start as usize * 5);
        chain = Some((committed.position.index, committed.chain));
        node.shutdown().await;
    }
    let node = alone(dir.path()).await;
    assert_eq!(node.prove_leadership(&range("b")).await.expect("led").epoch, Epoch(3));
    assert_eq!(node.prove_leadership(&range("a")).await.expect("led").epoch, Epoch(5));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_at_once_each_get_their_own_version() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    define(&node, "main").await;
    let writes = (0..500).map(|id| insert(&node, "main", id..id + 1, 8));
    let mut versions: Vec<LogIndex> = join_all(writes).await.iter().map(|done| done.position.index).collect();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 500);
    assert_eq!(count(&node, "main"), 500);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_writer_of_a_row_is_refused_as_an_outcome() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    define(&node, "main").await;
    let snapshot = insert(&node, "main", 1..2, 8).await.position.index;
    let update = || Transaction {
        snapshot,
        changes: vec![TableChange {
            collection: ITEMS,
            ended: Some(rows(1..2, 8).project(&[0]).expect("key")),
            begun: Some(rows(1..2, 9)),
        }],
        ..Transaction::default()
    };
    let first = node.propose(&range("main"), update()).await.expect("proposes");
    assert_eq!(first.outcome, Outcome::Applied { ended: 1, begun: 1 });
    let second = node.propose(&range("main"), update()).await.expect("proposes");
    assert!(
        matches!(second.outcome, Outcome::Refused(ApplyRefusal::Conflict { .. })),
        "{second:?}"
    );
    assert_eq!(
        second.position.index,
        first.position.index.next(),
        "refused, and in the log"
    );
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_transaction_stands_in_the_log_in_pieces_and_takes_effect_as_one() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    define(&node, "main").await;
    let before = node.store(&range("main")).expect("held").applied().0.index;
    let committed = insert(&node, "main", 0..5000, 1000).await;
    assert!(
        committed.position.index.0 > before.0 + 4,
        "five megabytes are not one entry"
    );
    let store = node.store(&range("main")).expect("held");
    let entries = store.read(before, committed.position.index, usize::MAX).expect("reads");
    assert!(entries.iter().all(|entry| entry.payload.len() <= 1 << 20));
    assert_eq!(count(&node, "main"), 5000);
    let between = LogIndex(committed.position.index.0 - 1);
    let half_way = store.snapshot(Some(between)).expect("a version");
    assert_eq!(
        half_way.table(ITEMS).expect("the table").row_count(),
        0,
        "pieces alone are not visible"
    );
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_namespace_is_gone_for_good_and_its_name_is_free() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    define(&node, "main").await;
    insert(&node, "main", 0..10, 8).await;
    let id = node.store(&range("main")).expect("held").id();
    node.remove_range(&range("main")).await.expect("removes");
    assert!(node.remove_range(&range("main")).await.is_err());
    assert!(node.remove_range(&range("system")).await.is_err());
    assert!(node.ranges().is_empty());
    define(&node, "main").await;
    assert_ne!(node.store(&range("main")).expect("held").id(), id);
    assert_eq!(count(&node, "main"), 0);
    node.remove_range(&range("main")).await.expect("removes");
    node.shutdown().await;
    let node = alone(dir.path()).await;
    assert!(node.ranges().is_empty());
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_cannot_be_are_refused_and_odd_ones_are_kept() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    for bad in ["", "system", "a\nb", &"n".repeat(64)] {
        let error = node.define_range(range(bad)).await.expect_err("refused");
        assert!(matches!(error, ProposeError::Name(_)), "{bad:?}: {error}");
    }
    for odd in ["..", "a/b", "Main", "main"] {
        node.define_range(range(odd)).await.expect("defines");
    }
    let error = node.define_range(range("main")).await.expect_err("twice");
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    node.shutdown().await;
    let node = alone(dir.path()).await;
    assert_eq!(node.ranges(), ["..", "Main", "a/b", "main"].map(range));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_serves_one_process_and_one_node() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    let cfg = ClusterConfig::new(name("n1"), dir.path());
    assert!(matches!(Node::start(cfg.clone()).await, Err(ClusterError::InUse(_))));
    node.shutdown().await;
    drop(node);
    let other = ClusterConfig::new(name("n2"), dir.path());
    let error = Node::start(other).await.expect_err("belongs to n1");
    assert!(error.to_string().ends_with("belongs to node n1, not to n2"), "{error}");
    let again = Node::start(cfg).await.expect("the lock went with the node");
    again.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_answers_what_it_took_and_refuses_what_comes_after() {
    let dir = tempfile::tempdir().expect("tempdir");
    let node = alone(dir.path()).await;
    define(&node, "main").await;
    let snapshot = node.store(&range("main")).expect("held").applied().0.index;
    let main = range("main");
    let writes = (0..100).map(|id| node.propose(&main, insert_rows(snapshot, rows(id..id + 1, 8))));
    let (answers, ()) = tokio::join!(join_all(writes), node.shutdown());
    let acknowledged = answers.iter().filter(|answer| answer.is_ok()).count();
    let late = node
        .propose(&range("main"), Transaction::default())
        .await
        .expect_err("stopped");
    assert_eq!(late.code(), ErrorCode::OutcomeUnknown);
    assert!(node.define_range(range("late")).await.is_err());
    drop(node);
    let node = alone(dir.path()).await;
    assert!(count(&node, "main") >= acknowledged, "{acknowledged} were acknowledged");
    node.shutdown().await;
}
