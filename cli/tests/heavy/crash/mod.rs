//! `kill -9` under load, many times over on one data folder: what was acknowledged is there, what was never sent is
//! not, and what was in flight is there whole or not at all, and stays so.

mod ledger;
mod writers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::harness::{Cluster, Door, eventually};
use ledger::Ledger;

const AWARENESS: Duration = Duration::from_millis(250);

/// Crashes, unless `CANDOR_CRASH_ROUNDS` says otherwise.
const ROUNDS: usize = 50;

/// Acknowledgements before a crash: from 1 to this many, so that crashes fall on every stage of the load.
const ACKS_MAX: usize = 120;

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_under_load_keeps_what_it_acknowledged_and_nothing_else() {
    let rounds = std::env::var("CANDOR_CRASH_ROUNDS").map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
    let begun = Instant::now();
    let mut cluster = Cluster::start(3, AWARENESS, &[]).await;
    let door = cluster.door(0);
    writers::define(&door).await;
    let ledger = Ledger::shared();
    let mut away = Vec::new();
    for round in 0..rounds {
        let mut tasks = JoinSet::new();
        writers::spawn(&mut tasks, &door, &ledger, round);
        let enough = ledger.lock().acks() + 1 + round * 37 % ACKS_MAX;
        eventually("acknowledged writes", async || {
            (ledger.lock().acks() >= enough).then_some(())
        })
        .await;
        cluster.nodes[0].kill();
        let killed = Instant::now();
        while let Some(writer) = tasks.join_next().await {
            writer.expect("every answer before the crash is a success");
        }
        // What a follower holds was committed, whether or not anybody was told.
        let copied = contents(&cluster.door(2), "")
            .await
            .expect("a copy answers without its leader");
        cluster.nodes[0].start_again().await;
        let found = eventually("leadership after a crash", async || {
            contents(&door, " ANSWERED BY LEADER").await
        })
        .await;
        away.push(killed.elapsed());
        let lost: Vec<_> = copied.rows.keys().filter(|id| !found.rows.contains_key(id)).collect();
        assert!(
            lost.is_empty(),
            "round {round}: n3 had collected rows that n1 has lost: {lost:?}"
        );
        ledger
            .lock()
            .check(&found.rows, found.counter)
            .unwrap_or_else(|fault| panic!("round {round}: {fault}"));
    }
    for node in [1, 2] {
        cluster.wait_level("main", 0, node).await;
    }
    let found = contents(&door, " ANSWERED BY LEADER").await.expect("an answer");
    for node in [1, 2] {
        let copied = contents(&cluster.door(node), " STALENESS 10s")
            .await
            .expect("an answer");
        assert!(
            copied.rows == found.rows && copied.counter == found.counter,
            "the same position and chain, other rows"
        );
    }
    let ledger = ledger.lock();
    let mean = away.iter().sum::<Duration>() / u32::try_from(away.len().max(1)).expect("few");
    println!(
        "{rounds} crashes in {:?}: {}; from kill to the next answer {mean:?} on average, {:?} at most",
        begun.elapsed(),
        ledger.summary(),
        away.iter().max(),
    );
}

/// All that the tables hold at one version.
struct Contents {
    rows: BTreeMap<u64, u64>,
    counter: u64,
}

/// Reads both tables; `None` while the node refuses.
async fn contents(door: &Door, tail: &str) -> Option<Contents> {
    let sql = format!("SELECT id, twice FROM log UNION ALL SELECT 0, n FROM counters ORDER BY 1{tail}");
    let answer = door.ask(&sql).await;
    if answer.status != 200 {
        assert!(
            matches!(answer.code(), "no-leader" | "starting" | "redirect" | "not-leader"),
            "{answer:?}"
        );
        return None;
    }
    let number = |value: &Value| value.as_u64().expect("a number");
    let mut rows: BTreeMap<u64, u64> = answer
        .rows(0)
        .iter()
        .map(|row| (number(&row[0]), number(&row[1])))
        .collect();
    assert_eq!(rows.len(), answer.rows(0).len(), "a key stands twice");
    let counter = rows.remove(&0).expect("the counter's row");
    Some(Contents { rows, counter })
}
