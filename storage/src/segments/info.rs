//! What is written down about a segment: in the segment itself, and in the manifest that refers to it.

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::file::SegmentFiles;
use super::keys;
use super::sealed::{ContentName, file_name};
use super::sketch::Sketch;
use super::stats::ColumnStatistics;
use super::writer;
use crate::entry::truncated;
use crate::error::StorageError;

/// How much of a file is hashed at once, bytes.
const READ_SIZE: usize = 1 << 20;

/// A file, named after its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// The first 16 bytes of the SHA-256 of its content.
    pub content: u128,
    /// Its size, bytes.
    pub size: u64,
}

/// How the row ids of a segment are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowOrder {
    /// Each id is one more than the one before: a row is found by subtraction.
    Dense,
    /// Each id is larger than the one before: a row is found by halving.
    Ascending,
    /// They are in no order: a row is found in the key file.
    Indexed,
}

/// One segment, as a manifest has it: everything that is known of it without opening its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// The Parquet file.
    pub file: FileRef,
    /// The key file; `None` if the segment needs none, because there is no key and its row ids ascend.
    pub keys: Option<FileRef>,
    /// Rows in each row group.
    pub group_rows: Vec<u32>,
    /// What is added to a row id of the file: rows that were written before they had ids count from 0 there.
    pub row_base: u64,
    /// The smallest and the largest row id.
    pub row_ids: (u64, u64),
    /// How the row ids are ordered.
    pub row_order: RowOrder,
    /// Ids of the columns its rows are sorted by, ascending, NULL first; none: by row id.
    pub sorted_by: Vec<u32>,
    /// The columns that are there, by id.
    pub columns: Vec<(u32, ColumnStatistics)>,
}

impl SegmentInfo {
    /// Rows.
    pub fn rows(&self) -> u32 {
        self.group_rows.iter().sum()
    }

    /// Tells it from all other segments of its table: its content, and what its row ids are counted from, because rows
    /// that were loaded twice make equal files.
    pub(crate) fn identity(&self) -> (u128, u64) {
        (self.file.content, self.row_base)
    }

    /// Bytes of its files.
    pub fn size(&self) -> u64 {
        self.file.size + self.keys.map_or(0, |keys| keys.size)
    }

    /// Names of its files.
    pub fn file_names(&self) -> Vec<String> {
        let mut names = vec![self.parquet_name()];
        names.extend(self.keys_name());
        names
    }

    /// The same rows, whose ids counted from 0, under ids from `base` on. `None` if there are no such ids.
    pub(crate) fn based_at(&self, base: u64) -> Option<Self> {
        let moved = |row: u64| row.checked_sub(self.row_base)?.checked_add(base);
        Some(Self {
            row_base: base,
            row_ids: (moved(self.row_ids.0)?, moved(self.row_ids.1)?),
            ..self.clone()
        })
    }

    /// What is known of the column of this id, if it is there.
    pub fn column(&self, id: u32) -> Option<&ColumnStatistics> {
        let place = self.columns.iter().position(|(column, _)| *column == id)?;
        Some(&self.columns[place].1)
    }

    /// Reads its files and compares them with their names: for files that came from elsewhere.
    ///
    /// # Errors
    /// A file is missing or is not what was written, or the place refuses.
    pub fn verify(&self, files: &dyn SegmentFiles) -> Result<(), StorageError> {
        self.file.verify(files, &self.parquet_name())?;
        match self.keys.zip(self.keys_name()) {
            Some((keys, name)) => keys.verify(files, &name),
            None => Ok(()),
        }
    }

    pub(crate) fn parquet_name(&self) -> String {
        file_name(self.file.content, writer::EXTENSION)
    }

    pub(crate) fn keys_name(&self) -> Option<String> {
        self.keys.map(|keys| file_name(keys.content, keys::EXTENSION))
    }
}

impl FileRef {
    fn verify(self, files: &dyn SegmentFiles, name: &str) -> Result<(), StorageError> {
        let file = files.open(name)?;
        let mut content = Context::new(&SHA256);
        for start in (0..file.size()).step_by(READ_SIZE) {
            let end = file.size().min(start + READ_SIZE as u64);
            content.update(&file.read(start..end)?);
        }
        if file.size() == self.size && truncated(&content.finish()) == self.content {
            return Ok(());
        }
        Err(StorageError::Damaged {
            path: file.path().to_owned(),
            offset: 0,
            why: "its content is not what its name says".into(),
        })
    }
}

impl From<(ContentName, u64)> for FileRef {
    fn from((content, size): (ContentName, u64)) -> Self {
        Self { content, size }
    }
}

/// The record at the end of a segment's body.
#[derive(Serialize, Deserialize)]
pub(crate) struct SegmentDetails {
    pub(crate) row_ids: (u64, u64),
    pub(crate) row_order: RowOrder,
    pub(crate) sorted_by: Vec<u32>,
    /// In the order of the Parquet columns, the row ids left out.
    pub(crate) columns: Vec<ColumnDetails>,
    pub(crate) groups: Vec<GroupDetails>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ColumnDetails {
    pub(crate) id: u32,
    pub(crate) sketch: Option<Sketch>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct GroupDetails {
    pub(crate) rows: u32,
    pub(crate) row_ids: (u64, u64),
    /// By column.
    pub(crate) columns: Vec<ColumnStatistics>,
}

impl SegmentDetails {
    /// What is known of each column in all row groups.
    pub(crate) fn column_statistics(&self) -> Vec<(u32, ColumnStatistics)> {
        let of = |(place, column): (usize, &ColumnDetails)| {
            let mut statistics = ColumnStatistics::none();
            for group in &self.groups {
                statistics.merge(&group.columns[place]);
            }
            statistics.distinct = column.sketch.as_ref().map(Sketch::estimate);
            (column.id, statistics)
        };
        self.columns.iter().enumerate().map(of).collect()
    }
}
