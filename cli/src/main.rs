#![doc = include_str!("../README.md")]

mod cert;
mod demo;
mod exit;
mod interrupts;
mod serve;
mod shell;
mod span;
mod sql;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Exit;

/// Requests and Arrow arrays are many small and many large pieces of memory on several threads, which the system's own
/// allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A SQL database whose reads say how fresh, and from where, they must be answered
#[derive(Debug, Parser)]
#[command(name = "candor", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a statement failed, 2 cannot connect, 3 usage, \
                          4 staleness bound not met, 5 no leader known, 130 interrupted";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one node
    Serve(Box<serve::config::ServeArgs>),
    /// Talk to a node: a shell on a terminal, a script otherwise
    Sql(sql::SqlArgs),
    /// Start a whole cluster of real nodes with sample data, and a shell on one of them
    Demo(demo::DemoArgs),
    /// Make certificates for peer links
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Wait until standard input closes, then remove a folder: how a demo that was killed leaves nothing behind
    #[command(hide = true)]
    Tidy { dir: std::path::PathBuf },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is a wrong command line.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Fine };
            let _ = error.print();
            return exit.into();
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(candor_proto::limits::THREAD_STACK_BYTES)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the system gives no threads: {error}");
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::run(*args).await,
            Command::Sql(args) => sql::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Cert(command) => cert::run(&command),
            Command::Tidy { dir } => demo::tidy::run(&dir).await,
        }
    });
    // A read of standard input that nobody waits for any more must not hold the process.
    runtime.shutdown_background();
    exit.into()
}

/// Writes a line to standard output. Nobody who could be told is left when that fails.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// An error and its causes in one line.
fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors print their cause already.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Whether the environment asks for plain text (<https://no-color.org>).
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
