//! Performs a [`Source`]: reads from the log, proves leadership, sends.

use std::sync::Arc;

use candor_proto::{NodeName, Position};
use candor_storage::{Agreement, Entry, StorageError};
use futures::future::{BoxFuture, FutureExt, OptionFuture};
use quinn::SendStream;
use tokio::task::JoinHandle;

use super::stream::Incoming;
use crate::collect::{Source, SourceOutput};
use crate::frame::{self, Collect, FrameError, Refusal, Reply, Request};
use crate::node::{Inner, Led, Slot};
use crate::raft_group::Rejected;

type Reading = JoinHandle<Result<Vec<Entry>, StorageError>>;
type Confirming = BoxFuture<'static, Result<Position, Rejected>>;

/// Serves one collection until the follower or the leadership goes.
pub(super) async fn serve_collection(
    node: &Inner,
    follower: &NodeName,
    collect: Collect,
    send: &mut SendStream,
    requests: Incoming<Request>,
) -> Result<(), FrameError> {
    match open(node, follower, &collect).await {
        Ok((slot, led)) => {
            let source = Source::new(collect.ask, collect.max_bytes, slot.store.applied().0);
            let mut serving = Serving {
                node,
                follower,
                slot,
                led,
                source,
                reading: None,
                confirming: None,
            };
            serving.run(send, requests).await
        }
        Err(reply) => {
            tracing::info!(%follower, range = %collect.range, "collection refused: {reply:?}");
            frame::write(send, &reply).await?;
            // An error means that the follower is gone.
            let _ = send.finish();
            Ok(())
        }
    }
}

/// The range, if this node leads the very one asked for and its log continues the follower's.
async fn open(node: &Inner, follower: &NodeName, collect: &Collect) -> Result<(Arc<Slot>, Arc<Led>), Reply> {
    let refused = |refusal| Err(Reply::Refused(refusal));
    let Some((slot, led)) = node.led(&collect.range) else {
        return refused(Refusal::NotLeader);
    };
    if slot.store.id() != collect.range_id {
        return refused(Refusal::Foreign(slot.store.id()));
    }
    let now = node.clock.now();
    let (store, ask) = (Arc::clone(&slot.store), collect.ask);
    // A follower that is far behind makes the store read an old file of the log.
    let agreement = tokio::task::spawn_blocking(move || store.agreement(ask.position, ask.chain)).await;
    let agreement = match agreement {
        Ok(Ok(agreement)) => agreement,
        failed => {
            tracing::error!(range = %slot.name, %follower, "the log cannot be compared with a follower's: {failed:?}");
            return refused(Refusal::NotLeader);
        }
    };
    match agreement {
        Agreement::Fits => {
            led.followers.lock().handle_ask(now, follower, collect.ask.position);
            Ok((slot, led))
        }
        Agreement::Behind { newest } => {
            // What it holds beyond this point is not of this log, so this is where it stands.
            led.followers.lock().handle_ask(now, follower, newest);
            Err(Reply::Behind { agreed: newest })
        }
        Agreement::Foreign => refused(Refusal::SnapshotRequired),
    }
}

struct Serving<'a> {
    node: &'a Inner,
    follower: &'a NodeName,
    slot: Arc<Slot>,
    led: Arc<Led>,
    source: Source,
    reading: Option<Reading>,
    confirming: Option<Confirming>,
}

impl Serving<'_> {
    async fn run(&mut self, send: &mut SendStream, mut requests: Incoming<Request>) -> Result<(), FrameError> {
        let mut applied = self.slot.applied.clone();
        loop {
            self.perform(send).await?;
            tokio::select! {
                request = requests.next() => match request.transpose()? {
                    Some(Request::Ask(ask)) => {
                        self.source.handle_ask(ask)?;
                        self.led.followers.lock().handle_ask(self.node.clock.now(), self.follower, ask.position);
                    }
                    Some(_) => return Err(FrameError::Unexpected),
                    None => return Ok(()),
                },
                changed = applied.changed() => {
                    // The range was removed.
                    if changed.is_err() {
                        return end(send).await;
                    }
                    applied.mark_unchanged();
                    self.source.handle_tail(self.slot.store.applied().0);
                }
                () = self.slot.stop.cancelled() => return end(send).await,
                Some(read) = OptionFuture::from(self.reading.as_mut()) => {
                    self.reading = None;
                    let Some(entries) = self.read_or_say(read) else { return end(send).await };
                    self.source.handle_entries(entries);
                }
                Some(confirmed) = OptionFuture::from(self.confirming.as_mut()) => {
                    self.confirming = None;
                    let Ok(tail) = confirmed else { return end(send).await };
                    self.source.handle_confirmed(tail);
                }
            }
        }
    }

    async fn perform(&mut self, send: &mut SendStream) -> Result<(), FrameError> {
        while let Some(output) = self.source.poll_output() {
            match output {
                SourceOutput::Send(reply) => frame::write(send, &reply).await?,
                SourceOutput::Read { after, upto, max_bytes } => {
                    let store = Arc::clone(&self.slot.store);
                    self.reading = Some(tokio::task::spawn_blocking(move || store.read(after, upto, max_bytes)));
                }
                SourceOutput::Confirm => {
                    let led = Arc::clone(&self.led);
                    self.confirming = Some(async move { led.handle.read_index().await }.boxed());
                }
            }
        }
        Ok(())
    }

    fn read_or_say(
        &self,
        read: Result<Result<Vec<Entry>, StorageError>, tokio::task::JoinError>,
    ) -> Option<Vec<Entry>> {
        let range = &self.slot.name;
        match read {
            Ok(Ok(entries)) => Some(entries),
            Ok(Err(error)) => {
                tracing::error!(%range, follower = %self.follower, "the log cannot be read for a follower: {error}");
                None
            }
            Err(error) => {
                tracing::error!(%range, follower = %self.follower, "reading the log for a follower failed: {error}");
                None
            }
        }
    }
}

/// This node does not lead the range any more, or cannot read it.
async fn end(send: &mut SendStream) -> Result<(), FrameError> {
    frame::write(send, &Reply::Refused(Refusal::NotLeader)).await?;
    // An error means that the follower is gone.
    let _ = send.finish();
    Ok(())
}
