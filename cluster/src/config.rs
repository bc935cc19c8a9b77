//! What a node is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use candor_proto::{NodeName, limits};

/// Everything a [`Node`](crate::Node) is told at its start; what may change while it runs is declared with
/// `DEFINE REPLICA` and lives in the node's `system` range.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterConfig {
    /// The name of this node; its certificate must say the same.
    pub node: NodeName,
    /// Where the node keeps its ranges. One process at a time.
    pub data_dir: PathBuf,
    /// Where peers dial this node (UDP). Port 0 takes a free one.
    pub link_addr: SocketAddr,
    /// The folder with `ca.pem`, `<node>.pem` and `<node>.key`; `None` = the node runs alone.
    pub certs_dir: Option<PathBuf>,
    /// How often nodes greet each other; the staleness floor is twice that.
    pub awareness: Duration,
    /// Where this node stands, for ranking nearby copies.
    pub region: Option<String>,
    /// How ranges are kept in memory and on disk.
    pub storage: StorageConfig,
}

/// How a node keeps its ranges in memory and on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// Memory for what was read from segments, of all ranges, bytes.
    pub cache_bytes: u64,
    /// Memory for rows that are not in segments yet, of all ranges, bytes. At half of it rows move to segments; while
    /// there are more than this, writes are refused.
    pub delta_bytes: u64,
    /// How long a version stays readable after a newer one was there.
    pub retention: Duration,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            delta_bytes: 256 << 20,
            retention: limits::RETENTION,
        }
    }
}

impl ClusterConfig {
    /// A node that runs alone with the default awareness interval; links listen on a free loopback port once
    /// `certs_dir` is set.
    pub fn new(node: NodeName, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            node,
            data_dir: data_dir.into(),
            link_addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            certs_dir: None,
            awareness: limits::AWARENESS_INTERVAL,
            region: None,
            storage: StorageConfig::default(),
        }
    }

    /// Listens for peers at `addr` with the credentials in `certs_dir`.
    #[must_use]
    pub fn with_links(mut self, addr: SocketAddr, certs_dir: impl Into<PathBuf>) -> Self {
        self.link_addr = addr;
        self.certs_dir = Some(certs_dir.into());
        self
    }

    /// Sets the awareness interval.
    #[must_use]
    pub fn with_awareness(mut self, interval: Duration) -> Self {
        self.awareness = interval;
        self
    }

    /// Sets how ranges are kept.
    #[must_use]
    pub fn with_storage(mut self, storage: StorageConfig) -> Self {
        self.storage = storage;
        self
    }

    /// Sets the region.
    #[must_use]
    pub fn with_region(mut self, region: Option<String>) -> Self {
        self.region = region;
        self
    }
}
