//! What was read from segments and is kept in memory: decoded arrays, index blocks, footers.
//!
//! One cache serves all ranges of a process and has one budget. An entry is decoded once, however many readers want it
//! at the same time: the first one decodes, the others wait for it. Entries that were used since the hand of the clock
//! last passed them stay for another round, up to [`USES_MAX`] rounds, so one scan of a large table does not drive out
//! what is read all the time.
//!
//! The budget counts what the cache holds. A reader may hold on to an array that the cache has dropped; that is part of
//! the reader's memory then.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use hashbrown::HashTable;
use parking_lot::{Mutex, RwLock};

use super::footer::SegmentFooter;
use super::keys::{KeyBlock, KeyFile};

const SHARDS: usize = 16;

/// Rounds of the clock that an entry survives unused, at most.
const USES_MAX: u8 = 3;

/// What an entry costs beside its values: slot, places in table and clock, bytes.
const SLOT_SIZE: usize = 160;

/// A cache for everything that is read from segments; shared by all ranges of a process.
pub struct SegmentCache {
    budget: u64,
    used: AtomicU64,
    next_segment: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    shards: [RwLock<HashTable<Arc<Slot>>>; SHARDS],
    /// All filled slots, in the order the hand meets them.
    clock: Mutex<VecDeque<Arc<Slot>>>,
}

/// Figures of a [`SegmentCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// Bytes it may hold.
    pub budget: u64,
    /// Bytes it holds.
    pub used: u64,
    /// Entries that were found.
    pub hits: u64,
    /// Entries that had to be read.
    pub misses: u64,
}

/// What an entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePlace {
    Footer,
    KeyFile,
    /// A block of the key file.
    KeyBlock(u32),
    /// A whole column of a row group.
    Column {
        group: u32,
        column: u32,
    },
    /// One page of it.
    Page {
        group: u32,
        column: u32,
        page: u32,
    },
}

#[derive(Clone)]
pub(crate) enum Cached {
    Footer(Arc<SegmentFooter>),
    KeyFile(Arc<KeyFile>),
    KeyBlock(Arc<KeyBlock>),
    Array(ArrayRef),
}

struct Slot {
    segment: u64,
    place: CachePlace,
    /// Held while the value is read, so that it is read once.
    reading: Mutex<()>,
    filled: OnceLock<(Cached, u64)>,
    uses: AtomicU8,
    is_gone: AtomicBool,
}

impl SegmentCache {
    /// A cache that holds at most `budget` bytes.
    pub fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self {
            budget,
            used: AtomicU64::new(0),
            next_segment: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            shards: Default::default(),
            clock: Mutex::default(),
        })
    }

    /// How it does.
    pub fn figures(&self) -> CacheFigures {
        CacheFigures {
            budget: self.budget,
            used: self.used.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Bytes it may hold.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// A number for a segment that was opened; never given again.
    pub(crate) fn next_segment(&self) -> u64 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }

    /// The entry, if it is there.
    pub(crate) fn get(&self, segment: u64, place: CachePlace) -> Option<Cached> {
        let hash = hash(segment, place);
        let shard = self.shard(hash).read();
        let slot = shard.find(hash, |slot| slot.is(segment, place))?;
        let (value, _) = slot.filled.get()?;
        slot.touch();
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(value.clone())
    }

    /// The entry; read by `read`, which gives its size in bytes too, if it is not there.
    pub(crate) fn get_or<E>(
        &self,
        segment: u64,
        place: CachePlace,
        read: impl FnOnce() -> Result<(Cached, usize), E>,
    ) -> Result<Cached, E> {
        if let Some(value) = self.get(segment, place) {
            return Ok(value);
        }
        let slot = self.slot(segment, place);
        let reading = slot.reading.lock();
        if let Some((value, _)) = slot.filled.get() {
            slot.touch();
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(value.clone());
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        match read() {
            Ok((value, size)) => {
                let size = (size + SLOT_SIZE) as u64;
                let _ = slot.filled.set((value.clone(), size));
                drop(reading);
                self.used.fetch_add(size, Ordering::Relaxed);
                self.settle(slot);
                Ok(value)
            }
            Err(error) => {
                self.take_out(&slot);
                Err(error)
            }
        }
    }

    /// Drops what it holds of a segment that is gone.
    pub(crate) fn forget(&self, segment: u64) {
        for shard in &self.shards {
            let mut shard = shard.write();
            shard.retain(|slot| {
                let stays = slot.segment != segment;
                if !stays {
                    self.let_go(slot);
                }
                stays
            });
        }
        self.clock.lock().retain(|slot| slot.segment != segment);
    }

    /// Puts a filled slot on the clock, and makes room.
    fn settle(&self, slot: Arc<Slot>) {
        let mut clock = self.clock.lock();
        clock.push_back(slot);
        // Every slot is met at most once for each round it may survive.
        let mut meetings = clock.len() * (usize::from(USES_MAX) + 1);
        while self.used.load(Ordering::Relaxed) > self.budget && meetings > 0 {
            meetings -= 1;
            let Some(slot) = clock.pop_front() else { break };
            let uses = slot.uses.load(Ordering::Relaxed);
            if uses > 0 {
                slot.uses.store(uses - 1, Ordering::Relaxed);
                clock.push_back(slot);
            } else {
                self.take_out(&slot);
            }
        }
    }

    fn slot(&self, segment: u64, place: CachePlace) -> Arc<Slot> {
        let hash = hash(segment, place);
        let mut shard = self.shard(hash).write();
        let rehash = |slot: &Arc<Slot>| self::hash(slot.segment, slot.place);
        let entry = shard.entry(hash, |slot| slot.is(segment, place), rehash);
        Arc::clone(entry.or_insert_with(|| Arc::new(Slot::new(segment, place))).get())
    }

    fn take_out(&self, slot: &Arc<Slot>) {
        let hash = hash(slot.segment, slot.place);
        let mut shard = self.shard(hash).write();
        if let Ok(found) = shard.find_entry(hash, |other| Arc::ptr_eq(other, slot)) {
            found.remove();
        }
        self.let_go(slot);
    }

    /// Takes what a slot holds off the sum, once.
    fn let_go(&self, slot: &Slot) {
        if let Some((_, size)) = slot.filled.get()
            && !slot.is_gone.swap(true, Ordering::Relaxed)
        {
            self.used.fetch_sub(*size, Ordering::Relaxed);
        }
    }

    fn shard(&self, hash: u64) -> &RwLock<HashTable<Arc<Slot>>> {
        // The table inside takes the lowest and the highest bits.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

impl Slot {
    fn new(segment: u64, place: CachePlace) -> Self {
        Self {
            segment,
            place,
            reading: Mutex::default(),
            filled: OnceLock::new(),
            uses: AtomicU8::new(0),
            is_gone: AtomicBool::new(false),
        }
    }

    fn is(&self, segment: u64, place: CachePlace) -> bool {
        self.segment == segment && self.place == place
    }

    fn touch(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }
}

fn hash(segment: u64, place: CachePlace) -> u64 {
    let (kind, high, low) = match place {
        CachePlace::Footer => (0, 0, 0),
        CachePlace::KeyFile => (1, 0, 0),
        CachePlace::KeyBlock(block) => (2, 0, block),
        CachePlace::Column { group, column } => (3, group, column),
        CachePlace::Page { group, column, page } => (4 + u64::from(page), group, column),
    };
    let parts = [segment, kind, u64::from(high) << 32 | u64::from(low)];
    parts.iter().fold(0, |hash: u64, part| {
        let mixed = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}
