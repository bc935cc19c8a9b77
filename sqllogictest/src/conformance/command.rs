//! The command `candor-conformance`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;

use super::floor::Floor;
use super::lists::Lists;
use super::origins::ORIGINS;
use super::run::{Options, run};
use super::tally::{Table, Tally};
use crate::candor_binary;

/// Runs other projects' suites through the real server and prints how much of each holds
#[derive(Debug, Parser)]
#[command(name = "candor-conformance")]
pub struct Args {
    /// Which suites: sqlite, datafusion-sqlite, datafusion, duckdb, risingwave, databend, greptimedb, risinglight, tpch
    /// [default: all]
    origins: Vec<String>,
    /// The folder with a folder for each origin [default: `CANDOR_CONFORMANCE`, or `../shared/conformance` beside the
    /// workspace]
    #[arg(long)]
    root: Option<PathBuf>,
    /// Only scripts whose paths contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Writes each wrong record into this file, one JSON object on a line
    #[arg(long)]
    failures: Option<PathBuf>,
    /// Writes each record that is left out into this file, with its reason, one JSON object on a line
    #[arg(long)]
    left_out: Option<PathBuf>,
    /// Scripts at once
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Seconds that one record may take
    #[arg(long, default_value_t = 30)]
    deadline: u64,
    /// The fixed sample of CI, which fails when fewer records hold than before
    #[arg(long)]
    sample: bool,
    /// With --sample: writes the counts of this run down as the ones that have to hold
    #[arg(long, requires = "sample")]
    write_floor: bool,
    /// The `candor` program [default: the one beside this program]
    #[arg(long, env = "CANDOR_BIN")]
    candor: Option<PathBuf>,
}

/// Runs the suites and prints the table.
///
/// # Errors
/// When suites cannot be read or the server does not start, and for a sample of which less holds than before; wrong
/// records as such are no error.
pub async fn execute(args: Args) -> Result<()> {
    let root = match &args.root {
        Some(root) => root
            .canonicalize()
            .with_context(|| format!("no folder {}", root.display()))?,
        None => match super::folder() {
            Some(root) => root,
            None if args.sample => {
                println!("skipped: no conformance folder; CANDOR_CONFORMANCE names one");
                return Ok(());
            }
            None => bail!("no conformance folder: name one with --root or CANDOR_CONFORMANCE"),
        },
    };
    let known = |name: &String| ORIGINS.iter().any(|origin| origin.name == *name);
    if let Some(unknown) = args.origins.iter().find(|name| !known(name)) {
        let names: Vec<&str> = ORIGINS.iter().map(|origin| origin.name).collect();
        bail!("no origin {unknown}; there are {}", names.join(", "));
    }
    let floor = if args.sample {
        Some(Floor::read(&Floor::path())?)
    } else {
        None
    };
    let options = Options {
        binary: args.candor.map_or_else(candor_binary, Ok)?,
        root,
        only: args.only,
        workers: args.workers.max(1),
        deadline: Duration::from_secs(args.deadline),
        sample: floor.clone(),
    };
    let lists = Lists::to(args.failures.as_deref(), args.left_out.as_deref())?;
    let mut tallies: Vec<Tally> = Vec::new();
    for origin in ORIGINS {
        let asked = args.origins.is_empty() || args.origins.iter().any(|name| name == origin.name);
        let sampled = floor.as_ref().is_none_or(|floor| floor.takes_origin(origin.name));
        if asked && sampled && options.root.join(origin.folder).is_dir() {
            tallies.push(run(origin, &options, &lists).await?);
        }
    }
    lists.finish()?;
    println!("{}", Table(&tallies));
    match floor {
        Some(floor) if args.write_floor => floor.write(&Floor::path(), &tallies),
        Some(floor) => floor.check(&tallies),
        None => Ok(()),
    }
}
