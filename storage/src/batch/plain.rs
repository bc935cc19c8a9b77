//! Few rows, as they are: column after column, each with its NULLs in front. A transaction of one row costs its values
//! and some bytes, to write as to read.
//!
//! `docs/format.md` has the layout. What is read may be anything: every length is checked before it is used.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, ListArray, MAX_INLINE_VIEW_LEN, PrimitiveArray,
    RecordBatch, StringViewArray, downcast_primitive, make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchOptions;

use super::{compacted_list, malformed};
use crate::error::RecordError;

/// No NULL in the column.
const NO_NULLS: u8 = 0;

/// A bit for each row comes first: 1 where there is a value.
const NULLS: u8 = 1;

pub(super) fn write(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&(batch.num_rows() as u32).to_le_bytes());
    for column in batch.columns() {
        write_column(column, &mut out);
    }
    out
}

fn write_column(column: &ArrayRef, out: &mut Vec<u8>) {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    match nulls {
        None => out.push(NO_NULLS),
        Some(nulls) => {
            out.push(NULLS);
            write_bits(nulls.iter(), out);
        }
    }
    match column.data_type() {
        DataType::Boolean => write_bits(column.as_boolean().iter().map(|value| value == Some(true)), out),
        DataType::Utf8View => write_texts(column.as_string_view().iter().map(|text| text.map(str::as_bytes)), out),
        DataType::BinaryView => write_texts(column.as_binary_view().iter(), out),
        DataType::List(item) => {
            let list = compacted_list(column.as_list(), item);
            let lists = list.as_list::<i32>();
            for ends in lists.value_offsets().windows(2) {
                out.extend_from_slice(&(ends[1] - ends[0]).to_le_bytes());
            }
            write_column(lists.values(), out);
        }
        ty => {
            let width = ty.primitive_width().expect("all other stored types are of fixed width");
            let data = column.to_data();
            let values = &data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width];
            let start = out.len();
            out.extend_from_slice(values);
            // What stands behind a NULL means nothing, and must not tell equal rows apart.
            for row in nulls
                .into_iter()
                .flat_map(|nulls| (0..nulls.len()).filter(|row| nulls.is_null(*row)))
            {
                out[start + row * width..][..width].fill(0);
            }
        }
    }
}

fn write_bits(bits: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    for (at, bit) in bits.enumerate() {
        if at % 8 == 0 {
            out.push(0);
        }
        if let (true, Some(byte)) = (bit, out.last_mut()) {
            *byte |= 1 << (at % 8);
        }
    }
}

fn write_texts<'a>(texts: impl Iterator<Item = Option<&'a [u8]>> + Clone, out: &mut Vec<u8>) {
    let texts = texts.map(Option::unwrap_or_default);
    for text in texts.clone() {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    }
    for text in texts {
        out.extend_from_slice(text);
    }
}

/// The batch in `bytes`, which holds the columns of `schema`.
///
/// # Errors
/// Bytes that are not of this form.
pub(super) fn read(bytes: &[u8], schema: SchemaRef) -> Result<RecordBatch, RecordError> {
    let mut rest = Rest(bytes);
    let rows = rest.number()? as usize;
    let columns = schema
        .fields()
        .iter()
        .map(|field| rest.column(field.data_type(), rows))
        .collect::<Result<_, _>>()?;
    if !rest.0.is_empty() {
        return Err(RecordError::Batch(format!("{} bytes follow its columns", rest.0.len())));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(malformed)
}

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let cut = || RecordError::Batch("a column is cut short".into());
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, RecordError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer, RecordError> {
        let bytes = self.take(rows.div_ceil(8))?;
        Ok(BooleanBuffer::new(Buffer::from(bytes), 0, rows))
    }

    fn column(&mut self, ty: &DataType, rows: usize) -> Result<ArrayRef, RecordError> {
        let nulls = match self.take(1)? {
            [NO_NULLS] => None,
            [NULLS] => Some(NullBuffer::new(self.bits(rows)?)),
            _ => return Err(RecordError::Batch("whether a column has NULLs is not said".into())),
        };
        let column: Result<ArrayRef, ArrowError> = match ty {
            DataType::Boolean => Ok(Arc::new(BooleanArray::new(self.bits(rows)?, nulls))),
            DataType::Utf8View => {
                let (views, texts) = self.texts(rows)?;
                StringViewArray::try_new(views, texts, nulls).map(|array| Arc::new(array) as _)
            }
            DataType::BinaryView => {
                let (views, texts) = self.texts(rows)?;
                BinaryViewArray::try_new(views, texts, nulls).map(|array| Arc::new(array) as _)
            }
            DataType::List(item) => return self.lists(item, rows, nulls),
            ty => {
                let width = ty.primitive_width().unwrap_or(0);
                primitive(ty, Buffer::from(self.take(rows * width)?), rows, nulls)
            }
        };
        column.map_err(malformed)
    }

    /// The views of texts, and the bytes that they refer to.
    fn texts(&mut self, rows: usize) -> Result<(ScalarBuffer<u128>, Vec<Buffer>), RecordError> {
        let lengths = self.take(rows * 4)?.as_chunks::<4>().0;
        let lengths = lengths.iter().map(|bytes| u32::from_le_bytes(*bytes) as usize);
        let bytes = self.take(lengths.clone().sum())?;
        let mut views = Vec::with_capacity(rows);
        let (mut start, mut refers) = (0, false);
        for length in lengths {
            let text = &bytes[start..start + length];
            let at = u32::try_from(start).map_err(malformed)?;
            views.push(make_view(text, 0, at));
            refers |= length > MAX_INLINE_VIEW_LEN as usize;
            start += length;
        }
        let buffers = if refers { vec![Buffer::from(bytes)] } else { Vec::new() };
        Ok((ScalarBuffer::from(views), buffers))
    }

    fn lists(&mut self, item: &FieldRef, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef, RecordError> {
        let counts = self.take(rows * 4)?.as_chunks::<4>().0;
        let mut ends = Vec::with_capacity(rows + 1);
        let mut end = 0_i32;
        ends.push(end);
        for count in counts {
            let count = i32::try_from(u32::from_le_bytes(*count)).ok();
            let next = count.and_then(|count| end.checked_add(count));
            end = next.ok_or_else(|| RecordError::Batch("its lists have too many elements".into()))?;
            ends.push(end);
        }
        let elements = self.column(item.data_type(), end as usize)?;
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let lists = ListArray::try_new(Arc::clone(item), ends, elements, nulls).map_err(malformed)?;
        Ok(Arc::new(lists))
    }
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

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, new_empty_array};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let fields = columns
            .iter()
            .map(|column| Field::new("c", column.data_type().clone(), true));
        RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).expect("columns of one length")
    }

    #[test]
    fn bytes_are_those_of_the_format_page() {
        let rows = batch(vec![
            Arc::new(Int32Array::from(vec![Some(-2), None])),
            Arc::new(StringViewArray::from(vec!["ab", "ü"])),
            Arc::new(BooleanArray::from(vec![false, true])),
        ]);
        let expected = [
            &[2, 0, 0, 0][..],
            &[1, 0b01, 0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            &[0, 2, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 0xc3, 0xbc],
            &[0, 0b10],
        ];
        assert_eq!(write(&rows), expected.concat());
        assert_eq!(read(&expected.concat(), rows.schema()), Ok(rows));
    }

    #[test]
    fn what_stands_behind_a_null_does_not_count() {
        let nulls = || Some(NullBuffer::from(vec![true, false]));
        let encoded = |behind: i32| write(&batch(vec![Arc::new(Int32Array::new(vec![1, behind].into(), nulls()))]));
        assert_eq!(encoded(7), encoded(8));
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors() {
        let item = Arc::new(Field::new_list_field(DataType::Boolean, true));
        for ty in [DataType::Utf8View, DataType::List(item), DataType::Int32] {
            let none = batch(vec![new_empty_array(&ty)]);
            assert_eq!(read(&write(&none), none.schema()), Ok(none.clone()));
            let mut huge = write(&none);
            huge[..4].fill(0xff);
            assert!(read(&huge, none.schema()).is_err(), "{ty}");
            huge.extend_from_slice(&[0xff; 64]);
            assert!(read(&huge, none.schema()).is_err(), "{ty}");
        }
    }
}
