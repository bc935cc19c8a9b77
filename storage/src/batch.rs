//! Rows inside a record: the names and types of the columns, then one Arrow IPC record batch message.
//!
//! An IPC stream would repeat a schema message of some hundred bytes in each single-row transaction; here a column
//! costs its name and two bytes. The encoding of a batch is a function of its values: views are compacted first, so
//! the buffers that a slice happens to share never travel.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, PrimitiveArray, RecordBatch, StringViewArray,
    downcast_primitive,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{CompressionType, MetadataVersion, root_as_message};
use arrow::record_batch::RecordBatchOptions;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::RecordError;
use crate::schema::ColumnType;

/// Batches of fewer rows are not worth compressing.
const COMPRESSED_ROWS_MIN: usize = 64;

/// Alignment of buffers in the body, bytes: that of the widest element, a 128-bit decimal or view.
const ALIGNMENT: usize = 16;

/// No LZ4 block grows to more than this many times its size.
const LZ4_RATIO_MAX: i64 = 255;

/// A batch as it stands in a record. `None` as a column's type means row ids, unsigned 64-bit numbers.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireBatch<'a> {
    #[serde(borrow)]
    columns: Vec<(&'a str, Option<ColumnType>)>,
    /// Length of the IPC message's metadata at the start of `data`.
    meta_size: u32,
    #[serde(borrow)]
    data: WireBytes<'a>,
}

enum WireBytes<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl WireBytes<'_> {
    fn as_slice(&self) -> &[u8] {
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
        let compact = RecordBatch::try_new_with_options(
            batch.schema(),
            batch.columns().iter().map(compacted).collect(),
            &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        )
        .map_err(malformed)?;
        let (meta, body) = encode(&compact).map_err(malformed)?;
        let meta_size = meta.len();
        let mut data = meta;
        data.resize(meta_size.next_multiple_of(ALIGNMENT), 0);
        data.extend_from_slice(&body);
        Ok(Self {
            columns,
            meta_size: meta_size as u32,
            data: WireBytes::Owned(data),
        })
    }

    /// The batch; all its columns allow NULL.
    pub(crate) fn read(&self, schemas: &mut SchemaCache) -> Result<RecordBatch, RecordError> {
        decode(
            self.data.as_slice(),
            self.meta_size as usize,
            schemas.schema(&self.columns),
        )
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
        _ => Arc::clone(array),
    }
}

fn encode(batch: &RecordBatch) -> Result<(Vec<u8>, Vec<u8>), ArrowError> {
    let mut options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    if batch.num_rows() >= COMPRESSED_ROWS_MIN {
        options = options.try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    }
    let (dictionaries, message) = IpcDataGenerator::default().encode(
        batch,
        &mut DictionaryTracker::new(false),
        &options,
        &mut IpcWriteContext::default(),
    )?;
    assert!(dictionaries.is_empty(), "no stored type is a dictionary");
    Ok((message.ipc_message, message.arrow_data))
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
    if header.compression().is_none() {
        return plain_batch(&header, schema, &body).map_err(malformed);
    }
    read_record_batch(&body, header, schema, &HashMap::new(), None, &MetadataVersion::V5).map_err(malformed)
}

/// What Arrow's reader does for these types when nothing is compressed, in a fraction of the time: it counts for records
/// of one row. The sizes of the buffers were checked; what text holds is checked here.
fn plain_batch(
    header: &arrow::ipc::RecordBatch<'_>,
    schema: SchemaRef,
    body: &Buffer,
) -> Result<RecordBatch, ArrowError> {
    let rows = header.length() as usize;
    let buffers = header.buffers().into_iter().flatten();
    let mut buffers = buffers.map(|buffer| body.slice_with_length(buffer.offset() as usize, buffer.length() as usize));
    let mut next = || buffers.next().unwrap_or_default();
    let mut views = header.variadicBufferCounts().into_iter().flatten();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (field, node) in schema.fields().iter().zip(header.nodes().into_iter().flatten()) {
        let validity = next();
        let nulls = (node.null_count() > 0).then(|| NullBuffer::new(BooleanBuffer::new(validity, 0, rows)));
        let values = next();
        let column: ArrayRef = match field.data_type() {
            DataType::Boolean => Arc::new(BooleanArray::new(BooleanBuffer::new(values, 0, rows), nulls)),
            DataType::Utf8View | DataType::BinaryView => {
                let texts = (0..views.next().unwrap_or(0)).map(|_| next()).collect::<Vec<_>>();
                let values = ScalarBuffer::new(values, 0, rows);
                if *field.data_type() == DataType::Utf8View {
                    Arc::new(StringViewArray::try_new(values, texts, nulls)?)
                } else {
                    Arc::new(BinaryViewArray::try_new(values, texts, nulls)?)
                }
            }
            ty => primitive(ty, values, rows, nulls)?,
        };
        columns.push(column);
    }
    RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

fn primitive(ty: &DataType, values: Buffer, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    macro_rules! array {
        ($primitive:ty, $values:ident, $rows:ident, $nulls:ident, $ty:ident) => {{
            let array = PrimitiveArray::<$primitive>::try_new(ScalarBuffer::new($values, 0, $rows), $nulls)?;
            Ok(Arc::new(array.with_data_type($ty.clone())))
        }};
    }
    downcast_primitive! {
        ty => (array, values, rows, nulls, ty),
        other => Err(ArrowError::SchemaError(format!("{other} is not stored")))
    }
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
        let node = nodes.next().ok_or_else(broken)?;
        let (values_size, more) = match field.data_type() {
            DataType::Boolean => (u64::div_ceil(rows as u64, 8) as i64, Some(0)),
            DataType::Utf8View | DataType::BinaryView => (rows * 16, views.next().filter(|count| *count >= 0)),
            ty => (rows * ty.primitive_width().unwrap_or(0) as i64, Some(0)),
        };
        let (validity, values) = sizes.next().zip(sizes.next()).ok_or_else(broken)?;
        let nulls_fit = node.null_count() == 0 || validity.saturating_mul(8) >= rows;
        if node.length() != rows || !(0..=rows).contains(&node.null_count()) || !nulls_fit || values != values_size {
            return Err(broken());
        }
        for _ in 0..more.ok_or_else(broken)? {
            sizes.next().ok_or_else(broken)?;
        }
    }
    if nodes.next().is_some() || sizes.next().is_some() || views.next().is_some() {
        return Err(broken());
    }
    Ok(())
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
