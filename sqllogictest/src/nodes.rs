//! Real nodes: `candor` processes on free ports of the loopback address, ended when the value is dropped.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use candor_client::{Client, Config};

/// Against what suites run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One node that knows no other.
    Node,
    /// A cluster of three: n1 leads, reads are asked at n3.
    Follower,
}

impl Mode {
    /// The name under which `skipif` and `onlyif` know the mode.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Follower => "follower",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "one node",
            Self::Follower => "a follower of three nodes",
        })
    }
}

/// How nodes are started.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The `candor` program.
    pub binary: PathBuf,
    /// The folder in which relative paths of statements start.
    pub working_folder: PathBuf,
    /// How often nodes greet each other.
    pub awareness: Duration,
    /// More arguments of `candor serve`.
    pub arguments: Vec<String>,
}

/// One running node.
pub struct Node {
    name: String,
    process: Child,
    url: String,
    link: Option<String>,
}

impl Node {
    /// Starts a node and waits until it says where it listens.
    ///
    /// # Errors
    /// When the program cannot be started or ends before it listens; its standard error is in the message.
    pub fn start(options: &NodeOptions, name: &str, data: &Path, certs: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(&options.binary);
        command.args(["serve", "--name", name, "--data"]).arg(data);
        command.args([
            "--http",
            "127.0.0.1:0",
            "--link",
            "127.0.0.1:0",
            "--stop-with-parent",
            "--awareness",
        ]);
        command.arg(format!("{}ms", options.awareness.as_millis()));
        if let Some(certs) = certs {
            command.arg("--certs").arg(certs);
        }
        command.args(&options.arguments);
        command.current_dir(&options.working_folder);
        // The node ends when this pipe closes, however this process ends.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command
            .spawn()
            .with_context(|| format!("cannot start {}", options.binary.display()))?;
        match listening(&mut process) {
            Ok((url, link)) => Ok(Self {
                name: name.to_owned(),
                process,
                url,
                link,
            }),
            Err(error) => {
                let _ = process.kill();
                let mut said = String::new();
                if let Some(mut stderr) = process.stderr.take() {
                    let _ = stderr.read_to_string(&mut said);
                }
                let _ = process.wait();
                Err(error.context(format!("{name} does not listen: {}", said.trim())))
            }
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it answers, `http://127.0.0.1:…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// How the process ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> std::io::Result<Option<std::process::ExitStatus>> {
        self.process.try_wait()
    }

    /// `host:port` of HTTP.
    pub fn http_address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// `host:port` of the peer link, if the node has credentials.
    pub fn link_address(&self) -> Option<&str> {
        self.link.as_deref()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads what the node prints until it has named its addresses; the rest is read to the end by a thread of its own, so
/// that a full pipe never stops the node.
fn listening(process: &mut Child) -> Result<(String, Option<String>)> {
    let stdout = process.stdout.take().context("standard output is not a pipe")?;
    let mut lines = BufReader::new(stdout).lines();
    for line in lines.by_ref() {
        let line = line.context("cannot read what the node prints")?;
        if let Some(url) = word_after(&line, "http://") {
            let link = word_after(&line, "link ");
            std::thread::spawn(move || lines.for_each(drop));
            if let Some(stderr) = process.stderr.take() {
                std::thread::spawn(move || show(stderr));
            }
            return Ok((format!("http://{url}"), link));
        }
    }
    bail!("it ended before it said where it listens")
}

/// Passes on what a node logs.
fn show(stderr: impl Read) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        eprintln!("{line}");
    }
}

/// `host:port` after `marker`.
fn word_after(line: &str, marker: &str) -> Option<String> {
    let rest = line.split_once(marker)?.1;
    let end = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || ".:[]-".contains(c)))
        .unwrap_or(rest.len());
    let word = rest[..end].trim_end_matches(['.', ':']);
    word.contains(':').then(|| word.to_owned())
}

/// The nodes that suites run against; n1 leads what suites define.
pub struct Cluster {
    mode: Mode,
    nodes: Vec<Node>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts one node or three that know each other.
    ///
    /// # Errors
    /// When a node does not start, or does not take the declaration of its peers.
    pub async fn start(options: &NodeOptions, mode: Mode) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let nodes = match mode {
            Mode::Node => vec![Node::start(options, "n1", &folder.path().join("n1"), None)?],
            Mode::Follower => three(options, folder.path()).await?,
        };
        Ok(Self {
            mode,
            nodes,
            _folder: folder,
        })
    }

    /// How suites see it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// n1 first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that leads what suites define.
    pub(crate) fn leader_url(&self) -> &str {
        self.nodes[0].url()
    }

    /// Where suites ask: in a cluster a follower, which answers reads and redirects writes.
    pub(crate) fn asked_url(&self) -> &str {
        self.nodes[self.nodes.len() - 1].url()
    }
}

/// Three nodes with certificates of one cluster, each with the other two declared.
async fn three(options: &NodeOptions, folder: &Path) -> Result<Vec<Node>> {
    let names = ["n1", "n2", "n3"];
    let certs = folder.join("certs");
    make_certificates(options, &certs, &names)?;
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(Node::start(options, name, &folder.join(name), Some(&certs))?);
    }
    declare_peers(&nodes).await?;
    Ok(nodes)
}

/// Makes certificates of one cluster in `folder`, which each of its nodes is then given.
///
/// # Errors
/// When `candor cert` fails.
pub fn make_certificates(options: &NodeOptions, folder: &Path, names: &[&str]) -> Result<()> {
    for (index, name) in names.iter().enumerate() {
        let verb: &[&str] = if index == 0 {
            &["cert", "init"]
        } else {
            &["cert", "issue"]
        };
        certificate(options, verb, folder, name)?;
    }
    Ok(())
}

fn certificate(options: &NodeOptions, verb: &[&str], certs: &Path, name: &str) -> Result<()> {
    let mut command = Command::new(&options.binary);
    command
        .args(verb)
        .arg(certs)
        .args(["--node", name, "--hosts", "127.0.0.1"]);
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", options.binary.display()))?;
    if !output.status.success() {
        bail!(
            "candor {}: {}",
            verb.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Tells each node where the others are.
///
/// # Errors
/// When a node has no link, or refuses.
pub async fn declare_peers(nodes: &[Node]) -> Result<()> {
    for node in nodes {
        let client = Client::connect(node.url(), Config::default())?;
        for peer in nodes.iter().filter(|peer| peer.name() != node.name()) {
            let roles = if peer.name() == "n1" {
                "readable, writable"
            } else {
                "readable"
            };
            let link = peer
                .link_address()
                .with_context(|| format!("{} has no link", peer.name()))?;
            let define = format!(
                "DEFINE REPLICA {} AT '{link}' HTTP AT '{}' ROLES {roles}",
                peer.name(),
                peer.http_address()
            );
            client
                .execute(&define, &[])
                .await
                .with_context(|| format!("{} at {}", define, node.name()))?;
        }
    }
    Ok(())
}

/// The `candor` program: `CANDOR_BIN`, or the one that was built beside the running executable.
///
/// # Errors
/// When there is none.
pub fn candor_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CANDOR_BIN") {
        return Ok(PathBuf::from(path));
    }
    let executable = std::env::current_exe()?;
    executable
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("candor"))
        .find(|path| path.is_file())
        .with_context(|| {
            format!(
                "no candor beside {}: build the workspace, or set CANDOR_BIN",
                executable.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_what_a_node_prints() {
        let line = "n1 answers at http://127.0.0.1:7401, link 127.0.0.1:7501.";
        assert_eq!(word_after(line, "http://").as_deref(), Some("127.0.0.1:7401"));
        assert_eq!(word_after(line, "link ").as_deref(), Some("127.0.0.1:7501"));
        assert_eq!(word_after("link down", "link "), None);
    }
}
