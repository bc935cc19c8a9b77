//! Enumerated types in queries: kept as the texts of their labels, ordered as the labels were declared.
//!
//! The labels stand in the metadata of a column's field, so that they are at hand wherever the column goes. Where values
//! are ordered, their ranks are; where they are only equal, their texts are.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int32Builder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use candor_storage::{Catalog, ColumnType};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::error::EngineError;

/// Where the labels stand in a field's metadata, one after another.
const LABELS: &str = "candor.labels";

/// Between two labels: no text of SQL holds it.
const BETWEEN: char = '\0';

/// The labels of one type, in their order.
pub(crate) type Labels = Arc<[String]>;

/// The field of a column, with the labels of its type.
pub(crate) fn labelled(field: Field, catalog: &Catalog) -> Field {
    let id = match ColumnType::from_field(&field) {
        Some(ColumnType::Enum(id)) => id,
        Some(ColumnType::Array { element, .. }) => match element.into() {
            ColumnType::Enum(id) => id,
            _ => return field,
        },
        _ => return field,
    };
    let Some(def) = catalog.type_by_id(id) else {
        return field;
    };
    with_labels(field, &def.labels)
}

pub(super) fn with_labels(field: Field, labels: &[String]) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(LABELS.to_owned(), labels.join(&BETWEEN.to_string()));
    field.with_metadata(metadata)
}

/// A schema whose fields have the labels of their types.
pub(crate) fn labelled_schema(schema: SchemaRef, catalog: &Catalog) -> SchemaRef {
    if catalog.types().next().is_none() {
        return schema;
    }
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| labelled(field.as_ref().clone(), catalog))
        .collect();
    Arc::new(Schema::new(fields))
}

/// The labels of a field's type, if it is an enumerated one.
pub(crate) fn labels_of(field: &Field) -> Option<Labels> {
    match ColumnType::from_field(field) {
        Some(ColumnType::Enum(_)) => labels_in(field),
        _ => None,
    }
}

/// The labels that a field has, be it an enumerated type's or an array's of one.
pub(crate) fn labels_in(field: &Field) -> Option<Labels> {
    let text = field.metadata().get(LABELS)?;
    Some(text.split(BETWEEN).map(str::to_owned).collect())
}

pub(super) fn labels_of_expr(expr: &Expr, schema: &DFSchema) -> Option<Labels> {
    labels_of(&expr.to_field(schema).ok()?.1)
}

/// Refuses texts that are no labels.
pub(crate) fn check(array: &ArrayRef, labels: &[String]) -> Result<(), (usize, String)> {
    let texts = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            return check(list.values(), labels).map_err(|(_, message)| (0, message));
        }
        _ => array.as_string_view(),
    };
    for (row, text) in texts.iter().enumerate() {
        if let Some(text) = text.filter(|text| !labels.iter().any(|label| label == text)) {
            return Err((row, format!("`{text}` is not one of the labels {}", labels.join(", "))));
        }
    }
    Ok(())
}

/// The rank of a value, to order by.
pub(super) fn rank(expr: Expr, labels: Labels) -> Expr {
    let rank = Rank {
        labels,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(rank)), vec![expr]))
}

/// The place where values are ordered, with ranks in the place of labels.
pub(crate) fn ranked_sort(sort: Sort, schema: &DFSchema) -> Sort {
    match labels_of_expr(&sort.expr, schema) {
        Some(labels) => Sort {
            expr: rank(sort.expr, labels),
            ..sort
        },
        None => sort,
    }
}

/// `min` and `max` of an enumerated type, in the place of those of texts.
pub(crate) fn ranked_extreme(function: AggregateFunction, schema: &DFSchema) -> AggregateFunction {
    let is_max = match function.func.name() {
        "min" => false,
        "max" => true,
        _ => return function,
    };
    let labels = match function.params.args.as_slice() {
        [value] => labels_of_expr(value, schema),
        _ => None,
    };
    match labels {
        Some(labels) => AggregateFunction {
            func: Arc::new(AggregateUDF::from(Extreme {
                labels,
                is_max,
                signature: Signature::any(1, Volatility::Immutable),
            })),
            ..function
        },
        None => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rank {
    labels: Labels,
    signature: Signature,
}

impl ScalarUDFImpl for Rank {
    fn name(&self) -> &'static str {
        "enum_rank"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return plan_err!("a rank is that of one value");
        };
        match value {
            ColumnarValue::Scalar(value) => {
                let ranks = self.ranks(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&ranks, 0)?))
            }
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.ranks(array)?)),
        }
    }
}

impl Rank {
    fn ranks(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(array, &DataType::Utf8View)?;
        let mut ranks = Int32Builder::with_capacity(texts.len());
        for text in texts.as_string_view() {
            match text {
                None => ranks.append_null(),
                Some(text) => ranks.append_value(rank_of(text, &self.labels)?),
            }
        }
        Ok(Arc::new(ranks.finish()))
    }
}

fn rank_of(text: &str, labels: &[String]) -> Result<i32, EngineError> {
    match labels.iter().position(|label| label == text) {
        Some(rank) => Ok(rank as i32),
        None => Err(EngineError::bad_value(format!(
            "`{text}` is not one of the labels {}",
            labels.join(", ")
        ))),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    labels: Labels,
    is_max: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &'static str {
        if self.is_max { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Best {
            labels: Arc::clone(&self.labels),
            is_max: self.is_max,
            rank: None,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(
            format!("{}[best]", args.name),
            DataType::Utf8View,
            true,
        ))])
    }
}

#[derive(Debug)]
struct Best {
    labels: Labels,
    is_max: bool,
    rank: Option<i32>,
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else {
            return Ok(());
        };
        let texts = cast(values, &DataType::Utf8View)?;
        for text in texts.as_string_view().iter().flatten() {
            let rank = rank_of(text, &self.labels)?;
            let is_better = self
                .rank
                .is_none_or(|best| if self.is_max { rank > best } else { rank < best });
            if is_better {
                self.rank = Some(rank);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let label = self.rank.and_then(|rank| self.labels.get(rank as usize));
        Ok(ScalarValue::Utf8View(label.cloned()))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
