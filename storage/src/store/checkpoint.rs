//! A checkpoint: all rows that stand in memory go to segments, and a manifest says what the range is made of.
//!
//! Others read and write meanwhile. What is written down is the range as it was at one version, that of the freeze; what
//! is applied later stands in the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use candor_proto::{Chain, LogIndex, Position};

use super::RangeStore;
use super::manifest::{Manifest, SegmentImage, TableImage};
use crate::apply::RangeState;
use crate::catalog::Catalog;
use crate::error::StorageError;
use crate::layout::Layout;
use crate::readers::Reader;
use crate::runs::PendingImage;
use crate::schema::CollectionId;
use crate::table::Table;
use crate::table::freeze::{Frozen, Move};
use crate::table::layers::MainSegment;

/// A range at the moment it was frozen.
struct FrozenRange {
    applied: (Position, Chain),
    state: RangeState,
    first_part: Option<LogIndex>,
    pending: Vec<PendingImage>,
    tables: BTreeMap<CollectionId, (Arc<Table>, Frozen)>,
    /// Rows that ended at or before this version are not needed by anybody.
    drop: u64,
    /// Has what ended since then kept.
    _reader: Reader,
}

impl RangeStore {
    /// Makes a checkpoint of the newest version, unless there is one. Waits for the disk, for as long as it takes to write
    /// all rows that stand in memory; reads and writes go on meanwhile.
    ///
    /// # Errors
    /// The disk refuses, or is full: everything is as it was, and a later checkpoint may succeed.
    pub fn checkpoint(&self) -> Result<bool, StorageError> {
        let mut number = self.maintenance.lock();
        self.checkpoint_as(&mut number)
    }

    pub(super) fn checkpoint_as(&self, number: &mut u64) -> Result<bool, StorageError> {
        let last = self.kept.lock().newest().map(|newest| newest.applied);
        if self.applied().0 == last.unwrap_or(Position::ZERO) {
            return Ok(false);
        }
        let frozen = self.freeze();
        // What a checkpoint holds must not be lost from the log.
        self.log.sync()?;
        let carried = self.applied().0.index.0;
        let mut moves = BTreeMap::new();
        for (id, (table, rows)) in &frozen.tables {
            let layouts = layouts(&frozen.state.catalogs, *id);
            let moved = Move::deltas(table, &rows.deltas, &layouts, &self.home, frozen.drop)?;
            moved.carry(frozen.drop)?;
            moves.insert(*id, moved);
        }
        // Rows that came in segments of their own.
        self.home.sync()?;
        let manifest = frozen.manifest(self, &moves);
        let written = *number;
        *number += 1;
        manifest.write(&*self.disk, &self.dir, written)?;
        self.install(moves.into_values().collect(), carried)?;
        self.kept.lock().push(written, &manifest);
        self.log.cool(frozen.applied.0.index);
        tracing::debug!(range = %self.name(), version = %frozen.applied.0.index, "checkpoint");
        drop(frozen);
        self.forget();
        self.sweep()?;
        Ok(true)
    }

    /// Puts moved rows in place. Ends up to the version `carried` were carried over.
    pub(super) fn install(&self, moves: Vec<Move>, carried: u64) -> Result<(), StorageError> {
        let moves: Vec<Move> = moves.into_iter().filter(|moved| !moved.is_empty()).collect();
        // Most of what ended meanwhile, without holding up anybody.
        let later = self.applied().0.index.0;
        moves.iter().try_for_each(|moved| moved.carry(carried))?;
        let _applier = self.applier.lock();
        moves.iter().try_for_each(|moved| moved.carry(later))?;
        moves.into_iter().for_each(Move::install);
        Ok(())
    }

    fn freeze(&self) -> FrozenRange {
        let applier = self.applier.lock();
        let applied = self.applied();
        let state = applier.state.clone();
        let frozen = state
            .tables
            .iter()
            .map(|(id, table)| (*id, (Arc::clone(table), table.freeze())));
        FrozenRange {
            tables: frozen.collect(),
            first_part: applier.first_part(),
            pending: applier.pending(),
            drop: self.horizon_in_use().0,
            _reader: self.readers.open(applied.0.index.0),
            applied,
            state,
        }
    }
}

impl FrozenRange {
    fn manifest(&self, store: &RangeStore, moves: &BTreeMap<CollectionId, Move>) -> Manifest {
        let (applied, chain) = self.applied;
        let table = |(id, (_, frozen)): (&CollectionId, &(Arc<Table>, Frozen))| {
            let mut history = frozen.history.clone();
            history.forget_before(self.state.horizon.0);
            let moved = moves.get(id).map(|moved| moved.to.as_slice()).unwrap_or_default();
            TableImage {
                id: *id,
                history,
                segments: frozen
                    .main
                    .iter()
                    .chain(moved)
                    .map(|main| image(main, applied.index))
                    .collect(),
            }
        };
        Manifest {
            range: store.id(),
            name: store.name().clone(),
            applied,
            chain,
            horizon: self.state.horizon,
            first_part: self.first_part,
            epochs: self.state.epochs.to_vec(),
            catalogs: self.state.catalogs.iter().map(|catalog| catalog.image()).collect(),
            tables: self.tables.iter().map(table).collect(),
            pending: self.pending.clone(),
        }
    }
}

/// A segment as it was at `version`.
pub(super) fn image(main: &MainSegment, version: LogIndex) -> SegmentImage {
    SegmentImage::new(main.segment.info().clone(), &main.ends.pairs(version.0))
}

/// How some version sees the rows of a collection.
pub(super) fn layouts(catalogs: &[Arc<Catalog>], id: CollectionId) -> Vec<Arc<Layout>> {
    let layouts = catalogs.iter().rev().filter_map(|catalog| catalog.layout_of(id));
    layouts.cloned().collect()
}
