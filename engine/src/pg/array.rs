//! Functions of arrays that DataFusion has under other names, or not.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use candor_storage::{ColumnType, ElementType};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::function::Kind::{Bool, Int, List};
use super::function::{Gives, Spec, int, of_text};
use crate::error::EngineError;

const BOOL: Gives = Gives::Type(ColumnType::Bool);
const INT4: Gives = Gives::Type(ColumnType::Int32);

pub(super) static FUNCTIONS: &[Spec] = &[
    // DataFusion's own count from 0 and are unsigned.
    Spec::new("array_length", &[&[List, Int]], INT4, |args| {
        Ok(lengths(&args[0], int(&args[1])).map_or(ScalarValue::Null, of_count))
    }),
    Spec::new("array_upper", &[&[List, Int]], INT4, |args| {
        Ok(lengths(&args[0], int(&args[1])).map_or(ScalarValue::Null, of_count))
    }),
    Spec::new("array_lower", &[&[List, Int]], INT4, |args| {
        Ok(lengths(&args[0], int(&args[1])).map_or(ScalarValue::Null, |_| of_count(1)))
    }),
    Spec::new("array_holds_null", &[&[List]], BOOL, |args| {
        let ScalarValue::List(list) = &args[0] else {
            return Ok(ScalarValue::Null);
        };
        Ok(ScalarValue::Boolean(Some(list.value(0).null_count() > 0)))
    }),
    Spec::new("array_ndims", &[&[List]], INT4, |args| {
        let dimensions = dimensions(&args[0]);
        Ok(if dimensions.is_empty() {
            ScalarValue::Null
        } else {
            of_count(dimensions.len())
        })
    }),
    Spec::new("cardinality", &[&[List]], INT4, |args| {
        let dimensions = dimensions(&args[0]);
        Ok(of_count(if dimensions.is_empty() {
            0
        } else {
            dimensions.iter().product()
        }))
    }),
    Spec::new("array_dims", &[&[List]], Gives::Type(ColumnType::Text), |args| {
        let dimensions = dimensions(&args[0]);
        if dimensions.is_empty() {
            return Ok(ScalarValue::Null);
        }
        let bounds: Vec<String> = dimensions.iter().map(|count| format!("[1:{count}]")).collect();
        Ok(of_text(bounds.concat()))
    }),
    Spec::new(
        "array_subscripts",
        &[&[List, Int], &[List, Int, Bool]],
        Gives::Type(ColumnType::Array {
            element: ElementType::Int32,
            depth: 1,
        }),
        |args| {
            let length = lengths(&args[0], int(&args[1])).unwrap_or(0);
            let mut places: Vec<ScalarValue> = (1..=length).map(of_count).collect();
            if matches!(args.get(2), Some(ScalarValue::Boolean(Some(true)))) {
                places.reverse();
            }
            Ok(ScalarValue::List(ScalarValue::new_list(
                &places,
                &DataType::Int32,
                true,
            )))
        },
    ),
    Spec::new("array_or_empty", &[&[List]], Gives::First, |args| match &args[0] {
        ScalarValue::List(list) if list.is_null(0) => {
            Ok(ScalarValue::List(ScalarValue::new_list(&[], &list.value_type(), true)))
        }
        value => Ok(value.clone()),
    })
    .seeing_null(),
    Spec::new("trim_array", &[&[List, Int]], Gives::First, |args| {
        let ScalarValue::List(list) = &args[0] else {
            return Ok(ScalarValue::Null);
        };
        let values = list.value(0);
        let count = usize::try_from(int(&args[1]))
            .ok()
            .filter(|count| *count <= values.len());
        let Some(count) = count else {
            return Err(EngineError::bad_value("no more elements can be trimmed than there are"));
        };
        let kept = values.slice(0, values.len() - count);
        let item = values.data_type().clone();
        let kept = (0..kept.len())
            .map(|at| ScalarValue::try_from_array(&kept, at))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| EngineError::internal(error.to_string()))?;
        Ok(ScalarValue::List(ScalarValue::new_list(&kept, &item, true)))
    }),
];

/// Whether each element of the second array is one of the first; NULL is none.
pub(super) static CONTAINS: Spec = Spec::new("array_contains_all", &[&[List, List]], BOOL, |args| {
    let held = elements(&args[0])?;
    let all = elements(&args[1])?
        .iter()
        .all(|value| !value.is_null() && held.contains(value));
    Ok(ScalarValue::Boolean(Some(all)))
});

/// Whether the arrays have an element in common; NULL is none.
pub(super) static OVERLAPS: Spec = Spec::new("array_overlaps", &[&[List, List]], BOOL, |args| {
    let held = elements(&args[0])?;
    let any = elements(&args[1])?
        .iter()
        .any(|value| !value.is_null() && held.contains(value));
    Ok(ScalarValue::Boolean(Some(any)))
});

/// The elements of all dimensions.
fn elements(list: &ScalarValue) -> Result<HashSet<ScalarValue>, EngineError> {
    let mut values = match list {
        ScalarValue::List(list) => list.value(0),
        _ => return Ok(HashSet::new()),
    };
    while matches!(values.data_type(), DataType::List(_)) {
        let inner = values.as_list::<i32>();
        let parts: Vec<_> = inner.iter().flatten().collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(HashSet::new());
        }
        values = concat(&parts)?;
    }
    let scalars = (0..values.len()).map(|at| ScalarValue::try_from_array(&values, at));
    scalars
        .collect::<Result<_, _>>()
        .map_err(|error| EngineError::internal(error.to_string()))
}

const fn of_count(count: usize) -> ScalarValue {
    ScalarValue::Int32(Some(count as i32))
}

/// The length in one dimension, from 1; `None` for a dimension that is not there.
fn lengths(list: &ScalarValue, dimension: i64) -> Option<usize> {
    let at = usize::try_from(dimension).ok()?.checked_sub(1)?;
    dimensions(list).get(at).copied()
}

/// The lengths of all dimensions; an array of nothing has none.
fn dimensions(list: &ScalarValue) -> Vec<usize> {
    let ScalarValue::List(list) = list else {
        return Vec::new();
    };
    let mut lengths = Vec::new();
    let mut values = list.value(0);
    while !values.is_empty() {
        lengths.push(values.len());
        match values.data_type() {
            DataType::List(_) => {
                let inner = values.as_list::<i32>();
                if inner.is_null(0) {
                    break;
                }
                values = inner.value(0);
            }
            _ => break,
        }
    }
    lengths
}

/// `array_flat(array)`: the elements of all dimensions in one.
pub(super) fn flat() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Flat(Signature::any(1, Volatility::Immutable))))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Flat(Signature);

impl ScalarUDFImpl for Flat {
    fn name(&self) -> &'static str {
        "array_flat"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(one_dimension(&types[0]))
    }

    /// Elements stay of the type that the field tells.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        let ty = one_dimension(field.data_type());
        Ok(Arc::new(field.as_ref().clone().with_data_type(ty)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(flattened(array)?)),
            Some(ColumnarValue::Scalar(value)) => {
                let array = flattened(value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            None => plan_err!("array_flat takes an array"),
        }
    }
}

/// The type of the innermost lists.
fn one_dimension(ty: &DataType) -> DataType {
    match ty {
        DataType::List(item) if matches!(item.data_type(), DataType::List(_)) => one_dimension(item.data_type()),
        ty => ty.clone(),
    }
}

fn flattened(mut array: ArrayRef) -> Result<ArrayRef> {
    while let Some(outer) = array.as_list_opt::<i32>()
        && let Some(inner) = outer.values().as_list_opt::<i32>()
    {
        // An inner array that is NULL has no elements.
        let places = inner.value_offsets();
        let offsets: Vec<i32> = outer.value_offsets().iter().map(|at| places[*at as usize]).collect();
        let DataType::List(field) = inner.data_type() else {
            break;
        };
        array = Arc::new(ListArray::try_new(
            Arc::clone(field),
            OffsetBuffer::new(offsets.into()),
            Arc::clone(inner.values()),
            outer.nulls().cloned(),
        )?);
    }
    Ok(array)
}

#[cfg(test)]
mod tests {
    use arrow::array::types::Int32Type;
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn dimensions_become_one() {
        let inner = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(3)]),
            Some(vec![None]),
        ]);
        let field = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        let outer = ListArray::new(field, OffsetBuffer::new(vec![0, 3, 3, 4].into()), Arc::new(inner), None);
        let flat = flattened(Arc::new(outer)).expect("an array");
        let expected = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), Some(2), Some(3)]),
            Some(vec![]),
            Some(vec![None]),
        ]);
        assert_eq!(flat.as_list::<i32>(), &expected);
    }
}
