//! Arrow batches as JSON values that lose nothing.
//!
//! Integers that a double cannot hold (beyond ±(2^53 − 1)) and NUMERIC values are strings, so that no JSON reader
//! rounds them; NaN and the infinities are strings because JSON has no word for them; bytes are `\x` and hex;
//! dates, times and intervals are text as PostgreSQL prints them. JSON and JSONB stand as they are, arrays as lists.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use candor_engine::TextWriter;
use candor_storage::ColumnType;

/// The largest integer that every JSON reader keeps exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// The dialect's name of a column's type, as `columns[].type` gives it.
pub(crate) fn type_name(field: &Field) -> String {
    match (ColumnType::from_field(field), field.data_type()) {
        (_, DataType::UInt64) => "BIGINT UNSIGNED".to_owned(),
        (Some(ty), _) => ty.sql_name(),
        (None, DataType::Null) => "NULL".to_owned(),
        (None, DataType::Duration(_)) => "INTERVAL".to_owned(),
        (None, DataType::Decimal256(precision, scale)) => format!("NUMERIC({precision},{scale})"),
        (None, DataType::Struct(_)) => "STRUCT".to_owned(),
        (None, DataType::Map(..)) => "MAP".to_owned(),
        (None, other) => other.to_string(),
    }
}

/// Appends the `columns` array of a schema.
pub(crate) fn write_columns(schema: &Schema, out: &mut String) {
    out.push('[');
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str("{\"name\":");
        write_text(field.name(), out);
        out.push_str(",\"type\":");
        write_text(&type_name(field), out);
        out.push('}');
    }
    out.push(']');
}

/// Writes the rows of one batch, each as a JSON array; the caller says what stands between rows.
pub(crate) struct RowWriter<'a> {
    columns: Vec<Column<'a>>,
    rows: usize,
}

impl<'a> RowWriter<'a> {
    /// Prepares the columns of `batch`.
    ///
    /// # Errors
    /// When a column has a type that has no text form.
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, ArrowError> {
        let columns = batch
            .columns()
            .iter()
            .zip(batch.schema_ref().fields())
            .map(|(array, field)| Column::new(array.as_ref(), holds_documents(field)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            rows: batch.num_rows(),
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends row `row` as a JSON array.
    pub(crate) fn write(&self, row: usize, out: &mut String) -> Result<(), ArrowError> {
        out.push('[');
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            column.write(row, out)?;
        }
        out.push(']');
        Ok(())
    }
}

/// One column with its way to be printed chosen once.
struct Column<'a> {
    array: &'a dyn Array,
    form: Form<'a>,
}

enum Form<'a> {
    /// JSON `true` and `false`.
    Bool,
    /// A number, or a string where a double would round it.
    Integer,
    /// A number, or `"NaN"`, `"Infinity"`, `"-Infinity"`.
    Float,
    /// Text that only needs quoting.
    Text,
    /// Elements in brackets; whether they are documents.
    List(bool),
    /// Fields by name.
    Struct(Vec<(String, Column<'a>)>),
    /// A JSON document, as it is.
    Document,
    /// PostgreSQL's text in quotes.
    Quoted(Box<TextWriter<'a>>),
    Null,
}

/// Whether a column, or its arrays, hold JSON documents.
fn holds_documents(field: &Field) -> bool {
    let is_document = |ty| matches!(ty, ColumnType::Json | ColumnType::Jsonb);
    match ColumnType::from_field(field) {
        Some(ColumnType::Array { element, .. }) => is_document(element.into()),
        Some(ty) => is_document(ty),
        None => false,
    }
}

impl<'a> Column<'a> {
    fn new(array: &'a dyn Array, is_document: bool) -> Result<Self, ArrowError> {
        let form = match array.data_type() {
            DataType::Null => Form::Null,
            DataType::Boolean => Form::Bool,
            data_type if data_type.is_integer() => Form::Integer,
            DataType::Float32 | DataType::Float64 => Form::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if is_document => Form::Document,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Form::Text,
            DataType::List(_) | DataType::LargeList(_) => Form::List(is_document),
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let named = fields.iter().zip(columns).map(|(field, column)| {
                    Ok((
                        field.name().clone(),
                        Column::new(column.as_ref(), holds_documents(field))?,
                    ))
                });
                Form::Struct(named.collect::<Result<_, ArrowError>>()?)
            }
            _ => {
                let writer = TextWriter::new(array).map_err(|error| ArrowError::CastError(error.to_string()))?;
                Form::Quoted(Box::new(writer))
            }
        };
        Ok(Self { array, form })
    }

    fn write(&self, row: usize, out: &mut String) -> Result<(), ArrowError> {
        if self.array.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        match &self.form {
            Form::Null => out.push_str("null"),
            Form::Bool => out.push_str(if self.array.as_boolean().value(row) {
                "true"
            } else {
                "false"
            }),
            Form::Integer => write_integer(integer(self.array, row), out),
            Form::Float => write_float(self.array, row, out),
            Form::Text => write_text(text(self.array, row), out),
            Form::Document => out.push_str(text(self.array, row)),
            Form::List(is_document) => {
                let values = match self.array.data_type() {
                    DataType::LargeList(_) => self.array.as_list::<i64>().value(row),
                    _ => self.array.as_list::<i32>().value(row),
                };
                let elements = Column::new(values.as_ref(), *is_document)?;
                out.push('[');
                for index in 0..values.len() {
                    if index > 0 {
                        out.push(',');
                    }
                    elements.write(index, out)?;
                }
                out.push(']');
            }
            Form::Struct(fields) => {
                out.push('{');
                for (index, (name, column)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_text(name, out);
                    out.push(':');
                    column.write(row, out)?;
                }
                out.push('}');
            }
            Form::Quoted(writer) => write_text(&writer.value(row).unwrap_or_default(), out),
        }
        Ok(())
    }
}

fn integer(array: &dyn Array, row: usize) -> i128 {
    match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        _ => array.as_primitive::<UInt64Type>().value(row).into(),
    }
}

fn write_integer(value: i128, out: &mut String) {
    let quote = if value.unsigned_abs() > u128::from(EXACT_MAX) {
        "\""
    } else {
        ""
    };
    let _ = write!(out, "{quote}{value}{quote}");
}

fn write_float(array: &dyn Array, row: usize, out: &mut String) {
    // The shortest text that reads back as the same value, at the column's own precision.
    let (text, finite) = if let DataType::Float32 = array.data_type() {
        let value = array.as_primitive::<Float32Type>().value(row);
        (serde_json::to_string(&value), value.is_finite())
    } else {
        let value = array.as_primitive::<Float64Type>().value(row);
        (serde_json::to_string(&value), value.is_finite())
    };
    match (finite, text) {
        (true, Ok(text)) => out.push_str(&text),
        _ => out.push_str(match float(array, row) {
            value if value.is_nan() => "\"NaN\"",
            value if value > 0.0 => "\"Infinity\"",
            _ => "\"-Infinity\"",
        }),
    }
}

fn float(array: &dyn Array, row: usize) -> f64 {
    match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into(),
        _ => array.as_primitive::<Float64Type>().value(row),
    }
}

fn text(array: &dyn Array, row: usize) -> &str {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        _ => array.as_string_view().value(row),
    }
}

/// Appends a JSON string.
pub(crate) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (index, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..index]);
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        plain = index + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray,
        TimestampMicrosecondArray,
    };

    use super::*;

    fn rows(columns: Vec<(&str, ArrayRef)>) -> Vec<serde_json::Value> {
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let writer = RowWriter::new(&batch).expect("printable");
        (0..writer.rows())
            .map(|row| {
                let mut out = String::new();
                writer.write(row, &mut out).expect("printable");
                serde_json::from_str(&out).unwrap_or_else(|error| panic!("{out}: {error}"))
            })
            .collect()
    }

    #[test]
    fn numbers_lose_no_digit() {
        let big = (1_i64 << 53) - 1;
        let got = rows(vec![
            (
                "i",
                Arc::new(Int64Array::from(vec![Some(big), Some(big + 1), Some(i64::MIN), None])),
            ),
            (
                "d",
                Arc::new(
                    Decimal128Array::from(vec![1, -1, 10_000, 0])
                        .with_precision_and_scale(38, 4)
                        .expect("fits"),
                ),
            ),
            (
                "f",
                Arc::new(Float64Array::from(vec![0.1, f64::NAN, f64::NEG_INFINITY, 1e300])),
            ),
        ]);
        assert_eq!(
            serde_json::Value::Array(got),
            serde_json::json!([
                [9_007_199_254_740_991_i64, "0.0001", 0.1],
                ["9007199254740992", "-0.0001", "NaN"],
                ["-9223372036854775808", "1.0000", "-Infinity"],
                [null, "0.0000", 1e300]
            ])
        );
    }

    #[test]
    fn text_bytes_and_times_are_printed_as_iso() {
        let got = rows(vec![
            ("t", Arc::new(StringViewArray::from(vec!["say \"hi\"\n\u{1}", "Grüße"]))),
            ("b", Arc::new(BinaryArray::from_vec(vec![b"\x00\xff", b""]))),
            ("o", Arc::new(BooleanArray::from(vec![true, false]))),
            ("d", Arc::new(Date32Array::from(vec![0, 19_723]))),
            ("m", Arc::new(TimestampMicrosecondArray::from(vec![0, 1_500_000]))),
            (
                "z",
                Arc::new(TimestampMicrosecondArray::from(vec![0, 1]).with_timezone("+00:00")),
            ),
        ]);
        assert_eq!(
            serde_json::Value::Array(got),
            serde_json::json!([
                [
                    "say \"hi\"\n\u{1}",
                    "\\x00ff",
                    true,
                    "1970-01-01",
                    "1970-01-01 00:00:00",
                    "1970-01-01 00:00:00+00"
                ],
                [
                    "Grüße",
                    "\\x",
                    false,
                    "2024-01-01",
                    "1970-01-01 00:00:01.5",
                    "1970-01-01 00:00:00.000001+00"
                ]
            ])
        );
    }
}
