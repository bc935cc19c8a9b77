//! What the clauses mean, on a node alone and in a cluster.

use std::time::Duration;

use crate::harness::{AWARENESS, Cluster, Single, eventually};

/// The seed's four collections.
const SEED: &str =
    "DEFINE COLLECTION orders; DEFINE COLLECTION events; DEFINE COLLECTION accounts; DEFINE COLLECTION prices;";

#[tokio::test(flavor = "multi_thread")]
async fn s01_s03_s05_the_seeds_reads_answer_on_an_empty_node() {
    let node = Single::start().await;
    let made = node.ask(SEED).await;
    assert_eq!(made.status, 200, "{made:?}");
    for sql in [
        "SELECT * FROM orders STALENESS 30s",
        "SELECT * FROM events WHERE at > 0 STALENESS 5m",
        "SELECT * FROM accounts WHERE id = 1 ANSWERED BY LEADER",
        "SELECT * FROM prices ANSWERED BY ANY",
        "SELECT * FROM accounts WHERE id = 1 STALENESS 30s ANSWERED BY LEADER",
    ] {
        let answer = node.ask(sql).await;
        assert_eq!(answer.rows(0), &serde_json::json!([]), "{sql}");
        assert_eq!(answer.receipt(0)["node"], "n1");
        assert_eq!(answer.receipt(0)["role"], "leader");
        assert_eq!(answer.receipt(0)["copy_age_ms"], 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_s07_the_floor_is_named_and_follows_the_interval() {
    for interval in [Duration::from_millis(250), Duration::from_millis(1500)] {
        let node = Single::start_with(|config| config.awareness = interval).await;
        node.ask(SEED).await;
        let below = format!("SELECT * FROM orders STALENESS {}ms", 2 * interval.as_millis() - 1);
        let refused = node.ask(&below).await;
        assert_eq!((refused.status, refused.code()), (400, "below-floor"), "{refused:?}");
        assert_eq!(refused.body["floor_ms"].as_u64(), Some(2 * interval.as_millis() as u64));
        assert!(refused.pointed_at(&below).starts_with("STALENESS"), "{refused:?}");
        let at = format!("SELECT * FROM orders STALENESS {}ms", 2 * interval.as_millis());
        assert_eq!(node.ask(&at).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s08_s09_s10_s14_what_is_wrong_in_itself_is_refused_where_it_is_read() {
    let node = Single::start().await;
    node.ask(SEED).await;
    for (sql, word) in [
        ("SELECT * FROM orders STALENESS 0s", "0s"),
        ("EXPLAIN SELECT * FROM orders STALENESS 0s", "0s"),
        ("SELECT * FROM orders STALENESS -5s", "-5s"),
        ("SELECT * FROM orders STALENESS 30s VERSION 3", "STALENESS"),
        ("SELECT * FROM orders VERSION 3 STALENESS 30s", "STALENESS"),
        ("SELECT * FROM orders ANSWERED BY MASTER", "MASTER"),
        ("SELECT * FROM orders ANSWERED BY FOLLOWER", "FOLLOWER"),
        ("SELECT * FROM orders ANSWERED BY leaderr", "leaderr"),
    ] {
        let refused = node.ask(sql).await;
        assert_eq!(refused.status, 400, "{sql}: {refused:?}");
        assert!(refused.error().contains(word), "{sql}: {}", refused.error());
        assert!(refused.body["span"]["length"].as_u64() > Some(0), "{sql}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_s23_no_word_is_reserved() {
    let node = Single::start().await;
    let script = "CREATE TABLE readings (id INT PRIMARY KEY, staleness INT, answered TEXT, version INT, leader TEXT);
        INSERT INTO readings VALUES (1, 7, 'yes', 3, 'n1');
        SELECT staleness FROM readings;
        SELECT answered FROM readings;
        SELECT r.version, leader FROM readings AS r;
        SELECT staleness STALENESS FROM readings STALENESS 5m;
        SELECT 1 AS answered;
        SELECT staleness FROM readings staleness STALENESS 5m;";
    let answer = node.ask(script).await;
    assert_eq!(answer.rows(2), &serde_json::json!([[7]]));
    assert_eq!(answer.rows(3), &serde_json::json!([["yes"]]));
    assert_eq!(answer.rows(4), &serde_json::json!([[3, "n1"]]));
    assert_eq!(answer.rows(5), &serde_json::json!([[7]]));
    assert_eq!(answer.rows(7), &serde_json::json!([[7]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_s13_s15_s16_s17_a_level_follower_is_not_the_leader() {
    let cluster = Cluster::start(3).await;
    let version = cluster
        .write("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await;
    cluster.wait_level(1).await;
    let at_least = format!("SELECT * FROM t AT LEAST VERSION {version}");
    assert_eq!(cluster.ask(1, &at_least).await.receipt(0)["node"], "n2");
    // ANY is what saying nothing means.
    for sql in ["SELECT * FROM t", "SELECT * FROM t ANSWERED BY ANY"] {
        assert_eq!(cluster.ask(1, sql).await.receipt(0)["role"], "follower", "{sql}");
    }
    // Level, not authoritative: with and without a bound, in both orders.
    for sql in [
        "SELECT * FROM t ANSWERED BY LEADER",
        "SELECT * FROM t STALENESS 30s ANSWERED BY LEADER",
        "SELECT * FROM t ANSWERED BY LEADER STALENESS 30s",
    ] {
        let redirect = cluster.ask(1, sql).await;
        assert_eq!(redirect.status, 307, "{sql}: {redirect:?}");
        assert_eq!(redirect.body["redirect"]["node"], "n1");
        let here = cluster.ask(0, sql).await;
        assert_eq!(
            (&here.receipt(0)["node"], &here.receipt(0)["role"]),
            (&"n1".into(), &"leader".into()),
            "{sql}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s04_a_read_that_no_follower_can_answer_is_refused_and_never_promoted() {
    let mut cluster = Cluster::start(3).await;
    cluster
        .write("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await;
    cluster.wait_level(1).await;
    // Without the leader the copies of both followers grow older together.
    cluster.stop(0).await;
    let bound = 4 * AWARENESS;
    let sql = format!("SELECT * FROM t STALENESS {}ms", bound.as_millis());
    let refused = eventually("a refusal", || async {
        let answer = cluster.ask(1, &sql).await;
        match answer.status {
            200 => {
                let age = answer.receipt(0)["copy_age_ms"].as_u64().expect("an age");
                assert!(
                    u128::from(age) <= bound.as_millis(),
                    "answered beyond its bound: {answer:?}"
                );
                None
            }
            // The other follower may be the fresher one for a moment.
            307 => {
                assert_eq!(answer.body["redirect"]["node"], "n3", "{answer:?}");
                None
            }
            _ => Some(answer),
        }
    })
    .await;
    assert_eq!(
        (refused.status, refused.code()),
        (412, "staleness-unmet"),
        "{refused:?}"
    );
    assert_eq!(refused.body["bound_ms"].as_u64(), Some(bound.as_millis() as u64));
    assert_eq!(
        refused.body["floor_ms"].as_u64(),
        Some(2 * AWARENESS.as_millis() as u64)
    );
    assert!(
        refused.body["best_age_ms"].as_u64() > Some(bound.as_millis() as u64),
        "{refused:?}"
    );
    assert!(
        refused.body.get("results").is_none(),
        "no rows beside a refusal: {refused:?}"
    );
    assert!(refused.pointed_at(&sql).starts_with("STALENESS"));
    // The leader comes back: the same read is answered again, by a follower.
    cluster.start_again(0).await;
    let answered = eventually("an answer", || async {
        let answer = cluster.ask(1, &sql).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(answered.receipt(0)["role"], "follower");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_may_say_openly_that_the_leader_may_step_in() {
    let cluster = Cluster::start(1).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let answer = cluster
        .ask(
            0,
            "SET staleness = '30s'; SET staleness_fallback = 'leader'; SELECT * FROM t; SHOW staleness",
        )
        .await;
    assert_eq!(answer.receipt(2)["bound_ms"], 30_000);
    assert_eq!(answer.rows(3), &serde_json::json!([["30s"]]));
    let refused = cluster.ask(0, "SET work_mem = '4MB'").await;
    assert_eq!(refused.code(), "bad-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn version_reads_one_exact_point_and_says_what_is_not_there() {
    let node = Single::start().await;
    let first = node
        .ask("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)")
        .await;
    let version = first.receipt(1)["version"].as_u64().expect("a version");
    node.ask("UPDATE t SET v = 20 WHERE id = 1").await;
    let then = node.ask(&format!("SELECT v FROM t VERSION {version}")).await;
    assert_eq!(then.rows(0), &serde_json::json!([[10]]));
    assert_eq!(then.receipt(0)["version"].as_u64(), Some(version));
    assert_eq!(node.ask("SELECT v FROM t").await.rows(0), &serde_json::json!([[20]]));
    let ahead = node.ask("SELECT v FROM t VERSION 4000").await;
    assert_eq!(ahead.code(), "version-ahead");
    assert_eq!(ahead.body["newest"].as_u64(), Some(version + 1), "{ahead:?}");
    let late = node.ask("SELECT v FROM t AT LEAST VERSION 4000 WAIT 50ms").await;
    assert_eq!(late.code(), "version-ahead", "waiting ends in the refusal: {late:?}");
}
