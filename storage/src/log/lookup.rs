//! Looking entries up by index, in files that are cold too.

use std::sync::Arc;

use candor_proto::{Chain, Epoch, LogIndex, Position};

use super::files::LogFiles;
use super::index::EntryIndex;
use super::{Agreement, RangeLog, recover};
use crate::error::StorageError;

/// Indexes of cold files that are kept for whoever asks next. Two: a follower that reads over a seam needs both.
const COLD_INDEXES_MAX: usize = 2;

impl RangeLog {
    /// The position of the entry at `index`, and the chain there; also of what comes before the first entry. `None` if
    /// the log does not hold it.
    ///
    /// # Errors
    /// The entry stands in a cold file that is damaged, or the disk refuses.
    pub(crate) fn look_up(&self, index: LogIndex) -> Result<Option<(Position, Chain)>, StorageError> {
        let place = {
            let state = self.state.read();
            let known = state.files.known(index);
            if known.is_some() || index < state.files.first() || index > state.files.last().0.index {
                return Ok(known);
            }
            state.files.place_of(index)
        };
        let Some(place) = place else { return Ok(None) };
        let entries = self.cold_index(place)?;
        Ok(entries.position_of(index).zip(entries.chain_at(index)))
    }

    /// How a log whose last entry is at `position` with `chain` stands to this one.
    ///
    /// # Errors
    /// A cold file is damaged, or the disk refuses.
    pub(crate) fn agreement(&self, position: Position, chain: Chain) -> Result<Agreement, StorageError> {
        let found = self.look_up(position.index)?;
        if found == Some((position, chain)) {
            return Ok(Agreement::Fits);
        }
        let before_first = LogIndex(self.start().0 - 1);
        if position.index <= before_first {
            return Ok(Agreement::Foreign);
        }
        // In one epoch there is one history: a place that is in both with different chains lies behind the last epoch
        // that they share, and one that is here in another epoch behind the older of the two.
        let same_place = found.is_some_and(|(here, _)| here == position);
        let shared = if same_place {
            Epoch(position.epoch.0.saturating_sub(1))
        } else {
            position.epoch
        };
        let Some(last_shared) = self.last_of_epoch(shared)? else {
            return Ok(Agreement::Foreign);
        };
        let candidate = LogIndex(last_shared.0.min(position.index.0 - 1));
        Ok(match self.look_up(candidate)? {
            Some((newest, _)) => Agreement::Behind { newest },
            None => Agreement::Foreign,
        })
    }

    /// The newest index whose epoch is at most `epoch`; `None` if it is older than the log.
    fn last_of_epoch(&self, epoch: Epoch) -> Result<Option<LogIndex>, StorageError> {
        let place = {
            let state = self.state.read();
            let Some(place) = state.files.place_of_epoch(epoch) else {
                return Ok(None);
            };
            if let Some(entries) = &state.files.all()[place].index {
                return Ok(Some(entries.last_of_epoch(epoch).index));
            }
            place
        };
        Ok(Some(self.cold_index(place)?.last_of_epoch(epoch).index))
    }

    /// The index of the file at `place`, which is cold; read from the file if need be.
    ///
    /// # Errors
    /// The file is damaged, or the disk refuses.
    pub(super) fn cold_index(&self, place: usize) -> Result<Arc<EntryIndex>, StorageError> {
        let (first, before) = {
            let state = self.state.read();
            let file = &state.files.all()[place];
            (file.first, file.before)
        };
        // Held while the file is read, so that it is read once.
        let mut cold = self.cold.lock();
        if let Some((_, entries)) = cold.iter().find(|(known, _)| *known == first) {
            return Ok(Arc::clone(entries));
        }
        let entries = Arc::new(recover::read_index(&*self.disk, &self.dir, first, before)?);
        if cold.len() == COLD_INDEXES_MAX {
            cold.remove(0);
        }
        cold.push((first, Arc::clone(&entries)));
        Ok(entries)
    }

    /// Forgets where entries at or before `index` stand: they are in a checkpoint, so few will ask for them.
    pub(crate) fn cool(&self, index: LogIndex) {
        self.state.write().files.cool(index);
    }

    /// Bytes that the entries behind `after`, up to and including `upto`, take on disk. Entries in files of which every
    /// entry is in a checkpoint are counted by whole files.
    pub(crate) fn bytes_between(&self, after: LogIndex, upto: LogIndex) -> u64 {
        let state = self.state.read();
        let files: &LogFiles = &state.files;
        files.offset_behind(upto).saturating_sub(files.offset_behind(after))
    }
}
