//! Reads of a table while rows are written to it at a steady rate, beside the same reads while nothing is written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use candor_client::Config;
use candor_sqllogictest::nodes::{Cluster, Mode, Node};

use crate::samples::Samples;
use crate::wire::Connection;
use crate::{Bench, namespace};

/// Rows of the table before anything is measured.
const ROWS: u64 = 1_000_000;

/// Rows written each second, and in one statement.
const ROWS_PER_SECOND: u64 = 5_000;
const STATEMENT_ROWS: u64 = 50;

const BY_KEY: &str = "SELECT account, amount FROM entry WHERE id = $1";
const SCAN: &str = "SELECT account % 10, count(*), sum(amount) FROM entry GROUP BY 1";

/// Prints the speed of each kind of read alone and under writes, and the ratio.
pub(crate) fn measure(bench: &Bench, runtime: &tokio::runtime::Runtime) -> Result<()> {
    let cluster = runtime.block_on(Cluster::start(&bench.nodes, Mode::Node))?;
    let node = cluster.nodes().first().context("no node")?;
    runtime.block_on(load(node.url()))?;
    println!(
        "\nmixed: {ROWS} rows, {ROWS_PER_SECOND} rows a second written in statements of {STATEMENT_ROWS}, {} s each",
        bench.duration.as_secs()
    );
    let next = AtomicU64::new(ROWS + 1);
    for (what, sql) in [("reads by key", BY_KEY), ("scans", SCAN)] {
        let alone = runtime.block_on(reads(node, sql, bench.duration))?;
        let kept = Mutex::new(0.0);
        let under_writes = runtime.block_on(async {
            tokio::select! {
                measured = reads(node, sql, bench.duration) => measured,
                ended = write(node, &next, &kept) => Err(ended.err().unwrap_or_else(|| anyhow::anyhow!("the writer ended"))),
            }
        })?;
        let written = *kept.lock().unwrap_or_else(PoisonError::into_inner);
        println!("  {what:<14} alone        {:>8.1} /s  {}", alone.0, alone.1);
        println!(
            "  {what:<14} under writes {:>8.1} /s  {}",
            under_writes.0, under_writes.1
        );
        println!(
            "  {what:<14} ratio {:.2} at {written:.0} rows a second",
            under_writes.0 / alone.0
        );
    }
    Ok(())
}

async fn load(url: &str) -> Result<()> {
    let client = namespace::make(url, Config::default()).await?;
    let rows = format!("SELECT value, value % 1000, value % 100 FROM generate_series(1, {ROWS}) AS n(value)");
    for sql in [
        "CREATE TABLE entry (id BIGINT PRIMARY KEY, account BIGINT, amount BIGINT)",
        &format!("INSERT INTO entry {rows}"),
    ] {
        client.execute(sql, &[]).await?;
    }
    Ok(())
}

/// One connection that reads as fast as it is answered: reads a second, and what each took.
async fn reads(node: &Node, sql: &str, duration: Duration) -> Result<(f64, Samples)> {
    let mut connection = Connection::open(node.http_address(), "bench", "bench").await?;
    let started = Instant::now();
    let (mut latencies, mut id) = (Vec::new(), 1);
    while started.elapsed() < duration {
        id = id * 7_919 % ROWS + 1;
        let params = if sql.contains("$1") {
            format!("[{id}]")
        } else {
            "[]".to_owned()
        };
        let before = Instant::now();
        connection
            .post(&format!(r#"{{"sql":"{sql}","params":{params}}}"#))
            .await?;
        latencies.push(before.elapsed());
    }
    let per_second = latencies.len() as f64 / started.elapsed().as_secs_f64();
    Ok((per_second, Samples::new(latencies)))
}

/// Writes at the steady rate for as long as it is polled; tells the rate that was kept.
async fn write(node: &Node, next: &AtomicU64, kept: &Mutex<f64>) -> Result<()> {
    let mut connection = Connection::open(node.http_address(), "bench", "bench").await?;
    let started = Instant::now();
    let pause = Duration::from_secs_f64(STATEMENT_ROWS as f64 / ROWS_PER_SECOND as f64);
    let mut ticks = tokio::time::interval(pause);
    let mut rows = 0;
    loop {
        ticks.tick().await;
        let first = next.fetch_add(STATEMENT_ROWS, Ordering::Relaxed);
        let values: Vec<String> = (first..first + STATEMENT_ROWS)
            .map(|id| format!("({id}, {}, {})", id % 1000, id % 100))
            .collect();
        let insert = format!(r#"{{"sql":"INSERT INTO entry VALUES {}"}}"#, values.join(", "));
        connection.post(&insert).await?;
        rows += STATEMENT_ROWS;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = rows as f64 / started.elapsed().as_secs_f64();
    }
}
