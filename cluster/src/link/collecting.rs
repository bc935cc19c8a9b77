//! Performs a [`Collector`]: dials the upstream's stream, writes entries to the log, applies them.

use std::sync::Arc;
use std::time::Duration;

use candor_proto::{Chain, NodeName, Position};
use candor_storage::{Entry, RangeStore, StorageError};
use quinn::{Connection, SendStream};
use tokio::sync::watch;

use super::stream::Incoming;
use crate::collect::{Collector, CollectorOutput};
use crate::frame::{self, FrameError, Refusal, Reply, Request};
use crate::node::{Collected, Inner, Slot};
use crate::raft_group::stop_process;

/// The shortest wait before a collection that failed is tried again; it doubles up to [`RETRY_MOST`].
const RETRY_LEAST: Duration = Duration::from_millis(20);
const RETRY_MOST: Duration = Duration::from_secs(5);

/// Answers that arrived together are made durable together, up to this weight of entries.
const APPLY_BYTES: u64 = super::super::collect::WINDOW_BYTES as u64;

/// Why one stream of collection ended.
#[derive(Debug, thiserror::Error)]
enum CollectError {
    #[error("the upstream ended the collection")]
    Ended,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Connection(#[from] quinn::ConnectionError),
    #[error("{0}")]
    Refused(Refusal),
    #[error("the upstream's entries do not fit: {0}")]
    Storage(#[from] StorageError),
    #[error("the copy and the leader's log agree only up to {0}, which is older than what was applied")]
    Diverged(Position),
}

/// Keeps one copy collecting from its upstream until the copy is replaced or the node stops.
pub(crate) async fn collect_range(node: Arc<Inner>, slot: Arc<Slot>, copy: Arc<Collected>) {
    let at = slot.store.applied();
    let collector = Collector::new(slot.name.clone(), slot.store.id(), node.cfg.awareness, at);
    let mut collecting = Collecting {
        node: Arc::clone(&node),
        slot: Arc::clone(&slot),
        copy,
        collector,
        wait: RETRY_LEAST,
    };
    tokio::select! {
        () = slot.stop.cancelled() => {}
        () = collecting.run() => {}
    }
}

struct Collecting {
    node: Arc<Inner>,
    slot: Arc<Slot>,
    copy: Arc<Collected>,
    collector: Collector,
    wait: Duration,
}

impl Collecting {
    async fn run(&mut self) {
        let mut upstream = self.copy.upstream.subscribe();
        loop {
            let Some((peer, connection)) = self.reach(&mut upstream).await else {
                return;
            };
            let error = tokio::select! {
                Err(error) = self.stream(&connection) => error,
                // Another peer leads now, or nobody does.
                _ = upstream.wait_for(|now| now.as_ref() != Some(&peer)) => continue,
            };
            self.collector.handle_closed();
            if let CollectError::Diverged(agreed) = error {
                self.node.set_aside(&self.slot, agreed);
                return;
            }
            self.copy.say(&self.slot.name, &peer, Some(error.to_string()));
            tokio::time::sleep(self.wait).await;
            self.wait = (self.wait * 2).min(RETRY_MOST);
        }
    }

    /// Waits until there is an upstream and the link to it is up. `None` when the node goes.
    async fn reach(&self, upstream: &mut watch::Receiver<Option<NodeName>>) -> Option<(NodeName, Connection)> {
        loop {
            let peer = upstream.wait_for(Option::is_some).await.ok()?.clone()?;
            let Some(link) = self.node.link_to(&peer) else {
                // Its declaration went with the upstream's change on its heels.
                upstream.changed().await.ok()?;
                continue;
            };
            let mut connection = link.connection();
            let up = tokio::select! {
                moved = upstream.wait_for(|now| now.as_ref() != Some(&peer)) => moved.is_err().then_some(None),
                () = link.stop.cancelled() => None,
                up = connection.wait_for(Option::is_some) => Some(up.ok().and_then(|up| up.clone())),
            };
            match up {
                Some(connection) => return connection.map(|connection| (peer, connection)),
                // Another upstream, or the same one declared anew with another link.
                None => tokio::task::yield_now().await,
            }
        }
    }

    async fn stream(&mut self, connection: &Connection) -> Result<std::convert::Infallible, CollectError> {
        let (mut send, recv) = connection.open_bi().await?;
        let mut replies: Incoming<Reply> = Incoming::of(recv);
        self.collector.handle_opened(self.node.clock.now());
        loop {
            // Also when replies never end: asks are what keeps the copy's age known.
            self.collector.handle_time(self.node.clock.now());
            self.perform(&mut send).await?;
            let now = self.node.clock.now();
            let due = self
                .collector
                .next_wakeup()
                .map_or(Duration::MAX, |due| due.saturating_sub(now));
            tokio::select! {
                reply = replies.next() => {
                    let reply = reply.ok_or(CollectError::Ended)??;
                    self.take(reply, &mut replies)?;
                }
                () = tokio::time::sleep(due) => {}
            }
        }
    }

    /// Hands over a reply, and those that arrived with it.
    fn take(&mut self, first: Reply, replies: &mut Incoming<Reply>) -> Result<(), CollectError> {
        let mut weight = 0;
        let mut next = Some(first);
        while let Some(reply) = next {
            if let Reply::Answer(answer) = &reply {
                weight += crate::collect::weight(&answer.entries);
            }
            self.collector.handle_reply(self.node.clock.now(), reply)?;
            next = if weight < APPLY_BYTES {
                replies.ready().transpose()?
            } else {
                None
            };
        }
        Ok(())
    }

    async fn perform(&mut self, send: &mut SendStream) -> Result<(), CollectError> {
        loop {
            let mut entries = Vec::new();
            let mut sends = Vec::new();
            while let Some(output) = self.collector.poll_output() {
                match output {
                    CollectorOutput::Send(request) => sends.push(request),
                    CollectorOutput::Apply(more) => entries.extend(more),
                    CollectorOutput::GoBack(agreed) => return Err(CollectError::Diverged(agreed)),
                    CollectorOutput::End(refusal) => return Err(CollectError::Refused(refusal)),
                }
            }
            for request in sends {
                frame::write::<Request>(send, &request).await?;
            }
            if entries.is_empty() {
                self.publish();
                return Ok(());
            }
            let (position, chain) = self.apply(entries).await?;
            self.collector.handle_applied(position, chain);
            self.wait = RETRY_LEAST;
        }
    }

    /// One fsync for all of them; visible when this returns.
    async fn apply(&self, entries: Vec<Entry>) -> Result<(Position, Chain), CollectError> {
        let store = Arc::clone(&self.slot.store);
        let applied = tokio::task::spawn_blocking(move || append_and_apply(&store, &entries)).await;
        match applied {
            Ok(Ok(at)) => Ok(at),
            Ok(Err(error)) if error.is_fatal() => stop_process(&self.slot.name, &error),
            Ok(Err(error)) => Err(error.into()),
            Err(panic) => stop_process(&self.slot.name, &panic),
        }
    }

    /// What others may know: the copy lacks nothing that was committed before this instant. Written after the
    /// entries became visible, so who reads the instant first and takes a snapshot then is never promised too much.
    fn publish(&self) {
        let upstream = self.copy.upstream.borrow().clone();
        if let Some(upstream) = upstream.filter(|_| self.collector.tail().is_some()) {
            self.copy.say(&self.slot.name, &upstream, None);
        }
        self.copy.publish(self.collector.fresh_at(), self.collector.tail());
    }
}

fn append_and_apply(store: &RangeStore, entries: &[Entry]) -> Result<(Position, Chain), StorageError> {
    // Entries that were appended and not applied before the last stream broke come again.
    let held = store.last().0.index;
    let new = entries.partition_point(|entry| entry.position.index <= held);
    store.append_collected(&entries[new..])?;
    store.sync()?;
    let applied = store.applied().0.index;
    let next = entries.partition_point(|entry| entry.position.index <= applied);
    if entries
        .get(next)
        .is_some_and(|entry| entry.position.index == applied.next())
    {
        store.apply(&entries[next..])?;
    }
    // What is left, if there is anything, is read back.
    store.apply_to(store.last().0.index)?;
    Ok(store.applied())
}
