//! Two nodes that each lead a namespace: one's end is no matter of the other's.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Cluster, Door, eventually};

const AWARENESS: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread")]
async fn s56_s57_s58_s59_a_namespace_goes_on_when_the_leader_of_another_is_killed() {
    let mut cluster = Cluster::strangers(2, AWARENESS, &[]).await;
    cluster.declare(0, 1, cluster.link(1)).await;
    cluster.declare(1, 0, cluster.link(0)).await;
    for (node, namespace) in [(0, "a"), (1, "b")] {
        let define =
            format!("DEFINE NAMESPACE {namespace}; USE NAMESPACE {namespace}; DEFINE DATABASE main; USE DATABASE main");
        cluster
            .door(node)
            .plain()
            .run(&format!("{define}; CREATE TABLE t (id BIGINT PRIMARY KEY)"))
            .await;
    }
    cluster.wait_level("a", 0, 1).await;
    cluster.wait_level("b", 1, 0).await;
    let door = |node: usize, namespace: &str| cluster.door(node).selecting(namespace, "main");
    let (a, b, a_at_n2, b_at_n1) = (door(0, "a"), door(1, "b"), door(1, "a"), door(0, "b"));
    for id in 0..20 {
        a.run(&format!("INSERT INTO t VALUES ({id})")).await;
        b.run(&format!("INSERT INTO t VALUES ({id})")).await;
    }
    cluster.wait_level("a", 0, 1).await;
    let epochs = [epoch(&cluster, 0, "a").await, epoch(&cluster, 1, "b").await];

    cluster.nodes[0].kill();
    // S56: nothing stops for b, not even for as long as a lease or an election would take.
    for id in 20..220 {
        b.run(&format!("INSERT INTO t VALUES ({id})")).await;
    }
    assert_eq!(
        b.ask("SELECT count(*) FROM t ANSWERED BY LEADER").await.rows(0),
        [json!([220])]
    );
    // S57: nothing to fail over; a's writes are n1's, and what n2 holds of a can be read.
    assert_eq!(leader_named(&a_at_n2).await, "n1", "S57");
    assert_eq!(a_at_n2.ask("SELECT count(*) FROM t").await.rows(0), [json!([20])]);
    eventually("a copy that is beyond the bound", async || {
        let read = a_at_n2.ask("SELECT count(*) FROM t STALENESS 1s").await;
        assert!(matches!(read.status, 200 | 412), "{read:?}");
        (read.status == 412).then_some(())
    })
    .await;
    // S59: n2 may write, and may not write here.
    let info = cluster.info(1).await;
    let leads = |namespace: &str| {
        info["ranges"]
            .as_array()
            .expect("ranges")
            .iter()
            .find(|doc| doc["range"] == namespace)
            .map(|doc| &doc["leads"])
    };
    assert_eq!(
        (&info["may_write"], leads("a"), leads("b")),
        (&json!(true), Some(&json!(false)), Some(&json!(true))),
        "S59"
    );

    cluster.nodes[0].start_again().await;
    eventually("n1's leadership of a", async || {
        (a.ask("INSERT INTO t VALUES (20)").await.status == 200).then_some(())
    })
    .await;
    cluster.wait_level("a", 0, 1).await;
    cluster.wait_level("b", 1, 0).await;
    assert_eq!(
        a_at_n2.ask("SELECT count(*) FROM t STALENESS 5s").await.rows(0),
        [json!([21])]
    );
    assert_eq!(
        b_at_n1.ask("SELECT count(*) FROM t STALENESS 5s").await.rows(0),
        [json!([220])]
    );
    assert_eq!(leader_named(&b_at_n1).await, "n2", "S57");
    // S58: a restart is a new leadership of a, and of nothing else.
    let after = [epoch(&cluster, 0, "a").await, epoch(&cluster, 1, "b").await];
    assert!(
        after[0] > epochs[0] && after[1] == epochs[1],
        "S58: {epochs:?} became {after:?}"
    );
}

async fn epoch(cluster: &Cluster, node: usize, range: &str) -> u64 {
    let doc = cluster.range(node, range).await.expect("held");
    doc["epoch"].as_u64().expect("an epoch")
}

/// Whom a write is redirected to.
async fn leader_named(door: &Door) -> String {
    let redirect = door.ask("INSERT INTO t VALUES (-1)").await;
    assert_eq!(redirect.status, 307, "{redirect:?}");
    redirect.body["redirect"]["node"].as_str().expect("a node").to_owned()
}
