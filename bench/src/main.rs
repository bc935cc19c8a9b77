//! `candor-bench`: figures with their conditions, beside a named peer measured in the same run where there is one.
//!
//! Nothing here passes or fails by the clock: a figure depends on the machine, so the machine is printed with it.
//! `docs/bench.md` says what each command measures and how.

mod catchup;
mod duckdb;
mod http;
mod keys;
mod machine;
mod mixed;
mod namespace;
mod postgres;
mod samples;
mod tpch;
mod verdict;
mod visible;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use candor_sqllogictest::nodes::{NodeOptions, candor_binary};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "candor-bench",
    about = "Measures Candor, beside a named peer in the same run"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// The `candor` program to measure [default: the one beside this program]
    #[arg(long, env = "CANDOR_BIN", global = true)]
    candor: Option<PathBuf>,
    /// Seconds for each measurement
    #[arg(long, default_value_t = 5, global = true)]
    seconds: u64,
}

#[derive(Subcommand)]
enum Command {
    /// What one verdict costs with 100 known peers
    Verdict,
    /// From a commit at the leader to a follower's answer that contains it
    Visible,
    /// Point reads, durable single-row inserts and updates over HTTP, beside PostgreSQL with pgbench
    Http,
    /// Reads while rows are written at a steady rate, beside the same reads alone
    Mixed,
    /// Reads by key inside this process, on one thread
    Keys,
    /// Queries derived from TPC-H and the load of their tables, beside DuckDB and PostgreSQL
    Tpch(tpch::Options),
    /// A follower that starts far behind: how fast it catches up, and what that costs the leader in memory
    Catchup {
        /// How far behind, megabytes of log
        #[arg(long, default_value_t = 500)]
        megabytes: usize,
    },
    /// All of them
    All,
}

/// What every measurement is given.
struct Bench {
    nodes: NodeOptions,
    duration: Duration,
    /// Threads that each system may use.
    threads: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("candor-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    println!("{}", machine::describe());
    let runtime = tokio::runtime::Runtime::new()?;
    let bench = || -> Result<Bench> {
        let binary = args.candor.clone().map_or_else(candor_binary, Ok)?;
        println!("measured: {} ({})", binary.display(), machine::build_of(&binary));
        let nodes = NodeOptions {
            binary,
            working_folder: std::env::temp_dir(),
            awareness: candor_proto::limits::AWARENESS_INTERVAL,
            arguments: Vec::new(),
        };
        Ok(Bench {
            nodes,
            duration: Duration::from_secs(args.seconds),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        })
    };
    match &args.command {
        Command::Verdict => verdict::measure(),
        Command::Visible => runtime.block_on(visible::measure(&bench()?))?,
        Command::Http => http::measure(&bench()?, &runtime)?,
        Command::Mixed => mixed::measure(&bench()?, &runtime)?,
        Command::Keys => keys::measure(&runtime, Duration::from_secs(args.seconds))?,
        Command::Tpch(options) => runtime.block_on(tpch::measure(&bench()?, options))?,
        Command::Catchup { megabytes } => runtime.block_on(catchup::measure(&bench()?, *megabytes))?,
        Command::All => {
            let bench = bench()?;
            verdict::measure();
            runtime.block_on(visible::measure(&bench))?;
            http::measure(&bench, &runtime)?;
            keys::measure(&runtime, bench.duration)?;
            mixed::measure(&bench, &runtime)?;
            runtime.block_on(tpch::measure(&bench, &tpch::Options::default()))?;
            runtime.block_on(catchup::measure(&bench, 500))?;
        }
    }
    Ok(())
}
