//! The one value of a subquery that is used as a value.

use std::mem::size_of_val;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, Signature, Volatility};

use crate::error::EngineError;

/// The value of the only row of each group; an error where a group has several rows.
pub(super) fn only_value(value: Expr) -> Expr {
    static ONLY: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        Arc::new(AggregateUDF::from(OnlyValue {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    ONLY.call(vec![value])
}

/// True if the plan gives at most one row, whatever it is asked with.
pub(super) fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::Filter(filter) => gives_one_row(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Sort(sort) => gives_one_row(&sort.input),
        LogicalPlan::Window(window) => gives_one_row(&window.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) => match limit.fetch.as_deref() {
            Some(Expr::Literal(ScalarValue::Int64(Some(rows)), _)) => *rows <= 1,
            _ => gives_one_row(&limit.input),
        },
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl AggregateUDFImpl for OnlyValue {
    fn name(&self) -> &'static str {
        "only_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Only {
            value: ScalarValue::try_from(args.return_field.data_type())?,
            seen: false,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new("value", args.return_field.data_type().clone(), true)),
            Arc::new(Field::new("seen", DataType::Boolean, false)),
        ])
    }
}

#[derive(Debug)]
struct Only {
    value: ScalarValue,
    seen: bool,
}

impl Only {
    fn take(&mut self, values: &ArrayRef, row: usize) -> Result<()> {
        if self.seen {
            return Err(EngineError::Cardinality.into());
        }
        self.value = ScalarValue::try_from_array(values, row)?;
        self.seen = true;
        Ok(())
    }
}

impl Accumulator for Only {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|row| self.take(&values[0], row))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let seen = states[1].as_boolean();
        (0..seen.len())
            .filter(|row| seen.value(*row))
            .try_for_each(|row| self.take(&states[0], row))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.seen)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
