//! The version that ended each row, in chunks that are made when the first of their rows ends.
//!
//! Readers hold chunks and look at them without a lock. A reader at version `v` only asks whether a row had ended at
//! or before `v`; all such ends were written before `v` could be read. An end that is written while it looks belongs to
//! a later version and changes no answer, so the order of these writes does not matter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Rows per chunk.
pub(crate) const CHUNK_ROWS: u64 = 4096;

const LIVE: u64 = 0;

/// The ends of [`CHUNK_ROWS`] rows; not there until one of them ends.
#[derive(Debug, Default)]
pub(crate) struct EndChunk(OnceLock<Box<[AtomicU64]>>);

impl EndChunk {
    /// Whether no row of it has ended yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.0.get().is_none()
    }

    /// Whether the row at this place of the chunk had not ended at `version`.
    pub(crate) fn lives_at(&self, place: usize, version: u64) -> bool {
        match self.0.get() {
            None => true,
            Some(ends) => {
                let end = ends[place].load(Ordering::Relaxed);
                end == LIVE || end > version
            }
        }
    }

    /// The places of rows that ended at or before `version`, and when.
    pub(crate) fn ends(&self, version: u64) -> impl Iterator<Item = (usize, u64)> {
        let ends = self.0.get().into_iter().flatten().enumerate();
        let ends = ends.map(|(place, end)| (place, end.load(Ordering::Relaxed)));
        ends.filter(move |(_, end)| *end != LIVE && *end <= version)
    }

    fn set(&self, place: usize, version: u64) {
        let ends = self
            .0
            .get_or_init(|| (0..CHUNK_ROWS).map(|_| AtomicU64::new(LIVE)).collect());
        ends[place].store(version, Ordering::Relaxed);
    }
}

/// The ends of rows from some id on.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Chunks before the first one here.
    before: u64,
    chunks: Vec<Arc<EndChunk>>,
}

impl Ends {
    /// The ends of rows from the id `first` on.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            before: first / CHUNK_ROWS,
            chunks: Vec::new(),
        }
    }

    /// Makes room for rows up to `rows`.
    pub(crate) fn grow_to(&mut self, rows: u64) {
        let chunks = rows.div_ceil(CHUNK_ROWS).saturating_sub(self.before);
        self.chunks.resize_with(chunks as usize, Arc::default);
    }

    /// Rows that ended, and when.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (u64, u64)> {
        self.chunks.iter().zip(self.before..).flat_map(|(chunk, at)| {
            let ends = chunk.ends(u64::MAX);
            ends.map(move |(place, version)| (at * CHUNK_ROWS + place as u64, version))
        })
    }

    fn chunk(&self, row: u64) -> &EndChunk {
        &self.chunks[(row / CHUNK_ROWS - self.before) as usize]
    }

    /// Bytes of memory they take.
    pub(crate) fn size(&self) -> usize {
        let touched = self.chunks.iter().filter(|chunk| !chunk.is_untouched()).count();
        self.chunks.len() * size_of::<EndChunk>() + touched * CHUNK_ROWS as usize * size_of::<u64>()
    }

    /// Whether the row had not ended at `version`.
    pub(crate) fn lives_at(&self, row: u64, version: u64) -> bool {
        self.chunk(row).lives_at((row % CHUNK_ROWS) as usize, version)
    }

    /// Ends a live row.
    pub(crate) fn end(&self, row: u64, version: u64) {
        debug_assert!(self.lives_at(row, u64::MAX), "a row ends once");
        self.chunk(row).set((row % CHUNK_ROWS) as usize, version);
    }

    /// The chunks that hold these rows.
    pub(crate) fn covering(&self, rows: Range<u64>) -> Vec<Arc<EndChunk>> {
        let place = |chunk: u64| (chunk - self.before) as usize;
        self.chunks[place(rows.start / CHUNK_ROWS)..place(rows.end.div_ceil(CHUNK_ROWS))].to_vec()
    }
}
