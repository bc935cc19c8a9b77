//! House-keeping commands: `cargo xtask ci` is what CI checks after `cargo test --workspace`, and it changes no file;
//! `cargo xtask fix` is the only command that does.
//!
//! Depends on `anyhow` and `clap` alone, so that it builds in seconds and never pulls the database in: what it wants
//! to know about the crates it reads from their files and from cargo.

mod deny;
mod errors_doc;
mod sources;
mod steps;
mod tidy;
mod toml;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks and house-keeping of the workspace")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything CI checks after `cargo test --workspace`, in order; changes no file
    Ci,
    /// Writes the generated pages, applies clippy's suggestions and formats
    Fix {
        /// Only the generated pages
        #[arg(long)]
        pages: bool,
    },
    /// Formatting
    Fmt,
    /// Clippy over the whole workspace, warnings are errors
    Lint,
    /// Rustdoc of the workspace, warnings are errors
    Doc,
    /// Rules about sources, dependencies and pages that no compiler checks
    Tidy,
    /// Licences, sources and duplicates of the dependencies
    Deny,
    /// Every sqllogictest suite, with its counts
    Slt,
    /// Other projects' suites through the real server, with a table of what holds
    Conformance {
        /// Arguments of `candor-conformance`: origins, --root DIR, --failures FILE, --sample; --help tells all
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Only the tests with real processes; `cargo test --workspace` runs them too
    Heavy,
    /// The fuzz targets for a short while
    Fuzz {
        /// Seconds for all targets together
        #[arg(long, default_value_t = steps::FUZZ_SECONDS)]
        seconds: u64,
    },
}

type Step = (&'static str, fn(&Workspace) -> Result<()>);

/// In the order in which they are run: the quick ones that fail most often come first.
const CI: &[Step] = &[
    ("fmt", steps::fmt_check),
    ("tidy", tidy::check),
    ("deny", deny::check),
    ("lint", steps::clippy),
    ("doc", steps::doc),
    ("slt", steps::slt),
    ("conformance", steps::conformance_sample),
    ("fuzz", steps::fuzz_smoke),
];

/// Where the workspace lies; every path is taken relative to it.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    fn find() -> Result<Self> {
        let here = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(xtask) => PathBuf::from(xtask),
            None => std::env::current_dir()?,
        };
        let root = here
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file())
            .with_context(|| format!("no Cargo.lock in {} or above", here.display()))?;
        Ok(Self { root: root.to_owned() })
    }

    /// A path of the workspace.
    pub(crate) fn path(&self, relative: impl AsRef<std::path::Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The text of a file of the workspace.
    pub(crate) fn read(&self, relative: &str) -> Result<String> {
        std::fs::read_to_string(self.path(relative)).with_context(|| format!("cannot read {relative}"))
    }
}

fn main() -> ExitCode {
    match run(&Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    let workspace = Workspace::find()?;
    match command {
        Command::Ci => ci(&workspace),
        Command::Fix { pages: true } => errors_doc::write(&workspace),
        Command::Fix { pages: false } => steps::fix(&workspace),
        Command::Fmt => steps::fmt_check(&workspace),
        Command::Lint => steps::clippy(&workspace),
        Command::Doc => steps::doc(&workspace),
        Command::Tidy => tidy::check(&workspace),
        Command::Deny => deny::check(&workspace),
        Command::Slt => steps::slt(&workspace),
        Command::Conformance { args } => steps::conformance(&workspace, args),
        Command::Heavy => steps::heavy(&workspace),
        Command::Fuzz { seconds } => steps::fuzz(&workspace, *seconds),
    }
}

/// Runs every step, also after one that failed, so that one run tells all there is to mend.
fn ci(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    let mut table = Vec::new();
    for (name, step) in CI {
        println!("== xtask {name}");
        let started = Instant::now();
        let outcome = step(workspace);
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        let seconds = started.elapsed().as_secs();
        table.push(format!("{name:<11} {verdict:<7} {seconds:>5} s"));
        if let Err(error) = outcome {
            eprintln!("xtask {name}: {error:#}");
            failed.push(*name);
        }
    }
    println!("== xtask ci\n{}", table.join("\n"));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
