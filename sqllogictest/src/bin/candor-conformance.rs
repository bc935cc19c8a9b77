//! `candor-conformance`: other projects' suites, counted. `cargo xtask conformance` builds and starts it.

use std::process::ExitCode;

use candor_sqllogictest::conformance::command::{Args, execute};
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    match execute(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("candor-conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}
