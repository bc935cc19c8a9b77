//! How rows move from memory to segments, and from segments to other segments, while others read and write.
//!
//! 1. Under the lock of whoever applies, the table is frozen: the rows that move have all begun. They may still end.
//! 2. Without a lock, segments are written, and rows that have ended by now are ended there too ([`Move::carry`]).
//! 3. Under the lock again, the ends that came meanwhile are carried over, and the layers are changed at once
//!    ([`Move::install`]). A reader sees the rows here or there; both say the same.
//!
//! Rows that ended at or before the horizon are left out, and nothing else is.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::compute::filter;
use arrow::error::ArrowError;
use parking_lot::Mutex;

use super::Table;
use super::block::Block;
use super::delta::Delta;
use super::ends::Ends;
use super::history::History;
use super::keys::KeySpec;
use super::layers::{Layers, MainSegment};
use crate::error::{ReadError, StorageError};
use crate::layout::Layout;
use crate::schema::ROW_ID_COLUMN;
use crate::segments::{
    DeletionVector, HeldFiles, PartRead, RowSorter, SEGMENT_ROWS_MAX, Segment, SegmentCache, SegmentColumn,
    SegmentFiles, SegmentInfo, SegmentPart, SegmentSpec, SegmentView,
};

/// Rows of a batch that is read to be written again.
const COPY_ROWS: usize = 16_384;

/// Where segments are written to and read from; clones share it.
#[derive(Clone)]
pub(crate) struct SegmentHome {
    pub(crate) files: Arc<dyn SegmentFiles>,
    pub(crate) cache: Arc<SegmentCache>,
    held: Arc<HeldFiles>,
    open: Arc<Mutex<OpenSegments>>,
}

#[derive(Default)]
struct OpenSegments {
    /// Segments that may be read: their files stay.
    segments: Vec<Weak<Segment>>,
    /// Names of files that are not durable yet.
    shown: Vec<String>,
}

/// A table at the moment it was frozen.
pub(crate) struct Frozen {
    /// Its rows in memory.
    pub(crate) deltas: Vec<Arc<Delta>>,
    pub(crate) main: Vec<Arc<MainSegment>>,
    pub(crate) history: History,
}

/// Rows of a table on their way to segments.
pub(crate) struct Move {
    table: Arc<Table>,
    from: Origin,
    /// The segments they are in now; in no layer yet.
    pub(crate) to: Vec<Arc<MainSegment>>,
}

enum Origin {
    Deltas(Vec<Arc<Delta>>),
    Main(Vec<Arc<MainSegment>>),
}

impl SegmentHome {
    pub(crate) fn new(files: Arc<dyn SegmentFiles>, cache: Arc<SegmentCache>) -> Self {
        let held = Arc::new(HeldFiles::new(files));
        Self {
            files: Arc::clone(&held) as _,
            cache,
            held,
            open: Arc::default(),
        }
    }

    /// The segment that `info` tells of. Its files stay while it lives, also those that get their names later.
    pub(crate) fn open(&self, info: SegmentInfo) -> Arc<Segment> {
        let segment = Segment::new(info, Arc::clone(&self.files), Arc::clone(&self.cache));
        self.open.lock().segments.push(Arc::downgrade(&segment));
        segment
    }

    /// The segment that `info` tells of, with these ends; `None` if they do not fit it.
    pub(crate) fn segment(&self, info: SegmentInfo, ends: &[(u32, u64)]) -> Option<Arc<MainSegment>> {
        let ends = Arc::new(DeletionVector::from_pairs(info.rows(), ends)?);
        let segment = self.open(info);
        Some(Arc::new(MainSegment { segment, ends }))
    }

    /// Names of the files of segments that live.
    pub(crate) fn names_in_use(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.open.lock().segments.retain(|segment| match segment.upgrade() {
            Some(segment) => {
                names.extend(segment.info().file_names());
                true
            }
            None => false,
        });
        names
    }

    /// Gives a file its name; it is durable after [`SegmentHome::sync`].
    ///
    /// # Errors
    /// The disk refuses; not if it is full.
    pub(crate) fn show(&self, content: Vec<u8>, name: String) -> Result<(), StorageError> {
        self.held.show(&name, content)?;
        self.open.lock().shown.push(name);
        Ok(())
    }

    /// Makes all files durable that are in use and have been shown before this call.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let in_use = self.names_in_use();
        let shown = std::mem::take(&mut self.open.lock().shown);
        let names: Vec<String> = shown.into_iter().filter(|name| in_use.contains(name)).collect();
        let synced = self.files.sync(&names);
        if synced.is_err() {
            self.open.lock().shown.extend(names);
        }
        synced
    }

    fn fresh(&self, infos: Vec<SegmentInfo>) -> Vec<Arc<MainSegment>> {
        let fresh = infos.into_iter().filter_map(|info| self.segment(info, &[]));
        fresh.collect()
    }
}

impl Table {
    /// Has new rows go to a fresh delta from now on. Nothing may be applied meanwhile.
    pub(crate) fn freeze(&self) -> Frozen {
        let mut layers = self.layers.write();
        let row_end = layers.active().row_end();
        if row_end > layers.active().first_row {
            Arc::make_mut(&mut layers)
                .deltas
                .push(Delta::new(row_end, &self.keys()));
        }
        Frozen {
            deltas: layers.deltas[..layers.deltas.len() - 1].to_vec(),
            main: layers.main.clone(),
            history: self.history.read().clone(),
        }
    }

    /// How its segments are made, if its rows are to be seen through all of these layouts.
    fn spec(&self, layouts: &[Arc<Layout>]) -> SegmentSpec {
        let mut columns: Vec<SegmentColumn> = Vec::new();
        for column in layouts.iter().flat_map(|layout| layout.stored.iter()) {
            if columns.iter().all(|known| known.id != column.id) {
                // Rows of versions that allowed NULL may still be among them.
                columns.push(SegmentColumn {
                    nullable: true,
                    ..column.clone()
                });
            }
        }
        let keys = self.keys();
        let (key, indexed) = keys.split_at(usize::from(self.has_primary()));
        let ids = |spec: &Arc<KeySpec>| spec.columns().to_vec();
        SegmentSpec {
            columns,
            key: key.first().map(ids).unwrap_or_default(),
            indexed: indexed.iter().map(ids).collect(),
        }
    }
}

impl Move {
    /// Writes the rows of frozen deltas, but for those that ended at or before `drop`.
    ///
    /// # Errors
    /// The disk refuses, or is full. What was written is garbage.
    pub(crate) fn deltas(
        table: &Arc<Table>,
        deltas: &[Arc<Delta>],
        layouts: &[Arc<Layout>],
        home: &SegmentHome,
        drop: u64,
    ) -> Result<Self, StorageError> {
        let spec = table.spec(layouts);
        let columns = spec.columns.clone();
        let mut sorter = RowSorter::new(spec.clone());
        let mut infos = Vec::new();
        let mut row_end = 0;
        for delta in deltas {
            // Rows between them stand in a segment already, and segments without a key do not overlap.
            if spec.key.is_empty() && delta.first_row > row_end {
                let before = std::mem::replace(&mut sorter, RowSorter::new(spec.clone()));
                infos.extend(before.write(&home.files, SEGMENT_ROWS_MAX)?);
            }
            row_end = delta.row_end();
            let blocks = delta.inner.write().blocks.for_scan(u64::MAX);
            for block in blocks {
                let kept = kept(&block, &delta.inner.read().ends, drop);
                push_block(&mut sorter, &block, &columns, layouts, kept.as_ref())
                    .map_err(|error| broken(home, &error))?;
            }
        }
        Ok(Self {
            table: Arc::clone(table),
            from: Origin::Deltas(deltas.to_vec()),
            to: {
                infos.extend(sorter.write(&home.files, SEGMENT_ROWS_MAX)?);
                home.fresh(infos)
            },
        })
    }

    /// Writes the rows of some segments together, but for those that ended at or before `drop`.
    ///
    /// # Errors
    /// A segment cannot be read; the disk refuses, or is full. What was written is garbage.
    pub(crate) fn main(
        table: &Arc<Table>,
        from: Vec<Arc<MainSegment>>,
        layouts: &[Arc<Layout>],
        home: &SegmentHome,
        drop: u64,
    ) -> Result<Self, StorageError> {
        let spec = table.spec(layouts);
        let columns: Arc<[SegmentColumn]> = spec.columns.clone().into();
        let schema = segment_schema(&columns);
        let mut sorter = RowSorter::new(spec);
        let request = PartRead {
            projection: (0..columns.len()).collect(),
            with_row_id: true,
            batch_rows: COPY_ROWS,
            filter: None,
        };
        for main in &from {
            let view = Arc::new(SegmentView {
                columns: Arc::clone(&columns),
                schema: Arc::clone(&schema),
                deleted: Arc::clone(&main.ends),
                version: drop,
                row_limit: u64::MAX,
            });
            for part in SegmentPart::all(&main.segment, &view) {
                for batch in part.read(&request).map_err(|error| unreadable(home, error))? {
                    let batch = batch.map_err(|error| unreadable(home, error))?;
                    let ids = batch
                        .column_by_name(ROW_ID_COLUMN)
                        .map(arrow::array::AsArray::as_primitive);
                    let ids = ids.expect("row ids were asked for").clone();
                    sorter.push(batch.columns()[..columns.len()].to_vec(), ids);
                }
            }
        }
        Ok(Self {
            table: Arc::clone(table),
            from: Origin::Main(from),
            to: home.fresh(sorter.write(&home.files, SEGMENT_ROWS_MAX)?),
        })
    }

    /// Ends the rows there that ended here after `since`. May be done again: a row ends once.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(crate) fn carry(&self, since: u64) -> Result<(), StorageError> {
        match &self.from {
            Origin::Deltas(deltas) => {
                for delta in deltas {
                    let ended: Vec<_> = delta
                        .inner
                        .read()
                        .ends
                        .ended()
                        .filter(|(_, end)| *end > since)
                        .collect();
                    ended.into_iter().try_for_each(|(row, end)| self.end(row, end))?;
                }
            }
            Origin::Main(segments) => {
                for main in segments {
                    for (ordinal, end) in main.ends.pairs(u64::MAX) {
                        if end > since {
                            self.end(main.segment.row_id(ordinal)?, end)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn end(&self, row: u64, version: u64) -> Result<(), StorageError> {
        for main in &self.to {
            if let Some(ordinal) = main.segment.ordinal(row)? {
                if main.ends.lives_at(ordinal, u64::MAX) {
                    main.ends.end(ordinal, version);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether there is nothing to move.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.from {
            Origin::Deltas(deltas) => deltas.is_empty(),
            Origin::Main(segments) => segments.is_empty(),
        }
    }

    /// Puts the rows into the layers where they stand now, in place of where they stood. Every end was carried over, and
    /// nothing is applied meanwhile.
    pub(crate) fn install(self) {
        let mut layers = self.table.layers.write();
        let layers: &mut Layers = Arc::make_mut(&mut layers);
        match self.from {
            Origin::Deltas(from) => {
                layers
                    .deltas
                    .retain(|delta| !from.iter().any(|moved| Arc::ptr_eq(moved, delta)));
                layers.put(self.to);
            }
            Origin::Main(from) => {
                let is_moved = |main: &Arc<MainSegment>| from.iter().any(|moved| Arc::ptr_eq(moved, main));
                layers.main.retain(|main| !is_moved(main));
                layers.put(self.to);
            }
        }
    }
}

/// Which rows of a block had not ended at `drop`; `None` if none had.
fn kept(block: &Block, ends: &Ends, drop: u64) -> Option<BooleanArray> {
    let untouched = ends.covering(block.row_ids()).iter().all(|chunk| chunk.is_untouched());
    if untouched {
        return None;
    }
    let kept: BooleanArray = block.row_ids().map(|row| Some(ends.lives_at(row, drop))).collect();
    (kept.true_count() < block.rows).then_some(kept)
}

fn push_block(
    sorter: &mut RowSorter,
    block: &Block,
    columns: &[SegmentColumn],
    layouts: &[Arc<Layout>],
    kept: Option<&BooleanArray>,
) -> Result<(), ArrowError> {
    let column = |wanted: &SegmentColumn| {
        let of = layouts
            .iter()
            .flat_map(|layout| &layout.columns)
            .find(|column| column.id == wanted.id);
        let values = block.column(of.expect("the columns are those of the layouts"));
        match kept {
            Some(kept) => filter(&values, kept),
            None => Ok(values),
        }
    };
    let values = columns.iter().map(column).collect::<Result<Vec<ArrayRef>, _>>()?;
    let ids = block.row_ids().enumerate();
    let ids = ids.filter(|(at, _)| kept.is_none_or(|kept| kept.value(*at)));
    let ids = UInt64Array::from_iter_values(ids.map(|(_, row)| row));
    sorter.push(values, ids);
    Ok(())
}

fn segment_schema(columns: &[SegmentColumn]) -> arrow::datatypes::SchemaRef {
    let field = |column: &SegmentColumn| arrow::datatypes::Field::new(column.id.to_string(), column.ty.clone(), true);
    Arc::new(arrow::datatypes::Schema::new(
        columns.iter().map(field).collect::<Vec<_>>(),
    ))
}

fn unreadable(home: &SegmentHome, error: ReadError) -> StorageError {
    match error {
        ReadError::Storage(error) => error,
        other => broken(home, &other),
    }
}

/// Rows that were stored and do not make a segment.
fn broken(home: &SegmentHome, error: &dyn std::fmt::Display) -> StorageError {
    StorageError::io(
        "write",
        home.files.path("segment"),
        std::io::Error::other(error.to_string()),
    )
}
