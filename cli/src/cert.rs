//! `candor cert`: the cluster's own authority and one certificate for each node.

use std::path::PathBuf;

use candor_cluster::certs;
use candor_proto::NodeName;

use crate::exit::Exit;

/// What is made.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CertCommand {
    /// Make a new cluster: its authority and the first node's certificate
    Init(InitArgs),
    /// Issue a certificate for one more node
    Issue(IssueArgs),
}

/// `candor cert init DIR --node n1`
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Folder to write to; must not hold an authority yet
    dir: PathBuf,
    /// The first node
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Host names and addresses that the certificate lists, for people and proxies
    #[arg(long, value_name = "HOST", value_delimiter = ',', num_args = 1..)]
    hosts: Vec<String>,
}

/// `candor cert issue DIR --node n2 [--out DIR]`
#[derive(Debug, clap::Args)]
pub(crate) struct IssueArgs {
    /// Folder with the authority and its key
    dir: PathBuf,
    /// The node
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Host names and addresses that the certificate lists
    #[arg(long, value_name = "HOST", value_delimiter = ',', num_args = 1..)]
    hosts: Vec<String>,
    /// Folder to write to [default: DIR]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the command and says which files are whose.
pub(crate) fn run(command: &CertCommand) -> Exit {
    let done = match command {
        CertCommand::Init(args) => init(args),
        CertCommand::Issue(args) => issue(args),
    };
    match done {
        Ok(said) => {
            crate::say(&said);
            Exit::Fine
        }
        Err(error) => {
            eprintln!("error: {}", crate::sentence(&error));
            Exit::Failed
        }
    }
}

fn init(args: &InitArgs) -> Result<String, certs::CertError> {
    let node = NodeName::new(&args.node);
    let cluster = certs::init(&args.dir, &node, &args.hosts)?;
    let dir = args.dir.display();
    Ok(format!(
        "cluster {cluster}: {dir}/ca.pem goes to every node, {dir}/{node}.pem and .key to {node}; keep {dir}/ca.key off the nodes"
    ))
}

fn issue(args: &IssueArgs) -> Result<String, certs::CertError> {
    let node = NodeName::new(&args.node);
    let out = args.out.as_ref().unwrap_or(&args.dir);
    certs::issue(&args.dir, &node, &args.hosts, out)?;
    let dir = out.display();
    Ok(format!(
        "{dir}/{node}.pem and .key are {node}'s; it needs {dir}/ca.pem too"
    ))
}
