//! Writing a segment: rows in their order in, a Parquet file and a key file out.
//!
//! Rows are gathered to a row group, which is encoded and written; so writing a segment takes the memory of one row
//! group, and twelve to sixteen bytes per row and key for the key file. [`RowSorter`](super::RowSorter) brings rows into
//! the order.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::column::{SegmentColumn, stored_type, to_stored};
use super::file::SegmentFiles;
use super::info::{ColumnDetails, FileRef, GroupDetails, RowOrder, SegmentDetails, SegmentInfo};
use super::keys::{self, KeyCodec, KeyEntries, row_fingerprint};
use super::sealed::SealedWriter;
use super::sketch::Sketch;
use super::stats::{ColumnStatistics, array_size};
use crate::error::{RecordError, StorageError};
use crate::schema::{CollectionDef, ROW_ID_COLUMN};

pub(crate) const EXTENSION: &str = "parquet";

/// Rows of a segment, at most.
pub const SEGMENT_ROWS_MAX: u32 = 1 << 20;

/// Rows of a row group, at most.
pub const GROUP_ROWS_MAX: usize = 1 << 17;

/// A row group takes no more rows once they have so many bytes in memory.
const GROUP_BYTES_MAX: usize = 128 << 20;

/// Rows of a page.
const PAGE_ROWS: usize = 8192;

/// A page takes no more rows once they have so many bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// A column whose values each stand so many times, on average, gets a dictionary.
const DICTIONARY_REPEATS: u64 = 4;

/// A dictionary that grows beyond this is given up, bytes.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// What a segment is made of.
#[derive(Clone, Debug)]
pub struct SegmentSpec {
    /// Its columns.
    pub columns: Vec<SegmentColumn>,
    /// Ids of the primary key's columns, which the rows are sorted by; none: they are sorted by row id.
    pub key: Vec<u32>,
    /// Ids of the columns of each other key, index and foreign key, each list once.
    pub indexed: Vec<Vec<u32>>,
}

impl SegmentSpec {
    /// What segments of a collection are made of.
    ///
    /// # Errors
    /// A `missing` value that does not read.
    pub fn of(def: &CollectionDef) -> Result<Self, RecordError> {
        let ids = |ordinals: &[u32]| def.column_ids(ordinals);
        Ok(Self {
            columns: SegmentColumn::all_of(def)?,
            key: ids(&def.key),
            indexed: def
                .indexed()
                .into_iter()
                .filter(|list| *list != def.key)
                .map(ids)
                .collect(),
        })
    }

    /// Places of the columns of these ids.
    pub(crate) fn places(&self, ids: &[u32]) -> Vec<usize> {
        let place = |id: &u32| {
            let place = self.columns.iter().position(|column| column.id == *id);
            place.expect("a key has columns of its table")
        };
        ids.iter().map(place).collect()
    }

    pub(crate) fn codec(&self, places: &[usize]) -> Result<KeyCodec, ArrowError> {
        KeyCodec::new(places.iter().map(|place| self.columns[*place].ty.clone()))
    }

    fn schema(&self) -> SchemaRef {
        let column =
            |column: &SegmentColumn| Field::new(column.id.to_string(), stored_type(&column.ty), column.nullable);
        let mut fields: Vec<Field> = self.columns.iter().map(column).collect();
        fields.push(Field::new(ROW_ID_COLUMN, DataType::UInt64, false));
        Arc::new(Schema::new(fields))
    }
}

/// Writes one segment.
pub struct SegmentWriter {
    files: Arc<dyn SegmentFiles>,
    spec: SegmentSpec,
    schema: SchemaRef,
    /// For each key, the primary one first.
    keys: Vec<KeyWriter>,
    /// Rows of the row group that is gathered: columns, then row ids.
    gathered: Vec<Vec<ArrayRef>>,
    gathered_rows: usize,
    gathered_bytes: usize,
    parquet: Option<ArrowWriter<Body>>,
    groups: Vec<GroupDetails>,
    sketches: Vec<Option<Sketch>>,
    row_ids: Vec<u64>,
    /// The key of the last row.
    last_key: Vec<u8>,
}

struct KeyWriter {
    ids: Vec<u32>,
    places: Vec<usize>,
    codec: KeyCodec,
    entries: KeyEntries,
}

impl SegmentWriter {
    /// Starts a segment.
    ///
    /// # Errors
    /// A key of a type that has no order.
    pub fn new(files: Arc<dyn SegmentFiles>, spec: SegmentSpec) -> Result<Self, StorageError> {
        let keys = Some(&spec.key)
            .filter(|key| !key.is_empty())
            .into_iter()
            .chain(&spec.indexed);
        let keys = keys.map(|ids| {
            let places = spec.places(ids);
            Ok(KeyWriter {
                ids: ids.clone(),
                codec: spec.codec(&places)?,
                places,
                entries: KeyEntries::default(),
            })
        });
        let keys = keys.collect::<Result<_, ArrowError>>();
        Ok(Self {
            keys: keys.map_err(|error| encode_error(files.as_ref(), &error))?,
            schema: spec.schema(),
            gathered: Vec::new(),
            gathered_rows: 0,
            gathered_bytes: 0,
            parquet: None,
            groups: Vec::new(),
            sketches: vec![Some(Sketch::default()); spec.columns.len()],
            row_ids: Vec::new(),
            last_key: Vec::new(),
            files,
            spec,
        })
    }

    /// Rows so far.
    pub fn rows(&self) -> u32 {
        (self.row_ids.len() + self.gathered_rows) as u32
    }

    /// Rows that still fit.
    pub fn room(&self) -> usize {
        (SEGMENT_ROWS_MAX - self.rows()) as usize
    }

    /// Bytes of the file so far; what is gathered counts as it is in memory.
    pub fn size(&self) -> usize {
        self.gathered_bytes + self.parquet.as_ref().map_or(0, ArrowWriter::bytes_written)
    }

    /// Adds rows: the columns of the spec, in its order, and the row ids. They follow all rows before in the order of the
    /// primary key, rows of one key in that of their ids; without a primary key in the order of their ids.
    ///
    /// # Errors
    /// The disk refuses, or is full.
    ///
    /// # Panics
    /// If there is no room, the rows are out of order, or the arrays are not of the spec's types.
    pub fn push(&mut self, columns: &[ArrayRef], row_ids: &UInt64Array) -> Result<(), StorageError> {
        assert_eq!(columns.len(), self.spec.columns.len(), "an array for each column");
        assert!(
            row_ids.len() <= self.room(),
            "a segment has {SEGMENT_ROWS_MAX} rows at most"
        );
        let mut at = 0;
        while at < row_ids.len() {
            let rows = self.rows_to_gather(columns, at, row_ids.len() - at);
            let mut taken: Vec<ArrayRef> = columns.iter().map(|column| column.slice(at, rows)).collect();
            taken.push(Arc::new(row_ids.slice(at, rows)));
            self.gathered_bytes += taken.iter().map(|column| array_size(column)).sum::<usize>();
            self.gathered.push(taken);
            self.gathered_rows += rows;
            at += rows;
            if self.gathered_rows == GROUP_ROWS_MAX || self.gathered_bytes >= GROUP_BYTES_MAX {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// How many of the next `rows` rows go into the row group: as many as fit by their average size, one at least.
    fn rows_to_gather(&self, columns: &[ArrayRef], at: usize, rows: usize) -> usize {
        let rows = rows.min(GROUP_ROWS_MAX - self.gathered_rows);
        let bytes: usize = columns.iter().map(|column| array_size(&column.slice(at, rows))).sum();
        let room = GROUP_BYTES_MAX.saturating_sub(self.gathered_bytes);
        if bytes <= room {
            rows
        } else {
            (rows * room / bytes).max(1)
        }
    }

    fn write_group(&mut self) -> Result<(), StorageError> {
        let gathered = std::mem::take(&mut self.gathered);
        let rows = std::mem::take(&mut self.gathered_rows);
        self.gathered_bytes = 0;
        let column = |place: usize| {
            let parts: Vec<&dyn Array> = gathered.iter().map(|columns| columns[place].as_ref()).collect();
            concat(&parts)
        };
        let columns = (0..=self.spec.columns.len()).map(column).collect::<Result<Vec<_>, _>>();
        let mut columns = columns.map_err(|error| encode_error(self.files.as_ref(), &error))?;
        drop(gathered);
        self.note(&columns, rows)
            .map_err(|error| encode_error(self.files.as_ref(), &error))?;
        for column in &mut columns {
            *column = to_stored(column).map_err(|error| encode_error(self.files.as_ref(), &error))?;
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| encode_error(self.files.as_ref(), &error))?;
        let writer = match &mut self.parquet {
            Some(writer) => writer,
            started => {
                let body = Body::new(SealedWriter::new(self.files.create()?));
                let properties = properties(&self.spec, &self.sketches, rows as u64);
                let writer = ArrowWriter::try_new(body, Arc::clone(&self.schema), Some(properties));
                started.insert(writer.map_err(|error| encode_error(self.files.as_ref(), &error))?)
            }
        };
        let written = writer.write(&batch).and_then(|()| writer.flush());
        written.map_err(|error| failure(self.files.as_ref(), writer, &error))
    }

    /// Takes down what is to be known of the rows: statistics, order, fingerprints.
    fn note(&mut self, columns: &[ArrayRef], rows: usize) -> Result<(), ArrowError> {
        let (row_ids, columns) = columns.split_last().expect("row ids come last");
        let row_ids = row_ids.as_primitive::<UInt64Type>().values();
        let first = self.row_ids.len() as u32;
        for (place, key) in self.keys.iter_mut().enumerate() {
            let columns: Vec<ArrayRef> = key.places.iter().map(|place| Arc::clone(&columns[*place])).collect();
            let encoded = key.codec.encode(&columns)?;
            for row in 0..encoded.len() {
                if let Some(fingerprint) = encoded.fingerprint(row) {
                    key.entries.push(fingerprint, first + row as u32);
                }
            }
            if place == 0 && !self.spec.key.is_empty() {
                for row in 0..encoded.len() {
                    let key = encoded.bytes(row);
                    let before = if row == 0 {
                        self.last_key.as_slice()
                    } else {
                        encoded.bytes(row - 1)
                    };
                    assert!(before <= key, "rows come in the order of the primary key");
                }
                self.last_key = encoded.bytes(rows - 1).to_vec();
            }
        }
        let before = self.row_ids.last();
        let ascending = before.is_none_or(|before| *before < row_ids[0]) && row_ids.is_sorted_by(|a, b| a < b);
        assert!(
            ascending || !self.spec.key.is_empty(),
            "rows come in the order of their ids"
        );
        self.row_ids.extend_from_slice(row_ids);
        let statistics = columns.iter().zip(&mut self.sketches);
        self.groups.push(GroupDetails {
            rows: rows as u32,
            row_ids: min_max(row_ids),
            columns: statistics
                .map(|(column, sketch)| ColumnStatistics::of(column, sketch))
                .collect(),
        });
        Ok(())
    }

    /// Writes what is left and gives the files their names, durably; `None` if there were no rows.
    ///
    /// # Errors
    /// The disk refuses, or is full. Nothing is left of the segment, or garbage that no manifest knows.
    pub fn finish(mut self) -> Result<Option<SegmentInfo>, StorageError> {
        if self.gathered_rows > 0 {
            self.write_group()?;
        }
        let Some(parquet) = self.parquet.take() else {
            return Ok(None);
        };
        let row_order = row_order(&self.row_ids);
        let columns = self.spec.columns.iter().zip(std::mem::take(&mut self.sketches));
        let details = SegmentDetails {
            row_ids: min_max(&self.row_ids),
            row_order,
            sorted_by: self.spec.key.clone(),
            columns: columns
                .map(|(column, sketch)| ColumnDetails { id: column.id, sketch })
                .collect(),
            groups: std::mem::take(&mut self.groups),
        };
        let file = finish_parquet(self.files.as_ref(), parquet, &details)?;
        let mut keys: Vec<_> = self.keys.into_iter().map(|key| (key.ids, key.entries)).collect();
        if row_order == RowOrder::Indexed {
            let mut entries = KeyEntries::default();
            for (ordinal, row) in self.row_ids.iter().enumerate() {
                entries.push(row_fingerprint(*row), ordinal as u32);
            }
            keys.push((Vec::new(), entries));
        }
        let keys = if keys.is_empty() {
            None
        } else {
            Some(keys::write(self.files.as_ref(), file.content, keys)?.into())
        };
        Ok(Some(SegmentInfo {
            file,
            keys,
            group_rows: details.groups.iter().map(|group| group.rows).collect(),
            row_base: 0,
            row_ids: details.row_ids,
            row_order,
            columns: details.column_statistics(),
            sorted_by: details.sorted_by,
        }))
    }
}

fn min_max(row_ids: &[u64]) -> (u64, u64) {
    row_ids
        .iter()
        .fold((u64::MAX, 0), |(min, max), row| (min.min(*row), max.max(*row)))
}

fn row_order(row_ids: &[u64]) -> RowOrder {
    let (min, max) = min_max(row_ids);
    if !row_ids.is_sorted_by(|a, b| a < b) {
        RowOrder::Indexed
    } else if max - min == row_ids.len() as u64 - 1 {
        RowOrder::Dense
    } else {
        RowOrder::Ascending
    }
}

/// How the columns are encoded, decided by the first row group: a dictionary where values repeat; otherwise differences
/// for integers, and values as they are. LZ4, because a column is decoded whenever it is not in memory.
fn properties(spec: &SegmentSpec, sketches: &[Option<Sketch>], rows: u64) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_created_by("candor".into())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(None)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_BYTES_MAX)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
        .set_dictionary_enabled(false);
    for (column, sketch) in spec.columns.iter().zip(sketches) {
        let path = ColumnPath::from(column.id.to_string());
        let repeats = sketch
            .as_ref()
            .is_some_and(|sketch| sketch.estimate() * DICTIONARY_REPEATS <= rows);
        let is_integer =
            column.ty.is_integer() || column.ty.is_temporal() && !matches!(column.ty, DataType::Interval(_));
        if repeats && column.ty != DataType::Boolean {
            builder = builder.set_column_dictionary_enabled(path, true);
        } else if is_integer {
            builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    let row = ColumnPath::from(ROW_ID_COLUMN);
    builder.set_column_encoding(row, Encoding::DELTA_BINARY_PACKED).build()
}

fn finish_parquet(
    files: &dyn SegmentFiles,
    mut parquet: ArrowWriter<Body>,
    details: &SegmentDetails,
) -> Result<FileRef, StorageError> {
    if let Err(error) = parquet.sync() {
        return Err(failure(files, &mut parquet, &error));
    }
    // From here on only page index and footer come; our record and the checksums go in between.
    parquet.inner_mut().held = Some(Vec::new());
    let body = parquet.into_inner().map_err(|error| encode_error(files, &error))?;
    let tail = body.held.unwrap_or_default();
    let footer_size = footer_size(&tail).unwrap_or(0) as usize;
    let (index, footer) = tail.split_at(tail.len() - footer_size);
    let mut sealed = body.sealed;
    sealed.write(index)?;
    let info = postcard::to_allocvec(details).expect("plain data encodes");
    Ok(sealed.finish(&info, footer, EXTENSION)?.into())
}

/// The size of a Parquet footer, its own length and the magic included, from the last bytes of a file.
pub(crate) fn footer_size(tail: &[u8]) -> Option<u64> {
    let (_, end) = tail.split_last_chunk::<8>()?;
    let (size, magic) = end.split_first_chunk::<4>()?;
    (magic == b"PAR1").then(|| u64::from(u32::from_le_bytes(*size)) + 8)
}

/// What the Parquet writer writes to.
struct Body {
    sealed: SealedWriter,
    /// What is written from some point on, if it is held back.
    held: Option<Vec<u8>>,
    failure: Option<StorageError>,
}

impl Body {
    fn new(sealed: SealedWriter) -> Self {
        Self {
            sealed,
            held: None,
            failure: None,
        }
    }
}

impl Write for Body {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.held {
            Some(held) => held.extend_from_slice(bytes),
            None => {
                if let Err(error) = self.sealed.write(bytes) {
                    let text = error.to_string();
                    self.failure = Some(error);
                    return Err(io::Error::other(text));
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The disk's own error behind one of the writer, if there is one.
fn failure(files: &dyn SegmentFiles, writer: &mut ArrowWriter<Body>, error: &dyn std::fmt::Display) -> StorageError {
    let failure = writer.inner_mut().failure.take();
    failure.unwrap_or_else(|| encode_error(files, error))
}

pub(crate) fn encode_error(files: &dyn SegmentFiles, error: &dyn std::fmt::Display) -> StorageError {
    StorageError::io("encode", files.path("segment"), io::Error::other(error.to_string()))
}
