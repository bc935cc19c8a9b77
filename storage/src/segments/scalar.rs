//! Single values outside of arrays: bounds of columns as they are written down, and equality of keys.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, Float32Array, Float64Array,
    PrimitiveArray, StringViewArray,
};
use arrow::compute::{
    max, max_binary_view, max_boolean, max_string_view, min, min_binary_view, min_boolean, min_string_view,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use serde::{Deserialize, Serialize};

/// Longer texts and byte strings are no bounds, bytes.
const BOUND_SIZE_MAX: usize = 256;

/// A value of a column, without its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Scalar {
    Bool(bool),
    /// Integers, decimals (unscaled), dates, times and timestamps.
    Int(i128),
    Float(f64),
    /// Text and byte strings.
    Bytes(Vec<u8>),
}

impl Scalar {
    /// The order within one column. NaN is never a bound.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }

    /// An array of type `ty` that holds this value alone; `None` if a value of that type is not written this way.
    pub(crate) fn to_array(&self, ty: &DataType) -> Option<ArrayRef> {
        fn ints<T: ArrowPrimitiveType>(value: i128, ty: &DataType) -> Option<ArrayRef>
        where
            T::Native: TryFrom<i128>,
        {
            let array = PrimitiveArray::<T>::from_value(value.try_into().ok()?, 1);
            Some(Arc::new(array.with_data_type(ty.clone())))
        }
        Some(match (self, ty) {
            (Self::Bool(value), DataType::Boolean) => Arc::new(BooleanArray::from(vec![*value])),
            (Self::Int(value), DataType::Int16) => ints::<Int16Type>(*value, ty)?,
            (Self::Int(value), DataType::Int32) => ints::<Int32Type>(*value, ty)?,
            (Self::Int(value), DataType::Int64) => ints::<Int64Type>(*value, ty)?,
            (Self::Int(value), DataType::Date32) => ints::<Date32Type>(*value, ty)?,
            (Self::Int(value), DataType::Time64(TimeUnit::Microsecond)) => ints::<Time64MicrosecondType>(*value, ty)?,
            (Self::Int(value), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                ints::<TimestampMicrosecondType>(*value, ty)?
            }
            (Self::Int(value), DataType::Decimal128(..)) => {
                Arc::new(Decimal128Array::from(vec![*value]).with_data_type(ty.clone()))
            }
            (Self::Float(value), DataType::Float32) => Arc::new(Float32Array::from(vec![*value as f32])),
            (Self::Float(value), DataType::Float64) => Arc::new(Float64Array::from(vec![*value])),
            (Self::Bytes(value), DataType::Utf8View) => {
                Arc::new(StringViewArray::from(vec![str::from_utf8(value).ok()?]))
            }
            (Self::Bytes(value), DataType::BinaryView) => Arc::new(BinaryViewArray::from(vec![value.as_slice()])),
            _ => return None,
        })
    }
}

/// The smallest and the largest value of an array. `None` if there is no value, if a NaN is among them (SQL has it
/// above all numbers, Arrow at either end), if a bound is a long text, or if values of the type have no bounds.
pub(crate) fn bounds(array: &ArrayRef) -> Option<(Scalar, Scalar)> {
    fn ints<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<(Scalar, Scalar)>
    where
        T::Native: Into<i128>,
    {
        let array = array.as_primitive::<T>();
        Some((Scalar::Int(min(array)?.into()), Scalar::Int(max(array)?.into())))
    }
    match array.data_type() {
        DataType::Boolean => {
            let array = array.as_boolean();
            Some((Scalar::Bool(min_boolean(array)?), Scalar::Bool(max_boolean(array)?)))
        }
        DataType::Int16 => ints::<Int16Type>(array),
        DataType::Int32 => ints::<Int32Type>(array),
        DataType::Int64 => ints::<Int64Type>(array),
        DataType::Date32 => ints::<Date32Type>(array),
        DataType::Time64(TimeUnit::Microsecond) => ints::<Time64MicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ints::<TimestampMicrosecondType>(array),
        DataType::Decimal128(..) => ints::<Decimal128Type>(array),
        DataType::Float32 => float_bounds(array.as_primitive::<Float32Type>().iter().flatten().map(f64::from)),
        DataType::Float64 => float_bounds(array.as_primitive::<Float64Type>().iter().flatten()),
        DataType::Utf8View => {
            let array = array.as_string_view();
            bytes_bounds(min_string_view(array)?.as_bytes(), max_string_view(array)?.as_bytes())
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            bytes_bounds(min_binary_view(array)?, max_binary_view(array)?)
        }
        _ => None,
    }
}

/// Zeros are widened to the outer one of the two: they are one value in SQL, and two in Arrow.
fn float_bounds(values: impl Iterator<Item = f64>) -> Option<(Scalar, Scalar)> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut count = 0_u64;
    for value in values {
        if value.is_nan() {
            return None;
        }
        count += 1;
        least = least.min(value);
        most = most.max(value);
    }
    let least = if least == 0.0 { -0.0 } else { least };
    let most = if most == 0.0 { 0.0 } else { most };
    (count > 0).then_some((Scalar::Float(least), Scalar::Float(most)))
}

fn bytes_bounds(least: &[u8], most: &[u8]) -> Option<(Scalar, Scalar)> {
    let fits = least.len() <= BOUND_SIZE_MAX && most.len() <= BOUND_SIZE_MAX;
    fits.then(|| (Scalar::Bytes(least.to_vec()), Scalar::Bytes(most.to_vec())))
}

/// Whether two values of key columns are equal in SQL. NULL equals nothing; all NaNs are equal, and so are both zeros.
/// Types that cannot be compared are not equal.
pub(crate) fn equal(left: &dyn Array, left_row: usize, right: &dyn Array, right_row: usize) -> bool {
    macro_rules! same {
        ($ty:ty) => {
            left.as_primitive::<$ty>().value(left_row) == right.as_primitive::<$ty>().value(right_row)
        };
    }
    macro_rules! same_float {
        ($ty:ty) => {{
            let left = left.as_primitive::<$ty>().value(left_row);
            let right = right.as_primitive::<$ty>().value(right_row);
            left.partial_cmp(&right) == Some(Ordering::Equal) || left.is_nan() && right.is_nan()
        }};
    }
    if left.data_type() != right.data_type() || left.is_null(left_row) || right.is_null(right_row) {
        return false;
    }
    match left.data_type() {
        DataType::Boolean => left.as_boolean().value(left_row) == right.as_boolean().value(right_row),
        DataType::Int16 => same!(Int16Type),
        DataType::Int32 => same!(Int32Type),
        DataType::Int64 => same!(Int64Type),
        DataType::UInt64 => same!(UInt64Type),
        DataType::Date32 => same!(Date32Type),
        DataType::Time64(TimeUnit::Microsecond) => same!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => same!(TimestampMicrosecondType),
        DataType::Interval(_) => same!(IntervalMonthDayNanoType),
        DataType::Decimal128(..) => same!(Decimal128Type),
        DataType::Float32 => same_float!(Float32Type),
        DataType::Float64 => same_float!(Float64Type),
        DataType::Utf8View => left.as_string_view().value(left_row) == right.as_string_view().value(right_row),
        DataType::BinaryView => left.as_binary_view().value(left_row) == right.as_binary_view().value(right_row),
        // Seldom the type of a key; slices compare their values.
        DataType::List(_) => left.slice(left_row, 1).to_data() == right.slice(right_row, 1).to_data(),
        _ => false,
    }
}
