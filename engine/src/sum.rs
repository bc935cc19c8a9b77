//! `sum` over integers that fails when the total leaves BIGINT; DataFusion's own goes round.
//!
//! Totals are kept in 128 bits, so their order does not matter: only what is handed on must fit 64. (Where partitions
//! hand on partial totals, each of those must fit too.) Every other type is DataFusion's `sum`.

use std::collections::HashSet;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, BooleanArray, Int64Array, Int64Builder};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
};

use crate::error::EngineError;

/// `sum` with checked integers.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CheckedSum {
    inner: Sum,
}

fn is_integer(args: &AccumulatorArgs<'_>) -> bool {
    *args.return_field.data_type() == DataType::Int64
}

fn fits(total: i128) -> Result<i64> {
    i64::try_from(total).map_err(|_| {
        EngineError::Overflow {
            message: format!("sum {total} is out of range for BIGINT"),
        }
        .into()
    })
}

fn total(values: &Int64Array) -> i128 {
    match values.null_count() {
        0 => values.values().iter().map(|value| i128::from(*value)).sum(),
        _ => values.iter().flatten().map(i128::from).sum(),
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (is_integer(&args), args.is_distinct) {
            (true, false) => Ok(Box::new(Total::default())),
            (true, true) => Ok(Box::new(DistinctTotal::default())),
            (false, _) => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if is_integer(&args) && !args.is_distinct {
            Ok(Box::new(Total::default()))
        } else {
            self.inner.create_sliding_accumulator(args)
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if is_integer(&args) {
            Ok(Box::new(GroupTotals::default()))
        } else {
            self.inner.create_groups_accumulator(args)
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(data_type)
    }
}

/// One total, from which rows may leave again (window frames).
#[derive(Debug, Default)]
struct Total {
    sum: i128,
    count: u64,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Int64Type>();
        self.sum += total(values);
        self.count += (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Int64Type>();
        self.sum -= total(values);
        self.count -= (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(match self.count {
            0 => None,
            _ => Some(fits(self.sum)?),
        }))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The total of the distinct values.
#[derive(Debug, Default)]
struct DistinctTotal {
    values: HashSet<i64>,
}

impl Accumulator for DistinctTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values
            .extend(values[0].as_primitive::<Int64Type>().iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self
            .values
            .iter()
            .map(|value| ScalarValue::Int64(Some(*value)))
            .collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(
            &values,
            &DataType::Int64,
        ))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(if self.values.is_empty() {
            None
        } else {
            Some(fits(self.values.iter().map(|value| i128::from(*value)).sum())?)
        }))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i64>()
    }
}

/// One total per group.
#[derive(Debug, Default)]
struct GroupTotals {
    sums: Vec<i128>,
    seen: Vec<bool>,
}

impl GroupsAccumulator for GroupTotals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_num_groups, 0);
        self.seen.resize(total_num_groups, false);
        let values = values[0].as_primitive::<Int64Type>();
        let counts = |row: usize| opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, group) in group_indices.iter().enumerate() {
            if values.is_valid(row) && counts(row) {
                self.sums[*group] += i128::from(values.value(row));
                self.seen[*group] = true;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.update_batch(values, group_indices, None, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = emit_to.take_needed(&mut self.seen);
        let mut totals = Int64Builder::with_capacity(sums.len());
        for (sum, seen) in sums.into_iter().zip(seen) {
            totals.append_option(if seen { Some(fits(sum)?) } else { None });
        }
        Ok(Arc::new(totals.finish()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Int64Type>();
        let Some(filter) = opt_filter else {
            return Ok(vec![Arc::new(values.clone())]);
        };
        let kept: Int64Array = values
            .iter()
            .zip(filter.iter())
            .map(|(value, counts)| value.filter(|_| counts == Some(true)))
            .collect();
        Ok(vec![Arc::new(kept)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}
