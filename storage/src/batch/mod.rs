//! Rows inside a record: the names and types of the columns, then few rows as they are ([`plain`]), or many as one Arrow
//! IPC record batch message, compressed.
//!
//! An IPC stream would repeat a schema message of some hundred bytes in each transaction; here a column costs its name
//! and two bytes. The encoding of a batch is a function of its values: views are compacted first, so the buffers that a
//! slice happens to share never travel.

mod plain;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MutableArrayData, RecordBatch, make_array};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{CompressionType, MetadataVersion, root_as_message};
use arrow::record_batch::RecordBatchOptions;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::RecordError;
use crate::schema::ColumnType;

/// Batches of fewer rows are written as they are.
const MESSAGE_ROWS_MIN: usize = 64;

/// Alignment of buffers in the body, bytes: that of the widest element, a 128-bit decimal or view.
const ALIGNMENT: usize = 16;

/// No LZ4 block grows to more than this many times its size.
const LZ4_RATIO_MAX: i64 = 255;

/// A batch as it stands in a record. `None` as a column's type means row ids, unsigned 64-bit numbers.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireBatch<'a> {
    #[serde(borrow)]
    columns: Vec<(&'a str, Option<ColumnType>)>,
    /// Length of the IPC message's metadata at the start of `data`; 0 where the rows stand there as they are.
    meta_size: u32,
    #[serde(borrow)]
    data: WireBytes<'a>,
}

/// Bytes that are borrowed from the record when they are read.
pub(crate) enum WireBytes<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl WireBytes<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Serialize for WireBytes<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(self.as_slice())
    }
}

impl<'a, 'de: 'a> Deserialize<'de> for WireBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        <&'a [u8]>::deserialize(d).map(Self::Borrowed)
    }
}

impl<'a> WireBatch<'a> {
    /// # Errors
    /// A column of a type that is not stored.
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, RecordError> {
        let columns = batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| Ok((field.name().as_str(), wire_type(field)?)))
            .collect::<Result<_, RecordError>>()?;
        let (meta_size, data) = if batch.num_rows() < MESSAGE_ROWS_MIN {
            (0, plain::write(batch))
        } else {
            message(batch).map_err(malformed)?
        };
        Ok(Self {
            columns,
            meta_size,
            data: WireBytes::Owned(data),
        })
    }

    /// The batch; all its columns allow NULL.
    pub(crate) fn read(&self, schemas: &mut SchemaCache) -> Result<RecordBatch, RecordError> {
        let schema = schemas.schema(&self.columns);
        match self.meta_size {
            0 => plain::read(self.data.as_slice(), schema),
            meta_size => decode(self.data.as_slice(), meta_size as usize, schema),
        }
    }
}

/// Schemas of batches read lately: most records of a log have the columns of one of few collections, and a schema costs
/// more to make than a row to read.
#[derive(Default)]
pub(crate) struct SchemaCache {
    /// The newest is at the end.
    known: Vec<(OwnedColumns, SchemaRef)>,
}

type OwnedColumns = Vec<(String, Option<ColumnType>)>;

/// Schemas kept.
const SCHEMAS_MAX: usize = 16;

impl SchemaCache {
    fn schema(&mut self, columns: &[(&str, Option<ColumnType>)]) -> SchemaRef {
        let same = |known: &OwnedColumns| {
            known.len() == columns.len() && known.iter().zip(columns).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
        };
        if let Some((_, schema)) = self.known.iter().rev().find(|(known, _)| same(known)) {
            return Arc::clone(schema);
        }
        let field = |(name, ty): &(&str, Option<ColumnType>)| {
            Field::new(*name, ty.map_or(DataType::UInt64, ColumnType::arrow), true)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        if self.known.len() == SCHEMAS_MAX {
            self.known.remove(0);
        }
        let owned = columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
        self.known.push((owned, Arc::clone(&schema)));
        schema
    }
}

fn wire_type(field: &Field) -> Result<Option<ColumnType>, RecordError> {
    let ty = field.data_type();
    if *ty == DataType::UInt64 {
        return Ok(None);
    }
    ColumnType::from_arrow(ty)
        .filter(|column| column.arrow() == *ty)
        .map(Some)
        .ok_or_else(|| RecordError::ColumnType {
            column: field.name().clone(),
            ty: ty.to_string(),
        })
}

/// The same values in buffers that hold nothing else. Only views ever hold more: other arrays are cut to their slice
/// when they are written.
pub(crate) fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::List(item) => compacted_list(array.as_list(), item),
        _ => Arc::clone(array),
    }
}

/// Lists one after another, nothing between them, and none behind a NULL.
fn compacted_list(list: &ListArray, item: &FieldRef) -> ArrayRef {
    let mut ends = Vec::with_capacity(list.len() + 1);
    ends.push(0_i32);
    let mut ranges = Vec::new();
    let mut end = 0;
    for row in 0..list.len() {
        let (from, to) = (list.value_offsets()[row], list.value_offsets()[row + 1]);
        if list.is_valid(row) && to > from {
            ranges.push((from as usize, to as usize));
            end += to - from;
        }
        ends.push(end);
    }
    let data = list.values().to_data();
    let mut values = MutableArrayData::new(vec![&data], false, end as usize);
    for (from, to) in ranges {
        values
            .try_extend(0, from, to)
            .expect("a part of an array is no longer than the array");
    }
    let values = compacted(&make_array(values.freeze()));
    let nulls = list.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    Arc::new(ListArray::new(Arc::clone(item), ends, values, nulls))
}

/// The size of the metadata of an IPC message, and the message.
fn message(batch: &RecordBatch) -> Result<(u32, Vec<u8>), ArrowError> {
    let compact = RecordBatch::try_new_with_options(
        batch.schema(),
        batch.columns().iter().map(compacted).collect(),
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )?;
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let (dictionaries, message) = IpcDataGenerator::default().encode(
        &compact,
        &mut DictionaryTracker::new(false),
        &options,
        &mut IpcWriteContext::default(),
    )?;
    assert!(dictionaries.is_empty(), "no stored type is a dictionary");
    let mut data = message.ipc_message;
    let meta_size = data.len();
    data.resize(meta_size.next_multiple_of(ALIGNMENT), 0);
    data.extend_from_slice(&message.arrow_data);
    Ok((meta_size as u32, data))
}

fn decode(data: &[u8], meta_size: usize, schema: SchemaRef) -> Result<RecordBatch, RecordError> {
    let body_at = meta_size.next_multiple_of(ALIGNMENT);
    if body_at > data.len() {
        return Err(RecordError::Batch("its metadata is cut short".into()));
    }
    // One copy into aligned memory, which the arrays then share.
    let data = Buffer::from(data);
    let message = root_as_message(&data[..meta_size]).map_err(malformed)?;
    let header = message
        .header_as_record_batch()
        .ok_or_else(|| RecordError::Batch("it is not a record batch".into()))?;
    let body = data.slice(body_at);
    check_buffers(&header, &schema, &body)?;
    read_record_batch(&body, header, schema, &HashMap::new(), None, &MetadataVersion::V5).map_err(malformed)
}

/// Arrow takes these numbers at their word where it slices the body, so they are looked at here. What the buffers hold is
/// checked by Arrow itself.
fn check_buffers(header: &arrow::ipc::RecordBatch<'_>, schema: &Schema, body: &Buffer) -> Result<(), RecordError> {
    let broken = || RecordError::Batch("its buffers do not fit its body".into());
    let compressed = header.compression().is_some();
    let sizes = header
        .buffers()
        .into_iter()
        .flatten()
        .map(|buffer| plain_size(body, buffer, compressed));
    let mut sizes = sizes.collect::<Option<Vec<_>>>().ok_or_else(broken)?.into_iter();
    let mut views = header.variadicBufferCounts().into_iter().flatten();
    let mut nodes = header.nodes().into_iter().flatten();
    let rows = header.length();
    // Every value takes a bit at least, whatever the compression.
    if rows < 0 || !schema.fields().is_empty() && rows > body.len() as i64 * 8 * LZ4_RATIO_MAX {
        return Err(broken());
    }
    for field in schema.fields() {
        check_column(field.data_type(), Some(rows), &mut nodes, &mut sizes, &mut views).ok_or_else(broken)?;
    }
    if nodes.next().is_some() || sizes.next().is_some() || views.next().is_some() {
        return Err(broken());
    }
    Ok(())
}

/// Takes what one column is made of, and what its elements are made of; `None` if something is missing or of a wrong size.
/// How many elements lists have is known only to their offsets, which are checked against the elements when they are read.
fn check_column<'a>(
    ty: &DataType,
    rows: Option<i64>,
    nodes: &mut impl Iterator<Item = &'a arrow::ipc::FieldNode>,
    sizes: &mut impl Iterator<Item = i64>,
    views: &mut impl Iterator<Item = i64>,
) -> Option<()> {
    let node = nodes.next()?;
    let rows = rows.unwrap_or(node.length());
    let (validity, values) = sizes.next().zip(sizes.next())?;
    // No buffer has more values than bits, so nothing that is asked for below is beyond memory.
    let fits = |bits: i64| {
        rows >= 0
            && rows
                .checked_mul(bits)
                .map(|bits| bits.div_euclid(8) + i64::from(bits % 8 != 0))
                == Some(values)
    };
    let (values_fit, more) = match ty {
        DataType::Boolean => (fits(1), 0),
        DataType::Utf8View | DataType::BinaryView => (fits(128), views.next().filter(|count| *count >= 0)?),
        DataType::List(_) => (
            (rows == 0 && values == 0) || rows.checked_add(1)?.checked_mul(4) == Some(values),
            0,
        ),
        ty => (fits(ty.primitive_width()? as i64 * 8), 0),
    };
    let nulls_fit = node.null_count() == 0 || validity.saturating_mul(8) >= rows;
    if node.length() != rows || !(0..=rows).contains(&node.null_count()) || !nulls_fit || !values_fit {
        return None;
    }
    for _ in 0..more {
        sizes.next()?;
    }
    match ty {
        DataType::List(item) => check_column(item.data_type(), None, nodes, sizes, views),
        _ => Some(()),
    }
}

/// The size of a buffer once it is plain; `None` if it lies outside the body, or claims what no compression reaches.
fn plain_size(body: &Buffer, buffer: &arrow::ipc::Buffer, compressed: bool) -> Option<i64> {
    let (offset, size) = (buffer.offset(), buffer.length());
    let end = offset.checked_add(size).filter(|_| offset % ALIGNMENT as i64 == 0)?;
    let bytes = body.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)?;
    if !compressed || size == 0 {
        return Some(size);
    }
    match i64::from_le_bytes(*bytes.first_chunk()?) {
        -1 => Some(size - 8),
        plain => (0..=size.saturating_mul(LZ4_RATIO_MAX))
            .contains(&plain)
            .then_some(plain),
    }
}

fn malformed(error: impl std::fmt::Display) -> RecordError {
    RecordError::Batch(error.to_string())
}
