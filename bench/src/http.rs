//! Point reads, durable single-row inserts and updates by key over HTTP, beside PostgreSQL on the same machine in the same run.
//!
//! Both answer over TCP on the loopback address, both make each write durable before they answer, both with their
//! defaults. pgbench prepares its statements; over HTTP each request carries its text and parameters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use candor_client::Config;
use candor_sqllogictest::nodes::{Cluster, Mode};

use crate::postgres::{Measured, Postgres};
use crate::samples::Samples;
use crate::wire::Connection;
use crate::{Bench, namespace};

const ROWS: u64 = 100_000;
const CONNECTIONS: [usize; 2] = [1, 16];

const PG_TABLES: &str = "CREATE TABLE account (id BIGINT PRIMARY KEY, owner TEXT, balance BIGINT);
    INSERT INTO account SELECT n, 'owner ' || n, n * 7 FROM generate_series(1, 100000) AS n;
    CREATE TABLE entry (id BIGINT PRIMARY KEY, account BIGINT, amount BIGINT); CREATE SEQUENCE number; ANALYZE";
const PG_READ: &str = "\\set id random(1, 100000)\nSELECT owner, balance FROM account WHERE id = :id;\n";
const PG_INSERT: &str =
    "\\set id random(1, 100000)\nINSERT INTO entry (id, account, amount) VALUES (nextval('number'), :id, 1);\n";

const PG_UPDATE: &str = "\\set id random(1, 100000)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n";

/// Prints one line for each system and load, and the ratio between them.
pub(crate) fn measure(bench: &Bench, runtime: &tokio::runtime::Runtime) -> Result<()> {
    let postgres = Postgres::start()?;
    postgres.sql(PG_TABLES)?;
    let cluster = runtime.block_on(Cluster::start(&bench.nodes, Mode::Node))?;
    let node = cluster.nodes().first().context("no node")?;
    runtime.block_on(load(node.url()))?;
    println!(
        "\nhttp: beside {}, {} s each",
        postgres.version()?,
        bench.duration.as_secs()
    );
    let next = AtomicU64::new(1);
    for connections in CONNECTIONS {
        let ours = hammer(node.http_address(), connections, bench.duration, read)?;
        let theirs = postgres.pgbench(PG_READ, connections, bench.duration)?;
        report("point reads", connections, &ours, &theirs);
    }
    for connections in CONNECTIONS {
        let insert = |random: u64| insert(next.fetch_add(1, Ordering::Relaxed), random);
        let ours = hammer(node.http_address(), connections, bench.duration, insert)?;
        let theirs = postgres.pgbench(PG_INSERT, connections, bench.duration)?;
        report("durable inserts", connections, &ours, &theirs);
    }
    for connections in CONNECTIONS {
        let ours = hammer(node.http_address(), connections, bench.duration, update)?;
        let theirs = postgres.pgbench(PG_UPDATE, connections, bench.duration)?;
        report("durable updates", connections, &ours, &theirs);
    }
    Ok(())
}

fn read(random: u64) -> String {
    format!(
        r#"{{"sql":"SELECT owner, balance FROM account WHERE id = $1","params":[{}]}}"#,
        random % ROWS + 1
    )
}

fn insert(id: u64, random: u64) -> String {
    let account = random % ROWS + 1;
    format!(r#"{{"sql":"INSERT INTO entry (id, account, amount) VALUES ($1, $2, $3)","params":[{id},{account},1]}}"#)
}

fn update(random: u64) -> String {
    format!(
        r#"{{"sql":"UPDATE account SET balance = balance + 1 WHERE id = $1","params":[{}]}}"#,
        random % ROWS + 1
    )
}

fn report(what: &str, connections: usize, ours: &Measured, theirs: &Measured) {
    for (name, measured) in [("Candor", ours), ("PostgreSQL", theirs)] {
        println!(
            "  {what:<16} {connections:>2} connections  {name:<10} {:>9.0} /s  {}",
            measured.per_second, measured.latency
        );
    }
    println!(
        "  {:<16} {connections:>2} connections  ratio {:.2}",
        what,
        ours.per_second / theirs.per_second
    );
}

/// The same rows as PostgreSQL's, in a namespace `bench`.
async fn load(url: &str) -> Result<()> {
    let client = namespace::make(url, Config::default()).await?;
    client
        .execute(
            "CREATE TABLE account (id BIGINT PRIMARY KEY, owner TEXT, balance BIGINT)",
            &[],
        )
        .await?;
    client
        .execute(
            "CREATE TABLE entry (id BIGINT PRIMARY KEY, account BIGINT, amount BIGINT)",
            &[],
        )
        .await?;
    let rows = format!("SELECT value, 'owner ' || value, value * 7 FROM generate_series(1, {ROWS}) AS n(value)");
    client.execute(&format!("INSERT INTO account {rows}"), &[]).await?;
    Ok(())
}

/// Sends `body(random)` over `connections` connections, each as fast as it is answered, for `duration`. One thread serves
/// them all, as pgbench's does.
fn hammer(address: &str, connections: usize, duration: Duration, body: impl Fn(u64) -> String) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let until = started + duration;
    let work = |seed: u64| {
        let body = &body;
        async move {
            let mut connection = Connection::open(address, "bench", "bench").await?;
            let (mut random, mut latencies) = (seed, Vec::new());
            while Instant::now() < until {
                random = scramble(random);
                let request = body(random >> 11);
                let started = Instant::now();
                connection.post(&request).await?;
                latencies.push(started.elapsed());
            }
            anyhow::Ok(latencies)
        }
    };
    let all = (1..=connections as u64).map(work);
    let parts = runtime.block_on(futures::future::try_join_all(all))?;
    let elapsed = started.elapsed();
    let latencies = parts.concat();
    Ok(Measured {
        per_second: latencies.len() as f64 / elapsed.as_secs_f64(),
        latency: Samples::new(latencies),
    })
}

/// Splitmix64: the next of a row of numbers that look random.
fn scramble(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
