//! The range log: the only write-ahead log there is.
//!
//! Entries stand in files of about 64 MiB, each named after the index of its first entry. An append goes to the
//! system at once and becomes durable with the next sync; any number of appends share one. The index in memory knows
//! each entry's epoch, chain and place, so that a reader takes any stretch with one read per file.
//!
//! Locks are taken in the order writer, syncer, state. A sync holds no lock that an append or a read needs; a read
//! holds the state only while it looks entries up.

mod frame;
mod index;
mod mark;
mod read;
mod recover;
mod segment;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use candor_proto::limits::ENTRY_BYTES_MAX;
use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName};
use parking_lot::{Mutex, RwLock};

use crate::disk::{Disk, DiskFile};
use crate::entry::Entry;
use crate::error::StorageError;
use crate::store::StoreOptions;
use frame::{frame_size, write_frame};
use index::EntryIndex;
use mark::{DurableEnd, SyncMark};
pub(crate) use segment::SEGMENT_SIZE_MAX;
use segment::{SEGMENT_HEADER_SIZE, SegmentHeader, file_name};

/// One write to the system holds about this many bytes at most.
const WRITE_SIZE: usize = 4 << 20;

/// Where a log that wants to continue another one's stands to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The position is in this log, with the same history: what follows it here continues the other log.
    Fits,
    /// It is not. The newest position here that may be in both: the other log goes back to its own last entry at or
    /// before it and asks again.
    Behind {
        /// The newest position that may be in both.
        newest: Position,
    },
    /// Not even the beginnings agree, or the place where they did is cut off here: only a copy from scratch helps.
    Foreign,
}

/// The log of one range.
pub(crate) struct RangeLog {
    disk: Arc<dyn Disk>,
    segment_size: u64,
    dir: PathBuf,
    name: RangeName,
    id: RangeId,
    /// Held by whoever changes the log.
    writer: Mutex<()>,
    syncer: Mutex<Syncer>,
    state: RwLock<State>,
    /// Why no more writes are taken.
    poison: OnceLock<String>,
}

struct Syncer {
    mark: SyncMark,
    durable: DurableEnd,
}

struct State {
    index: EntryIndex,
    segments: Vec<Segment>,
    /// The last segment's file, open.
    tail: Arc<dyn DiskFile>,
    /// Grows with every cut, so that a reader notices one.
    cuts: u64,
}

/// One file of the log.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: LogIndex,
    size: u64,
}

fn sync_failed(path: &Path, error: std::io::Error) -> StorageError {
    StorageError::io("sync", path, error)
}

impl RangeLog {
    /// Makes the log of a new range in `dir`, durably.
    pub(crate) fn create(
        options: StoreOptions,
        dir: &Path,
        name: &RangeName,
        id: RangeId,
    ) -> Result<Self, StorageError> {
        let StoreOptions { disk, segment_size } = options;
        disk.make_dir(dir)
            .map_err(|error| StorageError::io("make", dir, error))?;
        let names = disk.list(dir).map_err(|error| StorageError::io("list", dir, error))?;
        if names.iter().any(|name| segment::parse_file_name(name).is_some()) {
            return Err(StorageError::RangeExists { path: dir.to_owned() });
        }
        let (mark, _) = SyncMark::open(&*disk, dir)?;
        let header = SegmentHeader {
            range: id,
            name: name.clone(),
            first: LogIndex(1),
            epoch_before: Epoch::ZERO,
            chain_before: Chain(id.0),
        };
        let tail = create_segment(&*disk, dir, &header)?;
        if let Some(parent) = dir.parent() {
            disk.sync_dir(parent).map_err(|error| sync_failed(parent, error))?;
        }
        let segment = Segment {
            first: header.first,
            size: SEGMENT_HEADER_SIZE as u64,
        };
        let index = EntryIndex::new((Position::ZERO, header.chain_before));
        Ok(Self {
            disk,
            segment_size: segment_size.min(SEGMENT_SIZE_MAX),
            dir: dir.to_owned(),
            name: name.clone(),
            id,
            writer: Mutex::new(()),
            syncer: Mutex::new(Syncer {
                mark,
                durable: segment.end(),
            }),
            state: RwLock::new(State {
                index,
                segments: vec![segment],
                tail,
                cuts: 0,
            }),
            poison: OnceLock::new(),
        })
    }

    /// Reads the log in `dir` back. What it holds afterwards is durable.
    pub(crate) fn open(options: StoreOptions, dir: &Path) -> Result<Self, StorageError> {
        let StoreOptions { disk, segment_size } = options;
        let found = recover::recover(&*disk, dir)?;
        let durable = found.segments.last().map(Segment::end).unwrap_or_default();
        found.mark.note(durable);
        Ok(Self {
            disk,
            segment_size: segment_size.min(SEGMENT_SIZE_MAX),
            dir: dir.to_owned(),
            name: found.name,
            id: found.id,
            writer: Mutex::new(()),
            syncer: Mutex::new(Syncer {
                mark: found.mark,
                durable,
            }),
            state: RwLock::new(State {
                index: found.index,
                segments: found.segments,
                tail: found.tail,
                cuts: 0,
            }),
            poison: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &RangeName {
        &self.name
    }

    pub(crate) fn id(&self) -> RangeId {
        self.id
    }

    /// The last entry, durable or not.
    pub(crate) fn last(&self) -> (Position, Chain) {
        self.state.read().index.last()
    }

    /// The index of the first entry that the log holds, or will hold.
    pub(crate) fn start(&self) -> LogIndex {
        self.state.read().index.first()
    }

    pub(crate) fn position_of(&self, index: LogIndex) -> Option<Position> {
        self.state.read().index.position_of(index)
    }

    pub(crate) fn chain_at(&self, index: LogIndex) -> Option<Chain> {
        self.state.read().index.chain_at(index)
    }

    /// Adds new entries in `epoch`.
    pub(crate) fn append(&self, epoch: Epoch, records: &[(u8, Bytes)]) -> Result<Vec<Entry>, StorageError> {
        let _writer = self.writer.lock();
        let (mut last, mut chain) = self.last();
        if epoch < last.epoch || epoch == Epoch::ZERO {
            return Err(StorageError::EpochStale {
                last: last.epoch,
                got: epoch,
            });
        }
        let mut entries = Vec::with_capacity(records.len());
        for (kind, payload) in records {
            last = Position::new(epoch, last.index.next());
            let entry = Entry::chained(chain, last, *kind, payload.clone());
            chain = entry.chain;
            entries.push(entry);
        }
        self.write(&entries)?;
        Ok(entries)
    }

    /// Adds entries that another log holds, if they continue this one.
    pub(crate) fn append_collected(&self, entries: &[Entry]) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        let (mut last, mut chain) = self.last();
        for entry in entries {
            let got = entry.position;
            let refuse = |why| Err(StorageError::NotContinuous { last, got, why });
            if got.index != last.index.next() {
                return refuse("its index does not follow");
            }
            if got.epoch < last.epoch || got.epoch == Epoch::ZERO {
                return refuse("its epoch goes back");
            }
            if !entry.follows(chain) {
                return refuse("its chain is that of another history");
            }
            (last, chain) = (got, entry.chain);
        }
        self.write(entries)
    }

    /// Makes every entry appended before this call durable.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let mut syncer = self.syncer.lock();
        self.check_poison()?;
        self.sync_tail(&mut syncer)
    }

    /// How a log whose last entry is at `position` with `chain` stands to this one.
    pub(crate) fn agreement(&self, position: Position, chain: Chain) -> Agreement {
        let state = self.state.read();
        let index = &state.index;
        if index.position_of(position.index) == Some(position) && index.chain_at(position.index) == Some(chain) {
            return Agreement::Fits;
        }
        let before_first = LogIndex(index.first().0 - 1);
        if position.index <= before_first {
            return Agreement::Foreign;
        }
        // In one epoch there is one history: a place that is in both with different chains lies behind the last epoch
        // that they share, and one that is here in another epoch behind the older of the two.
        let same_place = index.position_of(position.index) == Some(position);
        let shared = if same_place {
            Epoch(position.epoch.0.saturating_sub(1))
        } else {
            position.epoch
        };
        let candidate = index.last_of_epoch(shared).index.0.min(position.index.0 - 1);
        match index.position_of(LogIndex(candidate)) {
            Some(newest) => Agreement::Behind { newest },
            None => Agreement::Foreign,
        }
    }

    /// Cuts the entries behind `index`, durably.
    pub(crate) fn truncate_after(&self, index: LogIndex) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        self.check_poison()?;
        let (first, last) = (self.start(), self.last().0.index);
        if index.next() < first || index > last {
            return Err(StorageError::OutOfLog { index, first, last });
        }
        if index == last {
            return Ok(());
        }
        self.cut(index).map_err(|error| self.poisoned(error))
    }

    /// Writes entries that continue the log: all of them, or none.
    fn write(&self, entries: &[Entry]) -> Result<(), StorageError> {
        self.check_poison()?;
        if let Some(entry) = entries.iter().find(|entry| entry.payload.len() > ENTRY_BYTES_MAX) {
            return Err(StorageError::TooLarge {
                bytes: entry.payload.len(),
            });
        }
        let before = self.last().0.index;
        let mut rest = entries;
        while !rest.is_empty() {
            match self.write_some(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error @ StorageError::DiskFull { .. }) => {
                    // What the failed write left behind goes, and nobody was told of it; so the log is as it was.
                    self.cut(before).map_err(|error| self.poisoned(error))?;
                    return Err(error);
                }
                Err(error) => return Err(self.poisoned(error)),
            }
        }
        Ok(())
    }

    /// Writes the first of `entries`, as many as fit one write and the last file, and returns how many.
    fn write_some(&self, entries: &[Entry]) -> Result<usize, StorageError> {
        if self.tail_segment().size >= self.segment_size {
            self.roll()?;
        }
        let segment = self.tail_segment();
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for entry in entries {
            let offset = segment.size + bytes.len() as u64;
            let full = offset >= self.segment_size || bytes.len() + frame_size(entry.payload.len()) > WRITE_SIZE;
            if full && !offsets.is_empty() {
                break;
            }
            offsets.push(offset as u32);
            write_frame(entry, &mut bytes);
        }
        let tail = Arc::clone(&self.state.read().tail);
        tail.write_at(segment.size, &bytes)
            .map_err(|error| write_failed(&self.path(segment.first), error))?;
        let mut state = self.state.write();
        for (entry, offset) in entries.iter().zip(&offsets) {
            state.index.push(entry.position, entry.chain, *offset);
        }
        if let Some(segment) = state.segments.last_mut() {
            segment.size += bytes.len() as u64;
        }
        Ok(offsets.len())
    }

    /// Starts a new file. The one before is durable from here on: recovery relies on it.
    fn roll(&self) -> Result<(), StorageError> {
        let mut syncer = self.syncer.lock();
        self.sync_tail(&mut syncer)?;
        let (last, chain) = self.last();
        let header = SegmentHeader {
            range: self.id,
            name: self.name.clone(),
            first: last.index.next(),
            epoch_before: last.epoch,
            chain_before: chain,
        };
        let tail = create_segment(&*self.disk, &self.dir, &header)?;
        let segment = Segment {
            first: header.first,
            size: SEGMENT_HEADER_SIZE as u64,
        };
        syncer.durable = segment.end();
        let mut state = self.state.write();
        state.segments.push(segment);
        state.tail = tail;
        Ok(())
    }

    fn sync_tail(&self, syncer: &mut Syncer) -> Result<(), StorageError> {
        let (tail, segment) = {
            let state = self.state.read();
            (Arc::clone(&state.tail), state.tail_segment())
        };
        if syncer.durable == segment.end() {
            return Ok(());
        }
        // A failed sync may have dropped the very pages it was for: trying again would report success for nothing.
        tail.sync()
            .map_err(|error| self.poisoned(sync_failed(&self.path(segment.first), error)))?;
        syncer.durable = segment.end();
        syncer.mark.note(syncer.durable);
        Ok(())
    }

    /// Cuts the entries behind `index`, and any bytes behind them that no entry has.
    fn cut(&self, index: LogIndex) -> Result<(), StorageError> {
        let mut syncer = self.syncer.lock();
        let (kept, removed) = self.forget_after(index)?;
        if kept.end() < syncer.durable {
            syncer.mark.lower(kept.end())?;
            syncer.durable = kept.end();
        }
        // Later files go first, durably, so that a crash in between leaves a log without a gap.
        for first in removed.iter().rev() {
            let path = self.path(*first);
            self.disk
                .remove(&path)
                .map_err(|error| StorageError::io("remove", path, error))?;
        }
        if !removed.is_empty() {
            self.disk
                .sync_dir(&self.dir)
                .map_err(|error| sync_failed(&self.dir, error))?;
        }
        let path = self.path(kept.first);
        let tail = Arc::clone(&self.state.read().tail);
        tail.set_size(kept.size)
            .map_err(|error| StorageError::io("cut", &path, error))?;
        tail.sync().map_err(|error| sync_failed(&path, error))?;
        syncer.durable = kept.end();
        Ok(())
    }

    /// Takes the entries behind `index` out of the index, and opens the file that is then the last. Returns that file,
    /// and the later ones.
    fn forget_after(&self, index: LogIndex) -> Result<(Segment, Vec<LogIndex>), StorageError> {
        let mut state = self.state.write();
        let keep = state
            .segments
            .partition_point(|segment| segment.first <= index.next())
            .max(1);
        let mut kept = state.segments[keep - 1];
        let removed: Vec<_> = state.segments[keep..].iter().map(|segment| segment.first).collect();
        if !removed.is_empty() {
            let path = self.path(kept.first);
            let opened = self.disk.open(&path);
            state.tail = opened.map_err(|error| StorageError::io("open", path, error))?;
        }
        kept.size = state.index.offset_of(index.next()).unwrap_or(kept.size);
        state.segments.truncate(keep - 1);
        state.segments.push(kept);
        state.index.truncate_after(index);
        state.cuts += 1;
        Ok((kept, removed))
    }

    fn tail_segment(&self) -> Segment {
        self.state.read().tail_segment()
    }

    fn path(&self, first: LogIndex) -> PathBuf {
        self.dir.join(file_name(first))
    }

    fn check_poison(&self) -> Result<(), StorageError> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(StorageError::Poisoned { cause: cause.clone() }),
        }
    }

    /// Takes no more writes from here on; hands the error back.
    fn poisoned(&self, error: StorageError) -> StorageError {
        let _ = self.poison.set(error.to_string());
        error
    }
}

impl Segment {
    fn end(&self) -> DurableEnd {
        DurableEnd {
            segment: self.first,
            size: self.size,
        }
    }
}

impl State {
    /// Where the entry at `index` ends, counted over all files of the log.
    fn offset_behind(&self, index: LogIndex) -> u64 {
        let behind = index.next();
        let file = self
            .segments
            .partition_point(|segment| segment.first <= behind)
            .saturating_sub(1);
        let before: u64 = self.segments[..file].iter().map(|segment| segment.size).sum();
        let within = self.index.offset_of(behind).unwrap_or(self.segments[file].size);
        if behind < self.index.first() {
            0
        } else {
            before + within
        }
    }

    fn tail_segment(&self) -> Segment {
        *self.segments.last().expect("a log has at least one file")
    }
}

/// Makes a file with its header under a passing name, so that a file with the right name is always whole.
fn create_segment(disk: &dyn Disk, dir: &Path, header: &SegmentHeader) -> Result<Arc<dyn DiskFile>, StorageError> {
    let path = dir.join(file_name(header.first));
    let passing = path.with_extension("tmp");
    let failed = |error| write_failed(&path, error);
    let file = disk.create(&passing).map_err(failed)?;
    file.write_at(0, &header.write()).map_err(failed)?;
    file.sync().map_err(|error| sync_failed(&path, error))?;
    disk.rename(&passing, &path).map_err(failed)?;
    disk.sync_dir(dir).map_err(|error| sync_failed(dir, error))?;
    Ok(file)
}

fn write_failed(path: &Path, error: std::io::Error) -> StorageError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageError::DiskFull { path: path.to_owned() },
        _ => StorageError::io("write", path, error),
    }
}
