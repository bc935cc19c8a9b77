//! One range on disk and in memory: its log, and the state that applying the log makes.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName};
use parking_lot::{Mutex, RwLock};

use crate::apply::{Applier, Outcome, RangeState};
use crate::disk::{Disk, RealDisk};
use crate::entry::Entry;
use crate::error::{SnapshotError, StorageError};
use crate::log::{Agreement, RangeLog, SEGMENT_SIZE_MAX};
use crate::snapshot::Snapshot;

/// How much of the log is read at once to be applied, bytes.
const APPLY_BYTES: usize = 4 << 20;

/// Where a range keeps its files.
#[derive(Clone)]
pub struct StoreOptions {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// A file of the log that has reached this size takes no more entries, bytes; at most 64 MiB, the default.
    pub segment_size: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            segment_size: SEGMENT_SIZE_MAX,
        }
    }
}

type Subscriber = Arc<dyn Fn(LogIndex) + Send + Sync>;

/// One range: the log on disk, and the tables in memory that applying it makes. All methods may be called from any
/// thread; those that wait for the disk say so.
pub struct RangeStore {
    log: RangeLog,
    applier: Mutex<Applier>,
    published: RwLock<Published>,
    subscribers: RwLock<Vec<Subscriber>>,
}

/// What readers see.
struct Published {
    applied: (Position, Chain),
    state: RangeState,
}

impl RangeStore {
    /// Makes a new range in the folder `dir`, durably.
    ///
    /// # Errors
    /// There is a range in the folder, or the disk refuses.
    pub fn create(dir: &Path, name: &RangeName, id: RangeId) -> Result<Arc<Self>, StorageError> {
        Self::create_with(StoreOptions::default(), dir, name, id)
    }

    /// As [`RangeStore::create`], with other options.
    pub fn create_with(
        options: StoreOptions,
        dir: &Path,
        name: &RangeName,
        id: RangeId,
    ) -> Result<Arc<Self>, StorageError> {
        RangeLog::create(options, dir, name, id).map(Self::over)
    }

    /// Opens the range in the folder `dir`: reads its log back and checks every byte of it. Nothing is applied yet, and
    /// everything the log holds is durable.
    ///
    /// # Errors
    /// No range there, bytes that are not what was written (naming file and offset), or the disk refuses.
    pub fn open(dir: &Path) -> Result<Arc<Self>, StorageError> {
        Self::open_with(StoreOptions::default(), dir)
    }

    /// As [`RangeStore::open`], with other options.
    pub fn open_with(options: StoreOptions, dir: &Path) -> Result<Arc<Self>, StorageError> {
        RangeLog::open(options, dir).map(Self::over)
    }

    fn over(log: RangeLog) -> Arc<Self> {
        let before = LogIndex(log.start().0 - 1);
        let applied = log.position_of(before).zip(log.chain_at(before));
        Arc::new(Self {
            published: RwLock::new(Published {
                applied: applied.expect("a log knows what comes before its first entry"),
                state: RangeState::default(),
            }),
            log,
            applier: Mutex::default(),
            subscribers: RwLock::default(),
        })
    }

    /// The range's name.
    pub fn name(&self) -> &RangeName {
        self.log.name()
    }

    /// The range's id.
    pub fn id(&self) -> RangeId {
        self.log.id()
    }

    /// The last entry of the log, durable or not, and the chain there.
    pub fn last(&self) -> (Position, Chain) {
        self.log.last()
    }

    /// The last entry that was applied, and the chain there.
    pub fn applied(&self) -> (Position, Chain) {
        self.published.read().applied
    }

    /// The oldest version that can be read.
    pub fn horizon(&self) -> LogIndex {
        self.published.read().state.horizon
    }

    /// The index of the first entry that the log holds, or will hold.
    pub fn log_start(&self) -> LogIndex {
        self.log.start()
    }

    /// Adds records as new entries in `epoch`, all or none; not durable before [`RangeStore::sync`].
    ///
    /// # Errors
    /// An epoch older than the log's, a record that is too large, a full disk: the log is as it was. Any other error of
    /// the disk: the log takes no more writes.
    pub fn append(&self, epoch: Epoch, records: &[(u8, Bytes)]) -> Result<Vec<Entry>, StorageError> {
        self.log.append(epoch, records)
    }

    /// Adds entries of another copy's log, all or none; not durable before [`RangeStore::sync`].
    ///
    /// # Errors
    /// As [`RangeStore::append`]; also entries that do not continue this log.
    pub fn append_collected(&self, entries: &[Entry]) -> Result<(), StorageError> {
        self.log.append_collected(entries)
    }

    /// Makes every entry appended before this call durable. Waits for the disk; appends and reads go on meanwhile.
    ///
    /// # Errors
    /// The disk refused: what it holds is not known, the log takes no more writes, and the process must stop.
    pub fn sync(&self) -> Result<(), StorageError> {
        self.log.sync()
    }

    /// Entries behind `after`, up to and including `upto`, of about `max_bytes` at most: at least one, if there is one.
    ///
    /// # Errors
    /// The log starts later, its bytes are damaged, or the disk refuses.
    pub fn read(&self, after: LogIndex, upto: LogIndex, max_bytes: usize) -> Result<Vec<Entry>, StorageError> {
        self.log.read(after, upto, max_bytes)
    }

    /// The position of the entry at `index`; also of what comes before the first entry.
    pub fn position_of(&self, index: LogIndex) -> Option<Position> {
        self.log.position_of(index)
    }

    /// The chain at `index`; also before the first entry.
    pub fn chain_at(&self, index: LogIndex) -> Option<Chain> {
        self.log.chain_at(index)
    }

    /// Bytes that the entries behind `after`, up to and including `upto`, take on disk.
    pub fn bytes_between(&self, after: LogIndex, upto: LogIndex) -> u64 {
        self.log.bytes_between(after, upto)
    }

    /// How a log whose last entry is at `position` with `chain` stands to this one.
    pub fn agreement(&self, position: Position, chain: Chain) -> Agreement {
        self.log.agreement(position, chain)
    }

    /// Cuts the entries behind `index`, durably. Waits for the disk.
    ///
    /// # Errors
    /// Some of them are applied, or the disk refuses.
    pub fn truncate_after(&self, index: LogIndex) -> Result<(), StorageError> {
        // Held, so that nothing is applied that is being cut.
        let _applier = self.applier.lock();
        let applied = self.applied().0.index;
        if index < applied {
            return Err(StorageError::AppliedAlready { index, applied });
        }
        self.log.truncate_after(index)
    }

    /// Applies all entries up to and including `index` that are not applied yet, in order, and returns what each did.
    /// The caller knows that they are committed.
    ///
    /// # Errors
    /// The log ends before `index`, cannot be read, or holds a record that this version does not know. Entries before
    /// the one that failed are applied.
    pub fn apply_to(&self, index: LogIndex) -> Result<Vec<(LogIndex, Outcome)>, StorageError> {
        let mut applier = self.applier.lock();
        let (first, last) = (self.log_start(), self.last().0.index);
        if index > last {
            return Err(StorageError::OutOfLog { index, first, last });
        }
        let mut outcomes = Vec::new();
        let result = self.apply_entries(&mut applier, index, &mut outcomes);
        drop(applier);
        if let Some((newest, _)) = outcomes.last() {
            let subscribers = self.subscribers.read().clone();
            for subscriber in &subscribers {
                subscriber(*newest);
            }
        }
        result.map(|()| outcomes)
    }

    fn apply_entries(
        &self,
        applier: &mut Applier,
        index: LogIndex,
        outcomes: &mut Vec<(LogIndex, Outcome)>,
    ) -> Result<(), StorageError> {
        loop {
            let applied = self.applied().0.index;
            if applied >= index {
                return Ok(());
            }
            for entry in self.log.read(applied, index, APPLY_BYTES)? {
                let index = entry.position.index;
                let outcome = applier
                    .apply(&entry)
                    .map_err(|source| StorageError::Record { index, source })?;
                self.publish(applier, &entry);
                outcomes.push((index, outcome));
            }
        }
    }

    fn publish(&self, applier: &Applier, entry: &Entry) {
        let mut published = self.published.write();
        assert_eq!(
            entry.position.index,
            published.applied.0.index.next(),
            "entries are applied in order"
        );
        published.applied = (entry.position, entry.chain);
        published.state.clone_from(&applier.state);
    }

    /// Calls `f` with the newest version after each [`RangeStore::apply_to`] that applied something, on its thread.
    pub fn subscribe(&self, f: Box<dyn Fn(LogIndex) + Send + Sync>) {
        self.subscribers.write().push(f.into());
    }

    /// The range at a version, or at the newest one.
    ///
    /// # Errors
    /// The version is not there yet, or gone.
    pub fn snapshot(&self, at: Option<LogIndex>) -> Result<Snapshot, SnapshotError> {
        let published = self.published.read();
        let newest = published.applied.0;
        let version = at.unwrap_or(newest.index);
        if version > newest.index {
            return Err(SnapshotError::Ahead { newest: newest.index });
        }
        let horizon = published.state.horizon;
        if version < horizon {
            return Err(SnapshotError::Gone { horizon });
        }
        let catalog = published.state.catalog_at(version);
        let tables = Arc::clone(&published.state.tables);
        drop(published);
        let epoch = self
            .log
            .position_of(version)
            .map_or(newest.epoch, |position| position.epoch);
        Ok(Snapshot::new(version, epoch, catalog, tables))
    }
}
