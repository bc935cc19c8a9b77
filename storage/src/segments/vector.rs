//! Which rows of a segment have ended, and when.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use crate::table::ends::{CHUNK_ROWS, EndChunk, Ends};

/// The versions that ended rows of one segment, by the row's ordinal in it. Costs nothing for stretches of rows of which
/// none has ended. Readers look without a lock, as they do at the ends of rows in memory: all ends up to a version were
/// written before the version could be read.
#[derive(Debug)]
pub struct DeletionVector {
    rows: u32,
    chunks: Vec<Arc<EndChunk>>,
    ends: Ends,
    ended: AtomicU64,
}

impl DeletionVector {
    /// One for a segment of this many rows, of which none has ended.
    pub fn new(rows: u32) -> Self {
        let mut ends = Ends::default();
        ends.grow_to(u64::from(rows));
        Self {
            rows,
            chunks: ends.covering(0..u64::from(rows)),
            ends,
            ended: AtomicU64::new(0),
        }
    }

    /// One with the ends that [`DeletionVector::pairs`] gave. `None` if they do not fit a segment of `rows` rows: an
    /// ordinal that is not there or stands twice, or a version of 0.
    pub fn from_pairs(rows: u32, pairs: &[(u32, u64)]) -> Option<Self> {
        let vector = Self::new(rows);
        for (ordinal, version) in pairs {
            if *ordinal >= rows || *version == 0 || !vector.lives_at(*ordinal, u64::MAX) {
                return None;
            }
            vector.end(*ordinal, *version);
        }
        Some(vector)
    }

    /// Ends a live row at `version`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn end(&self, ordinal: u32, version: u64) {
        assert!(ordinal < self.rows, "row {ordinal} of {}", self.rows);
        self.ends.end(u64::from(ordinal), version);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the row had not ended at `version`.
    pub fn lives_at(&self, ordinal: u32, version: u64) -> bool {
        self.ends.lives_at(u64::from(ordinal), version)
    }

    /// Rows that have ended, at any version.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// The ends at or before `version`, by ordinal.
    pub fn pairs(&self, version: u64) -> Vec<(u32, u64)> {
        let mut pairs = Vec::new();
        for (at, chunk) in self.chunks.iter().enumerate() {
            let first = at as u32 * CHUNK_ROWS as u32;
            pairs.extend(chunk.ends(version).map(|(place, end)| (first + place as u32, end)));
        }
        pairs
    }

    /// Which of the rows in `range` had not ended at `version`; `None` if none had.
    pub(crate) fn living(&self, range: Range<u32>, version: u64) -> Option<BooleanBuffer> {
        let chunk_rows = CHUNK_ROWS as u32;
        let chunks = (range.start / chunk_rows) as usize..range.end.div_ceil(chunk_rows) as usize;
        if range.is_empty() || self.chunks[chunks].iter().all(|chunk| chunk.is_untouched()) {
            return None;
        }
        let length = range.len();
        let mut mask = BooleanBufferBuilder::new(length);
        let mut row = range.start;
        while row < range.end {
            let chunk = &self.chunks[(row / chunk_rows) as usize];
            let end = range.end.min((row / chunk_rows + 1) * chunk_rows);
            if chunk.is_untouched() {
                mask.append_n((end - row) as usize, true);
            } else {
                for place in row % chunk_rows..row % chunk_rows + (end - row) {
                    mask.append(chunk.lives_at(place as usize, version));
                }
            }
            row = end;
        }
        let mask = mask.finish();
        (mask.count_set_bits() < length).then_some(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_back_and_versions_tell_them_apart() {
        let vector = DeletionVector::new(10_000);
        assert!(vector.living(0..10_000, u64::MAX).is_none());
        vector.end(5, 7);
        vector.end(9_999, 9);
        assert_eq!(vector.pairs(u64::MAX), [(5, 7), (9_999, 9)]);
        assert_eq!(vector.pairs(8), [(5, 7)]);
        assert_eq!(vector.living(0..100, 7).map(|mask| mask.count_set_bits()), Some(99));
        assert!(vector.living(0..100, 6).is_none());
        assert!(vector.living(4096..8192, 9).is_none());
        assert!(vector.lives_at(9_999, 8) && !vector.lives_at(9_999, 9));
        let again = DeletionVector::from_pairs(10_000, &vector.pairs(u64::MAX)).expect("fits");
        assert_eq!(again.pairs(u64::MAX), vector.pairs(u64::MAX));
        assert_eq!(again.ended(), 2);
    }

    #[test]
    fn pairs_that_do_not_fit_are_refused() {
        for pairs in [&[(10, 1)][..], &[(1, 0)], &[(1, 1), (1, 2)]] {
            assert!(DeletionVector::from_pairs(10, pairs).is_none(), "{pairs:?}");
        }
    }
}
