//! Many clients at few rows: transfers between accounts, upserts of the same keys, counters, and transactions that read
//! and append to the same lists. What they saw must be what snapshot isolation allows, also across `kill -9`.
//!
//! Short unless `CANDOR_ISOLATION_SECONDS` says otherwise; `CANDOR_ISOLATION_KILLS` is how often the node is killed
//! and started again on the way.

mod books;
mod clients;
mod history;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::harness::{Cluster, eventually};
use books::Books;
use clients::Client;

const AWARENESS: Duration = Duration::from_millis(250);

/// Clients at a time.
const CLIENTS: usize = 64;

/// Seconds of load.
const SECONDS: u64 = 4;

/// Crashes on the way.
const KILLS: u32 = 1;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_many_clients_see_is_what_snapshot_isolation_allows() {
    let time = Duration::from_secs(number("CANDOR_ISOLATION_SECONDS", SECONDS));
    let kills = u32::try_from(number("CANDOR_ISOLATION_KILLS", u64::from(KILLS))).expect("few");
    let mut cluster = Cluster::start(1, AWARENESS, &[]).await;
    let door = cluster.door(0);
    clients::define(&door).await;
    let books = Arc::new(Mutex::new(Books::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, door.clone(), Arc::clone(&books), Arc::clone(&stop));
        tasks.spawn(client.run());
    }
    let begun = Instant::now();
    for kill in 1..=kills {
        let then = begun + time * kill / (kills + 1);
        eventually_after(then).await;
        cluster.nodes[0].kill();
        cluster.nodes[0].start_again().await;
    }
    eventually_after(begun + time).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = tasks.join_next().await {
        client.expect("no client saw what cannot be");
    }
    let finals = eventually("an answer", async || clients::finals(&door).await).await;
    let books = books.lock();
    println!("{}", books.summary(begun.elapsed()));
    books.check(&finals);
}

/// Waits until an instant: the load runs meanwhile.
async fn eventually_after(then: Instant) {
    tokio::time::sleep_until(then.into()).await;
}
