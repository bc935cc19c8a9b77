//! `candor sql`: one conversation with one cluster, typed or read.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::serve::config::HTTP_PORT;
use crate::shell::{Connection, ConnectionOptions, Format, OnError, Place, Shell, ShellOptions, exit_of};

/// `candor sql`
#[derive(Debug, clap::Args)]
pub(crate) struct SqlArgs {
    /// The node to start at
    #[arg(env = "CANDOR_URL", value_name = "URL", default_value_t = format!("http://127.0.0.1:{HTTP_PORT}"))]
    url: String,
    /// Namespace to start in
    #[arg(long, env = "CANDOR_NAMESPACE", value_name = "NAME", default_value = "main")]
    namespace: String,
    /// Database to start in
    #[arg(long, env = "CANDOR_DATABASE", value_name = "NAME", default_value = "main")]
    database: String,
    /// Run these statements and leave; may be given several times
    #[arg(short = 'c', value_name = "SQL", conflicts_with = "file")]
    commands: Vec<String>,
    /// Run a file and leave; `-` is standard input
    #[arg(short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Output mode [default: box on a terminal, otherwise tsv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// What to do after a failed statement in a script; the exit code tells of it either way
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "WHAT")]
    on_error: OnError,
    /// How long one statement may take, all redirects included
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
}

/// Runs what was asked for.
pub(crate) async fn run(args: SqlArgs) -> Exit {
    let timeout = match args.timeout.as_deref().map(crate::span::parse).transpose() {
        Ok(timeout) => timeout,
        Err(error) => {
            eprintln!("error: --timeout: {error}");
            return Exit::Usage;
        }
    };
    let mut interrupts = match Interrupts::listen() {
        Ok(interrupts) => interrupts,
        Err(error) => {
            eprintln!("error: the system takes no signal handlers: {error}");
            return Exit::Failed;
        }
    };
    let options = ConnectionOptions {
        namespace: Some(args.namespace.clone()),
        database: Some(args.database.clone()),
        timeout,
    };
    let connection = tokio::select! {
        connection = Connection::open(&args.url, options) => match connection {
            Ok(connection) => connection,
            Err(error) => {
                eprintln!("error: {}", crate::sentence(&error));
                return exit_of(&error);
            }
        },
        () = interrupts.wait() => return Exit::Interrupted,
    };
    let terminal = args.commands.is_empty() && args.file.is_none() && io::stdin().is_terminal();
    let mut shell = Shell::new(
        connection,
        ShellOptions {
            place: if terminal { Place::Terminal } else { Place::Script },
            format: args.format,
            on_error: args.on_error,
            demo: None,
            interrupts,
        },
    );
    match &args.file {
        Some(file) => shell.run_file(file).await,
        None if !args.commands.is_empty() => shell.run_texts(&args.commands).await,
        None if terminal => shell.run_terminal().await,
        None => shell.run_stdin().await,
    }
}
