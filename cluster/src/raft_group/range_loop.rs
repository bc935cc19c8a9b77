//! The thread that performs one group, and the handle that others hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use candor_proto::{Chain, Epoch, LogIndex, Position, RangeName};
use candor_storage::{Outcome, RangeStore};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::group::Group;
use crate::error::ClusterError;

/// Commands that wait for the thread; one more waits at the sender. Enough that a batch fills while the one before
/// it is on its way to disk.
const QUEUE_COUNT: usize = 1024;

/// Payload that waits for the thread, in units of 1 KiB: 64 MiB, so that writers never decide how much memory a
/// range uses.
const QUEUE_KIB: u32 = 64 << 10;

/// A batch is closed once it holds this much payload: 4 MiB are written in a few milliseconds, and the first writer
/// of the batch waits for the last.
const BATCH_BYTES: usize = 4 << 20;

/// One proposal made it into the log and was applied.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Where it stands; its index is the version it made.
    pub position: Position,
    /// What every replica decided about it.
    pub outcome: Outcome,
    /// The running hash there.
    pub chain: Chain,
}

/// The range does not take the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    NotLeader,
    /// The thread ended: whether a proposal got into the log is known after the restart.
    Stopping,
}

/// What becomes of a proposal, once it is known; an error if the thread ends before.
pub(crate) type Answer = oneshot::Receiver<Result<Committed, Rejected>>;

enum Command {
    Propose {
        records: Vec<(u8, Bytes)>,
        _memory: OwnedSemaphorePermit,
        reply: oneshot::Sender<Result<Committed, Rejected>>,
    },
    ReadIndex {
        reply: oneshot::Sender<Result<Position, Rejected>>,
    },
    Stop,
}

/// The way to a range's thread.
#[derive(Debug)]
pub(crate) struct RangeHandle {
    commands: mpsc::Sender<Command>,
    memory: Arc<Semaphore>,
    epoch: Epoch,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl RangeHandle {
    /// Gives the group its thread.
    pub(crate) fn spawn(group: Group, store: Arc<RangeStore>) -> Result<Self, ClusterError> {
        let (commands, queue) = mpsc::channel(QUEUE_COUNT);
        let epoch = group.epoch();
        let range = store.name().clone();
        let thread = std::thread::Builder::new()
            .name(format!("range-{range}"))
            .spawn(move || RangeLoop { group, store, queue }.run())
            .map_err(|source| ClusterError::Io {
                doing: "start a thread for",
                path: range.as_str().into(),
                source,
            })?;
        Ok(Self {
            commands,
            memory: Arc::new(Semaphore::new(QUEUE_KIB as usize)),
            epoch,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The epoch this node leads the range at. With one voter it lasts as long as the thread.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Appends the records one after the other and returns what became of the last one.
    pub(crate) async fn propose(&self, records: Vec<(u8, Bytes)>) -> Result<Committed, Rejected> {
        self.submit(records).await?.await.map_err(|_| Rejected::Stopping)?
    }

    /// Hands the records over, to be appended one after the other behind all that was handed over before. What becomes of
    /// the last one comes later.
    pub(crate) async fn submit(&self, records: Vec<(u8, Bytes)>) -> Result<Answer, Rejected> {
        let bytes: usize = records.iter().map(|(_, payload)| payload.len()).sum();
        // A proposal larger than the whole budget has the queue to itself.
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(QUEUE_KIB).min(QUEUE_KIB);
        let memory = Arc::clone(&self.memory)
            .acquire_many_owned(kib)
            .await
            .map_err(|_| Rejected::Stopping)?;
        let (reply, answer) = oneshot::channel();
        let command = Command::Propose {
            records,
            _memory: memory,
            reply,
        };
        self.commands.send(command).await.map_err(|_| Rejected::Stopping)?;
        Ok(answer)
    }

    /// The committed tail at an instant after this call began, proved by the group.
    pub(crate) async fn read_index(&self) -> Result<Position, Rejected> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::ReadIndex { reply })
            .await
            .map_err(|_| Rejected::Stopping)?;
        answer.await.map_err(|_| Rejected::Stopping)?
    }

    /// Ends the thread after everything queued before this call; waits for it.
    pub(crate) async fn stop(&self) {
        // An error means that the thread is gone already.
        let _ = self.commands.send(Command::Stop).await;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

struct RangeLoop {
    group: Group,
    store: Arc<RangeStore>,
    queue: mpsc::Receiver<Command>,
}

/// Who waits for what in one batch.
#[derive(Default)]
struct Batch {
    writers: BTreeMap<LogIndex, oneshot::Sender<Result<Committed, Rejected>>>,
    readers: Vec<oneshot::Sender<Result<Position, Rejected>>>,
    bytes: usize,
    stop: bool,
}

impl RangeLoop {
    fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let mut batch = Batch::default();
            self.take(first, &mut batch);
            while batch.bytes < BATCH_BYTES && !batch.stop {
                let Ok(next) = self.queue.try_recv() else { break };
                self.take(next, &mut batch);
            }
            self.settle(&mut batch);
            if batch.stop {
                break;
            }
        }
    }

    fn take(&mut self, command: Command, batch: &mut Batch) {
        match command {
            Command::Propose { records, reply, .. } => {
                batch.bytes += records.iter().map(|(_, payload)| payload.len()).sum::<usize>();
                match self.group.propose(records) {
                    Some(index) => {
                        batch.writers.insert(index, reply);
                    }
                    None => answer(reply, Err(Rejected::NotLeader)),
                }
            }
            Command::ReadIndex { reply } => batch.readers.push(reply),
            Command::Stop => batch.stop = true,
        }
    }

    fn settle(&mut self, batch: &mut Batch) {
        let settled = self
            .group
            .settle()
            .unwrap_or_else(|error| stop_process(self.store.name(), &error));
        for (index, outcome) in settled.outcomes {
            let Some(reply) = batch.writers.remove(&index) else {
                continue;
            };
            let (Some(position), Some(chain)) = (self.store.position_of(index), self.store.chain_at(index)) else {
                unreachable!("an entry just applied is in the log");
            };
            answer(
                reply,
                Ok(Committed {
                    position,
                    outcome,
                    chain,
                }),
            );
        }
        assert!(batch.writers.is_empty(), "every proposal of a batch is applied with it");
        self.prove(batch);
    }

    /// One proof for everybody who waits: asked for after all of them arrived, and after the batch's writes, so a
    /// reader sees a write of the same batch.
    fn prove(&mut self, batch: &mut Batch) {
        if batch.readers.is_empty() {
            return;
        }
        self.group.read_index();
        let settled = self
            .group
            .settle()
            .unwrap_or_else(|error| stop_process(self.store.name(), &error));
        let tail = settled.read.ok_or(Rejected::NotLeader);
        for reader in batch.readers.drain(..) {
            answer(reader, tail);
        }
    }
}

/// The caller may have gone away; its write stands all the same.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    let _ = reply.send(value);
}

/// The log of a range failed under its leader. What is on disk is unknown until it is read again, so nothing may be
/// acknowledged or read from memory any more.
pub(crate) fn stop_process(range: &RangeName, error: &dyn std::error::Error) -> ! {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        why = format!("{why}: {deeper}");
        source = deeper.source();
    }
    tracing::error!(%range, "the log failed; this process stops, and a restart reads it again: {why}");
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::Command as Process;

    use candor_proto::{NodeName, RangeId};
    use candor_storage::disk::{CrashDisk, Faults};
    use candor_storage::{Record, StoreOptions};

    use super::*;

    /// Set in the process that is to stop.
    const CHILD: &str = "CANDOR_TEST_FSYNC_FAILS";

    /// The test runs itself once more in a process of its own, which must not outlive its fsync.
    #[test]
    fn a_failed_fsync_stops_the_process_before_anything_is_acknowledged() {
        if std::env::var_os(CHILD).is_some() {
            propose_on_a_disk_that_fails();
            return;
        }
        let name = "raft_group::range_loop::tests::a_failed_fsync_stops_the_process_before_anything_is_acknowledged";
        let child = Process::new(std::env::current_exe().expect("this test"))
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("first write acknowledged"), "{said}");
        assert!(!said.contains("second write acknowledged"), "{said}");
        assert_eq!(child.status.signal(), Some(6), "aborted: {:?}", child.status);
    }

    #[tokio::main(flavor = "current_thread")]
    async fn propose_on_a_disk_that_fails() {
        let votes = tempfile::tempdir().expect("tempdir");
        let disk = CrashDisk::new(1);
        let options = StoreOptions {
            disk: Arc::new(disk.clone()),
            ..StoreOptions::default()
        };
        let range = RangeName::new("main");
        let store = RangeStore::create_with(options, Path::new("/log"), &range, RangeId(7)).expect("creates");
        let group = Group::start(Arc::clone(&store), votes.path(), NodeName::new("n1")).expect("starts");
        let handle = RangeHandle::spawn(group, store).expect("spawns");
        let record = || Record::Horizon { index: LogIndex(1) }.encode().expect("encodes");
        handle.propose(vec![record()]).await.expect("acknowledged");
        println!("first write acknowledged");
        disk.set_faults(Faults {
            syncs_last: Some(0),
            ..Faults::default()
        });
        if handle.propose(vec![record()]).await.is_ok() {
            println!("second write acknowledged");
        }
        // A range that only refused would end here, with another status.
        std::process::exit(0);
    }
}
