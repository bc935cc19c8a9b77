//! The columns of a segment, and the few types that Parquet has no place for.
//!
//! A column is found by its id, never by its name: a renamed column keeps its data, and one that was dropped and added
//! again under the same name does not find the old data. In Parquet its name is the id in decimal.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, GenericListArray, IntervalMonthDayNanoArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use arrow::error::ArrowError;

use crate::constant::Constant;
use crate::error::RecordError;
use crate::schema::{CollectionDef, ColumnDef};

/// One column of the rows that a segment is made of, or is asked for.
#[derive(Clone, Debug)]
pub struct SegmentColumn {
    /// Its id, unique in the collection for ever.
    pub id: u32,
    /// The type of its arrays.
    pub ty: DataType,
    /// Whether it may hold NULL.
    pub nullable: bool,
    /// What rows of segments written before the column was there have in it: an array of one value; `None` = NULL.
    pub missing: Option<ArrayRef>,
}

impl SegmentColumn {
    /// A column that is NULL where it is missing.
    pub fn new(id: u32, ty: DataType, nullable: bool) -> Self {
        Self {
            id,
            ty,
            nullable,
            missing: None,
        }
    }

    /// The columns of a definition, by ordinal.
    ///
    /// # Errors
    /// A `missing` value that does not read.
    pub fn all_of(def: &CollectionDef) -> Result<Vec<Self>, RecordError> {
        let column = |(ordinal, column): (usize, &ColumnDef)| {
            Ok(Self {
                missing: column.missing.as_ref().map(Constant::array).transpose()?,
                ..Self::new(column.id, column.ty.arrow(), !def.requires_value(ordinal))
            })
        };
        def.columns.iter().enumerate().map(column).collect()
    }
}

/// Bytes of an interval in a segment: months, days (32 bits each) and nanoseconds (64 bits).
const INTERVAL_SIZE: i32 = 16;

/// The type that stands in the file for `ty`.
pub(crate) fn stored_type(ty: &DataType) -> DataType {
    match ty {
        DataType::Interval(IntervalUnit::MonthDayNano) => DataType::FixedSizeBinary(INTERVAL_SIZE),
        DataType::List(item) => DataType::List(stored_item(item)),
        _ => ty.clone(),
    }
}

fn stored_item(item: &FieldRef) -> FieldRef {
    let ty = stored_type(item.data_type());
    Arc::new(Field::new(item.name(), ty, item.is_nullable()))
}

/// The array that stands in the file for `array`.
pub(crate) fn to_stored(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            let mut bytes = FixedSizeBinaryBuilder::with_capacity(intervals.len(), INTERVAL_SIZE);
            for interval in intervals {
                match interval {
                    Some(interval) => bytes.append_value(interval_bytes(interval))?,
                    None => bytes.append_null(),
                }
            }
            Arc::new(bytes.finish())
        }
        DataType::List(item) if stored_type(item.data_type()) != *item.data_type() => {
            let list = array.as_list::<i32>();
            let values = to_stored(list.values())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(GenericListArray::try_new(stored_item(item), offsets, values, nulls)?)
        }
        _ => Arc::clone(array),
    })
}

/// The array of type `ty` that `array` stands for in the file. A column whose type was widened since reads as the wider
/// type.
pub(crate) fn from_stored(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == ty {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), ty) {
        (DataType::FixedSizeBinary(INTERVAL_SIZE), DataType::Interval(IntervalUnit::MonthDayNano)) => {
            let bytes: &FixedSizeBinaryArray = array.as_fixed_size_binary();
            let intervals = bytes.iter().map(|bytes| bytes.map(interval));
            Ok(Arc::new(intervals.collect::<IntervalMonthDayNanoArray>()))
        }
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = from_stored(list.values(), item.data_type())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let list = GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?;
            Ok(Arc::new(list))
        }
        _ => cast_with_options(
            array,
            ty,
            &CastOptions {
                safe: false,
                ..CastOptions::default()
            },
        ),
    }
}

fn interval_bytes(interval: IntervalMonthDayNano) -> [u8; INTERVAL_SIZE as usize] {
    let mut bytes = [0; INTERVAL_SIZE as usize];
    bytes[..4].copy_from_slice(&interval.months.to_le_bytes());
    bytes[4..8].copy_from_slice(&interval.days.to_le_bytes());
    bytes[8..].copy_from_slice(&interval.nanoseconds.to_le_bytes());
    bytes
}

fn interval(bytes: &[u8]) -> IntervalMonthDayNano {
    let mut word = [[0; 4]; 2];
    let mut long = [0; 8];
    word[0].copy_from_slice(&bytes[..4]);
    word[1].copy_from_slice(&bytes[4..8]);
    long.copy_from_slice(&bytes[8..]);
    IntervalMonthDayNano::new(
        i32::from_le_bytes(word[0]),
        i32::from_le_bytes(word[1]),
        i64::from_le_bytes(long),
    )
}
