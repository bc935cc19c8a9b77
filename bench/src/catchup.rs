//! A follower that starts far behind: how fast it catches up, and what that costs the leader in memory.
//!
//! The leader holds its rows in memory, so its size is taken before the follower starts and compared with the largest
//! while it collects: answers are bounded, so the difference must stay small however far behind the follower is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use candor_client::{Client, Config};
use candor_sqllogictest::nodes::{Node, declare_peers, make_certificates};

use crate::machine::resident_bytes;
use crate::samples::Short;
use crate::{Bench, namespace};

/// Bytes of one row's text, and rows in one statement.
const ROW_BYTES: usize = 64 << 10;
const STATEMENT_ROWS: usize = 8;

/// Between two looks at the leader.
const SAMPLE_PAUSE: Duration = Duration::from_millis(50);

/// How long the follower may take at most.
const CATCH_UP_MAX: Duration = Duration::from_mins(10);

/// Prints size, time and memory.
pub(crate) async fn measure(bench: &Bench, megabytes: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let certs = folder.path().join("certs");
    make_certificates(&bench.nodes, &certs, &["n1", "n2"])?;
    let start = |name: &str| Node::start(&bench.nodes, name, &folder.path().join(name), Some(&certs));
    let leader = start("n1")?;
    let version = write(leader.url(), megabytes).await?;
    let log_bytes = folder_bytes(&folder.path().join("n1"));

    let before = resident_bytes(leader.process_id()).context("no size of the leader")?;
    let started = Instant::now();
    let nodes = [leader, start("n2")?];
    declare_peers(&nodes).await?;
    let selected = || Some("bench".to_owned());
    let config = Config {
        namespace: selected(),
        database: selected(),
        ..Config::default()
    };
    let follower = Client::connect(nodes[1].url(), config)?;
    let ask = format!("SELECT 1 AT LEAST VERSION {version} WAIT 50ms");
    let mut largest = before;
    while !reached(&follower, &ask).await {
        anyhow::ensure!(
            started.elapsed() < CATCH_UP_MAX,
            "the follower did not catch up in {CATCH_UP_MAX:?}"
        );
        largest = largest.max(resident_bytes(nodes[0].process_id()).unwrap_or(0));
        tokio::time::sleep(SAMPLE_PAUSE).await;
    }
    let took = started.elapsed();
    println!("\ncatchup: a follower that starts {} MB behind", log_bytes / 1_000_000);
    println!(
        "  caught up in {}, {:.0} MB/s",
        Short(took),
        log_bytes as f64 / 1e6 / took.as_secs_f64()
    );
    println!(
        "  leader's memory: {} MB before, at most {} MB while the follower collected ({:+} MB)",
        before / 1_000_000,
        largest / 1_000_000,
        (largest / 1_000_000).cast_signed() - (before / 1_000_000).cast_signed(),
    );
    println!(
        "  bound of one answer: {} bytes of entries",
        candor_proto::limits::COLLECT_BYTES_MAX
    );
    Ok(())
}

/// Whether the follower itself answers: until it knows the namespace, it sends the read on to the leader.
async fn reached(follower: &Client, ask: &str) -> bool {
    follower
        .execute(ask, &[])
        .await
        .is_ok_and(|answer| answer.hops.is_empty())
}

/// Writes `megabytes` of text that does not compress well, and returns the version of the last write.
async fn write(url: &str, megabytes: usize) -> Result<u64> {
    let config = Config {
        deadline: CATCH_UP_MAX,
        ..Config::default()
    };
    let client = namespace::make(url, config).await?;
    client
        .execute("CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT)", &[])
        .await?;
    let mut random = 7_u64;
    let mut version = 0;
    let statements = (megabytes * 1_000_000).div_ceil(ROW_BYTES * STATEMENT_ROWS);
    for statement in 0..statements {
        let places: Vec<String> = (0..STATEMENT_ROWS)
            .map(|row| format!("(${}, ${})", row * 2 + 1, row * 2 + 2))
            .collect();
        let mut params: Vec<serde_json::Value> = Vec::new();
        for row in 0..STATEMENT_ROWS {
            params.push((statement * STATEMENT_ROWS + row).into());
            params.push(noise(&mut random).into());
        }
        let answer = client
            .execute(&format!("INSERT INTO t VALUES {}", places.join(", ")), &params)
            .await?;
        let receipt = answer.results.first().and_then(|result| result.receipt.as_ref());
        version = receipt.context("a write without a receipt")?.version.0;
    }
    Ok(version)
}

/// Letters that no encoder shortens much.
fn noise(state: &mut u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut text = String::with_capacity(ROW_BYTES);
    while text.len() < ROW_BYTES {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.extend((0..8).map(|byte| char::from(LETTERS[(*state >> (16 + byte * 6)) as usize & 63])));
    }
    text
}

pub(crate) fn folder_bytes(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
