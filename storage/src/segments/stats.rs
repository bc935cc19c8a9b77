//! What is known about the values of a column without reading them.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};

use super::scalar::{Scalar, bounds};
use super::sketch::Sketch;

/// The bounds of a column in some rows.
#[derive(Clone, Debug)]
pub struct ColumnBounds {
    /// The smallest value: an array of one. No row has a smaller one.
    pub min: ArrayRef,
    /// The largest value: an array of one. No row has a larger one.
    pub max: ArrayRef,
    /// Rows that are NULL.
    pub null_count: u64,
}

/// What is known about a column in some rows.
///
/// The bounds are values that some row has, but for the zeros of floating point numbers: 0.0 and -0.0 are one value in
/// SQL, so the smallest is -0.0 and the largest 0.0 whichever is there. There are no bounds if every row is NULL, if a
/// NaN is among the values, if a bound is a text or byte string of more than 256 bytes, or for intervals and lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// Rows that are NULL.
    pub null_count: u64,
    /// Bytes of the values as an Arrow array.
    pub bytes: u64,
    /// Distinct values, about; `None` for types whose values are not counted.
    pub distinct: Option<u64>,
    bounds: Option<(Scalar, Scalar)>,
    /// Rows that have no value in `bounds` though they have one.
    has_bounds: bool,
}

impl ColumnStatistics {
    /// Those of an array, whose values go into `sketch` too.
    pub(crate) fn of(array: &ArrayRef, sketch: &mut Option<Sketch>) -> Self {
        let counted = sketch.as_mut().is_some_and(|sketch| sketch.add(array));
        if !counted {
            *sketch = None;
        }
        let null_count = array.null_count() as u64;
        let bounds = bounds(array);
        Self {
            null_count,
            bytes: array_size(array) as u64,
            distinct: None,
            has_bounds: bounds.is_some() || null_count == array.len() as u64,
            bounds,
        }
    }

    /// Those of no rows.
    pub(crate) fn none() -> Self {
        Self {
            null_count: 0,
            bytes: 0,
            distinct: None,
            bounds: None,
            has_bounds: true,
        }
    }

    /// Those of the rows of both. Distinct values of two parts are not the sum, so they are left out.
    pub fn merge(&mut self, other: &Self) {
        self.null_count += other.null_count;
        self.bytes += other.bytes;
        self.distinct = None;
        self.has_bounds &= other.has_bounds;
        self.bounds = match (self.bounds.take(), &other.bounds) {
            _ if !self.has_bounds => None,
            (None, bounds) => bounds.clone(),
            (bounds, None) => bounds,
            (Some((min, max)), Some((other_min, other_max))) => Some((
                if other_min.order(&min) == Ordering::Less {
                    other_min.clone()
                } else {
                    min
                },
                if other_max.order(&max) == Ordering::Greater {
                    other_max.clone()
                } else {
                    max
                },
            )),
        };
    }

    /// The bounds as values of type `ty`, the column's; `None` if they are not known.
    pub fn bounds(&self, ty: &DataType) -> Option<ColumnBounds> {
        let (min, max) = self.bounds.as_ref()?;
        Some(ColumnBounds {
            min: min.to_array(ty)?,
            max: max.to_array(ty)?,
            null_count: self.null_count,
        })
    }

    /// Whether a value may be within the bounds; true if they are not known.
    pub(crate) fn may_hold(&self, value: &(Scalar, Scalar)) -> bool {
        match &self.bounds {
            Some((min, max)) => value.1.order(min) != Ordering::Less && value.0.order(max) != Ordering::Greater,
            None => true,
        }
    }
}

/// Bytes of the values of an array, without what its buffers hold beside them.
pub(crate) fn array_size(array: &dyn Array) -> usize {
    let nulls = array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    nulls
        + match array.data_type() {
            DataType::Boolean => array.len().div_ceil(8),
            DataType::Utf8View => array.len() * 16 + array.as_string_view().total_bytes_len(),
            DataType::BinaryView => array.len() * 16 + array.as_binary_view().total_bytes_len(),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let (first, last) = (list.offsets()[0] as usize, list.offsets()[list.len()] as usize);
                (list.len() + 1) * 4 + array_size(&list.values().slice(first, last - first))
            }
            DataType::FixedSizeBinary(size) => array.len() * *size as usize,
            ty => array.len() * ty.primitive_width().unwrap_or(0),
        }
}
