//! One range that this node holds: its store, and where its entries come from.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use candor_proto::{LogIndex, NodeName, Position, RangeName};
use candor_storage::RangeStore;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::followers::Followers;
use crate::raft_group::RangeHandle;

/// A range held here.
pub(crate) struct Slot {
    pub(crate) name: RangeName,
    pub(crate) store: Arc<RangeStore>,
    pub(crate) folder: PathBuf,
    /// The newest version that is visible.
    pub(crate) applied: watch::Receiver<LogIndex>,
    /// The range is removed or replaced, or the node stops.
    pub(crate) stop: CancellationToken,
    pub(crate) kind: SlotKind,
}

/// Where the entries of a range come from.
pub(crate) enum SlotKind {
    /// From this node itself.
    Led(Arc<Led>),
    /// From a peer.
    Collected(Arc<Collected>),
}

/// A range that this node leads.
pub(crate) struct Led {
    pub(crate) handle: RangeHandle,
    pub(crate) followers: Mutex<Followers>,
}

/// A copy that this node collects.
pub(crate) struct Collected {
    pub(crate) upstream: watch::Sender<Option<NodeName>>,
    /// Nanoseconds since the process started at which the copy lacked nothing; 0 = not known.
    fresh_at: AtomicU64,
    said: Mutex<Said>,
}

#[derive(Clone, Debug, Default)]
struct Said {
    problem: Option<String>,
    tail: Option<Position>,
}

impl Slot {
    /// A slot whose `applied` follows the store.
    pub(crate) fn new(store: Arc<RangeStore>, folder: PathBuf, stop: CancellationToken, kind: SlotKind) -> Arc<Self> {
        let (sender, applied) = watch::channel(LogIndex::ZERO);
        let moved = move |index: LogIndex| {
            sender.send_if_modified(|newest| {
                let newer = index > *newest;
                *newest = index.max(*newest);
                newer
            });
        };
        // Subscribed before the first look, so nothing applied in between is missed.
        let seed = moved.clone();
        store.subscribe(Box::new(moved));
        seed(store.applied().0.index);
        Arc::new(Self {
            name: store.name().clone(),
            store,
            folder,
            applied,
            stop,
            kind,
        })
    }

    pub(crate) fn led(&self) -> Option<&Arc<Led>> {
        match &self.kind {
            SlotKind::Led(led) => Some(led),
            SlotKind::Collected(_) => None,
        }
    }

    pub(crate) fn collected(&self) -> Option<&Arc<Collected>> {
        match &self.kind {
            SlotKind::Led(_) => None,
            SlotKind::Collected(collected) => Some(collected),
        }
    }

    /// Upper bound on the age of this copy at `now`.
    pub(crate) fn copy_age(&self, now: Duration) -> Option<Duration> {
        match &self.kind {
            SlotKind::Led(_) => Some(Duration::ZERO),
            SlotKind::Collected(copy) => copy.fresh_at().map(|instant| now.saturating_sub(instant)),
        }
    }

    /// Ends the tasks and the thread of the range; nothing touches its folder afterwards.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        if let Some(led) = self.led() {
            led.handle.stop().await;
        }
        let store = Arc::clone(&self.store);
        // An error means that it panicked, which was reported where it happened.
        let _ = tokio::task::spawn_blocking(move || store.end_maintenance()).await;
    }
}

impl Led {
    pub(crate) fn new(handle: RangeHandle) -> Arc<Self> {
        Arc::new(Self {
            handle,
            followers: Mutex::default(),
        })
    }
}

impl Collected {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            upstream: watch::Sender::new(None),
            fresh_at: AtomicU64::new(0),
            said: Mutex::default(),
        })
    }

    /// The copy lacked nothing at this instant; entries that make it so are visible already.
    pub(crate) fn publish(&self, fresh_at: Option<Duration>, tail: Option<Position>) {
        if let Some(instant) = fresh_at {
            let nanos = u64::try_from(instant.as_nanos()).unwrap_or(u64::MAX);
            self.fresh_at.fetch_max(nanos, Ordering::Release);
        }
        self.said.lock().tail = tail;
    }

    pub(crate) fn fresh_at(&self) -> Option<Duration> {
        match self.fresh_at.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Notes why collection does not get on, or that it does; logs each change once.
    pub(crate) fn say(&self, range: &RangeName, upstream: &NodeName, problem: Option<String>) {
        let mut said = self.said.lock();
        if said.problem == problem {
            return;
        }
        if let Some(words) = &problem {
            tracing::warn!(%range, %upstream, "collection stopped: {words}");
        } else {
            tracing::info!(%range, %upstream, "collection goes on");
        }
        said.problem = problem;
    }

    pub(crate) fn problem(&self) -> Option<String> {
        self.said.lock().problem.clone()
    }

    pub(crate) fn tail(&self) -> Option<Position> {
        self.said.lock().tail
    }
}
