//! What one node is started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use candor_cluster::StorageConfig;
use candor_engine::EngineConfig;
use candor_proto::{NodeName, limits};

/// Everything a node needs to start. [`ServerConfig::new`] fills in the documented defaults.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The node's name, unique in its cluster.
    pub node: NodeName,
    /// Where the node keeps its ranges; made if missing.
    pub data_dir: PathBuf,
    /// Where HTTP listens; port 0 takes a free one.
    pub http: SocketAddr,
    /// Where peer links listen; used only with `certs_dir`.
    pub link: SocketAddr,
    /// The folder with this node's credentials; without it the node runs alone.
    pub certs_dir: Option<PathBuf>,
    /// How often nodes greet each other; the staleness floor is twice that.
    pub awareness: Duration,
    /// Where the node says it stands.
    pub region: Option<String>,
    /// How long one statement may run.
    pub statement_deadline: Duration,
    /// The largest request body that is read, bytes.
    pub body_bytes_max: usize,
    /// Requests in flight before a 503.
    pub requests_in_flight_max: usize,
    /// How queries run.
    pub engine: EngineConfig,
    /// How ranges are kept in memory and on disk.
    pub storage: StorageConfig,
}

impl ServerConfig {
    /// A node named `node` that keeps its data in `data_dir` and otherwise has the defaults.
    pub fn new(node: NodeName, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            node,
            data_dir: data_dir.into(),
            http: SocketAddr::from(([127, 0, 0, 1], 7401)),
            link: SocketAddr::from(([127, 0, 0, 1], 7501)),
            certs_dir: None,
            awareness: limits::AWARENESS_INTERVAL,
            region: None,
            statement_deadline: limits::STATEMENT_DEADLINE,
            body_bytes_max: limits::BODY_BYTES_MAX,
            requests_in_flight_max: limits::REQUESTS_IN_FLIGHT_MAX,
            engine: EngineConfig::default(),
            storage: StorageConfig::default(),
        }
    }
}
