//! The 22 queries derived from TPC-H, asked at a follower under a bound of 30 s: right answers, from there, that fresh.

mod answers;
mod data;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Answer, Cluster};
use answers::Expected;

/// 600,000 line items; the size that the reference answers are for.
const SCALE: f64 = 0.1;

const AWARENESS: Duration = Duration::from_secs(1);
const BOUND_MS: u64 = 30_000;

/// Where queries and answers of other projects lie.
struct Conformance(PathBuf);

impl Conformance {
    fn find() -> Option<Self> {
        let given = std::env::var_os("CANDOR_CONFORMANCE").map(PathBuf::from);
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance");
        let found = Self(given.unwrap_or_else(beside));
        let parts = [found.query(1), found.answer(1)];
        let missing = parts.iter().find(|part| !part.is_file());
        if let Some(missing) = missing {
            // Straight to the stream: the test runner shows what a passing test prints to nobody.
            let _ = writeln!(std::io::stderr(), "skipped: there is no {}", missing.display());
        }
        missing.is_none().then_some(found)
    }

    fn query(&self, number: usize) -> PathBuf {
        self.0.join(format!("tpch/queries/q{number}.sql"))
    }

    fn answer(&self, number: usize) -> PathBuf {
        self.0.join(format!(
            "datafusion/datafusion/sqllogictest/test_files/tpch/answers/q{number}.slt.part"
        ))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s02_s03_s04_the_22_queries_are_answered_by_a_follower_within_30_seconds() {
    let Some(conformance) = Conformance::find() else { return };
    // Programs built without optimization take their time to load.
    let cluster = Cluster::start(3, AWARENESS, &["--statement-deadline", "10m"]).await;
    let begun = Instant::now();
    let rows = data::load(&cluster, SCALE).await;
    let loaded = begun.elapsed();
    cluster.wait_level("main", 0, 2).await;
    let copied = begun.elapsed();
    let asked = Instant::now();

    let mut faults = Vec::new();
    let mut oldest = 0;
    for number in 1..=22 {
        let text = fs::read_to_string(conformance.query(number)).expect("a query");
        let expected = Expected::read(&fs::read_to_string(conformance.answer(number)).expect("an answer"));
        let answer = ask(&cluster, &text).await;
        if answer.status != 200 {
            faults.push(format!("Q{number}: {}: {}", answer.status, answer.body));
            continue;
        }
        let receipt = answer.receipt(0);
        assert_eq!(
            (&receipt["node"], &receipt["role"]),
            (&"n3".into(), &"follower".into()),
            "Q{number}: {receipt}"
        );
        assert_eq!(receipt["bound_ms"], BOUND_MS, "Q{number}: {receipt}");
        let age = receipt["copy_age_ms"].as_u64().expect("an age");
        assert!(age < BOUND_MS, "Q{number}: {receipt}");
        oldest = oldest.max(age);
        if let Err(fault) = expected.compare(answer.rows(0)) {
            faults.push(format!("Q{number}: {fault}"));
        }
    }
    println!(
        "{rows} rows loaded in {loaded:?}, level at n3 after {copied:?}, 22 queries in {:?}, oldest copy {oldest} ms",
        asked.elapsed()
    );
    assert!(
        faults.is_empty(),
        "{} of 22 queries fail:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Runs one query file: its SELECT at n3 under the bound, what stands around it (the view of Q15) at n1.
async fn ask(cluster: &Cluster, text: &str) -> Answer {
    let (leader, follower) = (cluster.door(0), cluster.door(2));
    let fraction = 0.0001 / SCALE;
    let text = text.replace("0.0001 /* __TPCH_Q11_FRACTION__ */", &format!("{fraction}"));
    let statements: Vec<&str> = text
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
        .collect();
    let at = statements
        .iter()
        .position(|statement| statement.starts_with("select"))
        .expect("a query");
    let mut tails = format!("STALENESS {BOUND_MS}ms");
    for statement in &statements[..at] {
        let version = leader.run(statement).await;
        tails = format!("{tails} AT LEAST VERSION {version} WAIT 30s");
    }
    let answer = follower.ask(&format!("{} {tails}", statements[at])).await;
    for statement in &statements[at + 1..] {
        leader.run(statement).await;
    }
    answer
}

/// One cell as text; `NULL` where there is nothing.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
