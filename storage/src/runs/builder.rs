//! Making a run of rows, and the records that carry it.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use bytes::Bytes;

use super::memory::MemoryFiles;
use super::{RunPiece, RunStart};
use crate::error::{ApplyRefusal, RecordError, StorageError};
use crate::layout::Layout;
use crate::record::Record;
use crate::schema::{CollectionDef, CollectionId, ColumnType};
use crate::segments::{RowSorter, SEGMENT_ROWS_MAX, SegmentSpec, array_size};
use crate::table::{KeySpec, fit_columns, key_text};

/// A run takes no more rows once they take so many bytes in memory.
const RUN_BYTES: usize = 64 << 20;

/// Bytes of files in one piece: with what stands around them an entry stays below 1 MiB.
const PIECE_BYTES: usize = (1 << 20) - (16 << 10);

/// Gathers rows of a collection, without ids yet, and makes a run of them.
pub struct RunBuilder {
    def: Arc<CollectionDef>,
    layout: Layout,
    key: Option<KeySpec>,
    sorter: RowSorter,
    bytes: usize,
}

/// Why rows do not make a run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// They cannot be in the collection, whatever else is.
    #[error(transparent)]
    Refused(#[from] ApplyRefusal),
    /// They cannot be encoded.
    #[error(transparent)]
    Encode(#[from] RecordError),
}

impl RunBuilder {
    /// An empty one for rows of a collection.
    ///
    /// # Errors
    /// A column's value for rows without it does not read.
    pub fn new(def: Arc<CollectionDef>) -> Result<Self, RecordError> {
        let mut spec = SegmentSpec::of(&def)?;
        // Whether NULL is allowed is decided when the transaction takes effect.
        spec.columns.iter_mut().for_each(|column| column.nullable = true);
        Ok(Self {
            layout: Layout::new(&def)?,
            key: (!def.key.is_empty()).then(|| KeySpec::new(&def, &def.key)),
            sorter: RowSorter::new(spec),
            bytes: 0,
            def,
        })
    }

    /// Adds rows, columns by name; a column that is missing is NULL in all of them.
    ///
    /// # Errors
    /// They do not fit the collection.
    ///
    /// # Panics
    /// If it is full.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), RunError> {
        assert!(!self.is_full(), "a run has a bounded size");
        let columns = fit_columns(&self.def, &self.layout, rows)?;
        self.bytes += columns.iter().map(|column| array_size(column)).sum::<usize>();
        let first = self.sorter.rows() as u64;
        let ids = UInt64Array::from_iter_values(first..first + rows.num_rows() as u64);
        self.sorter.push(columns, ids);
        Ok(())
    }

    /// How many more rows it takes at most.
    pub fn room(&self) -> usize {
        (SEGMENT_ROWS_MAX as usize).saturating_sub(self.sorter.rows())
    }

    /// Whether it takes no more rows.
    pub fn is_full(&self) -> bool {
        self.room() == 0 || self.bytes >= RUN_BYTES
    }

    /// Whether there are no rows in it.
    pub fn is_empty(&self) -> bool {
        self.sorter.rows() == 0
    }

    /// The records that bring the rows, as parts of the transaction `txn`. Takes a second or so of computing.
    ///
    /// # Errors
    /// Two rows have the same primary key, or they cannot be encoded.
    pub fn finish(self, txn: u128) -> Result<Vec<(u8, Bytes)>, RunError> {
        let malformed = |error: &dyn std::fmt::Display| RunError::Encode(RecordError::Batch(error.to_string()));
        let sorted = self.sorter.sorted().map_err(|error| malformed(&error))?;
        if let Some(key) = &self.key
            && let Some((columns, row)) = sorted.repeated_key(key).map_err(|error| malformed(&error))?
        {
            return Err(RunError::Refused(ApplyRefusal::Unique {
                collection: self.def.name.clone(),
                constraint: self.def.key_name.clone(),
                columns: self.def.column_names(&self.def.key).join(", "),
                key: key_text(&columns, row),
            }));
        }
        let files = MemoryFiles::default();
        let written = sorted.write(&(Arc::new(files.clone()) as _), SEGMENT_ROWS_MAX);
        let infos = written.map_err(|error: StorageError| malformed(&error))?;
        let mut records = Vec::new();
        for info in infos {
            let content: Vec<Bytes> = info.file_names().iter().filter_map(|name| files.take(name)).collect();
            let columns = self.def.columns.iter().map(|column| (column.id, column.ty));
            let start = RunStart {
                columns: columns.collect::<Vec<(u32, ColumnType)>>(),
                info,
            };
            pieces((txn, self.def.id), start, &content, &mut records)?;
        }
        Ok(records)
    }
}

/// Cuts the files of a run of a transaction and a collection.
fn pieces(
    (txn, collection): (u128, CollectionId),
    start: RunStart,
    files: &[Bytes],
    records: &mut Vec<(u8, Bytes)>,
) -> Result<(), RecordError> {
    let mut start = Some(start);
    for file in files {
        for at in (0..file.len()).step_by(PIECE_BYTES) {
            let piece = RunPiece {
                txn,
                collection,
                start: start.take(),
                bytes: file.slice(at..file.len().min(at + PIECE_BYTES)),
            };
            records.push(Record::Run(piece).encode()?);
        }
    }
    Ok(())
}
