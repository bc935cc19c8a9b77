//! The range log: the only write-ahead log there is.
//!
//! Entries stand in files of about 64 MiB, each named after the index of its first entry. An append goes to the
//! system at once and becomes durable with the next sync; any number of appends share one. The index in memory knows
//! each entry's epoch, chain and place, so that a reader takes any stretch with one read per file; files whose entries
//! are all in a checkpoint have none ([`files`]), and may be dropped from the front.
//!
//! Locks are taken in the order writer, syncer, state. A sync holds no lock that an append or a read needs; a read
//! holds the state only while it looks entries up.

mod files;
mod frame;
mod index;
mod lookup;
mod mark;
mod read;
mod recover;
mod segment;

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use candor_proto::limits::ENTRY_BYTES_MAX;
use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName};
use parking_lot::{Mutex, RwLock};

use crate::disk::{Disk, DiskFile};
use crate::entry::Entry;
use crate::error::StorageError;
use files::LogFiles;
use frame::{frame_size, write_frame};
use index::EntryIndex;
use mark::{DurableEnd, SyncMark};
pub(crate) use segment::SEGMENT_SIZE_MAX;
use segment::{SegmentHeader, file_name};

/// One write to the system holds about this many bytes at most.
const WRITE_SIZE: usize = 4 << 20;

/// Zeros are written ahead of small writes, as many as the file has bytes already, and at most this many.
const RESERVED_SIZE: u64 = 1 << 20;

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
    /// Indexes of cold files that were asked for lately, by first entry.
    cold: Mutex<Vec<(LogIndex, Arc<EntryIndex>)>>,
    /// Why no more writes are taken.
    poison: OnceLock<String>,
}

struct Syncer {
    mark: SyncMark,
    durable: DurableEnd,
}

struct State {
    files: LogFiles,
    /// The last file, open.
    tail: Arc<dyn DiskFile>,
    /// Up to where the last file holds zeros behind its entries.
    reserved: u64,
    /// Grows with every cut at either end, so that a reader notices one.
    cuts: u64,
}

fn sync_failed(path: &Path, error: std::io::Error) -> StorageError {
    StorageError::io("sync", path, error)
}

impl RangeLog {
    /// Makes the log of a new range in `dir`, durably. A file that has reached `segment_size` bytes takes no more entries.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        segment_size: u64,
        dir: &Path,
        name: &RangeName,
        id: RangeId,
    ) -> Result<Self, StorageError> {
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
        let files = LogFiles::new(vec![header.empty_file()]);
        let durable = files.tail().end();
        Ok(Self {
            disk,
            segment_size: segment_size.min(SEGMENT_SIZE_MAX),
            dir: dir.to_owned(),
            name: name.clone(),
            id,
            writer: Mutex::new(()),
            syncer: Mutex::new(Syncer { mark, durable }),
            state: RwLock::new(State {
                files,
                tail,
                reserved: 0,
                cuts: 0,
            }),
            cold: Mutex::default(),
            poison: OnceLock::new(),
        })
    }

    /// Reads the log in `dir` back. Files with nothing behind the entry at `covered`, which is in a checkpoint (zero if
    /// there is none), are not read. What the log holds afterwards is durable.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        segment_size: u64,
        dir: &Path,
        covered: LogIndex,
    ) -> Result<Self, StorageError> {
        let found = recover::recover(&*disk, dir, covered)?;
        let durable = found.files.tail().end();
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
                files: found.files,
                tail: found.tail,
                reserved: 0,
                cuts: 0,
            }),
            cold: Mutex::default(),
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
        self.state.read().files.last()
    }

    /// The index of the first entry that the log holds, or will hold.
    pub(crate) fn start(&self) -> LogIndex {
        self.state.read().files.first()
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
        if self.tail_end().size >= self.segment_size {
            self.roll()?;
        }
        let end = self.tail_end();
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for entry in entries {
            let offset = end.size + bytes.len() as u64;
            let full = offset >= self.segment_size || bytes.len() + frame_size(entry.payload.len()) > WRITE_SIZE;
            if full && !offsets.is_empty() {
                break;
            }
            offsets.push(offset as u32);
            write_frame(entry, &mut bytes);
        }
        let (tail, reserved) = {
            let state = self.state.read();
            (Arc::clone(&state.tail), state.reserved)
        };
        tail.write_at(end.size, &bytes)
            .map_err(|error| write_failed(&self.path(end.segment), error))?;
        let reserved = Self::reserve(&*tail, end.size..end.size + bytes.len() as u64, reserved);
        let mut state = self.state.write();
        state.reserved = reserved;
        let file = state.files.tail_mut();
        for (entry, offset) in entries.iter().zip(&offsets) {
            let index = file.index.as_mut().expect("the last file is never cold");
            index.push(entry.position, entry.chain, *offset);
        }
        file.size += bytes.len() as u64;
        Ok(offsets.len())
    }

    /// Writes zeros behind a small write that has reached `reserved`, and returns where they end then. A sync after a
    /// write into them brings that write to the device and nothing else, in half the time of one after which the file is
    /// larger.
    fn reserve(tail: &dyn DiskFile, written: Range<u64>, reserved: u64) -> u64 {
        let ahead = written.start.min(RESERVED_SIZE);
        if written.end <= reserved || written.end - written.start > ahead {
            return reserved;
        }
        // If they do not fit on the disk, the write that needs the space will say so.
        match tail.write_at(written.end, &vec![0; ahead as usize]) {
            Ok(()) => written.end + ahead,
            Err(_) => reserved,
        }
    }

    /// Starts a new file. The one before ends with its last entry and is durable from here on: recovery relies on it.
    fn roll(&self) -> Result<(), StorageError> {
        let mut syncer = self.syncer.lock();
        let (tail, end) = {
            let state = self.state.read();
            (Arc::clone(&state.tail), state.files.tail().end())
        };
        let path = self.path(end.segment);
        tail.set_size(end.size)
            .map_err(|error| self.poisoned(StorageError::io("cut", &path, error)))?;
        tail.sync().map_err(|error| self.poisoned(sync_failed(&path, error)))?;
        let (last, chain) = self.last();
        let header = SegmentHeader {
            range: self.id,
            name: self.name.clone(),
            first: last.index.next(),
            epoch_before: last.epoch,
            chain_before: chain,
        };
        let tail = create_segment(&*self.disk, &self.dir, &header)?;
        let file = header.empty_file();
        syncer.durable = file.end();
        let mut state = self.state.write();
        state.files.push(file);
        state.tail = tail;
        state.reserved = 0;
        Ok(())
    }

    fn sync_tail(&self, syncer: &mut Syncer) -> Result<(), StorageError> {
        let (tail, end) = {
            let state = self.state.read();
            (Arc::clone(&state.tail), state.files.tail().end())
        };
        if syncer.durable == end {
            return Ok(());
        }
        // A failed sync may have dropped the very pages it was for: trying again would report success for nothing.
        tail.sync()
            .map_err(|error| self.poisoned(sync_failed(&self.path(end.segment), error)))?;
        syncer.durable = end;
        syncer.mark.note(syncer.durable);
        Ok(())
    }

    /// Cuts the entries behind `index`, and any bytes behind them that no entry has.
    fn cut(&self, index: LogIndex) -> Result<(), StorageError> {
        let mut syncer = self.syncer.lock();
        let (kept, removed) = self.forget_after(index)?;
        if kept < syncer.durable {
            syncer.mark.lower(kept)?;
            syncer.durable = kept;
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
        let path = self.path(kept.segment);
        let tail = Arc::clone(&self.state.read().tail);
        tail.set_size(kept.size)
            .map_err(|error| StorageError::io("cut", &path, error))?;
        tail.sync().map_err(|error| sync_failed(&path, error))?;
        syncer.durable = kept;
        Ok(())
    }

    /// Takes the entries behind `index` out of memory, and opens the file that is then the last. Returns where that file
    /// ends then, and the first indexes of the later ones. The file is not cold: what is in a checkpoint is never cut.
    fn forget_after(&self, index: LogIndex) -> Result<(DurableEnd, Vec<LogIndex>), StorageError> {
        let mut state = self.state.write();
        let place = state.files.place_of(index.next()).unwrap_or(0);
        let first = state.files.all()[place].first;
        if place + 1 < state.files.all().len() {
            let path = self.path(first);
            let opened = self.disk.open(&path);
            state.tail = opened.map_err(|error| StorageError::io("open", path, error))?;
        }
        let removed = state.files.truncate_to(place);
        let file = state.files.tail_mut();
        let entries = file.index.as_mut().expect("what is in a checkpoint is never cut");
        file.size = entries.offset_of(index.next()).unwrap_or(file.size);
        entries.truncate_after(index);
        state.reserved = 0;
        state.cuts += 1;
        Ok((state.files.tail().end(), removed))
    }

    /// Drops whole files from the front that hold nothing but entries before `index`, durably, the oldest first, so that
    /// a crash in between leaves a log without a gap. The caller knows that nobody needs those entries.
    ///
    /// # Errors
    /// The disk refuses; the files that are left are those that it did not remove.
    pub(crate) fn truncate_before(&self, index: LogIndex) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        self.check_poison()?;
        loop {
            let Some(first) = self.state.read().files.before(index).first().map(|file| file.first) else {
                return Ok(());
            };
            let path = self.path(first);
            self.disk
                .remove(&path)
                .map_err(|error| StorageError::io("remove", path, error))?;
            {
                let mut state = self.state.write();
                state.files.remove_first();
                state.cuts += 1;
            }
            self.disk
                .sync_dir(&self.dir)
                .map_err(|error| sync_failed(&self.dir, error))?;
        }
    }

    fn tail_end(&self) -> DurableEnd {
        self.state.read().files.tail().end()
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
