//! From a commit at the leader to a follower's answer that contains it.
//!
//! One row is written at the leader. As soon as the leader has acknowledged it, the follower is asked for that row with
//! `AT LEAST VERSION` of the write; the clock runs from the acknowledgement to the answer, so it holds one HTTP read. A
//! plain read at the same follower is measured too, to be taken off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use candor_client::{Client, Config};
use candor_sqllogictest::nodes::{Cluster, Mode};

use crate::samples::Samples;
use crate::{Bench, namespace};

/// How long the follower may take to hear of the new namespace.
const DISCOVERY_MAX: Duration = Duration::from_secs(30);

/// Prints the percentiles.
pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let cluster = Cluster::start(&bench.nodes, Mode::Follower).await?;
    let [leader, .., follower] = cluster.nodes() else {
        anyhow::bail!("not a cluster")
    };
    let leader = namespace::make(leader.url(), Config::default()).await?;
    leader
        .execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)", &[])
        .await?;
    let follower = discovered(follower.url()).await?;

    let (mut visible, mut plain) = (Vec::new(), Vec::new());
    let until = Instant::now() + bench.duration;
    let mut id = 0_i64;
    while Instant::now() < until {
        id += 1;
        let answer = leader
            .execute("INSERT INTO t VALUES ($1, $2)", &[id.into(), id.into()])
            .await?;
        let acknowledged = Instant::now();
        let receipt = answer.results.first().and_then(|result| result.receipt.as_ref());
        let version = receipt.context("a write without a receipt")?.version;
        let read = format!("SELECT n FROM t WHERE id = $1 AT LEAST VERSION {version}");
        let answer = follower.execute(&read, &[id.into()]).await?;
        visible.push(acknowledged.elapsed());
        anyhow::ensure!(answer.hops.is_empty(), "the follower sent the read on");
        let rows = answer.results.first().map_or(0, |result| result.rows.len());
        anyhow::ensure!(rows == 1, "the follower answered {rows} rows at version {version}");
        let started = Instant::now();
        follower.execute("SELECT n FROM t WHERE id = $1", &[id.into()]).await?;
        plain.push(started.elapsed());
    }
    println!(
        "\nvisible: {} s, one writer, leader and follower on this machine",
        bench.duration.as_secs()
    );
    println!("  acknowledged → in a follower's answer  {}", Samples::new(visible));
    println!("  a plain read at that follower           {}", Samples::new(plain));
    Ok(())
}

fn selected() -> Config {
    Config {
        namespace: Some("bench".to_owned()),
        database: Some("bench".to_owned()),
        session: true,
        ..Config::default()
    }
}

/// A connection to a follower that has heard of the table.
async fn discovered(url: &str) -> Result<Client> {
    let until = Instant::now() + DISCOVERY_MAX;
    loop {
        let tried = async {
            let client = Client::connect(url, selected())?;
            let answer = client.execute("SELECT count(*) FROM t", &[]).await?;
            anyhow::ensure!(answer.hops.is_empty(), "the follower has no copy yet");
            Ok(client)
        };
        match tried.await {
            Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(20)).await,
            outcome => return outcome,
        }
    }
}
