//! Reading stretches of the log: one read per file, checked entry by entry.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{Chain, LogIndex};

use super::RangeLog;
use super::files::LogFile;
use super::frame::{frame_size, read_frame};
use super::index::EntryIndex;
use crate::disk::DiskFile;
use crate::entry::Entry;
use crate::error::StorageError;

/// A stretch of entries in one file.
struct Stretch {
    path: PathBuf,
    /// Open already, if it is the last file.
    file: Option<Arc<dyn DiskFile>>,
    span: Range<u64>,
    chains: Vec<Chain>,
}

impl RangeLog {
    /// Entries behind `after`, up to and including `upto`, about `max_bytes` of them: at least one if there is one.
    pub(crate) fn read(&self, after: LogIndex, upto: LogIndex, max_bytes: usize) -> Result<Vec<Entry>, StorageError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut room = max_bytes as u64;
        loop {
            let last = entries.last().map_or(after, |entry| entry.position.index);
            let more = self.read_files(last, upto, room, entries.is_empty())?;
            let bytes: usize = more.iter().map(|entry| frame_size(entry.payload.len())).sum();
            room = room.saturating_sub(bytes as u64);
            let is_done = more.is_empty() || room == 0;
            entries.extend(more);
            if is_done {
                return Ok(entries);
            }
        }
    }

    /// As [`RangeLog::read`], from one cold file, or from any number of others.
    fn read_files(
        &self,
        after: LogIndex,
        upto: LogIndex,
        room: u64,
        at_least_one: bool,
    ) -> Result<Vec<Entry>, StorageError> {
        loop {
            let cold = self.cold_index_behind(after)?;
            let (stretches, cuts) = self.stretches(after, upto, room, at_least_one, cold.as_deref())?;
            let read: Result<Vec<_>, _> = stretches.iter().map(|stretch| self.read_stretch(stretch)).collect();
            // Entries that were cut meanwhile do not read back; what is there now does.
            if read.is_ok() || self.state.read().cuts == cuts {
                return read.map(|stretches| stretches.concat());
            }
        }
    }

    /// The index of the file with the entry behind `after`, if that file is cold.
    fn cold_index_behind(&self, after: LogIndex) -> Result<Option<Arc<EntryIndex>>, StorageError> {
        let place = {
            let state = self.state.read();
            let place = state.files.place_of(after.next());
            place.filter(|place| state.files.all()[*place].index.is_none())
        };
        place.map(|place| self.cold_index(place)).transpose()
    }

    /// Where the entries behind `after` stand, and the number of cuts so far. `cold` is the index of the file with the
    /// first of them, if that file is cold.
    fn stretches(
        &self,
        after: LogIndex,
        upto: LogIndex,
        room: u64,
        at_least_one: bool,
        cold: Option<&EntryIndex>,
    ) -> Result<(Vec<Stretch>, u64), StorageError> {
        let state = self.state.read();
        let (first, last) = (state.files.first(), state.files.last().0.index);
        if after.next() < first {
            let index = after.next();
            return Err(StorageError::OutOfLog { index, first, last });
        }
        let upto = upto.min(last);
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut next, mut bytes) = (after.next(), 0);
        while next <= upto && (bytes < room || (bytes == 0 && at_least_one)) {
            let Some(place) = state.files.place_of(next) else { break };
            let file = &state.files.all()[place];
            let entries = match (&file.index, cold) {
                (Some(entries), _) => entries,
                (None, Some(entries)) if stretches.is_empty() && entries.first() == file.first => entries,
                // A cold file behind the first one: for the next round.
                (None, _) => break,
            };
            let last_in_file = state.files.last_index_in(place);
            let (last_fitting, span) = fitting(file, entries, next..=upto.min(last_in_file), room - bytes.min(room));
            // Only the first entry of all may exceed the bound.
            if (bytes > 0 || !at_least_one) && span.end - span.start > room - bytes.min(room) {
                break;
            }
            let is_tail = file.first == state.files.tail().first;
            bytes += span.end - span.start;
            stretches.push(Stretch {
                path: self.path(file.first),
                file: is_tail.then(|| Arc::clone(&state.tail)),
                span,
                chains: (next.0..=last_fitting.0)
                    .filter_map(|index| entries.chain_at(LogIndex(index)))
                    .collect(),
            });
            next = last_fitting.next();
        }
        Ok((stretches, state.cuts))
    }

    fn read_stretch(&self, stretch: &Stretch) -> Result<Vec<Entry>, StorageError> {
        let failed = |error| StorageError::io("read", &stretch.path, error);
        let file = match &stretch.file {
            Some(file) => Arc::clone(file),
            None => self.disk.open(&stretch.path).map_err(failed)?,
        };
        let mut bytes = vec![0; (stretch.span.end - stretch.span.start) as usize];
        file.read_at(stretch.span.start, &mut bytes).map_err(failed)?;
        let bytes = Bytes::from(bytes);
        let mut entries = Vec::with_capacity(stretch.chains.len());
        let mut at = 0;
        for chain in &stretch.chains {
            let damaged = |why: &str| StorageError::Damaged {
                path: stretch.path.clone(),
                offset: stretch.span.start + at as u64,
                why: why.to_owned(),
            };
            let (entry, size) = read_frame(&bytes.slice(at..)).map_err(|bad| damaged(bad.why()))?;
            if entry.chain != *chain {
                return Err(damaged("it holds another entry than was written here"));
            }
            entries.push(entry);
            at += size;
        }
        Ok(entries)
    }
}

/// The last entry of `range`, all of them in one file, that ends within `max_bytes` (the first one does in any case),
/// and the bytes from the first to it.
fn fitting(
    file: &LogFile,
    entries: &EntryIndex,
    range: RangeInclusive<LogIndex>,
    max_bytes: u64,
) -> (LogIndex, Range<u64>) {
    let end_of = |index: LogIndex| entries.offset_of(index.next()).unwrap_or(file.size);
    let start = entries.offset_of(*range.start()).unwrap_or(file.size);
    // By halving: ends grow with indexes.
    let (mut low, mut high) = (range.start().0, range.end().0);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if end_of(LogIndex(middle)) - start <= max_bytes {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (LogIndex(low), start..end_of(LogIndex(low)))
}
