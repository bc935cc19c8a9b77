//! Reading a log back after a stop of any kind.
//!
//! Every file but the last was synced before the next one was made, and everything before the sync mark was synced
//! too: bytes there that do not fit are damage, and the log is not opened. Behind the mark, at the end of the last
//! file, stands at most what was written after the last sync that was noted. There, a frame that does not fit is
//! * a torn write, if no sound entry follows it, or if a sector in front of the sound entry is all zeros (sectors
//!   arrive in any order, and a file that grew shows zeros until they do): nobody was told that these entries are
//!   there, so they are cut, and kept aside in a file that the log message names;
//! * damage otherwise.
//!
//! Nothing but zeros there is space that was reserved for entries to come, and is cut without a word.
//!
//! A frame whose checksum holds but which does not continue the chain is never cut.
//!
//! Files of which every entry is in a checkpoint are not read: they are checked when somebody reads from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{Chain, LogIndex, Position, RangeId, RangeName};

use super::files::{LogFile, LogFiles};
use super::frame::{BadFrame, FRAME_HEADER_SIZE, FrameHeader, find_frame, read_frame};
use super::index::EntryIndex;
use super::mark::{DurableEnd, SyncMark};
use super::segment::{SEGMENT_HEADER_SIZE, SegmentHeader, file_name, parse_file_name};
use super::sync_failed;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// How much is read at once, bytes.
const WINDOW_SIZE: u64 = 1 << 20;

/// The unit that a device writes whole or not at all, bytes.
const SECTOR: u64 = 512;

/// What a log folder was found to hold.
pub(super) struct Recovered {
    pub(super) name: RangeName,
    pub(super) id: RangeId,
    pub(super) files: LogFiles,
    pub(super) tail: Arc<dyn DiskFile>,
    pub(super) mark: SyncMark,
}

/// Reads the files in `dir` that have entries behind `covered`, cuts a torn tail, and makes what is left durable.
pub(super) fn recover(disk: &dyn Disk, dir: &Path, covered: LogIndex) -> Result<Recovered, StorageError> {
    let firsts = list_segments(disk, dir)?;
    let (mark, durable) = SyncMark::open(disk, dir)?;
    let mut origin: Option<SegmentHeader> = None;
    let mut files: Vec<LogFile> = Vec::new();
    let mut tail = None;
    for (place, first) in firsts.iter().enumerate() {
        let mut reader = SegmentReader::open(disk, dir, *first)?;
        let header = reader.header()?;
        let origin = origin.get_or_insert_with(|| header.clone());
        check_continues(&reader, &header, origin, files.last(), covered)?;
        let next = firsts.get(place + 1);
        let mut file = LogFile {
            size: reader.size,
            ..header.empty_file()
        };
        if next.is_some_and(|next| *next <= covered.next()) {
            file.index = None;
        } else if let Some(index) = &mut file.index {
            file.size = reader.entries(index, |reader, torn| match next {
                None => reader.cut(disk, dir, &torn, durable),
                Some(_) => Err(reader.damaged(torn.at, torn.bad.why())),
            })?;
        }
        files.push(file);
        tail = Some(reader);
    }
    let (Some(header), Some(tail)) = (origin, tail) else {
        return Err(StorageError::NoRange { path: dir.to_owned() });
    };
    let files = LogFiles::new(files);
    check_mark(&files, durable, &tail)?;
    // What was only in the system's cache counts from now on, so it has to be durable.
    tail.file.sync().map_err(|error| sync_failed(&tail.path, error))?;
    disk.sync_dir(dir).map_err(|error| sync_failed(dir, error))?;
    Ok(Recovered {
        name: header.name,
        id: header.range,
        files,
        tail: tail.file,
        mark,
    })
}

/// Whether a file continues the one before it; the first one has to start where a log starts, or at an entry that is in
/// a checkpoint, or right behind those.
fn check_continues(
    reader: &SegmentReader,
    header: &SegmentHeader,
    origin: &SegmentHeader,
    last: Option<&LogFile>,
    covered: LogIndex,
) -> Result<(), StorageError> {
    let start = (Position::ZERO, Chain(header.range.0));
    let continues = match last {
        None if header.before() != start && header.before().0.index > covered => {
            return Err(reader.damaged(0, "the files before this one are missing"));
        }
        None => true,
        Some(last) => match &last.index {
            Some(index) => index.last() == header.before(),
            // Not read, so its last entry is not known: it is checked when it is read.
            None => last.first < header.first,
        },
    };
    if !continues || header.first != reader.first || header.range != origin.range {
        return Err(reader.damaged(0, "the file does not continue the one before it"));
    }
    Ok(())
}

/// The index of the entries in a file of which none was cut or torn.
pub(super) fn read_index(
    disk: &dyn Disk,
    dir: &Path,
    first: LogIndex,
    before: (Position, Chain),
) -> Result<EntryIndex, StorageError> {
    let mut reader = SegmentReader::open(disk, dir, first)?;
    if reader.header()?.before() != before {
        return Err(reader.damaged(0, "the file does not continue the one before it"));
    }
    let mut index = EntryIndex::new(before);
    reader.entries(&mut index, |reader, torn| Err(reader.damaged(torn.at, torn.bad.why())))?;
    Ok(index)
}

/// The first indexes of the files in `dir`, in order. Files that were never finished are removed.
fn list_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogIndex>, StorageError> {
    let names = disk.list(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => StorageError::NoRange { path: dir.to_owned() },
        _ => StorageError::io("list", dir, error),
    })?;
    for name in names
        .iter()
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "tmp"))
    {
        let path = dir.join(name);
        disk.remove(&path)
            .map_err(|error| StorageError::io("remove", path, error))?;
    }
    let mut firsts: Vec<LogIndex> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    firsts.sort_unstable();
    if firsts.is_empty() {
        return Err(StorageError::NoRange { path: dir.to_owned() });
    }
    Ok(firsts)
}

/// Whether all that was synced is still there.
fn check_mark(files: &LogFiles, durable: Option<DurableEnd>, tail: &SegmentReader) -> Result<(), StorageError> {
    let last = files.tail().end();
    match durable {
        Some(durable) if last < durable => {
            Err(tail.damaged(last.size, "entries that were synced behind this place are missing"))
        }
        _ => Ok(()),
    }
}

/// A frame that does not fit, torn or damaged.
struct Torn {
    /// Where it starts.
    at: u64,
    /// The index its entry should have.
    index: LogIndex,
    bad: BadFrame,
}

/// One file, read from front to back.
struct SegmentReader {
    first: LogIndex,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    size: u64,
    window: Bytes,
    window_at: u64,
}

impl SegmentReader {
    fn open(disk: &dyn Disk, dir: &Path, first: LogIndex) -> Result<Self, StorageError> {
        let path = dir.join(file_name(first));
        let file = disk
            .open(&path)
            .map_err(|error| StorageError::io("open", &path, error))?;
        let size = file.size().map_err(|error| StorageError::io("read", &path, error))?;
        Ok(Self {
            first,
            path,
            file,
            size,
            window: Bytes::new(),
            window_at: 0,
        })
    }

    fn damaged(&self, offset: u64, why: impl Into<String>) -> StorageError {
        StorageError::Damaged {
            path: self.path.clone(),
            offset,
            why: why.into(),
        }
    }

    fn header(&mut self) -> Result<SegmentHeader, StorageError> {
        let bytes = self.bytes(0, SEGMENT_HEADER_SIZE as u64)?;
        let header = bytes.first_chunk().ok_or("the header is cut short".to_owned());
        header.and_then(SegmentHeader::read).map_err(|why| self.damaged(0, why))
    }

    /// Adds the entries of the file to `index`. At a frame that does not fit, `stop` is asked: it cuts the file there,
    /// or says why not. Returns the size of what is sound.
    fn entries(
        &mut self,
        index: &mut EntryIndex,
        stop: impl FnOnce(&mut Self, Torn) -> Result<(), StorageError>,
    ) -> Result<u64, StorageError> {
        let mut at = SEGMENT_HEADER_SIZE as u64;
        while at < self.size {
            let (entry, size) = match self.frame(at)? {
                Ok(found) => found,
                Err(bad) => {
                    let index = index.last_index().next();
                    stop(self, Torn { at, index, bad })?;
                    return Ok(at);
                }
            };
            let (last, chain) = index.last();
            if entry.position.index != last.index.next() || entry.position.epoch < last.epoch {
                let why = format!("entry {} does not follow {last}", entry.position);
                return Err(self.damaged(at, why));
            }
            if !entry.follows(chain) {
                return Err(self.damaged(at, "the chain of an entry does not follow from its content"));
            }
            index.push(entry.position, entry.chain, at as u32);
            at += size as u64;
        }
        Ok(at)
    }

    fn frame(&mut self, at: u64) -> Result<Result<(crate::Entry, usize), BadFrame>, StorageError> {
        let header = self.bytes(at, FRAME_HEADER_SIZE as u64)?;
        let size = header
            .first_chunk()
            .map(FrameHeader::read)
            .and_then(|header| header.frame_size());
        match size {
            None => Ok(Err(BadFrame::Short)),
            Some(size) => Ok(read_frame(&self.bytes(at, size as u64)?)),
        }
    }

    /// The bytes from `at`; fewer than asked for at the end of the file, perhaps more.
    fn bytes(&mut self, at: u64, wanted: u64) -> Result<Bytes, StorageError> {
        let end = self.size.min(at + wanted);
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || end > window_end {
            let size = self.size.min(at + wanted.max(WINDOW_SIZE)) - at;
            let mut window = vec![0; size as usize];
            self.file
                .read_at(at, &mut window)
                .map_err(|error| StorageError::io("read", &self.path, error))?;
            self.window = window.into();
            self.window_at = at;
        }
        Ok(self.window.slice((at - self.window_at) as usize..))
    }

    /// Cuts the file at a frame that does not fit, if that is the torn end of a write.
    fn cut(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        torn: &Torn,
        durable: Option<DurableEnd>,
    ) -> Result<(), StorageError> {
        let at = torn.at;
        if durable.is_some_and(|end| end.segment == self.first && at < end.size) {
            return Err(self.damaged(at, torn.bad.why()));
        }
        let rest = self.bytes(at, self.size - at)?;
        let written = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if written == 0 {
            return self.cut_at(at);
        }
        let rest = rest.slice(..written);
        let sound = find_frame(&rest[1..], torn.index).map(|found| at + 1 + found as u64);
        if sound.is_some_and(|sound| !has_zero_sector(&rest, at, sound)) {
            return Err(self.damaged(at, torn.bad.why()));
        }
        let aside = dir.join(format!("torn-{:020}-{at}", self.first.0));
        keep_aside(disk, dir, &aside, &rest)?;
        tracing::warn!(
            file = %self.path.display(), offset = at, bytes = rest.len(), kept = %aside.display(),
            "cut the torn end of a write that was never acknowledged"
        );
        self.cut_at(at)
    }

    fn cut_at(&mut self, at: u64) -> Result<(), StorageError> {
        let cut = self.file.set_size(at).and_then(|()| self.file.sync());
        cut.map_err(|error| StorageError::io("cut", &self.path, error))?;
        self.size = at;
        Ok(())
    }
}

fn keep_aside(disk: &dyn Disk, dir: &Path, aside: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let write = || {
        let file = disk.create(aside)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        disk.sync_dir(dir)
    };
    write().map_err(|error| StorageError::io("write", aside, error))
}

/// Whether, between `at` and the sound frame at `sound`, a sector (the part of it behind `at`) is all zeros.
fn has_zero_sector(rest: &[u8], at: u64, sound: u64) -> bool {
    let mut start = at;
    loop {
        let end = (start / SECTOR + 1) * SECTOR;
        if end > sound {
            return false;
        }
        if rest[(start - at) as usize..(end - at) as usize]
            .iter()
            .all(|byte| *byte == 0)
        {
            return true;
        }
        start = end;
    }
}
