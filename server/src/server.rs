//! One node as a process sees it: cluster, engine, sessions and the HTTP listener, started and stopped together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::http::HeaderValue;
use axum::serve::ListenerExt;
use candor_cluster::{ClusterConfig, ClusterError, Node};
use candor_engine::{Engine, EngineError};
use candor_proto::{Epoch, LogIndex, Position, RangeName, Receipt, Role};
use candor_storage::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::failure::Stop;
use crate::http;
use crate::metrics::Metrics;
use crate::parsed::Parsed;
use crate::progress::Running;
use crate::sequences::ReservedValues;
use crate::session::Sessions;
use crate::turns::Turns;

/// How often kept sessions are looked through for dead ones.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// How long requests in flight may go on when the node stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The HTTP address cannot be listened on.
    #[error("HTTP cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Data, credentials or links.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The figures for Prometheus.
    #[error("the metrics cannot be set up: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// What every request of one node shares.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) cluster: Node,
    pub(crate) engine: Engine,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Metrics,
    pub(crate) running: Running,
    /// Scripts read lately.
    pub(crate) parsed: Parsed,
    pub(crate) node_header: HeaderValue,
    pub(crate) boot_header: HeaderValue,
    pub(crate) making_default: tokio::sync::Mutex<()>,
    pub(crate) turns: Turns,
    pub(crate) reserved: ReservedValues,
    http_addr: SocketAddr,
    in_flight: Arc<Semaphore>,
    stopping: AtomicBool,
}

impl Shared {
    /// A place among the requests in flight, if there is one.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight).try_acquire_owned().ok()
    }

    pub(crate) fn requests_in_flight(&self) -> usize {
        self.config.requests_in_flight_max - self.in_flight.available_permits()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// The newest applied state of a range that this node leads.
    pub(crate) fn write_grounds(&self, range: &RangeName) -> Result<Snapshot, Stop> {
        let store = if range.as_str() == RangeName::SYSTEM {
            self.cluster.system()
        } else {
            self.copy_of(range)?
        };
        store
            .snapshot(None)
            .map_err(|error| Stop::new(candor_proto::ErrorCode::Internal, error.to_string()))
    }

    /// The newest epoch that this node knows for a range.
    pub(crate) fn epoch(&self, range: &RangeName) -> Epoch {
        self.cluster.view(range).own.known_epoch
    }

    /// The receipt of a write: the version it made, at the node that decided it.
    pub(crate) fn write_receipt(&self, range: &RangeName, position: Position) -> Receipt {
        Receipt {
            node: self.cluster.name().clone(),
            role: Some(Role::Leader),
            range: Some(range.clone()),
            epoch: position.epoch,
            version: LogIndex(position.index.0),
            copy_age_ms: Some(0),
            bound_ms: None,
        }
    }
}

/// A running node. [`Server::shutdown`] ends it in order; dropping it leaves its tasks to the runtime's end.
pub struct Server {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the data folder, joins the links and listens. Requests are handled on the threads of the runtime that calls
    /// this: give them [`candor_proto::limits::THREAD_STACK_BYTES`].
    ///
    /// # Errors
    /// An address in use, data that cannot be read, credentials that do not fit: each names its cause.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        let listener = TcpListener::bind(config.http)
            .await
            .map_err(|source| ServerError::Listen {
                address: config.http,
                source,
            })?;
        let http_addr = listener.local_addr().map_err(|source| ServerError::Listen {
            address: config.http,
            source,
        })?;
        if !http_addr.ip().is_loopback() {
            tracing::warn!(%http_addr, "HTTP asks nobody who they are yet: whoever reaches this address may read, write and COPY files");
        }
        let mut cluster = ClusterConfig::new(config.node.clone(), config.data_dir.clone())
            .with_awareness(config.awareness)
            .with_storage(config.storage.clone())
            .with_region(config.region.clone());
        if let Some(certs_dir) = &config.certs_dir {
            cluster = cluster.with_links(config.link, certs_dir);
        }
        let cluster = Node::start(cluster).await?;
        let engine = Engine::new(&config.engine)?;
        let metrics = Metrics::new()?;
        let shared = Arc::new(Shared {
            node_header: header(cluster.name().as_str()),
            boot_header: header(&cluster.boot_id().to_string()),
            in_flight: Arc::new(Semaphore::new(config.requests_in_flight_max)),
            sessions: Sessions::default(),
            running: Running::default(),
            parsed: Parsed::default(),
            making_default: tokio::sync::Mutex::new(()),
            turns: Turns::default(),
            reserved: ReservedValues::default(),
            stopping: AtomicBool::new(false),
            http_addr,
            config,
            cluster,
            engine,
            metrics,
        });
        let (stop, stopped) = watch::channel(false);
        let tasks = vec![
            tokio::spawn(serve(listener, Arc::clone(&shared), stopped.clone())),
            tokio::spawn(sweep(Arc::clone(&shared), stopped)),
        ];
        Ok(Self { shared, stop, tasks })
    }

    /// Where HTTP listens, with the port that was taken.
    pub fn http_addr(&self) -> SocketAddr {
        self.shared.http_addr
    }

    /// Where links listen; `None` on a node without credentials.
    pub fn link_addr(&self) -> Option<SocketAddr> {
        self.shared.cluster.link_addr()
    }

    /// The cluster's side of this node.
    pub fn node(&self) -> &Node {
        &self.shared.cluster
    }

    /// Ends the node: not ready from now on, no new requests, those in flight have a bounded time, then the links and
    /// the logs are closed.
    pub async fn shutdown(self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // Receivers that are gone have ended already.
        let _ = self.stop.send(true);
        let end = Instant::now() + STOP_TIME_MAX;
        for task in self.tasks {
            if tokio::time::timeout_at(end.into(), task).await.is_err() {
                tracing::warn!("requests in flight were cut off: they took longer than {STOP_TIME_MAX:?} to end");
            }
        }
        self.shared.cluster.shutdown().await;
    }
}

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("unprintable"))
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let listener = listener.tap_io(|stream| {
        // Answers are small and wait for nobody.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps delaying small answers");
        }
    });
    let served = axum::serve(listener, http::router(shared)).with_graceful_shutdown(async move {
        // An error means that the server itself is gone.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    if let Err(error) = served.await {
        tracing::error!(%error, "the HTTP listener ended");
    }
}

async fn sweep(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => shared.sessions.sweep(Instant::now()),
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}
