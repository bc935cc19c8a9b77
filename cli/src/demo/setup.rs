//! What the demo declares and fills in before its shell opens: a namespace, a database, the peers, the sample tables.

use std::time::Duration;

use candor_client::{Answer, Client, ClientError, Config};
use candor_proto::LogIndex;
use thiserror::Error;

use super::cluster::Cluster;
use super::sample;

/// Namespace and database of the demo.
pub(crate) const MAIN: &str = "main";

/// How long followers may take to hold what the leader holds.
const FOLLOW_WAIT: Duration = Duration::from_secs(30);

/// How long to wait between two looks at a follower that does not hold it yet.
const FOLLOW_POLL: Duration = Duration::from_millis(100);

/// Which statement did not work where.
#[derive(Debug, Error)]
#[error("{node} does not run `{statement}`")]
pub(crate) struct SetupError {
    node: String,
    statement: String,
    source: ClientError,
}

/// A statement for an error message: long ones are cut.
fn short(statement: &str) -> String {
    match statement.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &statement[..end]),
        None => statement.to_owned(),
    }
}

struct Setup {
    node: String,
    client: Client,
}

impl Setup {
    fn connect(node: &str, url: &str, database: bool) -> Result<Self, SetupError> {
        let name = database.then(|| MAIN.to_owned());
        let config = Config {
            namespace: name.clone(),
            database: name,
            ..Config::default()
        };
        match Client::connect(url, config) {
            Ok(client) => Ok(Self {
                node: node.to_owned(),
                client,
            }),
            Err(source) => Err(SetupError {
                node: node.to_owned(),
                statement: "connect".to_owned(),
                source,
            }),
        }
    }

    async fn run(&self, statement: &str) -> Result<Option<LogIndex>, SetupError> {
        let answer = self.answer(statement).await?;
        let receipts = answer.results.iter().filter_map(|result| result.receipt.as_ref());
        Ok(receipts.map(|receipt| receipt.version).max())
    }

    async fn answer(&self, statement: &str) -> Result<Answer, SetupError> {
        self.client.execute(statement, &[]).await.map_err(|source| SetupError {
            node: self.node.clone(),
            statement: short(statement),
            source,
        })
    }

    /// Waits until greetings have told the node how far every other one is: what is shown of it is settled then.
    async fn hears_of_all(&self, version: LogIndex, nodes: usize) -> Result<(), SetupError> {
        let route = format!(
            "EXPLAIN (ROUTE) SELECT count(*) FROM {} STALENESS 30s",
            sample::LAST_TABLE
        );
        let deadline = tokio::time::Instant::now() + FOLLOW_WAIT;
        loop {
            let answer = self.answer(&route).await?;
            let result = answer.results.first().cloned().unwrap_or_default();
            let level = (0..result.rows.len()).filter(|row| {
                let position = result
                    .text(*row, "position")
                    .and_then(|position| position.split(':').nth(1)?.parse().ok());
                position.is_some_and(|index: u64| index >= version.0)
            });
            if level.count() == nodes || tokio::time::Instant::now() >= deadline {
                return Ok(());
            }
            tokio::time::sleep(FOLLOW_POLL).await;
        }
    }

    /// Runs a statement until it works: a follower learns of a new range, and of its leader, with the next greetings.
    async fn run_once_known(&self, statement: &str) -> Result<(), SetupError> {
        let deadline = tokio::time::Instant::now() + FOLLOW_WAIT;
        loop {
            match self.run(statement).await {
                Ok(_) => return Ok(()),
                Err(error) if tokio::time::Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(FOLLOW_POLL).await,
            }
        }
    }
}

/// Declares everything, fills the tables on the leader and waits until every follower answers from its own copy.
///
/// # Errors
/// The first statement that fails, and where.
pub(crate) async fn run(cluster: &Cluster) -> Result<(), SetupError> {
    let nodes = cluster.urls().await;
    let Some((leader, leader_url)) = nodes.first() else {
        return Ok(());
    };
    let first = Setup::connect(leader, leader_url, false)?;
    first.run(&format!("DEFINE NAMESPACE {MAIN}")).await?;
    first
        .run(&format!("USE NAMESPACE {MAIN}; DEFINE DATABASE {MAIN}"))
        .await?;
    declare_peers(cluster, &nodes).await?;
    let version = fill(leader, leader_url).await?;
    for (name, url) in &nodes[1..] {
        let follower = Setup::connect(name, url, true)?;
        let count = format!("SELECT count(*) FROM {}", sample::LAST_TABLE);
        follower
            .run_once_known(&format!("{count} AT LEAST VERSION {version} WAIT 5s"))
            .await?;
        follower.run_once_known(&format!("{count} STALENESS 30s")).await?;
        follower.run_once_known(&format!("{count} ANSWERED BY LEADER")).await?;
    }
    for (name, url) in &nodes {
        Setup::connect(name, url, true)?
            .hears_of_all(version, nodes.len())
            .await?;
    }
    Ok(())
}

/// Tells each node of each other, at the address of the relay between the two.
async fn declare_peers(cluster: &Cluster, nodes: &[(String, String)]) -> Result<(), SetupError> {
    for (from, (name, url)) in nodes.iter().enumerate() {
        let node = Setup::connect(name, url, false)?;
        for (to, (peer, peer_url)) in nodes.iter().enumerate() {
            let Some(link) = cluster.link_between(from, to) else {
                continue;
            };
            let http = peer_url.trim_start_matches("http://");
            let role = if to == 0 { "writable" } else { "readable" };
            node.run(&format!(
                "DEFINE REPLICA {peer} AT '{link}' HTTP AT '{http}' ROLES {role}"
            ))
            .await?;
        }
    }
    Ok(())
}

async fn fill(leader: &str, url: &str) -> Result<LogIndex, SetupError> {
    let setup = Setup::connect(leader, url, true)?;
    let mut version = LogIndex::ZERO;
    for table in sample::tables() {
        for statement in [table.define, &table.insert] {
            version = version.max(setup.run(statement).await?.unwrap_or_default());
        }
    }
    Ok(version)
}
