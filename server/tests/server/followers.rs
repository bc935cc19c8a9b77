//! What the leader knows about those that collect from it, and how old copies are.

use std::time::{Duration, Instant};

use candor_proto::RangeName;
use serde_json::{Value, json};

use crate::harness::{AWARENESS, Cluster, eventually};

async fn follower(cluster: &Cluster, name: &str) -> Option<Value> {
    let info = cluster.info(0).await;
    let rows = info["cluster"]["followers"].as_array().expect("a list").clone();
    rows.into_iter().find(|row| row["node"] == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn s60_s77_a_declared_peer_that_never_collected_is_no_follower() {
    let cluster = Cluster::start(2).await;
    let declared = cluster
        .ask_plain(0, "DEFINE REPLICA n9 AT '127.0.0.1:9' CLIENTS AT '127.0.0.1:10' HTTP AT '127.0.0.1:11' ROLES coordinating, writable REGION 'eu'")
        .await;
    assert_eq!(declared.status, 200, "{declared:?}");
    eventually("n2 among the followers", || follower(&cluster, "n2")).await;
    let info = cluster.info(0).await;
    let names = |list: &str, key: &str| -> Vec<String> {
        let rows = info["cluster"][list].as_array().expect("a list");
        rows.iter()
            .map(|row| row[key].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names("peers", "name"), ["n2", "n9"]);
    assert_eq!(names("followers", "node"), ["n2"]);
    let n9 = &info["cluster"]["peers"][1];
    assert_eq!(
        (&n9["region"], &n9["roles"]),
        (&json!("eu"), &json!(["coordinating", "writable"]))
    );
    let table = cluster
        .ask(0, "SELECT name, http_at FROM system.peers ORDER BY name")
        .await;
    assert_eq!(table.rows(0)[1], json!(["n9", "127.0.0.1:11"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn s62_s63_s65_an_idle_level_follower_stays_fresh_in_every_figure() {
    let cluster = Cluster::start(2).await;
    cluster
        .write("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await;
    cluster.wait_level(1).await;
    // Nothing is written for many intervals; the figures must not grow with the idle time.
    let range = RangeName::new("main");
    let idle_until = Instant::now() + 12 * AWARENESS;
    let mut looks = tokio::time::interval(AWARENESS / 2);
    let mut seen = 0;
    while Instant::now() < idle_until {
        looks.tick().await;
        let copy = cluster.server(1).node().view(&range).own.copy.expect("a copy");
        let own = copy.copy_age.expect("known");
        // Ages of a loaded machine overshoot by its hiccups; an age that grew with idleness would pass this soon.
        assert!(own < 8 * AWARENESS, "{own:?}");
        if let Some(row) = follower(&cluster, "n2").await
            && let Some(age) = row["copy_age_ms"].as_u64()
        {
            seen += 1;
            assert!(Duration::from_millis(age) < 8 * AWARENESS, "{row}");
            assert_eq!((&row["behind_entries"], &row["behind_bytes"]), (&json!(0), &json!(0)));
            assert!(row["quiet_for_ms"].is_u64());
        }
    }
    assert!(seen > 0, "the leader never knew the age of its idle follower");
}

#[tokio::test(flavor = "multi_thread")]
async fn s67_the_leader_dates_its_tail_once_per_interval() {
    let cluster = Cluster::start(2).await;
    cluster.wait_level(1).await;
    let range = RangeName::new("main");
    let (start, mut dates) = (Instant::now(), Vec::<Instant>::new());
    let mut looks = tokio::time::interval(AWARENESS / 10);
    while dates.len() < 6 {
        looks.tick().await;
        assert!(
            start.elapsed() < crate::harness::PATIENCE,
            "the tail was dated {} times only",
            dates.len()
        );
        let rows = cluster.server(0).node().followers(&range);
        // An age is counted from the instant at which the tail was dated.
        if let Some(age) = rows.first().and_then(|row| row.copy_age)
            && let Some(date) = Instant::now().checked_sub(age)
            && dates.last().is_none_or(|last| date > *last + AWARENESS / 4)
        {
            dates.push(date);
        }
    }
    let spanned = dates[5] - dates[0];
    assert!(
        spanned >= 4 * AWARENESS,
        "five times within {spanned:?}: more often than once per interval"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s64_s68_s69_s72_the_list_is_empty_after_a_restart_and_ages_start_unknown() {
    let mut cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    eventually("n2 among the followers", || follower(&cluster, "n2")).await;
    cluster.stop(1).await;
    // quiet_for grows while nobody asks.
    let first = follower(&cluster, "n2").await.expect("still listed")["quiet_for_ms"]
        .as_u64()
        .expect("known");
    eventually("a longer silence", || async {
        let now = follower(&cluster, "n2").await?["quiet_for_ms"].as_u64()?;
        (now > first + 100).then_some(())
    })
    .await;
    cluster.stop(0).await;
    cluster.start_again(0).await;
    assert_eq!(cluster.info(0).await["cluster"]["followers"], json!([]), "S72");
    cluster.start_again(1).await;
    eventually("n2 among the followers again", || follower(&cluster, "n2")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s70_s75_s76_a_follower_that_was_away_catches_up_in_bounded_answers() {
    let mut cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY, note TEXT)").await;
    cluster.stop(1).await;
    let note = "x".repeat(200_000);
    for batch in 0..12 {
        let rows: Vec<String> = (0..4).map(|row| format!("({}, '{note}')", batch * 4 + row)).collect();
        cluster
            .write(&format!("INSERT INTO t VALUES {}", rows.join(", ")))
            .await;
    }
    cluster.start_again(1).await;
    cluster.wait_level(1).await;
    let count = cluster
        .ask(1, "SELECT count(*), sum(length(note)) FROM t STALENESS 30s")
        .await;
    assert_eq!(count.rows(0), &json!([[48, 48 * 200_000]]));
    let chains = [0, 1].map(|node| {
        cluster
            .server(node)
            .node()
            .store(&RangeName::new("main"))
            .expect("a copy")
            .applied()
    });
    assert_eq!(chains[0], chains[1], "same position, same history");
}

#[tokio::test(flavor = "multi_thread")]
async fn s02_e02_after_the_leaders_restart_followers_hold_the_same_chain() {
    let mut cluster = Cluster::start(3).await;
    cluster
        .write("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await;
    cluster.stop(0).await;
    cluster.start_again(0).await;
    let version = cluster.write("INSERT INTO t VALUES (2)").await;
    for node in [1, 2] {
        let answer = cluster
            .ask(
                node,
                &format!("SELECT id FROM t ORDER BY id AT LEAST VERSION {version} WAIT 20s"),
            )
            .await;
        assert_eq!(answer.rows(0), &json!([[1], [2]]));
        assert_eq!(answer.receipt(0)["role"], "follower");
        cluster.wait_level(node).await;
    }
    let applied: Vec<_> = (0..3)
        .map(|node| {
            cluster
                .server(node)
                .node()
                .store(&RangeName::new("main"))
                .expect("a copy")
                .applied()
        })
        .collect();
    assert!(applied.windows(2).all(|pair| pair[0] == pair[1]), "{applied:?}");
}
