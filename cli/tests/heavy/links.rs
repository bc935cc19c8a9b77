//! Broken networks: one way, both ways, and a leader that cannot reach a follower at all.

use std::time::{Duration, Instant};

use tokio::net::UdpSocket;

use crate::freshness::{Checker, Seen, Writer};
use crate::harness::{Cluster, Lost, Relay, eventually};

const AWARENESS: Duration = Duration::from_millis(250);
const BOUND: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn s60_s61_s62_s63_the_leader_needs_no_connection_to_its_follower() {
    let cluster = Cluster::strangers(2, AWARENESS, &[]).await;
    // Where n1 believes n2 to be, packets arrive and nobody answers; n3 was never there.
    let hole = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    cluster.declare(0, 1, hole.local_addr().expect("bound")).await;
    cluster.declare(1, 0, cluster.link(0)).await;
    cluster
        .door(0)
        .plain()
        .run("DEFINE REPLICA n3 AT '127.0.0.1:9' ROLES readable")
        .await;
    cluster.define_main().await;
    cluster.wait_level("main", 0, 1).await;
    let mut byte = [0; 2048];
    let dialled = tokio::time::timeout(crate::harness::PATIENCE, hole.recv(&mut byte))
        .await
        .expect("in time");
    assert!(dialled.expect("received") > 0, "n1 does dial the hole");

    let door = cluster.door(0);
    door.run("CREATE TABLE t (id BIGINT PRIMARY KEY)").await;
    for id in 0..50 {
        let version = door.run(&format!("INSERT INTO t VALUES ({id})")).await;
        let read = cluster
            .door(1)
            .ask(&format!("SELECT count(*) FROM t AT LEAST VERSION {version} WAIT 30s"))
            .await;
        assert_eq!(
            (&read.rows(0)[0][0], &read.receipt(0)["node"]),
            (&(id + 1).into(), &"n2".into()),
            "S62"
        );
    }
    // S61, S63: position, how much is missing, and two ages, all known without a connection back.
    let row = eventually("a current row about n2", async || {
        let answer = door.ask("SELECT position, behind_entries, behind_bytes, quiet_for_ms, copy_age_ms FROM system.followers WHERE range = 'main'").await;
        let own = cluster.range(0, "main").await?;
        let [row] = answer.rows(0) else { panic!("S60: n3 is declared and collects nothing: {answer:?}") };
        let level = row[0] == own["position"] && row[1] == 0 && row[2] == 0;
        (level && row[4].as_u64().is_some_and(|age| age <= 1000)).then(|| row.clone())
    })
    .await;
    assert!(
        row[3].as_u64().is_some_and(|quiet| quiet <= 2000),
        "S61: n2 is heard although it cannot be reached: {row}"
    );
    let info = cluster.info(0).await;
    let peers = info["cluster"]["peers"].as_array().expect("peers");
    let names: Vec<_> = peers
        .iter()
        .map(|peer| (peer["name"].as_str(), peer["linked"].as_bool()))
        .collect();
    assert_eq!(
        names,
        [(Some("n2"), Some(false)), (Some("n3"), Some(false))],
        "S60: declared, not reached"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s55_s04_a_cut_link_uses_the_bound_up_and_leaves_the_redirect() {
    let cluster = Cluster::strangers(2, AWARENESS, &[]).await;
    let (to_leader, to_follower) = (Relay::start(cluster.link(0)).await, Relay::start(cluster.link(1)).await);
    cluster.declare(1, 0, to_leader.addr()).await;
    cluster.declare(0, 1, to_follower.addr()).await;
    cluster.define_main().await;
    cluster.wait_level("main", 0, 1).await;
    let writer = Writer::start(&cluster).await;
    let mut checker = Checker::new(&cluster, 1, BOUND, &writer);
    for lost in [Lost::Everything, Lost::Answers] {
        checker.until("an answer", Seen::is_answer).await;
        checker.answers(50).await;
        for relay in [&to_leader, &to_follower] {
            relay.lose(lost);
        }
        let cut = Instant::now();
        checker.cut_since = (lost == Lost::Everything).then_some(cut);
        // n1 writes on, so every answer is judged by what it lacks.
        checker
            .until("the end of the bound", |seen| matches!(seen, Seen::Refused { .. }))
            .await;
        let lasted = cut.elapsed();
        assert!(lasted >= BOUND / 2, "{lost:?}: reads stopped {lasted:?} after the cut");
        // S55: who leads is known here; nobody is asked.
        for sql in [
            "INSERT INTO beats VALUES (0)",
            "SELECT count(*) FROM beats ANSWERED BY LEADER",
        ] {
            let redirect = cluster.door(1).ask(sql).await;
            assert_eq!(
                (redirect.status, &redirect.body["redirect"]["node"]),
                (307, &"n1".into()),
                "S55: {redirect:?}"
            );
        }
        writer.wait_for(50).await;
        assert!(
            matches!(checker.look().await, Seen::Refused { .. }),
            "{lost:?}: still cut"
        );
        let dropped = to_leader.dropped() + to_follower.dropped();
        for relay in [&to_leader, &to_follower] {
            relay.lose(Lost::Nothing);
        }
        checker.cut_since = None;
        println!("cut {lost:?}: refused after {lasted:?} (bound {BOUND:?}), {dropped} packets dropped so far");
    }
    checker.until("an answer after the cuts", Seen::is_answer).await;
    drop(writer);
    cluster.wait_level("main", 0, 1).await;
}
