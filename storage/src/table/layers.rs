//! Where the rows of a table stand: segments and deltas, the last of which takes new rows.
//!
//! Rows of a large transaction come in segments of their own ([`Layers::attach`]), so ids of segments and of deltas may
//! alternate.
//!
//! Which rows stand where is a matter of this node; what a version shows is not. The layers are one immutable value:
//! whoever reads takes it once and finds every row of its version in it, whatever is moved meanwhile.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_empty_array, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::delta::Delta;
use super::keys::{KeyList, KeySpec, Keys};
use crate::error::StorageError;
use crate::segments::{DeletionVector, Segment, from_stored};

/// A segment of a table with the ends of its rows.
pub(crate) struct MainSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) ends: Arc<DeletionVector>,
}

/// All rows of a table.
#[derive(Clone)]
pub(crate) struct Layers {
    /// In the order of their first rows: where there is no primary key, of all their rows.
    pub(crate) main: Vec<Arc<MainSegment>>,
    /// In the order of their rows; never empty. All but the last are frozen.
    pub(crate) deltas: Vec<Arc<Delta>>,
}

/// Where a row stands.
#[derive(Clone)]
pub(crate) enum Place {
    /// In memory, under its id.
    Delta(Arc<Delta>, u64),
    /// In a segment, under its ordinal.
    Main(Arc<MainSegment>, u32),
}

/// Which version of a row is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Rows whose id is not below this number had not begun.
    pub(crate) row_limit: u64,
    /// Rows that ended at or before this version are not seen.
    pub(crate) version: u64,
}

impl Seen {
    /// Rows that have not ended yet.
    pub(crate) const NOW: Self = Self {
        row_limit: u64::MAX,
        version: u64::MAX,
    };
}

impl Place {
    /// The row's id.
    pub(crate) fn row_id(&self) -> Result<u64, StorageError> {
        match self {
            Self::Delta(_, row) => Ok(*row),
            Self::Main(main, ordinal) => main.segment.row_id(*ordinal),
        }
    }

    pub(crate) fn lives_at(&self, version: u64) -> bool {
        match self {
            Self::Delta(delta, row) => delta.lives_at(*row, version),
            Self::Main(main, ordinal) => main.ends.lives_at(*ordinal, version),
        }
    }

    /// Ends a live row.
    pub(crate) fn end(&self, version: u64) {
        match self {
            Self::Delta(delta, row) => delta.inner.read().ends.end(*row, version),
            Self::Main(main, ordinal) => main.ends.end(*ordinal, version),
        }
    }
}

impl Layers {
    /// The delta that takes new rows.
    pub(crate) fn active(&self) -> &Arc<Delta> {
        self.deltas.last().expect("a table has a delta")
    }

    /// Takes in segments with the next `rows` ids: rows that begin later go to a fresh delta behind them.
    pub(crate) fn attach(&mut self, segments: Vec<Arc<MainSegment>>, rows: u64, keys: &KeyList) {
        let first = self.active().row_end();
        if self.active().first_row == first {
            self.deltas.pop();
        }
        self.deltas.push(Delta::new(first + rows, keys));
        self.put(segments);
    }

    /// Adds segments.
    pub(crate) fn put(&mut self, segments: Vec<Arc<MainSegment>>) {
        self.main.extend(segments);
        self.main.sort_by_key(|main| main.segment.info().row_ids.0);
    }

    /// The place of a row by its id; `None` if no row has it yet, or the row ended so long ago that it is gone.
    ///
    /// # Errors
    /// A segment is damaged, or the disk refuses.
    pub(crate) fn by_id(&self, row: u64) -> Result<Option<Place>, StorageError> {
        let behind = self.deltas.partition_point(|delta| delta.first_row <= row);
        let delta = behind.checked_sub(1).map(|place| &self.deltas[place]);
        if let Some(delta) = delta.filter(|delta| row < delta.row_end()) {
            return Ok(Some(Place::Delta(Arc::clone(delta), row)));
        }
        for main in &self.main {
            if let Some(ordinal) = main.segment.ordinal(row)? {
                return Ok(Some(Place::Main(Arc::clone(main), ordinal)));
            }
        }
        Ok(None)
    }

    /// The row with the key in row `at` of `keys`, which are those of `spec`, a unique key. There is at most one that is
    /// seen.
    ///
    /// # Errors
    /// A segment is damaged, or the disk refuses.
    pub(crate) fn by_key(
        &self,
        spec: &Arc<KeySpec>,
        keys: &Keys,
        at: usize,
        seen: Seen,
    ) -> Result<Option<Place>, StorageError> {
        let Some((hash, key)) = keys.key(at) else {
            return Ok(None);
        };
        for delta in self.deltas_seen(seen) {
            let Some(index) = delta.index(spec) else { break };
            // The newest row with the key that had begun: all others here had ended before it began. A segment may hold
            // one that began after this one ended.
            if let Some(row) = index.newest_below(seen.row_limit, hash, key)
                && delta.lives_at(row, seen.version)
            {
                return Ok(Some(Place::Delta(Arc::clone(delta), row)));
            }
        }
        let mut found = Vec::new();
        self.older_by_key(spec, keys, at, seen, &mut found)?;
        Ok(found.into_iter().next())
    }

    /// The rows in memory that may be seen, newest first.
    fn deltas_seen(&self, seen: Seen) -> impl Iterator<Item = &Arc<Delta>> {
        let newest_first = self.deltas.iter().rev();
        newest_first.filter(move |delta| delta.first_row < seen.row_limit)
    }

    /// All rows with the key in row `at` of `keys` that are seen.
    ///
    /// # Errors
    /// A segment is damaged, or the disk refuses.
    pub(crate) fn all_by_key(
        &self,
        spec: &Arc<KeySpec>,
        keys: &Keys,
        at: usize,
        seen: Seen,
    ) -> Result<Vec<Place>, StorageError> {
        let mut found = Vec::new();
        let Some((hash, key)) = keys.key(at) else {
            return Ok(found);
        };
        for delta in self.deltas_seen(seen) {
            let Some(index) = delta.index(spec) else { break };
            let rows = index.rows_below(seen.row_limit, hash, key).into_iter();
            let live = rows.filter(|row| delta.lives_at(*row, seen.version));
            found.extend(live.map(|row| Place::Delta(Arc::clone(delta), row)));
        }
        self.older_by_key(spec, keys, at, seen, &mut found)?;
        Ok(found)
    }

    /// The rows with a key that stand in front of the deltas which know it.
    fn older_by_key(
        &self,
        spec: &KeySpec,
        keys: &Keys,
        at: usize,
        seen: Seen,
        found: &mut Vec<Place>,
    ) -> Result<(), StorageError> {
        let Some((hash, key)) = keys.key(at) else {
            return Ok(());
        };
        let from = found.len();
        if let Some(late) = spec.late() {
            for row in late.index.rows_below(seen.row_limit, hash, key) {
                found.extend(self.by_id(row)?.filter(|place| place.lives_at(seen.version)));
            }
        }
        if self.main.is_empty() {
            return Ok(());
        }
        let late_ids = found[from..].iter().map(Place::row_id).collect::<Result<Vec<_>, _>>()?;
        let Some(wanted) = keys.wanted(spec, at) else {
            return Ok(());
        };
        // What the late rows cover stands in segments that end before them.
        let covered = |main: &MainSegment| {
            spec.late()
                .is_some_and(|late| main.segment.info().row_ids.1 < late.row_end)
        };
        for main in self.main.iter().rev().filter(|main| !covered(main)) {
            for ordinal in main.segment.find(wanted)? {
                if main.shows(ordinal, seen)? && !late_ids.contains(&main.segment.row_id(ordinal)?) {
                    found.push(Place::Main(Arc::clone(main), ordinal));
                }
            }
        }
        Ok(())
    }
}

impl MainSegment {
    /// The values of the columns of these ids and types in rows, by ordinal; NULL in columns that are not there.
    ///
    /// # Errors
    /// The segment is damaged, or the disk refuses.
    pub(super) fn values(&self, ids: &[u32], types: &[DataType], rows: &[u32]) -> Result<Vec<ArrayRef>, StorageError> {
        let column = |(id, ty): (&u32, &DataType)| {
            let mut arrays: Vec<ArrayRef> = Vec::new();
            let mut places = Vec::with_capacity(rows.len());
            for row in rows {
                let Some((array, place)) = self.segment.value(*id, *row)? else {
                    return Ok(new_null_array(ty, rows.len()));
                };
                if arrays.last().is_none_or(|last| !Arc::ptr_eq(last, &array)) {
                    arrays.push(array);
                }
                places.push((arrays.len() - 1, place));
            }
            if arrays.is_empty() {
                return Ok(new_empty_array(ty));
            }
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            interleave(&arrays, &places)
                .and_then(|array| from_stored(&array, ty))
                .map_err(|error| unreadable(&error))
        };
        ids.iter().zip(types).map(column).collect()
    }

    /// Whether a row of it is seen.
    fn shows(&self, ordinal: u32, seen: Seen) -> Result<bool, StorageError> {
        let has_begun =
            self.segment.info().row_ids.1 < seen.row_limit || self.segment.row_id(ordinal)? < seen.row_limit;
        Ok(has_begun && self.ends.lives_at(ordinal, seen.version))
    }
}

/// Values that were stored and do not read.
pub(super) fn unreadable(error: &ArrowError) -> StorageError {
    StorageError::io("read", "a segment", std::io::Error::other(error.to_string()))
}
