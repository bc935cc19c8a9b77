//! Where each entry of a log stands, in memory: its chain and its offset, 20 bytes an entry; epochs as runs.

use candor_proto::{Chain, Epoch, LogIndex, Position};

/// Entries per chunk: growing by one never moves more than a chunk.
const CHUNK: usize = 1 << 14;

/// One line per entry of a log.
#[derive(Debug)]
pub(super) struct EntryIndex {
    /// Position and chain before the first entry.
    before: (Position, Chain),
    chunks: Vec<Chunk>,
    count: usize,
    /// The first index of each epoch.
    epochs: Vec<(LogIndex, Epoch)>,
}

#[derive(Debug, Default)]
struct Chunk {
    chains: Vec<[u8; 16]>,
    offsets: Vec<u32>,
}

impl EntryIndex {
    /// The index of a log whose first entry comes after `before`.
    pub(super) fn new(before: (Position, Chain)) -> Self {
        Self {
            before,
            chunks: Vec::new(),
            count: 0,
            epochs: Vec::new(),
        }
    }

    /// The index of the first entry, there or not.
    pub(super) fn first(&self) -> LogIndex {
        self.before.0.index.next()
    }

    /// The last entry, or what comes before the first.
    pub(super) fn last(&self) -> (Position, Chain) {
        let index = self.last_index();
        let found = self.position_of(index).zip(self.chain_at(index));
        found.unwrap_or(self.before)
    }

    pub(super) fn last_index(&self) -> LogIndex {
        LogIndex(self.before.0.index.0 + self.count as u64)
    }

    /// Adds the entry after the last one.
    pub(super) fn push(&mut self, position: Position, chain: Chain, offset: u32) {
        assert_eq!(position.index, self.last_index().next(), "entries come in order");
        if self.count.is_multiple_of(CHUNK) {
            self.chunks.push(Chunk::default());
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.chains.push(chain.0.to_be_bytes());
            chunk.offsets.push(offset);
        }
        if self.epochs.last().is_none_or(|(_, epoch)| *epoch != position.epoch) {
            self.epochs.push((position.index, position.epoch));
        }
        self.count += 1;
    }

    /// The position of the entry at `index`, or of what comes before the first entry.
    pub(super) fn position_of(&self, index: LogIndex) -> Option<Position> {
        if index == self.before.0.index {
            return Some(self.before.0);
        }
        self.place(index)?;
        let run = self.epochs.partition_point(|(first, _)| *first <= index);
        Some(Position::new(self.epochs[run - 1].1, index))
    }

    /// The chain at `index`, which may be the one before the first entry.
    pub(super) fn chain_at(&self, index: LogIndex) -> Option<Chain> {
        if index == self.before.0.index {
            return Some(self.before.1);
        }
        let place = self.place(index)?;
        let bytes = self.chunks[place / CHUNK].chains[place % CHUNK];
        Some(Chain(u128::from_be_bytes(bytes)))
    }

    /// Where the entry at `index` starts in its file.
    pub(super) fn offset_of(&self, index: LogIndex) -> Option<u64> {
        let place = self.place(index)?;
        Some(u64::from(self.chunks[place / CHUNK].offsets[place % CHUNK]))
    }

    /// The newest position whose epoch is at most `epoch`.
    pub(super) fn last_of_epoch(&self, epoch: Epoch) -> Position {
        let run = self.epochs.partition_point(|(_, other)| *other <= epoch);
        let index = match self.epochs.get(run) {
            Some((first_above, _)) => LogIndex(first_above.0 - 1),
            None => self.last_index(),
        };
        self.position_of(index).unwrap_or(self.before.0)
    }

    /// Forgets the entries after `index`.
    pub(super) fn truncate_after(&mut self, index: LogIndex) {
        let kept = index.0.saturating_sub(self.before.0.index.0) as usize;
        if kept >= self.count {
            return;
        }
        self.count = kept;
        self.chunks.truncate(kept.div_ceil(CHUNK));
        if let Some(chunk) = self.chunks.last_mut() {
            let in_last = kept - (kept - 1) / CHUNK * CHUNK;
            chunk.chains.truncate(in_last);
            chunk.offsets.truncate(in_last);
        }
        self.epochs.retain(|(first, _)| *first <= index);
    }

    fn place(&self, index: LogIndex) -> Option<usize> {
        let place = index.0.checked_sub(self.before.0.index.0 + 1)?;
        (place < self.count as u64).then_some(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> EntryIndex {
        let mut index = EntryIndex::new((Position::ZERO, Chain(1000)));
        for i in 1..=count {
            index.push(
                Position::new(Epoch(1 + i / 10), LogIndex(i)),
                Chain(u128::from(i)),
                i as u32,
            );
        }
        index
    }

    #[test]
    fn entries_are_found_across_chunks_and_epochs() {
        let index = filled(40_000);
        for i in [1, 9, 10, 16_384, 16_385, 40_000] {
            assert_eq!(
                index.position_of(LogIndex(i)),
                Some(Position::new(Epoch(1 + i / 10), LogIndex(i)))
            );
            assert_eq!(index.chain_at(LogIndex(i)), Some(Chain(u128::from(i))));
            assert_eq!(index.offset_of(LogIndex(i)), Some(i));
        }
        assert_eq!(index.chain_at(LogIndex::ZERO), Some(Chain(1000)));
        assert_eq!(index.position_of(LogIndex(40_001)), None);
        assert_eq!(index.last_of_epoch(Epoch(2)).index, LogIndex(19));
        assert_eq!(index.last_of_epoch(Epoch(0)), Position::ZERO);
        assert_eq!(index.last_of_epoch(Epoch(u64::MAX)).index, LogIndex(40_000));
    }

    #[test]
    fn what_is_cut_is_gone_and_may_be_written_anew() {
        for kept in [0, 1, 9, 10, 16_383, 16_384, 16_385, 20_000] {
            let mut index = filled(20_000);
            index.truncate_after(LogIndex(kept));
            assert_eq!(index.last_index(), LogIndex(kept));
            assert_eq!(index.chain_at(LogIndex(kept + 1)), None);
            index.push(Position::new(Epoch(9999), LogIndex(kept + 1)), Chain(5), 6);
            assert_eq!(index.last(), (Position::new(Epoch(9999), LogIndex(kept + 1)), Chain(5)));
            assert_eq!(index.offset_of(LogIndex(kept + 1)), Some(6));
        }
    }
}
