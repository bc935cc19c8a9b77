//! Aggregates of a group's values in order: `percentile_disc(p)` and `mode()`, each `WITHIN GROUP (ORDER BY x)`.
//!
//! They answer one of the values that are there, so they take values of every type that can be ordered.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Float64Array, new_empty_array};
use arrow::compute::{SortOptions, cast, concat, sort};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility};

use crate::error::EngineError;

/// Both aggregates.
pub(crate) fn functions() -> [Arc<AggregateUDF>; 2] {
    let signature = |arity| Signature::new(TypeSignature::Any(arity), Volatility::Immutable);
    [(Chosen::Percentile, 2), (Chosen::Mode, 1)].map(|(chosen, arity)| {
        Arc::new(AggregateUDF::from(OrderedSet {
            chosen,
            signature: signature(arity),
        }))
    })
}

/// Which of the values is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Chosen {
    /// The first value that is not before the given share of all values.
    Percentile,
    /// The value that is there most often; of several the first.
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    chosen: Chosen,
    signature: Signature,
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &'static str {
        match self.chosen {
            Chosen::Percentile => "percentile_disc",
            Chosen::Mode => "mode",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let order = args.order_bys.first().map(|key| key.options).unwrap_or_default();
        Ok(Box::new(Values {
            chosen: self.chosen,
            data_type: args.return_field.data_type().clone(),
            descending: order.descending != args.is_reversed,
            kept: Vec::new(),
            share: None,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.return_field.data_type().clone(), true);
        Ok(vec![
            Arc::new(Field::new("values", DataType::List(Arc::new(item)), true)),
            Arc::new(Field::new("share", DataType::Float64, true)),
        ])
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Values {
    chosen: Chosen,
    data_type: DataType,
    descending: bool,
    kept: Vec<ArrayRef>,
    share: Option<f64>,
}

impl Values {
    fn keep(&mut self, values: &ArrayRef) -> Result<()> {
        let valid = arrow::compute::is_not_null(values)?;
        self.kept.push(arrow::compute::filter(values, &valid)?);
        Ok(())
    }

    /// The share is the same for all rows: the first that is known counts.
    fn set_share(&mut self, shares: &Float64Array) -> Result<()> {
        let Some(share) = shares.iter().flatten().next() else {
            return Ok(());
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(EngineError::bad_value(format!("percentile {share} is not between 0 and 1")).into());
        }
        self.share = Some(share);
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn arrow::array::Array> = self.kept.iter().map(AsRef::as_ref).collect();
        match parts.as_slice() {
            [] => Ok(new_empty_array(&self.data_type)),
            parts => Ok(concat(parts)?),
        }
    }

    fn sorted(&self) -> Result<ArrayRef> {
        let order = SortOptions {
            descending: self.descending,
            nulls_first: false,
        };
        Ok(sort(&self.all()?, Some(order))?)
    }

    fn percentile(&self) -> Result<ScalarValue> {
        let sorted = self.sorted()?;
        let Some(share) = self.share.filter(|_| !sorted.is_empty()) else {
            return ScalarValue::try_from(&self.data_type);
        };
        // The share of a group's rows is a position in it: at most its length, so nothing is cut off.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let position = (share * sorted.len() as f64).ceil() as usize;
        ScalarValue::try_from_array(&sorted, position.clamp(1, sorted.len()) - 1)
    }

    fn mode(&self) -> Result<ScalarValue> {
        let sorted = self.sorted()?;
        let converter = RowConverter::new(vec![SortField::new(self.data_type.clone())])?;
        let rows = converter.convert_columns(&[Arc::clone(&sorted)])?;
        let (mut best, mut best_count) = (None, 0);
        let mut start = 0;
        for row in 1..=sorted.len() {
            if row == sorted.len() || rows.row(row) != rows.row(start) {
                if row - start > best_count {
                    (best, best_count) = (Some(start), row - start);
                }
                start = row;
            }
        }
        match best {
            Some(row) => ScalarValue::try_from_array(&sorted, row),
            None => ScalarValue::try_from(&self.data_type),
        }
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.keep(&values[0])?;
        // Behind the arguments come the values that the input is ordered by.
        match values.get(1).filter(|_| self.chosen == Chosen::Percentile) {
            Some(shares) => self.set_share(cast(shares, &DataType::Float64)?.as_primitive::<Float64Type>()),
            None => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.keep(&list)?;
        }
        self.set_share(states[1].as_primitive::<Float64Type>())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = arrow::array::ListArray::new(
            Arc::new(Field::new_list_field(self.data_type.clone(), true)),
            arrow::buffer::OffsetBuffer::from_lengths([self.all()?.len()]),
            self.all()?,
            None,
        );
        Ok(vec![
            ScalarValue::List(Arc::new(values)),
            ScalarValue::Float64(self.share),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.chosen {
            Chosen::Percentile => self.percentile(),
            Chosen::Mode => self.mode(),
        }
    }

    fn size(&self) -> usize {
        let values = self.kept.iter().map(arrow::array::Array::get_array_memory_size);
        size_of_val(self) + values.sum::<usize>()
    }
}
