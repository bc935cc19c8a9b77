//! Nodes that know each other.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use super::http::Door;
use super::node::{Node, Spec, candor};
use super::{PATIENCE, eventually};

/// Held by the cluster that runs.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// Makes namespace and database `main` where it runs.
const DEFINE_MAIN: &str = "DEFINE NAMESPACE main; USE NAMESPACE main; DEFINE DATABASE main";

/// Nodes n1, n2, …
///
/// Fields are dropped in order: first the processes, then their folder, then the next test may begin.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    client: reqwest::Client,
    folder: TempDir,
    _machine: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Three nodes or so, each declared to each; n1 leads namespace `main`, the others hold level copies.
    pub(crate) async fn start(count: usize, awareness: Duration, options: &[&str]) -> Self {
        let cluster = Self::strangers(count, awareness, options).await;
        for node in 0..count {
            for peer in (0..count).filter(|peer| *peer != node) {
                cluster.declare(node, peer, cluster.link(peer)).await;
            }
        }
        cluster.define_main().await;
        for node in 1..count {
            cluster.wait_level("main", 0, node).await;
        }
        cluster
    }

    /// Nodes with certificates of one authority that nobody has told of each other.
    pub(crate) async fn strangers(count: usize, awareness: Duration, options: &[&str]) -> Self {
        let machine = MACHINE.lock().await;
        let folder = tempfile::tempdir().expect("a folder");
        let certs = folder.path().join("certs");
        let mut nodes = Vec::new();
        for number in 1..=count {
            let name = format!("n{number}");
            certify(&certs, &name, number == 1);
            let mut all = vec!["--awareness".to_owned(), format!("{}ms", awareness.as_millis())];
            all.extend(options.iter().map(|option| (*option).to_owned()));
            let free = SocketAddr::from(([127, 0, 0, 1], 0));
            let dir = folder.path().to_owned();
            nodes.push(
                Node::start(Spec {
                    name,
                    dir,
                    certs: certs.clone(),
                    http: free,
                    link: free,
                    options: all,
                })
                .await,
            );
        }
        Self {
            nodes,
            client: Door::client(),
            folder,
            _machine: machine,
        }
    }

    /// Tells `node` that `peer` is reached at `at`.
    pub(crate) async fn declare(&self, node: usize, peer: usize, at: SocketAddr) {
        let spec = self.nodes[peer].spec();
        let roles = if peer == 0 { "readable, writable" } else { "readable" };
        let define = format!(
            "DEFINE REPLICA {} AT '{at}' HTTP AT '{}' ROLES {roles}",
            spec.name, spec.http
        );
        self.door(node).plain().run(&define).await;
    }

    /// Makes namespace and database `main` at n1.
    pub(crate) async fn define_main(&self) {
        self.door(0).plain().run(DEFINE_MAIN).await;
    }

    /// Where clients find `node`.
    pub(crate) fn door(&self, node: usize) -> Door {
        Door::new(self.client.clone(), format!("http://{}", self.nodes[node].spec().http))
    }

    /// Where peers find `node`.
    pub(crate) fn link(&self, node: usize) -> SocketAddr {
        self.nodes[node].spec().link
    }

    /// A folder for a test's own files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What `node` says about `range`, if it answers and holds it.
    pub(crate) async fn range(&self, node: usize, range: &str) -> Option<Value> {
        let map = self.door(node).get("/cluster").await.ok()?;
        map.body["ranges"]
            .as_array()?
            .iter()
            .find(|doc| doc["range"] == range)
            .cloned()
    }

    /// Waits until `node` holds exactly what `leader` holds, by position and chain, and knows how old that is.
    pub(crate) async fn wait_level(&self, range: &str, leader: usize, node: usize) {
        let what = format!("a level copy of {range} on n{} (within {PATIENCE:?})", node + 1);
        eventually(&what, async || {
            let (ours, theirs) = (self.range(node, range).await?, self.range(leader, range).await?);
            let same = ["position", "chain", "epoch"]
                .iter()
                .all(|key| ours[key] == theirs[key] && !ours[key].is_null());
            (same && ours["copy_age_ms"].is_u64()).then_some(())
        })
        .await;
    }

    /// INFO FOR NODE as a document.
    pub(crate) async fn info(&self, node: usize) -> Value {
        let answer = self.door(node).plain().ask("INFO FOR NODE").await;
        let text = answer.rows(0)[0][0].as_str().expect("a document").to_owned();
        serde_json::from_str(&text).expect("JSON")
    }
}

fn certify(certs: &Path, name: &str, first: bool) {
    let verb = if first { "init" } else { "issue" };
    let output = candor()
        .args(["cert", verb])
        .arg(certs)
        .args(["--node", name, "--hosts", "127.0.0.1"])
        .output();
    let output = output.expect("candor cert runs");
    assert!(
        output.status.success(),
        "candor cert {verb}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
