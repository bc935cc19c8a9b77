//! The files of a log and what is known of their entries in memory.
//!
//! The index of a file is in memory while its entries are not all in a checkpoint. After that the file is *cold*: its
//! index goes, and is made again from the file's bytes if somebody asks for an entry that old (a follower far behind).
//! So what a log takes in memory is bounded by how often a checkpoint is made, not by how long the log is.

use candor_proto::{Chain, Epoch, LogIndex, Position};

use super::index::EntryIndex;
use super::mark::DurableEnd;

/// One file of the log.
#[derive(Debug)]
pub(super) struct LogFile {
    /// The index of its first entry.
    pub(super) first: LogIndex,
    pub(super) size: u64,
    /// Position and chain before its first entry.
    pub(super) before: (Position, Chain),
    /// Where its entries stand; `None` if the file is cold.
    pub(super) index: Option<EntryIndex>,
}

impl LogFile {
    pub(super) fn end(&self) -> DurableEnd {
        DurableEnd {
            segment: self.first,
            size: self.size,
        }
    }
}

/// All files of a log, in order. There is at least one, and the last one is never cold.
#[derive(Debug)]
pub(super) struct LogFiles(Vec<LogFile>);

impl LogFiles {
    /// # Panics
    /// If there is none, or the last is cold.
    pub(super) fn new(files: Vec<LogFile>) -> Self {
        assert!(
            files.last().is_some_and(|file| file.index.is_some()),
            "the last file of a log is there, and was read"
        );
        Self(files)
    }

    pub(super) fn all(&self) -> &[LogFile] {
        &self.0
    }

    pub(super) fn tail(&self) -> &LogFile {
        self.0.last().expect("a log has at least one file")
    }

    pub(super) fn tail_mut(&mut self) -> &mut LogFile {
        self.0.last_mut().expect("a log has at least one file")
    }

    /// The index of the first entry, there or not.
    pub(super) fn first(&self) -> LogIndex {
        self.0[0].first
    }

    /// The last entry, or what comes before the first.
    pub(super) fn last(&self) -> (Position, Chain) {
        let tail = self.tail();
        tail.index.as_ref().map_or(tail.before, EntryIndex::last)
    }

    /// The place of the file with the entry at `index`, if the log held it: also of entries to come, which the last file
    /// takes. `None` for entries before the first.
    pub(super) fn place_of(&self, index: LogIndex) -> Option<usize> {
        self.0.partition_point(|file| file.first <= index).checked_sub(1)
    }

    /// The last index in the file at `place`.
    pub(super) fn last_index_in(&self, place: usize) -> LogIndex {
        match self.0.get(place + 1) {
            Some(following) => following.before.0.index,
            None => self.last().0.index,
        }
    }

    /// Position and chain at `index`, if they are known without reading a file: of entries in files that are not cold,
    /// of the last entry of any file, and of what comes before the first file.
    pub(super) fn known(&self, index: LogIndex) -> Option<(Position, Chain)> {
        let behind = self.0.partition_point(|file| file.before.0.index < index);
        if let Some(file) = self.0.get(behind).filter(|file| file.before.0.index == index) {
            return Some(file.before);
        }
        let entries = self.0[self.place_of(index)?].index.as_ref()?;
        entries.position_of(index).zip(entries.chain_at(index))
    }

    /// The place of the file that holds the newest entry whose epoch is at most `epoch`, or starts right behind it.
    /// `None` if such entries are older than the log.
    pub(super) fn place_of_epoch(&self, epoch: Epoch) -> Option<usize> {
        let later = self.0.partition_point(|file| file.before.0.epoch <= epoch);
        later.checked_sub(1)
    }

    /// Bytes in front of the entry behind `index`, counted over all files; whole files where they are cold.
    pub(super) fn offset_behind(&self, index: LogIndex) -> u64 {
        let Some(place) = self.place_of(index.next()) else {
            return 0;
        };
        let file = &self.0[place];
        let before: u64 = self.0[..place].iter().map(|file| file.size).sum();
        let within = match &file.index {
            Some(entries) => entries.offset_of(index.next()).unwrap_or(file.size),
            None => 0,
        };
        before + within
    }

    pub(super) fn push(&mut self, file: LogFile) {
        self.0.push(file);
    }

    /// Forgets the indexes of files that hold no entry behind `index`.
    pub(super) fn cool(&mut self, index: LogIndex) {
        let warm = self.place_of(index.next()).unwrap_or(0);
        for file in &mut self.0[..warm] {
            file.index = None;
        }
    }

    /// Files that hold only entries before `index`; the last file is never among them.
    pub(super) fn before(&self, index: LogIndex) -> &[LogFile] {
        let kept = self.place_of(index).unwrap_or(0);
        &self.0[..kept]
    }

    /// Takes the first file out.
    pub(super) fn remove_first(&mut self) {
        assert!(self.0.len() > 1, "the last file stays");
        self.0.remove(0);
    }

    /// Takes the files behind the one at `place` out and returns their first indexes.
    pub(super) fn truncate_to(&mut self, place: usize) -> Vec<LogIndex> {
        self.0.split_off(place + 1).iter().map(|file| file.first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten entries per file, epochs grow every fifteen.
    fn filled(files: u64) -> LogFiles {
        let position = |index: u64| Position::new(Epoch(index.div_ceil(15)), LogIndex(index));
        let file = |place: u64| {
            let before = (position(place * 10), Chain(u128::from(place * 10)));
            let mut index = EntryIndex::new(before);
            for entry in place * 10 + 1..=place * 10 + 10 {
                let offset = 100 + (entry - place * 10 - 1) as u32 * 20;
                index.push(position(entry), Chain(u128::from(entry)), offset);
            }
            LogFile {
                first: LogIndex(place * 10 + 1),
                size: 300,
                before,
                index: Some(index),
            }
        };
        LogFiles::new((0..files).map(file).collect())
    }

    #[test]
    fn what_is_known_stays_known_at_the_seams_of_cold_files() {
        let mut files = filled(4);
        let known = |files: &LogFiles, index| files.known(LogIndex(index)).map(|(_, chain)| chain.0);
        for index in 0..=40 {
            assert_eq!(known(&files, index), Some(u128::from(index)));
        }
        files.cool(LogIndex(25));
        for index in 0..=40 {
            let seen = index > 20 || index % 10 == 0;
            assert_eq!(known(&files, index).is_some(), seen, "{index}");
        }
        assert_eq!(files.known(LogIndex(41)), None);
        assert_eq!(files.offset_behind(LogIndex(15)), 300, "a cold file counts as a whole");
        assert_eq!(files.offset_behind(LogIndex(25)), 600 + 100 + 5 * 20);
        files.cool(LogIndex(40));
        assert!(files.tail().index.is_some(), "the last file is never cold");
    }

    #[test]
    fn files_are_found_by_index_and_by_epoch() {
        let files = filled(4);
        let places: Vec<_> = [0, 1, 10, 11, 40, 99]
            .map(|index| files.place_of(LogIndex(index)))
            .into();
        assert_eq!(places, [None, Some(0), Some(0), Some(1), Some(3), Some(3)]);
        assert_eq!(files.last_index_in(1), LogIndex(20));
        assert_eq!(files.last_index_in(3), LogIndex(40));
        // Epoch 1 ends with entry 15, in the second file.
        assert_eq!(files.place_of_epoch(Epoch(1)), Some(1));
        assert_eq!(files.place_of_epoch(Epoch(0)), Some(0));
        assert_eq!(files.place_of_epoch(Epoch(9)), Some(3));
        assert_eq!(files.before(LogIndex(21)).len(), 2);
        assert_eq!(files.before(LogIndex(20)).len(), 1);
        assert_eq!(files.before(LogIndex(999)).len(), 3);
    }
}
