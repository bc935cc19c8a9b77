//! Assignment: a computed column into a column of a collection, without loss or not at all.
//!
//! A number that does not fit, a fraction for an INTEGER, a digit too many for a NUMERIC, a text longer than its
//! VARCHAR(n) are errors that name the row. Where rounding is meant, `round()` or CAST says so. Floating point takes
//! the nearest value, which is what floating point is. Texts are read as literals are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, ListArray, new_null_array};
use arrow::compute::kernels::cmp;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use candor_storage::ColumnType;

use crate::error::EngineError;
use crate::text::{TextColumn, TextWriter, check_length};

/// Failed casts become NULL, which is how they are found.
const TRY: CastOptions<'static> = CastOptions {
    safe: true,
    format_options: arrow::util::display::FormatOptions::new(),
};

/// A value that does not fit: its row in the array, from 0, and why.
pub(crate) struct Misfit {
    pub(crate) row: usize,
    pub(crate) message: String,
}

impl Misfit {
    /// The error for `column`, where `first_row` is the row of the statement that the array starts with, from 1.
    pub(crate) fn at(self, first_row: u64, column: &str) -> EngineError {
        EngineError::BadValue {
            message: self.message,
            row: Some(first_row + self.row as u64),
            column: Some(column.to_owned()),
        }
    }
}

/// The values of `array` as values of `ty`.
pub(crate) fn assign(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let target = ty.arrow();
    let source = array.data_type();
    if *source == target && is_free(ty) {
        return Ok(Arc::clone(array));
    }
    match source {
        DataType::Null => Ok(new_null_array(&target, array.len())),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => from_text(array, ty),
        DataType::List(_) if ty.item().is_some() => assign_items(array, ty),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) | DataType::ListView(item)
            if ty.item().is_some() =>
        {
            let plain = cast_with_options(array, &DataType::List(Arc::clone(item)), &TRY);
            assign(&plain.map_err(|error| whole(error.to_string()))?, ty)
        }
        DataType::Float32 | DataType::Float64 if matches!(ty, ColumnType::Decimal { .. }) => {
            float_to_decimal(array, ty)
        }
        _ if matches!(ty, ColumnType::Text | ColumnType::Varchar(_)) => to_text(array, ty),
        DataType::Dictionary(_, value) => match cast_with_options(array, value, &TRY) {
            Ok(plain) => assign(&plain, ty),
            Err(error) => Err(whole(error.to_string())),
        },
        _ if is_assignable(source, ty) => convert(array, ty),
        _ => Err(whole(format!("a value of type {source} cannot be stored as {ty}"))),
    }
}

/// Whether every value of the type's arrays is one of the type: other types are limited or have a normal form.
fn is_free(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Varchar(_) | ColumnType::Uuid | ColumnType::Json | ColumnType::Jsonb | ColumnType::Enum(_) => false,
        ColumnType::Array { element, .. } => is_free(element.into()),
        _ => true,
    }
}

/// Lists, element by element.
fn assign_items(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let list: &ListArray = array.as_list();
    let item = ty.item().ok_or_else(|| whole(format!("a list is not a {ty}")))?;
    let values = assign(list.values(), item).map_err(|misfit| {
        let ends = list.value_offsets();
        let row = ends
            .partition_point(|end| *end as usize <= misfit.row)
            .saturating_sub(1);
        Misfit { row, ..misfit }
    })?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let lists = ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(lists.map_err(|error| whole(error.to_string()))?))
}

fn whole(message: String) -> Misfit {
    Misfit { row: 0, message }
}

fn is_assignable(source: &DataType, ty: ColumnType) -> bool {
    let number = source.is_numeric();
    let binary = matches!(
        source,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    );
    match ty {
        ColumnType::Bool => *source == DataType::Boolean,
        ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. } => number,
        ColumnType::Bytes => binary,
        ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz => {
            matches!(source, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
        }
        ColumnType::Time => matches!(source, DataType::Time32(_) | DataType::Time64(_)),
        ColumnType::Interval => matches!(source, DataType::Interval(_) | DataType::Duration(_)),
        ColumnType::Text | ColumnType::Varchar(_) => true,
        ColumnType::Uuid | ColumnType::Json | ColumnType::Jsonb | ColumnType::Enum(_) | ColumnType::Array { .. } => {
            false
        }
    }
}

/// Casts, and finds the first value that did not survive.
fn convert(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let cast =
        |array: &ArrayRef, to: &DataType| cast_with_options(array, to, &TRY).map_err(|error| whole(error.to_string()));
    let converted = cast(array, &ty.arrow())?;
    if let Some(row) = first(array.len(), |row| array.is_valid(row) && converted.is_null(row)) {
        return Err(misfit(array, row, ty, "is out of range for"));
    }
    if matches!(ty, ColumnType::Float32 | ColumnType::Float64) {
        return finite(array, converted, ty);
    }
    // A value that comes back changed has lost something on the way.
    let back = cast(&converted, array.data_type())?;
    let same = cmp::not_distinct(&back, array).map_err(|error| whole(error.to_string()))?;
    match first(array.len(), |row| !same.value(row)) {
        Some(row) => Err(misfit(array, row, ty, "does not fit without loss into")),
        None => Ok(converted),
    }
}

/// Refuses a finite number that became infinite.
fn finite(array: &ArrayRef, converted: ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let infinite = |array: &ArrayRef, row: usize| match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).is_infinite(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).is_infinite(),
        _ => false,
    };
    let lost = |row: usize| array.is_valid(row) && infinite(&converted, row) && !infinite(array, row);
    match first(array.len(), lost) {
        Some(row) => Err(misfit(array, row, ty, "is out of range for")),
        None => Ok(converted),
    }
}

fn first(rows: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    (0..rows).find(|row| holds(*row))
}

fn misfit(array: &ArrayRef, row: usize, ty: ColumnType, how: &str) -> Misfit {
    let value = TextWriter::new(array.as_ref())
        .ok()
        .and_then(|writer| writer.value(row));
    Misfit {
        row,
        message: format!("{} {how} {ty}", value.unwrap_or_else(|| "the value".into())),
    }
}

fn from_text(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let views = match array.data_type() {
        DataType::Utf8View => Arc::clone(array),
        _ => cast_with_options(array, &DataType::Utf8View, &TRY).map_err(|error| whole(error.to_string()))?,
    };
    let texts = views.as_string_view();
    if matches!(ty, ColumnType::Text | ColumnType::Varchar(_)) {
        for (row, text) in texts.iter().enumerate() {
            check_length(text.unwrap_or_default(), ty).map_err(|message| Misfit { row, message })?;
        }
        return Ok(views);
    }
    read_all(texts.iter(), ty)
}

fn read_all<T: AsRef<str>>(texts: impl Iterator<Item = Option<T>>, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let mut column = TextColumn::new(ty);
    for (row, text) in texts.enumerate() {
        match text {
            Some(text) => column.push(text.as_ref()).map_err(|message| Misfit { row, message })?,
            None => column.push_null(),
        }
    }
    Ok(column.finish())
}

fn to_text(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    let writer = TextWriter::new(array.as_ref()).map_err(|error| whole(error.to_string()))?;
    read_all((0..array.len()).map(|row| writer.value(row)), ty)
}

/// By way of the shortest text that means the same float: 0.1 is stored as 0.1, not as its 55 binary digits.
fn float_to_decimal(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, Misfit> {
    to_text(array, ty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringArray, TimestampNanosecondArray, UInt64Array};

    fn refused(array: &ArrayRef, ty: ColumnType) -> (usize, String) {
        match assign(array, ty) {
            Ok(stored) => panic!("{stored:?} was stored as {ty}"),
            Err(misfit) => (misfit.row, misfit.message),
        }
    }

    #[test]
    fn nothing_wraps_rounds_or_becomes_null() {
        let decimal = ColumnType::Decimal { precision: 4, scale: 2 };
        let ints = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let floats = |values: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        for (array, ty, row, message) in [
            (
                ints(&[1, 40_000]),
                ColumnType::Int16,
                1,
                "40000 is out of range for SMALLINT",
            ),
            (ints(&[100]), decimal, 0, "100 is out of range for NUMERIC(4,2)"),
            (
                floats(&[2.0, 2.5]),
                ColumnType::Int32,
                1,
                "2.5 does not fit without loss into INTEGER",
            ),
            (
                floats(&[1e10]),
                ColumnType::Int32,
                0,
                "10000000000 is out of range for INTEGER",
            ),
            (
                floats(&[0.125]),
                decimal,
                0,
                "0.125 does not fit NUMERIC(4,2) without loss",
            ),
            (
                floats(&[1e300]),
                ColumnType::Float32,
                0,
                "1e+300 is out of range for REAL",
            ),
            (
                Arc::new(UInt64Array::from(vec![u64::MAX])),
                ColumnType::Int64,
                0,
                "18446744073709551615 is out of range for BIGINT",
            ),
            (
                Arc::new(StringArray::from(vec!["x"])),
                ColumnType::Int64,
                0,
                "`x` is not a value of type BIGINT",
            ),
            (
                Arc::new(TimestampNanosecondArray::from(vec![1_500])),
                ColumnType::Timestamp,
                0,
                "1970-01-01 00:00:00.0000015 does not fit without loss into TIMESTAMP",
            ),
        ] {
            assert_eq!(refused(&array, ty), (row, message.to_owned()));
        }
    }

    #[test]
    fn what_fits_is_stored_exactly() {
        let decimal = ColumnType::Decimal { precision: 4, scale: 2 };
        let stored = assign(
            &(Arc::new(Float64Array::from(vec![Some(19.99), None])) as ArrayRef),
            decimal,
        );
        let Ok(stored) = stored else { panic!("19.99 fits") };
        assert_eq!(
            TextWriter::new(stored.as_ref()).expect("writes").value(0).as_deref(),
            Some("19.99")
        );
        assert!(stored.is_null(1));
    }

    #[test]
    fn kinds_are_not_mixed() {
        let (_, message) = refused(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef), ColumnType::Bool);
        assert!(message.contains("cannot be stored as BOOLEAN"), "{message}");
    }
}
