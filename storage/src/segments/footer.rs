//! The footer of a segment, and decoding by it: columns of row groups, and single pages of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::error::ArrowError;
use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};

use super::file::SegmentFiles;
use super::info::{SegmentDetails, SegmentInfo};
use super::sealed::SealedFile;
use super::writer::footer_size;
use crate::error::StorageError;

/// The end of the Parquet file, read and understood.
pub(crate) struct SegmentFooter {
    file: Arc<SealedFile>,
    parquet: ArrowReaderMetadata,
    pub(crate) details: SegmentDetails,
}

/// The first rows of the pages of one column in a row group.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'a> {
    locations: &'a [PageLocation],
    rows: usize,
}

impl Pages<'_> {
    pub(crate) fn count(self) -> usize {
        self.locations.len()
    }

    /// The first row of a page.
    pub(crate) fn at(self, page: usize) -> usize {
        self.locations[page].first_row_index as usize
    }

    /// The row behind the last of a page.
    pub(crate) fn end(self, page: usize) -> usize {
        let next = self.locations.get(page + 1);
        next.map_or(self.rows, |next| next.first_row_index as usize)
    }

    /// How many pages there are whose first row is as `test` says, which holds for a prefix of them.
    pub(crate) fn partition_point(self, test: impl Fn(usize) -> bool) -> usize {
        self.locations
            .partition_point(|page| test(page.first_row_index as usize))
    }
}

impl SegmentFooter {
    pub(crate) fn open(files: &dyn SegmentFiles, info: &SegmentInfo) -> Result<Self, StorageError> {
        let file = Arc::new(SealedFile::open(
            files.open(&info.parquet_name())?,
            info.file.size,
            footer_size,
        )?);
        let details: SegmentDetails =
            postcard::from_bytes(file.info()).map_err(|error| file.damaged(file.body_size(), error.to_string()))?;
        let parquet = Self::parquet(&file).map_err(|error| file.damaged(file.body_size(), error.to_string()))?;
        let footer = Self { file, parquet, details };
        if !footer.holds_together(info) {
            return Err(footer.file.damaged(
                footer.file.body_size(),
                "it is not the segment that the manifest tells of",
            ));
        }
        Ok(footer)
    }

    fn parquet(file: &Arc<SealedFile>) -> Result<ArrowReaderMetadata, ParquetError> {
        let footer = file.rest();
        let metadata = ParquetMetaDataReader::decode_metadata(&footer[..footer.len() - 8])?;
        let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
            .with_column_index_policy(PageIndexPolicy::Skip)
            .with_offset_index_policy(PageIndexPolicy::Required);
        reader.read_page_indexes(&Chunk::new(file, 0, Bytes::new()))?;
        ArrowReaderMetadata::try_new(Arc::new(reader.finish()?), ArrowReaderOptions::new())
    }

    /// Whether all that is looked up by place is there.
    fn holds_together(&self, info: &SegmentInfo) -> bool {
        let metadata = self.parquet.metadata();
        let columns = self.details.columns.len();
        let rows = self.details.groups.iter().map(|group| group.rows);
        let sizes = metadata.row_groups().iter().map(|group| group.num_rows() as u32);
        rows.clone().eq(sizes)
            && rows.eq(info.group_rows.iter().copied())
            && self.details.groups.iter().all(|group| group.columns.len() == columns)
            && self.parquet.schema().fields().len() == columns + 1
            && self.parquet.parquet_schema().num_columns() == columns + 1
            && metadata.offset_index().is_some_and(|groups| {
                let complete = |columns_of: &Vec<_>| columns_of.len() == columns + 1;
                groups.len() == info.group_rows.len() && groups.iter().all(complete)
            })
    }

    pub(crate) fn memory_size(&self) -> usize {
        let sketches = self.details.columns.len() * 1100;
        let statistics = self.details.columns.len() * self.details.groups.len() * 128;
        self.file.memory_size() + self.parquet.metadata().memory_size() + sketches + statistics
    }

    /// The place of the column of this id.
    pub(crate) fn column(&self, id: u32) -> Option<usize> {
        self.details.columns.iter().position(|column| column.id == id)
    }

    /// The place of the row ids.
    pub(crate) fn row_id_column(&self) -> usize {
        self.details.columns.len()
    }

    /// The pages of a column.
    pub(crate) fn pages(&self, group: usize, column: usize) -> Pages<'_> {
        let index = self
            .parquet
            .metadata()
            .offset_index()
            .expect("checked when it was opened");
        Pages {
            locations: index[group][column].page_locations(),
            rows: self.details.groups[group].rows as usize,
        }
    }

    /// Bytes that the column takes in memory, about.
    pub(crate) fn column_size(&self, group: usize, column: usize) -> u64 {
        let details = &self.details.groups[group];
        let known = details.columns.get(column).map(|statistics| statistics.bytes);
        known.unwrap_or(u64::from(details.rows) * 8)
    }

    /// A whole column, decoded, as it stands in the file.
    pub(crate) fn read_column(&self, group: usize, column: usize) -> Result<ArrayRef, StorageError> {
        self.read_rows(group, column, 0, self.details.groups[group].rows as usize)
    }

    /// Rows of a column, decoded, as they stand in the file.
    pub(crate) fn read_rows(
        &self,
        group: usize,
        column: usize,
        first: usize,
        rows: usize,
    ) -> Result<ArrayRef, StorageError> {
        let metadata = self.parquet.metadata().row_group(group).column(column);
        let (start, size) = metadata.byte_range();
        let is_whole = rows == self.details.groups[group].rows as usize;
        let bytes = if is_whole {
            // One read for all pages.
            self.file.read(start..start + size)?
        } else {
            Bytes::new()
        };
        let chunk = Chunk::new(&self.file, start, bytes);
        let failure = Arc::clone(&chunk.failure);
        let schema = self.parquet.parquet_schema();
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunk, self.parquet.clone())
            .with_row_groups(vec![group])
            .with_projection(ProjectionMask::roots(schema, [column]))
            .with_batch_size(rows);
        if !is_whole {
            let selection = vec![RowSelector::skip(first), RowSelector::select(rows)];
            builder = builder.with_row_selection(RowSelection::from(selection));
        }
        let decode = || -> Result<ArrayRef, ArrowError> {
            let batches = builder.build()?.collect::<Result<Vec<_>, _>>()?;
            let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
            match arrays[..] {
                [_] => Ok(Arc::clone(batches[0].column(0))),
                _ => concat(&arrays),
            }
        };
        let array = decode().map_err(|error| {
            let failure = failure.lock().take();
            failure.unwrap_or_else(|| self.file.damaged(start, error.to_string()))
        })?;
        if array.len() != rows {
            let why = format!("it has {} rows where {rows} were written", array.len());
            return Err(self.file.damaged(start, why));
        }
        Ok(array)
    }
}

/// What the Parquet reader reads from: a part that was read at once, and the file for all else.
struct Chunk {
    file: Arc<SealedFile>,
    start: u64,
    bytes: Bytes,
    /// The file's own error behind one of the reader.
    failure: Arc<Mutex<Option<StorageError>>>,
}

/// How much is read at once where the reader does not say how much it needs, bytes.
const UNTOLD_SIZE: u64 = 64 << 10;

impl Chunk {
    fn new(file: &Arc<SealedFile>, start: u64, bytes: Bytes) -> Self {
        Self {
            file: Arc::clone(file),
            start,
            bytes,
            failure: Arc::default(),
        }
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        let held = self.start..self.start + self.bytes.len() as u64;
        if held.start <= range.start && range.end <= held.end {
            return Ok(self
                .bytes
                .slice((range.start - held.start) as usize..(range.end - held.start) as usize));
        }
        self.file.read(range).map_err(|error| {
            let text = error.to_string();
            *self.failure.lock() = Some(error);
            ParquetError::General(text)
        })
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.file.size()
    }
}

impl ChunkReader for Chunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let held = self.start + self.bytes.len() as u64;
        let end = if start < held {
            held
        } else {
            (start + UNTOLD_SIZE).min(self.file.body_size())
        };
        Ok(self.read(start..end)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.read(start..start + length as u64)
    }
}
