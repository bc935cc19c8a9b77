//! `candor-slt`: runs our own suites by hand and prints every difference.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use candor_proto::limits::AWARENESS_INTERVAL;
use candor_sqllogictest::{Cluster, Mode, NodeOptions, Origin, candor_binary, run_origin};
use clap::{Parser, ValueEnum};

/// Runs the suites of the dialect against real nodes
#[derive(Parser)]
#[command(name = "candor-slt")]
struct Args {
    /// Only files whose paths contain this
    #[arg(default_value = "")]
    only: String,
    /// Against what
    #[arg(long, value_enum, default_value = "node")]
    cluster: ModeName,
    /// The `candor` program [default: the one beside this program]
    #[arg(long, env = "CANDOR_BIN")]
    candor: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    Node,
    Follower,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("candor-slt: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether every record did what it was expected to do.
async fn run(args: Args) -> Result<bool> {
    let origin = Origin::own();
    let mode = match args.cluster {
        ModeName::Node => Mode::Node,
        ModeName::Follower => Mode::Follower,
    };
    let binary = args.candor.map_or_else(candor_binary, Ok)?;
    let options = NodeOptions {
        binary,
        working_folder: origin.working_folder().to_owned(),
        awareness: AWARENESS_INTERVAL,
        arguments: Vec::new(),
    };
    let cluster = Cluster::start(&options, mode).await?;
    let report = run_origin(&origin, &cluster, &args.only).await?;
    println!("{}\n{report}", report.differences());
    Ok(report.is_clean())
}
