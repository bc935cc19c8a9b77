//! Compaction: small segments, and those of which much has ended, are written together.
//!
//! Rows keep their ids, and those that ended at or before the horizon of the newest checkpoint are left out. Not those
//! that ended before a newer horizon: until the next checkpoint a restart begins at that one, and applies entries to
//! rows that must still be there.

use std::sync::Arc;

use super::RangeStore;
use super::checkpoint::{image, layouts};
use super::garbage::KeptManifest;
use super::manifest::{self, Manifest};
use crate::error::StorageError;
use crate::schema::CollectionId;
use crate::segments::SegmentInfo;
use crate::table::Table;
use crate::table::freeze::Move;
use crate::table::layers::MainSegment;

/// Segments that are written together, at most.
const SEGMENTS_MAX: usize = 16;

/// Rows that are written together, at most: they are sorted in memory.
const ROWS_MAX: u64 = 1 << 20;

/// Bytes of files that are written together, at most, for the same reason.
const BYTES_MAX: u64 = 256 << 20;

/// Segments of one size, within this factor, are written together once they are so many; so each row is written once
/// for each step by which its segment has grown.
const TIER_SEGMENTS: usize = 4;
const TIER_FACTOR: u64 = 4;

/// A segment of which this share has ended (one in so many rows) is written anew.
const ENDED_SHARE: u64 = 4;

/// Segments of a table that are worth writing together.
struct Candidate {
    id: CollectionId,
    table: Arc<Table>,
    segments: Vec<Arc<MainSegment>>,
}

impl RangeStore {
    /// Writes some segments of one table together, if that is worth it. Waits for the disk; reads and writes go on
    /// meanwhile. Whether there was something to do.
    ///
    /// # Errors
    /// A segment cannot be read; the disk refuses, or is full: everything is as it was.
    pub fn compact(&self) -> Result<bool, StorageError> {
        let mut number = self.maintenance.lock();
        self.compact_as(&mut number)
    }

    pub(super) fn compact_as(&self, number: &mut u64) -> Result<bool, StorageError> {
        let Some(newest) = self.kept.lock().newest().map(Arc::clone) else {
            return Ok(false);
        };
        // Has what ends from now on kept, until it was carried over.
        let _reader = self.readers.open(self.applied().0.index.0);
        let state = self.published.read().state.clone();
        let drop = self.horizon_in_use().min(newest.horizon).0;
        let mut tables = state.tables.iter();
        let Some(candidate) = tables.find_map(|(id, table)| candidate(*id, table, &newest, drop)) else {
            return Ok(false);
        };
        let mut manifest = Manifest::read(&*self.disk, &self.dir, newest.number())?;
        let carried = self.applied().0.index.0;
        let Candidate { id, table, segments } = candidate;
        // A restart begins at the manifest, with its columns too.
        let catalogs = manifest
            .catalogs()
            .map_err(|why| manifest::damaged(&self.dir, newest.number(), why))?;
        let mut columns = layouts(&state.catalogs, id);
        columns.extend(layouts(&catalogs, id));
        let moved = Move::main(&table, segments.clone(), &columns, &self.home, drop)?;
        moved.carry(drop)?;
        if let Some(table) = manifest.tables.iter_mut().find(|table| table.id == id) {
            let is_moved = |info: &SegmentInfo| {
                segments
                    .iter()
                    .any(|main| main.segment.info().identity() == info.identity())
            };
            table.segments.retain(|segment| !is_moved(&segment.info));
            table
                .segments
                .extend(moved.to.iter().map(|main| image(main, newest.applied.index)));
        }
        let written = *number;
        *number += 1;
        manifest.write(&*self.disk, &self.dir, written)?;
        self.install(vec![moved], carried)?;
        self.kept.lock().push(written, &manifest);
        self.sweep()?;
        Ok(true)
    }
}

fn candidate(id: CollectionId, table: &Arc<Table>, newest: &KeptManifest, drop: u64) -> Option<Candidate> {
    // Rows that came in segments after the newest checkpoint come again when the log is applied behind it.
    let is_kept = |main: &&Arc<MainSegment>| newest.segments.contains(&main.segment.info().identity());
    let main: Vec<Arc<MainSegment>> = table.layers().main.iter().filter(is_kept).cloned().collect();
    let segments = ended(&main, drop).or_else(|| tier(&main))?;
    Some(Candidate {
        id,
        table: Arc::clone(table),
        segments,
    })
}

/// A segment of which much has ended at or before `drop`, so that it gets smaller.
fn ended(main: &[Arc<MainSegment>], drop: u64) -> Option<Vec<Arc<MainSegment>>> {
    let is_much = |count: u64, main: &MainSegment| count * ENDED_SHARE >= u64::from(main.segment.rows());
    let much = |main: &&Arc<MainSegment>| {
        is_much(main.ends.ended(), main) && is_much(main.ends.pairs(drop).len() as u64, main)
    };
    main.iter().find(much).map(|main| vec![Arc::clone(main)])
}

/// Neighbouring segments of about one size. Neighbours, so that segments without a key keep to stretches of row ids.
fn tier(main: &[Arc<MainSegment>]) -> Option<Vec<Arc<MainSegment>>> {
    let rows = |main: &MainSegment| u64::from(main.segment.rows());
    for first in 0..main.len() {
        let (mut taken, mut sum, mut bytes) = (0, 0, 0);
        let (mut least, mut most) = (u64::MAX, 0);
        for segment in main[first..].iter().take(SEGMENTS_MAX) {
            let size = rows(segment);
            (least, most) = (least.min(size), most.max(size));
            sum += size;
            bytes += segment.segment.info().size();
            if sum > ROWS_MAX || bytes > BYTES_MAX || most > least.max(1) * TIER_FACTOR {
                break;
            }
            taken += 1;
        }
        if taken >= TIER_SEGMENTS {
            return Some(main[first..first + taken].to_vec());
        }
    }
    None
}
