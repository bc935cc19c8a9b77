//! `sum` that fails when the total leaves its type; DataFusion's own goes round.
//!
//! Totals are kept in 128 bits. Those of integers never leave that, so their order does not matter: only what is handed on must
//! fit BIGINT. (Where partitions hand on partial totals, each of those must fit too.) A total of NUMERICs that has left it is lost
//! for good. Every other type is DataFusion's `sum`.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray as _, BooleanArray, PrimitiveArray, PrimitiveBuilder};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
};

use crate::error::EngineError;

/// `sum` with checked integers and NUMERICs.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CheckedSum {
    inner: Sum,
}

/// A type whose totals are checked.
trait Summed: ArrowPrimitiveType<Native: Into<i128> + Hash + Eq> + Debug + Send + Sync {
    /// The total as a value of the type, if it is one.
    fn fit(total: i128) -> Option<Self::Native>;
}

impl Summed for Int64Type {
    fn fit(total: i128) -> Option<i64> {
        i64::try_from(total).ok()
    }
}

impl Summed for Decimal128Type {
    fn fit(total: i128) -> Option<i128> {
        (total.unsigned_abs() < 10_u128.pow(38)).then_some(total)
    }
}

fn fits<T: Summed>(total: i128) -> Result<T::Native> {
    T::fit(total).ok_or_else(|| {
        let name = if T::DATA_TYPE == DataType::Int64 {
            "BIGINT"
        } else {
            "NUMERIC"
        };
        EngineError::Overflow {
            message: format!("the sum is out of range for {name}"),
        }
        .into()
    })
}

/// Stands for a total that has left 128 bits.
const LOST: i128 = i128::MAX;

fn add(total: &mut i128, value: i128) {
    let (sum, overflows) = total.overflowing_add(value);
    *total = if overflows || *total == LOST { LOST } else { sum };
}

fn add_all<T: Summed>(total: &mut i128, values: &PrimitiveArray<T>, sign: i128) {
    match values.null_count() {
        0 => values
            .values()
            .iter()
            .for_each(|value| add(total, sign * (*value).into())),
        _ => values
            .iter()
            .flatten()
            .for_each(|value| add(total, sign * value.into())),
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
        let data_type = args.return_field.data_type().clone();
        match (&data_type, args.is_distinct) {
            (DataType::Int64, false) => Ok(Box::new(Total::<Int64Type>::new(data_type))),
            (DataType::Int64, true) => Ok(Box::new(DistinctTotal::<Int64Type>::new(data_type))),
            (DataType::Decimal128(..), false) => Ok(Box::new(Total::<Decimal128Type>::new(data_type))),
            (DataType::Decimal128(..), true) => Ok(Box::new(DistinctTotal::<Decimal128Type>::new(data_type))),
            _ => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return self.inner.create_sliding_accumulator(args);
        }
        let data_type = args.return_field.data_type().clone();
        match data_type {
            DataType::Int64 => Ok(Box::new(Total::<Int64Type>::new(data_type))),
            DataType::Decimal128(..) => Ok(Box::new(Total::<Decimal128Type>::new(data_type))),
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type().clone();
        match data_type {
            DataType::Int64 => Ok(Box::new(GroupTotals::<Int64Type>::new(data_type))),
            DataType::Decimal128(..) => Ok(Box::new(GroupTotals::<Decimal128Type>::new(data_type))),
            _ => self.inner.create_groups_accumulator(args),
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
#[derive(Debug)]
struct Total<T> {
    sum: i128,
    count: u64,
    data_type: DataType,
    kind: PhantomData<T>,
}

impl<T> Total<T> {
    fn new(data_type: DataType) -> Self {
        Self {
            sum: 0,
            count: 0,
            data_type,
            kind: PhantomData,
        }
    }
}

impl<T: Summed> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        add_all(&mut self.sum, values, 1);
        self.count += (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        add_all(&mut self.sum, values, -1);
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
        let total = match self.count {
            0 => None,
            _ => Some(fits::<T>(self.sum)?),
        };
        ScalarValue::new_primitive::<T>(total, &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The total of the distinct values.
#[derive(Debug)]
struct DistinctTotal<T: ArrowPrimitiveType> {
    values: HashSet<T::Native>,
    data_type: DataType,
}

impl<T: ArrowPrimitiveType> DistinctTotal<T> {
    fn new(data_type: DataType) -> Self {
        Self {
            values: HashSet::new(),
            data_type,
        }
    }
}

impl<T: Summed> Accumulator for DistinctTotal<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(values[0].as_primitive::<T>().iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let scalar = |value: &T::Native| ScalarValue::new_primitive::<T>(Some(*value), &self.data_type);
        let values: Vec<ScalarValue> = self.values.iter().map(scalar).collect::<Result<_>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(
            &values,
            &self.data_type,
        ))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = 0;
        for value in &self.values {
            add(&mut sum, (*value).into());
        }
        let total = if self.values.is_empty() {
            None
        } else {
            Some(fits::<T>(sum)?)
        };
        ScalarValue::new_primitive::<T>(total, &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<T::Native>()
    }
}

/// One total per group.
#[derive(Debug)]
struct GroupTotals<T> {
    sums: Vec<i128>,
    seen: Vec<bool>,
    data_type: DataType,
    kind: PhantomData<T>,
}

impl<T> GroupTotals<T> {
    fn new(data_type: DataType) -> Self {
        Self {
            sums: Vec::new(),
            seen: Vec::new(),
            data_type,
            kind: PhantomData,
        }
    }
}

impl<T: Summed> GroupsAccumulator for GroupTotals<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_num_groups, 0);
        self.seen.resize(total_num_groups, false);
        let values = values[0].as_primitive::<T>();
        if opt_filter.is_none() && values.null_count() == 0 {
            for (value, group) in values.values().iter().zip(group_indices) {
                add(&mut self.sums[*group], (*value).into());
                self.seen[*group] = true;
            }
            return Ok(());
        }
        let counts = |row: usize| opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, group) in group_indices.iter().enumerate() {
            if values.is_valid(row) && counts(row) {
                add(&mut self.sums[*group], values.value(row).into());
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
        let mut totals = PrimitiveBuilder::<T>::with_capacity(sums.len()).with_data_type(self.data_type.clone());
        for (sum, seen) in sums.into_iter().zip(seen) {
            totals.append_option(if seen { Some(fits::<T>(sum)?) } else { None });
        }
        Ok(Arc::new(totals.finish()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0]
            .as_primitive::<T>()
            .clone()
            .with_data_type(self.data_type.clone());
        let Some(filter) = opt_filter else {
            return Ok(vec![Arc::new(values)]);
        };
        let kept: PrimitiveArray<T> = values
            .iter()
            .zip(filter.iter())
            .map(|(value, counts)| value.filter(|_| counts == Some(true)))
            .collect();
        Ok(vec![Arc::new(kept.with_data_type(self.data_type.clone()))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}
