//! The peer from Python's package index: a Python program of ours, one JSON job in, one JSON document out.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

const PROGRAM: &str = include_str!("duckdb.py");

/// What DuckDB is asked to do, in this order.
#[derive(Default)]
pub(crate) struct Job {
    /// Statements before everything else, not timed.
    pub(crate) setup: Vec<String>,
    /// Table, file and options of each COPY; a checkpoint follows each and counts.
    pub(crate) loads: Vec<(String, String, String)>,
    /// Statements behind the loads, not timed.
    pub(crate) after: Vec<String>,
    /// The statements of each query, timed together.
    pub(crate) queries: Vec<Vec<String>>,
    /// How often each query runs; the best counts.
    pub(crate) rounds: usize,
}

/// What DuckDB answered.
pub(crate) struct Answer {
    pub(crate) version: String,
    pub(crate) loads: Vec<Duration>,
    pub(crate) queries: Vec<Duration>,
}

/// Runs a job on the database file `database`, which is made if it is not there.
///
/// # Errors
/// No Python with the module `duckdb` (`CANDOR_PYTHON` names one, otherwise `python3`), or a statement that DuckDB refuses.
pub(crate) fn run(database: &Path, threads: usize, job: &Job) -> Result<Answer> {
    let python = std::env::var("CANDOR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut process = Command::new(&python)
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {python}"))?;
    let document = json!({
        "database": database,
        "threads": threads,
        "setup": job.setup,
        "loads": job.loads,
        "after": job.after,
        "queries": job.queries,
        "rounds": job.rounds,
    });
    let mut stdin = process.stdin.take().context("no pipe to Python")?;
    // A Python that ended at once says why on standard error.
    let _ = stdin.write_all(document.to_string().as_bytes());
    drop(stdin);
    let output = process.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("No module named 'duckdb'") {
            bail!("{python} has no module duckdb: `pip install duckdb`, or name another Python in CANDOR_PYTHON");
        }
        bail!("DuckDB: {}", said.trim());
    }
    let answer: Value = serde_json::from_slice(&output.stdout).context("DuckDB's answer")?;
    Ok(Answer {
        version: answer["version"].as_str().unwrap_or("?").to_owned(),
        loads: durations(&answer["loads"]),
        queries: durations(&answer["queries"]),
    })
}

fn durations(seconds: &Value) -> Vec<Duration> {
    let seconds = seconds.as_array().into_iter().flatten();
    seconds.filter_map(Value::as_f64).map(Duration::from_secs_f64).collect()
}
