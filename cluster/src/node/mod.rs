//! One node: its ranges, its peers, and what it knows about both.
//!
//! [`Node`] is what the server holds. Everything a statement asks of it is answered from memory, without a network call:
//! who leads, how old the copies are, whether a version is here. Only a write and a proof of leadership go through
//! the range's thread.

mod boot;
mod bulk;
mod keeper;
mod peers;
mod ranges;
mod slot;
mod status;
mod upkeep;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use candor_proto::{BootId, LogIndex, NodeName, Position, RangeName};
use candor_storage::{CacheFigures, RangeStore, StoreOptions, Transaction};
use parking_lot::RwLock;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub use bulk::Bulk;
pub(crate) use slot::{Collected, Led, Slot};
pub use status::{CopyRow, PeerRow};

use crate::awareness::Awareness;
use crate::clock::{Clock, Token};
use crate::config::ClusterConfig;
use crate::error::{ClusterError, NotLeader, ProposeError};
use crate::followers::FollowerRow;
use crate::link::{CLOSED_STOPPING, Links};
use crate::raft_group::{Committed, Rejected};
use crate::split::{self, SplitError};
use peers::Peer;

/// A transaction whose rows take more memory than this is encoded off the async threads, bytes.
const ENCODE_INLINE_BYTES: usize = 64 << 10;

/// How long a stopping node waits for its links to say goodbye.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(1);

/// A running node. Clones share it; [`shutdown`](Self::shutdown) ends it for all of them.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.inner.cfg.node)
            .finish_non_exhaustive()
    }
}

/// What the node's tasks share.
pub(crate) struct Inner {
    pub(crate) cfg: ClusterConfig,
    pub(crate) clock: Clock,
    pub(crate) links: Option<Links>,
    pub(crate) stop: CancellationToken,
    boot_id: BootId,
    booted_at_ms: u64,
    sequence: AtomicU64,
    system: Arc<Slot>,
    slots: RwLock<BTreeMap<RangeName, Arc<Slot>>>,
    /// Held while a range is made, removed or replaced, so that two of these never meet.
    changing: Mutex<()>,
    awareness: RwLock<Awareness>,
    peers: RwLock<Arc<[Peer]>>,
    /// Something was heard, or declared: upstreams and discoveries are reviewed.
    news: Notify,
    tasks: TaskTracker,
    /// How the stores of ranges are opened.
    store_options: StoreOptions,
    /// Bytes of rows in memory, of all ranges, when it was last looked at.
    delta_bytes: AtomicU64,
    /// Keeps other processes off the data directory until the node has stopped.
    lock: parking_lot::Mutex<Option<File>>,
}

impl Inner {
    /// Runs a task until it ends; [`Node::shutdown`] waits for it. The name stands in its log lines.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let span = tracing::info_span!(target: "candor_cluster", "task", name, node = %self.cfg.node);
        self.tasks.spawn(task.instrument(span));
    }

    fn not_leader(&self, range: &RangeName) -> NotLeader {
        NotLeader {
            node: self.cfg.node.clone(),
            range: range.clone(),
        }
    }

    fn rejected(&self, range: &RangeName, why: Rejected) -> ProposeError {
        match why {
            Rejected::NotLeader => self.not_leader(range).into(),
            Rejected::Stopping => ProposeError::Stopping,
        }
    }
}

impl Node {
    /// Opens the data directory, takes up the leadership of the ranges this node leads, listens and dials.
    ///
    /// # Errors
    /// The directory, the certificates or the address cannot be used, or a log on disk is damaged.
    pub async fn start(cfg: ClusterConfig) -> Result<Self, ClusterError> {
        boot::start(cfg).await.map(|inner| Self { inner })
    }

    /// This node's name.
    pub fn name(&self) -> &NodeName {
        &self.inner.cfg.node
    }

    /// Drawn when this process started.
    pub fn boot_id(&self) -> BootId {
        self.inner.boot_id
    }

    /// How often nodes greet each other.
    pub fn awareness(&self) -> Duration {
        self.inner.cfg.awareness
    }

    /// Where this node stands.
    pub fn region(&self) -> Option<&str> {
        self.inner.cfg.region.as_deref()
    }

    /// Where peers dial this node, `None` without certificates.
    pub fn link_addr(&self) -> Option<SocketAddr> {
        self.inner.links.as_ref()?.endpoint.local_addr().ok()
    }

    /// The namespaces this node holds, led or collected.
    pub fn ranges(&self) -> Vec<RangeName> {
        self.inner.slots.read().keys().cloned().collect()
    }

    /// The copy of a range, `system` included.
    pub fn store(&self, range: &RangeName) -> Option<Arc<RangeStore>> {
        self.inner.slot(range).map(|slot| Arc::clone(&slot.store))
    }

    /// This node's own range of declarations.
    pub fn system(&self) -> Arc<RangeStore> {
        Arc::clone(&self.inner.system.store)
    }

    /// Makes a namespace that this node leads.
    ///
    /// # Errors
    /// One of this name exists here or at a peer, the name cannot be used, or the disk refused.
    pub async fn define_range(&self, range: RangeName) -> Result<(), ProposeError> {
        self.inner.define(range).await
    }

    /// Removes a namespace that this node leads, with everything in it. Copies at other nodes stay until they are
    /// removed there.
    ///
    /// # Errors
    /// This node does not lead it.
    pub async fn remove_range(&self, range: &RangeName) -> Result<(), ProposeError> {
        self.inner.remove(range).await
    }

    /// Writes a transaction to the log of a range and waits until it is durable and applied.
    ///
    /// # Errors
    /// This node does not lead the range, the transaction cannot stand in a log, rows take all the memory they may at the
    /// moment, or the node stops meanwhile, which
    /// leaves the outcome open until it runs again. A conflict is an [`Outcome`](candor_storage::Outcome), not an
    /// error.
    pub async fn propose(&self, range: &RangeName, transaction: Transaction) -> Result<Committed, ProposeError> {
        let (_, led) = self.inner.led(range).ok_or_else(|| self.inner.not_leader(range))?;
        self.inner.check_room()?;
        let records = encode(transaction).await?;
        let proposed = led.handle.propose(records).await;
        let committed = proposed.map_err(|why| self.inner.rejected(range, why))?;
        if *range == RangeName::system() {
            self.inner.refresh_peers();
        }
        Ok(committed)
    }

    /// The committed tail of a range at an instant within this call, with proof that this node led then: what an
    /// `ANSWERED BY LEADER` read must see.
    ///
    /// # Errors
    /// This node cannot prove it.
    pub async fn prove_leadership(&self, range: &RangeName) -> Result<Position, NotLeader> {
        let (_, led) = self.inner.led(range).ok_or_else(|| self.inner.not_leader(range))?;
        led.handle.read_index().await.map_err(|_| self.inner.not_leader(range))
    }

    /// Waits until a version is visible here, at most `timeout`. Returns whether it is.
    pub async fn wait_applied(&self, range: &RangeName, index: LogIndex, timeout: Duration) -> bool {
        let Some(slot) = self.inner.slot(range) else {
            return false;
        };
        let mut applied = slot.applied.clone();
        matches!(
            tokio::time::timeout(timeout, applied.wait_for(|newest| *newest >= index)).await,
            Ok(Ok(_))
        )
    }

    /// What this node knows about a range now, for the planner. Local and cheap: called for each statement.
    pub fn view(&self, range: &RangeName) -> candor_planner::View {
        self.inner.view(range)
    }

    /// Who collects a range that this node leads; empty where it does not lead.
    pub fn followers(&self, range: &RangeName) -> Vec<FollowerRow> {
        self.inner.followers(range)
    }

    /// How the cache of what was read from segments does; all ranges share it.
    pub fn cache_figures(&self) -> CacheFigures {
        self.inner.store_options.cache.figures()
    }

    /// Every declared peer, heard from or not.
    pub fn peers(&self) -> Vec<PeerRow> {
        self.inner.peer_rows()
    }

    /// How each namespace held here gets its entries, and what keeps it from getting them.
    pub fn copies(&self) -> Vec<CopyRow> {
        self.inner.copy_rows()
    }

    /// Which peer a range is collected from now.
    pub fn upstream(&self, range: &RangeName) -> Option<NodeName> {
        self.inner.slot(range)?.collected()?.upstream.borrow().clone()
    }

    /// Ends links, tasks and threads. What was proposed before is written and answered; what comes after is refused.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        inner.stop.cancel();
        if let Some(links) = &inner.links {
            links.endpoint.close(CLOSED_STOPPING, b"stopping");
        }
        inner.tasks.close();
        inner.tasks.wait().await;
        let slots: Vec<Arc<Slot>> = inner.slots.read().values().cloned().collect();
        for slot in slots.iter().chain([&inner.system]) {
            slot.end().await;
        }
        inner.lock.lock().take();
        if let Some(links) = &inner.links {
            // Peers that do not hear it notice by silence.
            let _ = tokio::time::timeout(GOODBYE_TIME_MAX, links.endpoint.wait_idle()).await;
        }
    }
}

impl Inner {
    fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn token(&self) -> Token {
        Token::of(self.clock.now())
    }
}

/// The records of a transaction; a large one is encoded where it delays nobody.
async fn encode(transaction: Transaction) -> Result<Vec<(u8, bytes::Bytes)>, ProposeError> {
    let memory: usize = transaction
        .changes
        .iter()
        .flat_map(|change| change.ended.iter().chain(&change.begun))
        .map(arrow::array::RecordBatch::get_array_memory_size)
        .sum();
    let txn = random_u128();
    let split = if memory <= ENCODE_INLINE_BYTES {
        split::records(transaction, txn)
    } else {
        tokio::task::spawn_blocking(move || split::records(transaction, txn))
            .await
            .map_err(|_| ProposeError::Stopping)?
    };
    split.map_err(unfit)
}

fn unfit(error: SplitError) -> ProposeError {
    match error {
        SplitError::Encode(error) => ProposeError::Encode(error),
        SplitError::Refused(refusal) => ProposeError::Refused(refusal),
        SplitError::TooLarge(bytes) => ProposeError::TooLarge {
            bytes,
            limit: candor_proto::limits::ENTRY_BYTES_MAX,
        },
    }
}

/// A number that no two processes and no two calls draw alike.
fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .expect("the system gives random numbers, as it did for TLS");
    u128::from_be_bytes(bytes)
}
