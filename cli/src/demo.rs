//! `candor demo`: a whole cluster on one machine, with data in it and a shell on a follower.
//!
//! The nodes are processes like any others: `candor serve` with certificates from an authority made a moment before.
//! They end with the demo, however it ends: they watch their standard input, which the demo holds open; the kernel
//! kills them with their parent, even when they are paused; and the folder they stood in is removed by a process that
//! waits for the last of them (see [`tidy`]). With `--dir` the folder is the user's own and stays.

mod cluster;
pub(crate) mod command;
mod ports;
mod process;
mod relay;
mod sample;
mod setup;
pub(crate) mod tidy;

use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_cluster::certs;
use candor_proto::NodeName;
use thiserror::Error;

pub(crate) use cluster::Cluster;

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::serve::config::{HTTP_PORT, LINK_PORT};
use crate::shell::{Connection, ConnectionOptions, OnError, Place, Shell, ShellOptions, exit_of};
use process::Spec;
use tidy::TidyFolder;

/// `candor demo`
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// How many nodes; the first one leads
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Empty or new folder to keep the nodes in; it stays. Without it a temporary one that goes with the demo
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// First HTTP port; taken ones are skipped, 0 takes any free ones
    #[arg(long, value_name = "PORT", default_value_t = HTTP_PORT)]
    http_port: u16,
    /// First link port; taken ones are skipped, 0 takes any free ones
    #[arg(long, value_name = "PORT", default_value_t = LINK_PORT)]
    link_port: u16,
}

/// Why there is no demo.
#[derive(Debug, Error)]
enum DemoError {
    #[error("the system does not let a demo start")]
    System(#[source] io::Error),
    #[error("cannot make the demo's folder")]
    Folder(#[source] io::Error),
    #[error("{} is not empty; name an empty or new folder", .0.display())]
    NotEmpty(PathBuf),
    #[error("there are not enough free ports from {0} on")]
    Ports(u16),
    #[error(transparent)]
    Certs(#[from] certs::CertError),
    #[error(transparent)]
    Cluster(#[from] cluster::ClusterError),
    #[error(transparent)]
    Setup(#[from] setup::SetupError),
}

/// Where the nodes stand.
enum Folder {
    Temporary(TidyFolder),
    Kept(PathBuf),
}

impl Folder {
    fn open(dir: Option<PathBuf>, executable: &Path) -> Result<Self, DemoError> {
        let Some(dir) = dir else {
            return TidyFolder::create(executable)
                .map(Self::Temporary)
                .map_err(DemoError::Folder);
        };
        std::fs::create_dir_all(&dir).map_err(DemoError::Folder)?;
        let mut entries = std::fs::read_dir(&dir).map_err(DemoError::Folder)?;
        if entries.next().is_some() {
            return Err(DemoError::NotEmpty(dir));
        }
        Ok(Self::Kept(dir))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(dir) => dir,
        }
    }

    fn close(self) -> io::Result<()> {
        match self {
            Self::Temporary(folder) => folder.remove(),
            Self::Kept(_) => Ok(()),
        }
    }
}

/// Runs a demo from its first line to its last.
pub(crate) async fn run(args: DemoArgs) -> Exit {
    let executable = match std::env::current_exe() {
        Ok(executable) => executable,
        Err(error) => return refuse(&DemoError::System(error)),
    };
    let interrupts = match Interrupts::listen() {
        Ok(interrupts) => interrupts,
        Err(error) => return refuse(&DemoError::System(error)),
    };
    let folder = match Folder::open(args.dir.clone(), &executable) {
        Ok(folder) => folder,
        Err(error) => return refuse(&error),
    };
    let exit = match specs(&args, folder.path(), &executable) {
        Ok(specs) => with_nodes(specs, interrupts).await,
        Err(error) => refuse(&error),
    };
    if let Err(error) = folder.close() {
        eprintln!("error: {error}");
        return Exit::Failed;
    }
    exit
}

fn refuse(error: &DemoError) -> Exit {
    eprintln!("error: {}", crate::sentence(error));
    if matches!(error, DemoError::NotEmpty(_)) {
        Exit::Usage
    } else {
        Exit::Failed
    }
}

async fn with_nodes(specs: Vec<Spec>, mut interrupts: Interrupts) -> Exit {
    // Dropping what starts ends what has started.
    let cluster = tokio::select! {
        started = Cluster::start(specs) => match started {
            Ok(cluster) => cluster,
            Err(error) => return refuse(&error.into()),
        },
        () = interrupts.wait() => return Exit::Interrupted,
    };
    let exit = tokio::select! {
        set_up = setup::run(&cluster) => match set_up {
            Ok(()) => shell(&cluster, interrupts).await,
            Err(error) => refuse(&error.into()),
        },
        () = interrupts.wait() => Exit::Interrupted,
    };
    cluster.stop().await;
    exit
}

async fn shell(cluster: &Arc<Cluster>, interrupts: Interrupts) -> Exit {
    let nodes = cluster.urls().await;
    let (name, url) = nodes.get(1).unwrap_or(&nodes[0]);
    greet(&nodes, name);
    let options = ConnectionOptions {
        namespace: Some(setup::MAIN.to_owned()),
        database: Some(setup::MAIN.to_owned()),
        ..ConnectionOptions::default()
    };
    let mut connection = match Connection::open(url, options).await {
        Ok(connection) => connection,
        Err(error) => {
            eprintln!("error: {}", crate::sentence(&error));
            return exit_of(&error);
        }
    };
    connection.know(nodes.iter().cloned());
    if let Err(error) = connection.pin_to(name).await {
        eprintln!("error: {}", crate::sentence(&error));
        return exit_of(&error);
    }
    let terminal = io::stdin().is_terminal();
    let options = ShellOptions {
        place: if terminal { Place::Terminal } else { Place::Transcript },
        format: None,
        on_error: OnError::Stop,
        demo: Some(cluster.clone()),
        interrupts,
    };
    let mut shell = Shell::new(connection, options);
    if terminal {
        shell.run_terminal().await
    } else {
        shell.run_stdin().await
    }
}

/// Each node's URL, a line to try from another window, and where the shell is.
fn greet(nodes: &[(String, String)], shell_on: &str) {
    for (index, (name, url)) in nodes.iter().enumerate() {
        crate::say(&format!(
            "{name}  {url}  {}",
            if index == 0 { "leads" } else { "follows" }
        ));
    }
    let url = nodes
        .iter()
        .find(|(name, _)| name == shell_on)
        .map_or("", |(_, url)| url);
    crate::say("");
    crate::say(&format!(
        "curl --location-trusted {url}/sql -H 'Candor-Namespace: {main}' -H 'Candor-Database: {main}' \
         -d 'SELECT count(*) FROM orders STALENESS 30s'",
        main = setup::MAIN
    ));
    crate::say("");
    crate::say(&format!(
        "The shell is on {shell_on} and stays there (\\pin). \\? lists commands, \\demo breaks nodes, \\q stops them all."
    ));
    crate::say("");
}

/// Certificates and addresses for every node.
fn specs(args: &DemoArgs, dir: &Path, executable: &Path) -> Result<Vec<Spec>, DemoError> {
    let count = usize::from(args.nodes);
    let names: Vec<String> = (1..=count).map(|number| format!("n{number}")).collect();
    let certs_dir = dir.join("certs");
    let hosts = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    for (index, name) in names.iter().enumerate() {
        let node = NodeName::new(name);
        if index == 0 {
            certs::init(&certs_dir, &node, &hosts)?;
        } else {
            certs::issue(&certs_dir, &node, &hosts, &certs_dir)?;
        }
    }
    let choose = |kind, first| ports::choose(kind, first, count).ok_or(DemoError::Ports(first));
    let (http, http_said) = choose(ports::Kind::Http, args.http_port)?;
    let (link, link_said) = choose(ports::Kind::Link, args.link_port)?;
    for said in [http_said, link_said].into_iter().flatten() {
        crate::say(&said);
    }
    let addr = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ports = http.into_iter().zip(link);
    Ok(names
        .into_iter()
        .zip(ports)
        .map(|(name, (http, link))| Spec {
            name,
            executable: executable.to_owned(),
            dir: dir.to_owned(),
            http: addr(http),
            link: addr(link),
        })
        .collect())
}
