//! One range on disk and in memory: its log, the state that applying the log makes, and the checkpoints that keep that
//! state so that the log need not be applied from its start again.
//!
//! Locks are taken in the order maintenance, applier, published or kept. Whoever applies holds the applier; a checkpoint
//! holds it twice for a moment, when it freezes the tables and when it puts the segments in place.

mod checkpoint;
mod compact;
mod garbage;
mod maintain;
pub(crate) mod manifest;
mod open;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName};
use parking_lot::{Mutex, RwLock};

use crate::apply::{Applier, Outcome, RangeState};
use crate::disk::{Disk, RealDisk};
use crate::entry::Entry;
use crate::error::{SnapshotError, StorageError};
use crate::log::{Agreement, RangeLog, SEGMENT_SIZE_MAX};
use crate::readers::Readers;
use crate::segments::SegmentCache;
use crate::snapshot::Snapshot;
use crate::table::freeze::SegmentHome;
use garbage::Kept;
pub use garbage::Lease;
pub use maintain::{MaintainLimits, Maintained, StoreInfo, TableInfo};

/// How much of the log is read at once to be applied, bytes.
const APPLY_BYTES: usize = 4 << 20;

/// Where a range keeps its files.
#[derive(Clone)]
pub struct StoreOptions {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// A file of the log that has reached this size takes no more entries, bytes; at most 64 MiB, the default.
    pub segment_size: u64,
    /// What was read from segments and is kept in memory; shared by the ranges of a process.
    pub cache: Arc<SegmentCache>,
}

/// What the cache of a store holds that was given none, bytes.
const CACHE_BYTES: u64 = 64 << 20;

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            segment_size: SEGMENT_SIZE_MAX,
            cache: SegmentCache::new(CACHE_BYTES),
        }
    }
}

type Subscriber = Arc<dyn Fn(LogIndex) + Send + Sync>;

/// One range: the log on disk, and the tables that applying it makes. All methods may be called from any thread; those
/// that wait for the disk say so.
pub struct RangeStore {
    log: RangeLog,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    home: SegmentHome,
    applier: Mutex<Applier>,
    published: RwLock<Published>,
    readers: Arc<Readers>,
    /// Up to where the tables have forgotten.
    forgotten: AtomicU64,
    /// Held by whoever makes checkpoints or compacts; the number of the next manifest.
    maintenance: Mutex<u64>,
    /// The folder is not this range's any more, or will not be soon: nothing is maintained.
    retired: AtomicBool,
    kept: Mutex<Kept>,
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
        open::create(options, dir, name, id)
    }

    /// Opens the range in the folder `dir`: takes the newest checkpoint, and reads the log behind it back and checks every
    /// byte of that. What the checkpoint holds is applied, nothing else yet; everything is durable. Rows in segments are
    /// not read: each is checked when somebody reads it.
    ///
    /// # Errors
    /// No range there, bytes that are not what was written (naming file and offset), or the disk refuses.
    pub fn open(dir: &Path) -> Result<Arc<Self>, StorageError> {
        Self::open_with(StoreOptions::default(), dir)
    }

    /// As [`RangeStore::open`], with other options.
    pub fn open_with(options: StoreOptions, dir: &Path) -> Result<Arc<Self>, StorageError> {
        open::open(options, dir)
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

    /// The position of the entry at `index`; also of what comes before the first entry. Reads the disk for entries that
    /// are long in a checkpoint; if that fails, which is logged, the entry counts as not there.
    pub fn position_of(&self, index: LogIndex) -> Option<Position> {
        self.look_up(index).map(|(position, _)| position)
    }

    /// The chain at `index`; also before the first entry. As [`RangeStore::position_of`].
    pub fn chain_at(&self, index: LogIndex) -> Option<Chain> {
        self.look_up(index).map(|(_, chain)| chain)
    }

    fn look_up(&self, index: LogIndex) -> Option<(Position, Chain)> {
        self.log.look_up(index).unwrap_or_else(|error| {
            tracing::error!(range = %self.name(), %index, %error, "an old entry cannot be looked up");
            None
        })
    }

    /// Bytes that the entries behind `after`, up to and including `upto`, take on disk. Log files of which every entry is
    /// in a checkpoint count as a whole.
    pub fn bytes_between(&self, after: LogIndex, upto: LogIndex) -> u64 {
        self.log.bytes_between(after, upto)
    }

    /// How a log whose last entry is at `position` with `chain` stands to this one.
    ///
    /// # Errors
    /// An old file of the log is damaged, or the disk refuses.
    pub fn agreement(&self, position: Position, chain: Chain) -> Result<Agreement, StorageError> {
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
        let mut result = Ok(());
        while result.is_ok() && self.applied().0.index < index {
            let entries = self.log.read(self.applied().0.index, index, APPLY_BYTES);
            result = entries.and_then(|entries| self.apply_entries(&mut applier, &entries, &mut outcomes));
        }
        drop(applier);
        self.tell_subscribers(&outcomes);
        result.map(|()| outcomes)
    }

    /// As [`RangeStore::apply_to`] for the entries that are next to be applied, which the caller still has from appending
    /// them.
    ///
    /// # Errors
    /// As [`RangeStore::apply_to`]; entries that the log does not hold behind the last one that was applied.
    pub fn apply(&self, entries: &[Entry]) -> Result<Vec<(LogIndex, Outcome)>, StorageError> {
        let mut applier = self.applier.lock();
        let applied = self.applied().0;
        if let (Some(first), Some(last)) = (entries.first(), entries.last())
            && (first.position.index != applied.index.next()
                || self.log.look_up(last.position.index)? != Some((last.position, last.chain)))
        {
            return Err(StorageError::NotContinuous {
                last: applied,
                got: first.position,
                why: "it is not what the log holds behind what is applied",
            });
        }
        let mut outcomes = Vec::with_capacity(entries.len());
        let result = self.apply_entries(&mut applier, entries, &mut outcomes);
        drop(applier);
        self.tell_subscribers(&outcomes);
        result.map(|()| outcomes)
    }

    fn apply_entries(
        &self,
        applier: &mut Applier,
        entries: &[Entry],
        outcomes: &mut Vec<(LogIndex, Outcome)>,
    ) -> Result<(), StorageError> {
        for entry in entries {
            let horizon = applier.state.horizon;
            let outcome = applier.apply(entry)?;
            self.publish(applier, entry);
            if applier.state.horizon > horizon {
                self.forget();
            }
            outcomes.push((entry.position.index, outcome));
        }
        Ok(())
    }

    fn tell_subscribers(&self, outcomes: &[(LogIndex, Outcome)]) {
        let Some((newest, _)) = outcomes.last() else { return };
        let subscribers = self.subscribers.read().clone();
        for subscriber in &subscribers {
            subscriber(*newest);
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

    /// Has the tables forget what no version needs that is being read, or may be asked for: after the horizon was
    /// published, so that nobody starts to read an older version from now on.
    fn forget(&self) {
        let tables = {
            let published = self.published.read();
            Arc::clone(&published.state.tables)
        };
        let upto = self.horizon_in_use().0;
        if self.forgotten.fetch_max(upto, Ordering::Relaxed) < upto {
            for table in tables.values() {
                table.forget_before(upto);
            }
        }
    }

    /// The oldest version that is being read or may be asked for.
    fn horizon_in_use(&self) -> LogIndex {
        let horizon = self.horizon();
        self.readers
            .oldest()
            .map_or(horizon, |oldest| horizon.min(LogIndex(oldest)))
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
        let epoch = published.state.epoch_at(version);
        // Before a newer horizon can be published.
        let reader = self.readers.open(version.0);
        drop(published);
        Ok(Snapshot::new((version, epoch), catalog, tables, reader))
    }
}
