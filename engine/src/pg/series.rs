//! `generate_series`: the values from a start to a stop, as a list that becomes rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, NullBufferBuilder, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, TimeUnit};
use candor_storage::ColumnType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::time;
use crate::error::EngineError;

/// The most values of one series that is no table: they stand in memory together.
const VALUES_MAX: usize = 50_000_000;

/// `generate_series(start, stop [, step])` of integers, NUMERICs and moments.
pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Series(Signature::user_defined(Volatility::Immutable))))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Series(Signature);

impl ScalarUDFImpl for Series {
    fn name(&self) -> &'static str {
        "generate_series"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (Some(start), Some(stop)) = (given.first(), given.get(1)) else {
            return plan_err!("generate_series takes a start, a stop and perhaps a step");
        };
        let item = match item_type(&[start, stop], given.get(2)) {
            Some(item) if given.len() <= 3 => item,
            _ => {
                return plan_err!("generate_series takes integers, NUMERICs, or two moments and an interval");
            }
        };
        let step = match item {
            DataType::Timestamp(..) => ColumnType::Interval.arrow(),
            _ => item.clone(),
        };
        Ok([item.clone(), item, step].into_iter().take(given.len()).collect())
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let Some(item) = args.first() else {
            return plan_err!("generate_series takes a start and a stop");
        };
        Ok(DataType::new_list(item.clone(), true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args
            .args
            .iter()
            .map(|arg| arg.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let [start, stop, ..] = columns.as_slice() else {
            return Err(EngineError::internal("generate_series without a stop").into());
        };
        let item = start.data_type().clone();
        let mut lengths = Vec::with_capacity(rows);
        let mut valid = NullBufferBuilder::new(rows);
        let mut parts: Vec<ArrayRef> = Vec::with_capacity(rows);
        let mut total = 0_usize;
        for row in 0..rows {
            let is_null = columns.iter().any(|column| column.is_null(row));
            valid.append(!is_null);
            if is_null {
                lengths.push(0);
                continue;
            }
            let at = |column: &ArrayRef| ScalarValue::try_from_array(column, row);
            let step = columns.get(2).map(at).transpose()?;
            let values = series(&at(start)?, &at(stop)?, step.as_ref(), VALUES_MAX - total)?;
            lengths.push(values.len());
            total += values.len();
            parts.push(array_of(values, &item)?);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let values = if parts.is_empty() {
            new_empty_array(&item)
        } else {
            concat(&parts)?
        };
        let field = Arc::new(Field::new_list_field(item, true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, valid.finish())?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}

/// The type of the values, by the types of both ends and the step.
fn item_type(ends: &[&DataType], step: Option<&DataType>) -> Option<DataType> {
    let is_text = |ty: &DataType| matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let has = |test: fn(&DataType) -> bool| ends.iter().any(|ty| test(ty));
    let moment = |zone: Option<Arc<str>>| Some(DataType::Timestamp(TimeUnit::Microsecond, zone));
    if has(|ty| matches!(ty, DataType::Timestamp(_, Some(_)) | DataType::Date32)) {
        return step.and_then(|_| moment(Some("+00:00".into())));
    }
    if has(|ty| matches!(ty, DataType::Timestamp(_, None))) {
        return step.and_then(|_| moment(None));
    }
    let numbers: Vec<&DataType> = ends.iter().copied().chain(step).filter(|ty| !is_text(ty)).collect();
    let scales = numbers.iter().map(|ty| match ty {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    });
    if let Some(scale) = scales.flatten().max() {
        return Some(DataType::Decimal128(38, scale));
    }
    let is_integer = |ty: &&DataType| ty.is_integer() || **ty == DataType::Null;
    if numbers.is_empty() || !numbers.iter().all(is_integer) {
        return None;
    }
    let is_small = |ty: &&DataType| matches!(ty, DataType::Int16 | DataType::Int32);
    Some(if numbers.iter().all(is_small) {
        DataType::Int32
    } else {
        DataType::Int64
    })
}

/// Integers, unscaled NUMERICs or microseconds since 1970.
fn number(value: &ScalarValue) -> i128 {
    match value {
        ScalarValue::Int32(Some(value)) => i128::from(*value),
        ScalarValue::Int64(Some(value)) | ScalarValue::TimestampMicrosecond(Some(value), _) => i128::from(*value),
        ScalarValue::Decimal128(Some(value), _, _) => *value,
        _ => 0,
    }
}

fn series(
    start: &ScalarValue,
    stop: &ScalarValue,
    step: Option<&ScalarValue>,
    count_max: usize,
) -> Result<Vec<i128>, EngineError> {
    let (first, last) = (number(start), number(stop));
    let mut values = Vec::new();
    let mut push = |value: i128| {
        values.push(value);
        if values.len() > count_max {
            return Err(EngineError::bad_value(format!(
                "a series of more than {VALUES_MAX} values: write it in FROM, with whole numbers as its ends"
            )));
        }
        Ok(())
    };
    let zero = || EngineError::bad_value("the step of a series is zero");
    let mut at = first;
    if let Some(ScalarValue::IntervalMonthDayNano(Some(span))) = step {
        let ahead = time::span_of(*span);
        if ahead == 0 {
            return Err(zero());
        }
        while (ahead > 0 && at <= last) || (ahead < 0 && at >= last) {
            push(at)?;
            let next = i64::try_from(at).ok().and_then(|at| time::moved(at, *span, false));
            match next {
                Some(next) => at = i128::from(next),
                None => break,
            }
        }
        return Ok(values);
    }
    let one = match start {
        ScalarValue::Decimal128(_, _, scale) => 10_i128.pow(u32::try_from(*scale).unwrap_or(0)),
        _ => 1,
    };
    let by = step.map_or(one, number);
    if by == 0 {
        return Err(zero());
    }
    while (by > 0 && at <= last) || (by < 0 && at >= last) {
        push(at)?;
        match at.checked_add(by) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(values)
}

fn array_of(values: Vec<i128>, item: &DataType) -> Result<ArrayRef> {
    if let DataType::Decimal128(precision, scale) = item {
        let values = arrow::array::Decimal128Array::from(values);
        return Ok(Arc::new(values.with_precision_and_scale(*precision, *scale)?));
    }
    // Between two values of 64 bits, every value has 64.
    let values = arrow::array::Int64Array::from_iter_values(values.into_iter().map(|value| value as i64));
    Ok(cast(&values, item)?)
}
