//! Reading stretches of the log: one read per file, checked entry by entry.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{Chain, LogIndex};

use super::frame::read_frame;
use super::{RangeLog, Segment, State};
use crate::disk::DiskFile;
use crate::entry::Entry;
use crate::error::StorageError;

/// A stretch of entries in one file.
struct Stretch {
    path: PathBuf,
    /// Open already, if it is the last file.
    file: Option<Arc<dyn DiskFile>>,
    start: u64,
    end: u64,
    chains: Vec<Chain>,
}

impl RangeLog {
    /// Entries behind `after`, up to and including `upto`, about `max_bytes` of them: at least one if there is one.
    pub(crate) fn read(&self, after: LogIndex, upto: LogIndex, max_bytes: usize) -> Result<Vec<Entry>, StorageError> {
        loop {
            let (stretches, cuts) = self.stretches(after, upto, max_bytes)?;
            let read: Result<Vec<_>, _> = stretches.iter().map(|stretch| self.read_stretch(stretch)).collect();
            // Entries that were cut meanwhile do not read back; what is there now does.
            if read.is_ok() || self.state.read().cuts == cuts {
                return read.map(|stretches| stretches.concat());
            }
        }
    }

    /// Bytes that the entries behind `after`, up to and including `upto`, take on disk.
    pub(crate) fn bytes_between(&self, after: LogIndex, upto: LogIndex) -> u64 {
        let state = self.state.read();
        state.offset_behind(upto).saturating_sub(state.offset_behind(after))
    }

    /// Where the entries behind `after` stand, and the number of cuts so far.
    fn stretches(
        &self,
        after: LogIndex,
        upto: LogIndex,
        max_bytes: usize,
    ) -> Result<(Vec<Stretch>, u64), StorageError> {
        let state = self.state.read();
        let (first, last) = (state.index.first(), state.index.last_index());
        if after.next() < first {
            let index = after.next();
            return Err(StorageError::OutOfLog { index, first, last });
        }
        let upto = upto.min(last);
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut next, mut bytes) = (after.next(), 0);
        while next <= upto && (bytes == 0 || bytes < max_bytes as u64) {
            let room = (max_bytes as u64).saturating_sub(bytes);
            let (segment, last_fitting, start, end) = state.stretch(next, upto, room);
            // Only the first entry of all may exceed the bound.
            if bytes > 0 && end - start > room {
                break;
            }
            let is_tail = segment.first == state.tail_segment().first;
            stretches.push(Stretch {
                path: self.path(segment.first),
                file: is_tail.then(|| Arc::clone(&state.tail)),
                start,
                end,
                chains: (next.0..=last_fitting.0)
                    .filter_map(|i| state.index.chain_at(LogIndex(i)))
                    .collect(),
            });
            bytes += end - start;
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
        let mut bytes = vec![0; (stretch.end - stretch.start) as usize];
        file.read_at(stretch.start, &mut bytes).map_err(failed)?;
        let bytes = Bytes::from(bytes);
        let mut entries = Vec::with_capacity(stretch.chains.len());
        let mut at = 0;
        for chain in &stretch.chains {
            let damaged = |why: &str| StorageError::Damaged {
                path: stretch.path.clone(),
                offset: stretch.start + at as u64,
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

impl State {
    /// The file of the entry at `next`; the last entry there, up to `upto`, that fits `max_bytes` (`next` does in any
    /// case); and where the two start and end.
    fn stretch(&self, next: LogIndex, upto: LogIndex, max_bytes: u64) -> (Segment, LogIndex, u64, u64) {
        let place = self.segments.partition_point(|segment| segment.first <= next);
        let segment = self.segments[place - 1];
        let last_in_segment = match self.segments.get(place) {
            Some(following) => LogIndex(following.first.0 - 1),
            None => self.index.last_index(),
        };
        let upto = upto.min(last_in_segment);
        let end_of = |index: LogIndex| match self.index.offset_of(index.next()) {
            Some(offset) if index < last_in_segment => offset,
            _ => segment.size,
        };
        let start = self.index.offset_of(next).unwrap_or(segment.size);
        // The last entry that ends within the bound, by halving: ends grow with indexes.
        let (mut low, mut high) = (next.0, upto.0);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if end_of(LogIndex(middle)) - start <= max_bytes {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        (segment, LogIndex(low), start, end_of(LogIndex(low)))
    }
}
