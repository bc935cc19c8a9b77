//! `candor serve`: one node, from its options to its end.
//!
//! When both doors are open one line on standard output says so, and nothing else is ever written there:
//!
//! ```text
//! candor n1 ready  http://127.0.0.1:7401  link 127.0.0.1:7501  data ./n1
//! ```
//!
//! The parts are two spaces apart and `link` is missing where there is none, so that whoever started the node can wait
//! for the line and read the ports from it. SIGTERM and SIGINT stop the node with grace and exit code 0; a second one
//! ends it at once.

pub(crate) mod config;
mod memory;

use std::net::SocketAddr;
use std::path::Path;

use candor_cluster::StorageConfig;
use candor_engine::EngineConfig;
use candor_server::{Server, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use config::{ServeArgs, ServeConfig};

/// Runs a node until it is asked to stop.
pub(crate) async fn run(args: ServeArgs) -> Exit {
    let with_parent = args.stop_with_parent;
    if with_parent {
        end_with_parent();
    }
    let config = match args.settle() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {}", crate::sentence(&error));
            return Exit::Usage;
        }
    };
    if let Err(error) = log_to_stderr(&config.log) {
        eprintln!("error: `log`: {error}");
        return Exit::Usage;
    }
    serve(config, with_parent).await
}

async fn serve(config: ServeConfig, with_parent: bool) -> Exit {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        eprintln!("error: the system takes no signal handlers");
        return Exit::Failed;
    };
    let (name, data) = (config.name.clone(), config.data.clone());
    let server = match Server::start(server_config(config)).await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("error: {name} does not start: {}", crate::sentence(&error));
            return Exit::Unreachable;
        }
    };
    crate::say(&ready_line(
        name.as_str(),
        server.http_addr(),
        server.link_addr(),
        &data,
    ));
    let exit = tokio::select! {
        _ = terminate.recv() => Exit::Fine,
        _ = interrupt.recv() => Exit::Fine,
        () = stdin_closes(), if with_parent => Exit::Fine,
    };
    tokio::select! {
        () = server.shutdown() => exit,
        _ = terminate.recv() => Exit::Interrupted,
        _ = interrupt.recv() => Exit::Interrupted,
    }
}

/// What a node says when both its doors are open.
fn ready_line(name: &str, http: SocketAddr, link: Option<SocketAddr>, data: &Path) -> String {
    let link = link.map(|link| format!("  link {link}")).unwrap_or_default();
    format!("candor {name} ready  http://{http}{link}  data {}", data.display())
}

/// Reads the addresses back from a ready line: HTTP and, if there is one, link.
pub(crate) fn parse_ready_line(line: &str) -> Option<(SocketAddr, Option<SocketAddr>)> {
    let mut parts = line.split("  ");
    parts.next()?.strip_prefix("candor ")?.strip_suffix(" ready")?;
    let http = parts.next()?.strip_prefix("http://")?.parse().ok()?;
    let link = parts
        .next()
        .and_then(|part| part.strip_prefix("link "))
        .and_then(|addr| addr.parse().ok());
    Some((http, link))
}

fn server_config(config: ServeConfig) -> ServerConfig {
    let defaults = EngineConfig::default();
    ServerConfig {
        http: config.http,
        link: config.link,
        certs_dir: config.certs,
        awareness: config.awareness,
        region: config.region,
        statement_deadline: config.statement_deadline,
        body_bytes_max: config.body_bytes_max,
        engine: EngineConfig {
            threads: config.threads.unwrap_or(defaults.threads),
            memory_bytes: Some(usize::try_from(config.memory.statements).unwrap_or(usize::MAX)),
            ..defaults
        },
        storage: StorageConfig {
            cache_bytes: config.memory.cache,
            delta_bytes: config.memory.rows,
            retention: config.retention,
        },
        ..ServerConfig::new(config.name, config.data)
    }
}

fn log_to_stderr(filter: &str) -> Result<(), String> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()) && !crate::no_color())
        .init();
    Ok(())
}

/// Asks the kernel to end this process with its parent. Closing standard input says the same on every system, but a
/// process that is stopped by a signal cannot read.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        // Refused at worst: then the closed input remains.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}

async fn stdin_closes() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 256];
    // An error means that nothing will ever come: the same as the end.
    while matches!(stdin.read(&mut ignored).await, Ok(count) if count > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_can_read_the_ports() {
        let (http, link) = (
            "127.0.0.1:7401".parse().expect("http"),
            "127.0.0.1:7501".parse().expect("link"),
        );
        let line = ready_line("n1", http, Some(link), Path::new("a  folder"));
        assert_eq!(
            line,
            "candor n1 ready  http://127.0.0.1:7401  link 127.0.0.1:7501  data a  folder"
        );
        assert_eq!(parse_ready_line(&line), Some((http, Some(link))));
        assert_eq!(
            parse_ready_line(&ready_line("n1", http, None, Path::new("d"))),
            Some((http, None))
        );
        assert_eq!(parse_ready_line("something else"), None);
    }
}
