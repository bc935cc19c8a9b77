//! A segment that is open for reading.
//!
//! Opening costs nothing: a segment knows what its [`SegmentInfo`] says, and reads its footer when somebody wants values.
//! Everything it reads goes through the cache: whole columns of row groups for scans, single pages for look-ups. A
//! look-up that finds the whole column takes it from there.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::UInt64Type;

use super::cache::{CachePlace, Cached, SegmentCache};
use super::file::SegmentFiles;
use super::footer::SegmentFooter;
use super::info::{RowOrder, SegmentInfo};
use super::keys::{KeyBlock, KeyFile, row_fingerprint};
use super::scalar::{bounds, equal};
use super::sketch::Sketch;
use super::stats::ColumnStatistics;
use crate::error::StorageError;

/// A segment. Shared by all who read it; its files may be removed once the last of them is done.
pub struct Segment {
    info: SegmentInfo,
    files: Arc<dyn SegmentFiles>,
    cache: Arc<SegmentCache>,
    /// Its number in the cache.
    number: u64,
    /// The ordinal of the first row of each row group, and the number of rows at the end.
    group_starts: Vec<u32>,
}

/// A key to look for: its columns, each with the key's values, and the row of them that holds it.
#[derive(Clone, Copy)]
pub struct SegmentKey<'a> {
    /// Ids of the key's columns.
    pub ids: &'a [u32],
    /// The key's values, a column for each id.
    pub columns: &'a [ArrayRef],
    /// Which of their rows.
    pub row: usize,
    /// The [`fingerprint`](super::fingerprint) of the key.
    pub fingerprint: u64,
}

impl Segment {
    /// The segment that `info` tells of. Reads nothing yet.
    pub fn new(info: SegmentInfo, files: Arc<dyn SegmentFiles>, cache: Arc<SegmentCache>) -> Arc<Self> {
        let mut group_starts = vec![0];
        for rows in &info.group_rows {
            group_starts.push(group_starts.last().unwrap_or(&0) + rows);
        }
        Arc::new(Self {
            number: cache.next_segment(),
            group_starts,
            info,
            files,
            cache,
        })
    }

    /// What the manifest knows of it.
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    /// Rows.
    pub fn rows(&self) -> u32 {
        self.group_starts[self.group_starts.len() - 1]
    }

    /// Row groups.
    pub fn groups(&self) -> usize {
        self.info.group_rows.len()
    }

    /// The ordinals of the rows of a row group.
    pub fn group_range(&self, group: usize) -> Range<u32> {
        self.group_starts[group]..self.group_starts[group + 1]
    }

    /// Checks that its files are there, as long as they should be, with sound footers. The rows are checked when they
    /// are read.
    ///
    /// # Errors
    /// A file is missing or damaged, or the place refuses.
    pub fn check(&self) -> Result<(), StorageError> {
        self.footer()?;
        if self.info.keys.is_some() {
            self.key_file()?;
        }
        Ok(())
    }

    /// What is known of a column in one row group; `None` if the column is not there. Reads the footer.
    ///
    /// # Errors
    /// The file is damaged, or the place refuses.
    pub fn group_statistics(&self, group: usize, id: u32) -> Result<Option<ColumnStatistics>, StorageError> {
        let footer = self.footer()?;
        let place = footer.column(id);
        Ok(place.map(|place| footer.details.groups[group].columns[place].clone()))
    }

    /// The sketch of the distinct values of a column, to be merged with those of other segments; `None` if the column is
    /// not there or its values are not counted. Reads the footer.
    ///
    /// # Errors
    /// The file is damaged, or the place refuses.
    pub fn sketch(&self, id: u32) -> Result<Option<Sketch>, StorageError> {
        let footer = self.footer()?;
        let place = footer.column(id);
        Ok(place.and_then(|place| footer.details.columns[place].sketch.clone()))
    }

    /// An array that holds the value of a column at `ordinal`, and its place there; `None` if the column is not in this
    /// segment. The array is the whole column of a row group if that is in memory, otherwise one page.
    ///
    /// # Errors
    /// The file is damaged, or the place refuses.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn value(&self, id: u32, ordinal: u32) -> Result<Option<(ArrayRef, usize)>, StorageError> {
        let footer = self.footer()?;
        match footer.column(id) {
            Some(place) => self.value_at(&footer, place, ordinal).map(Some),
            None => Ok(None),
        }
    }

    /// The row id at `ordinal`.
    ///
    /// # Errors
    /// The file is damaged, or the place refuses.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row_id(&self, ordinal: u32) -> Result<u64, StorageError> {
        assert!(ordinal < self.rows(), "row {ordinal} of {}", self.rows());
        if self.info.row_order == RowOrder::Dense {
            return Ok(self.info.row_ids.0 + u64::from(ordinal));
        }
        let footer = self.footer()?;
        let (rows, place) = self.value_at(&footer, footer.row_id_column(), ordinal)?;
        Ok(self.info.row_base + rows.as_primitive::<UInt64Type>().value(place))
    }

    /// The ordinal of the row of this id; `None` if it is not in this segment.
    ///
    /// # Errors
    /// A file is damaged, or the place refuses.
    pub fn ordinal(&self, row: u64) -> Result<Option<u32>, StorageError> {
        let (min, max) = self.info.row_ids;
        if row < min || row > max {
            return Ok(None);
        }
        match self.info.row_order {
            RowOrder::Dense => Ok(Some((row - min) as u32)),
            RowOrder::Ascending => self.ordinal_by_halving(row - self.info.row_base),
            RowOrder::Indexed => {
                let stored = row_fingerprint(row - self.info.row_base);
                for ordinal in self.candidates(&[], stored)?.unwrap_or_default() {
                    if self.row_id(ordinal)? == row {
                        return Ok(Some(ordinal));
                    }
                }
                Ok(None)
            }
        }
    }

    /// `row` is the id as it stands in the file.
    fn ordinal_by_halving(&self, row: u64) -> Result<Option<u32>, StorageError> {
        let footer = self.footer()?;
        let groups = &footer.details.groups;
        let group = groups.partition_point(|group| group.row_ids.1 < row);
        if group == groups.len() || row < groups[group].row_ids.0 {
            return Ok(None);
        }
        let range = self.group_range(group);
        // Halves over pages first, so that a page is read for each step at most, then within the page.
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let (rows, place) = self.value_at(&footer, footer.row_id_column(), middle)?;
            let rows = rows.as_primitive::<UInt64Type>().values();
            let first = middle - place as u32;
            let last = first + rows.len() as u32 - 1;
            if row < rows[0] {
                high = first;
            } else if row > rows[rows.len() - 1] {
                low = last + 1;
            } else {
                return Ok(rows.binary_search(&row).ok().map(|place| first + place as u32));
            }
        }
        Ok(None)
    }

    /// Ordinals of all rows with this key, ascending: one for each version of the row, so the same key at different row
    /// ids. A key that holds NULL is found nowhere.
    ///
    /// A key that the segment has no index for, because the key is younger, is looked for in all rows.
    ///
    /// # Errors
    /// A file is damaged, or the place refuses.
    pub fn find(&self, key: SegmentKey<'_>) -> Result<Vec<u32>, StorageError> {
        if self.cannot_hold(&key) {
            return Ok(Vec::new());
        }
        let Some(mut found) = self.candidates(key.ids, key.fingerprint)? else {
            return self.find_by_scan(&key);
        };
        let mut failed = None;
        found.retain(|ordinal| match self.has_key(&key, *ordinal) {
            Ok(has) => has,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// Whether the key lies outside the bounds of some column of it.
    fn cannot_hold(&self, key: &SegmentKey<'_>) -> bool {
        key.ids.iter().zip(key.columns).any(|(id, column)| {
            let statistics = self.info.column(*id);
            let value = || bounds(&column.slice(key.row, 1));
            statistics.is_some_and(|statistics| value().is_some_and(|value| !statistics.may_hold(&value)))
        })
    }

    fn has_key(&self, key: &SegmentKey<'_>, ordinal: u32) -> Result<bool, StorageError> {
        for (id, column) in key.ids.iter().zip(key.columns) {
            let Some((values, place)) = self.value(*id, ordinal)? else {
                return Ok(false);
            };
            if !equal(values.as_ref(), place, column.as_ref(), key.row) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn find_by_scan(&self, key: &SegmentKey<'_>) -> Result<Vec<u32>, StorageError> {
        let mut found = Vec::new();
        for ordinal in 0..self.rows() {
            if self.has_key(key, ordinal)? {
                found.push(ordinal);
            }
        }
        Ok(found)
    }

    /// For each row, the upper half of the fingerprint of its key and its ordinal, ascending: what two segments must
    /// share to share a key. Rows with NULL in the key are left out. `None` if there is no index on these columns.
    ///
    /// # Errors
    /// The key file is damaged, or the place refuses.
    pub fn fingerprints(&self, ids: &[u32]) -> Result<Option<Vec<(u32, u32)>>, StorageError> {
        self.fingerprints_in(ids, &(0..1 << 32))
    }

    /// Those of [`Segment::fingerprints`] that lie in `range`.
    pub(crate) fn fingerprints_in(
        &self,
        ids: &[u32],
        range: &Range<u64>,
    ) -> Result<Option<Vec<(u32, u32)>>, StorageError> {
        if self.info.keys.is_none() {
            return Ok(None);
        }
        let file = self.key_file()?;
        file.key(ids).map(|key| file.entries(key, range)).transpose()
    }

    /// Ordinals of rows whose key on these columns may have this fingerprint, ascending; `None` if there is no index on
    /// them.
    fn candidates(&self, ids: &[u32], fingerprint: u64) -> Result<Option<Vec<u32>>, StorageError> {
        if self.info.keys.is_none() {
            return Ok(None);
        }
        let file = self.key_file()?;
        let Some(key) = file.key(ids) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        file.probe(key, fingerprint, &mut found, |block| self.key_block(&file, block))?;
        found.sort_unstable();
        Ok(Some(found))
    }

    fn key_file(&self) -> Result<Arc<KeyFile>, StorageError> {
        let cached = self.cache.get_or(self.number, CachePlace::KeyFile, || {
            let (name, keys) = self
                .info
                .keys_name()
                .zip(self.info.keys)
                .expect("asked for where there is one");
            let file = KeyFile::open(self.files.as_ref(), &name, keys.size, self.info.file.content)?;
            let size = file.memory_size();
            Ok((Cached::KeyFile(Arc::new(file)), size))
        })?;
        match cached {
            Cached::KeyFile(file) => Ok(file),
            _ => unreachable!("an entry is what its place says"),
        }
    }

    fn key_block(&self, file: &KeyFile, ordinal: u32) -> Result<Arc<KeyBlock>, StorageError> {
        let cached = self.cache.get_or(self.number, CachePlace::KeyBlock(ordinal), || {
            let block = file.read_block(ordinal)?;
            let size = block.memory_size();
            Ok((Cached::KeyBlock(Arc::new(block)), size))
        })?;
        match cached {
            Cached::KeyBlock(block) => Ok(block),
            _ => unreachable!("an entry is what its place says"),
        }
    }

    pub(crate) fn footer(&self) -> Result<Arc<SegmentFooter>, StorageError> {
        let cached = self.cache.get_or(self.number, CachePlace::Footer, || {
            let footer = SegmentFooter::open(self.files.as_ref(), &self.info)?;
            let size = footer.memory_size();
            Ok((Cached::Footer(Arc::new(footer)), size))
        })?;
        match cached {
            Cached::Footer(footer) => Ok(footer),
            _ => unreachable!("an entry is what its place says"),
        }
    }

    /// The value of the column at `place` and `ordinal`: an array that holds it, and where.
    fn value_at(&self, footer: &SegmentFooter, place: usize, ordinal: u32) -> Result<(ArrayRef, usize), StorageError> {
        assert!(ordinal < self.rows(), "row {ordinal} of {}", self.rows());
        let group = self.group_starts.partition_point(|start| *start <= ordinal) - 1;
        let row = (ordinal - self.group_starts[group]) as usize;
        if let Some(column) = self.cached_column(group, place) {
            return Ok((column, row));
        }
        let page = footer.pages(group, place).partition_point(|first| first <= row) - 1;
        let first = footer.pages(group, place).at(page);
        Ok((self.page(footer, group, place, page)?, row - first))
    }

    /// The whole column of a row group, if it is in memory.
    pub(crate) fn cached_column(&self, group: usize, place: usize) -> Option<ArrayRef> {
        match self.cache.get(self.number, column_place(group, place))? {
            Cached::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The whole column of a row group, as it stands in the file; kept in memory.
    pub(crate) fn column(&self, footer: &SegmentFooter, group: usize, place: usize) -> Result<ArrayRef, StorageError> {
        let cached = self.cache.get_or(self.number, column_place(group, place), || {
            let array = footer.read_column(group, place)?;
            let size = array.get_array_memory_size();
            Ok::<_, StorageError>((Cached::Array(array), size))
        })?;
        Ok(array(cached))
    }

    /// One page of a column; kept in memory.
    pub(crate) fn page(
        &self,
        footer: &SegmentFooter,
        group: usize,
        column: usize,
        page: usize,
    ) -> Result<ArrayRef, StorageError> {
        let place = CachePlace::Page {
            group: group as u32,
            column: column as u32,
            page: page as u32,
        };
        let cached = self.cache.get_or(self.number, place, || {
            let pages = footer.pages(group, column);
            let first = pages.at(page);
            let rows = pages.end(page) - first;
            let array = footer.read_rows(group, column, first, rows)?;
            let size = array.get_array_memory_size();
            Ok::<_, StorageError>((Cached::Array(array), size))
        })?;
        Ok(array(cached))
    }

    /// The row ids of a row group.
    pub(crate) fn row_ids(&self, footer: &SegmentFooter, group: usize) -> Result<ArrayRef, StorageError> {
        Ok(self.based(self.stored_row_ids(footer, group)?))
    }

    /// The row ids of a row group as they stand in the file; [`Segment::based`] makes those of the table of them.
    pub(crate) fn stored_row_ids(&self, footer: &SegmentFooter, group: usize) -> Result<ArrayRef, StorageError> {
        if self.info.row_order == RowOrder::Dense {
            let range = self.group_range(group);
            let first = self.info.row_ids.0 - self.info.row_base;
            let ids = first + u64::from(range.start)..first + u64::from(range.end);
            return Ok(Arc::new(UInt64Array::from_iter_values(ids)));
        }
        self.column(footer, group, footer.row_id_column())
    }

    /// Row ids of the table, of those that stand in the file.
    pub(crate) fn based(&self, stored: ArrayRef) -> ArrayRef {
        let base = self.info.row_base;
        if base == 0 {
            return stored;
        }
        let ids: UInt64Array = stored.as_primitive::<UInt64Type>().unary(|row| row + base);
        Arc::new(ids)
    }

    /// The cache it reads through.
    pub fn cache(&self) -> &Arc<SegmentCache> {
        &self.cache
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}

fn column_place(group: usize, column: usize) -> CachePlace {
    CachePlace::Column {
        group: group as u32,
        column: column as u32,
    }
}

fn array(cached: Cached) -> ArrayRef {
    match cached {
        Cached::Array(array) => array,
        _ => unreachable!("an entry is what its place says"),
    }
}
