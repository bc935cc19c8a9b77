//! Casts as PostgreSQL has them: texts are read by the rules of literals, values are printed by the rules of answers,
//! and `VARCHAR(n)` cuts off.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, ListArray, StringViewBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use candor_storage::ColumnType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{
    Between, Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::enums::{self, Labels, labels_in};
use crate::arithmetic::round;
use crate::error::EngineError;
use crate::text::{TextColumn, TextWriter};

/// Failed casts are errors.
const STRICT: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: arrow::util::display::FormatOptions::new(),
};

/// Rewrites the casts of one expression over `schema`, and reads literals that are compared with a column of a type that
/// is kept as text.
pub(crate) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::Cast(cast) => rewrite_cast(cast, schema),
        Expr::InList(InList { expr, list, negated }) => match read_as(&expr, schema) {
            Some(ty) => {
                let labels = enums::labels_of_expr(&expr, schema);
                let list = list.into_iter().map(|item| match &labels {
                    Some(labels) => read_label(item, ty, Arc::clone(labels)),
                    None => read(item, ty, schema),
                });
                let list = list.collect();
                Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
            }
            None => Ok(Transformed::no(Expr::InList(InList { expr, list, negated }))),
        },
        Expr::Between(between) => match read_as(&between.expr, schema) {
            Some(ty) => {
                let labels = enums::labels_of_expr(&between.expr, schema);
                let read = |expr: Expr| match &labels {
                    Some(labels) => enums::rank(read_label(expr, ty, Arc::clone(labels)), Arc::clone(labels)),
                    None => read(expr, ty, schema),
                };
                let expr = match &labels {
                    Some(labels) => Box::new(enums::rank(*between.expr, Arc::clone(labels))),
                    None => between.expr,
                };
                Ok(Transformed::yes(Expr::Between(Between {
                    expr,
                    low: Box::new(read(*between.low)),
                    high: Box::new(read(*between.high)),
                    negated: between.negated,
                })))
            }
            None => Ok(Transformed::no(Expr::Between(between))),
        },
        Expr::AggregateFunction(function) => {
            let mut function = enums::ranked_extreme(function, schema);
            let order = std::mem::take(&mut function.params.order_by);
            function.params.order_by = order.into_iter().map(|sort| enums::ranked_sort(sort, schema)).collect();
            Ok(Transformed::yes(Expr::AggregateFunction(function)))
        }
        Expr::WindowFunction(mut function) => {
            let order = std::mem::take(&mut function.params.order_by);
            function.params.order_by = order.into_iter().map(|sort| enums::ranked_sort(sort, schema)).collect();
            Ok(Transformed::yes(Expr::WindowFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The type that values are read as where they are compared with `expr`: only types whose texts differ from their values.
fn read_as(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    if !matches!(
        expr,
        Expr::Column(_) | Expr::ScalarFunction(_) | Expr::Cast(_) | Expr::OuterReferenceColumn(..)
    ) {
        return None;
    }
    let (_, field) = expr.to_field(schema).ok()?;
    ColumnType::from_field(&field).filter(|ty| matches!(ty, ColumnType::Uuid | ColumnType::Jsonb | ColumnType::Enum(_)))
}

/// `expr` as a value of `ty`, unless it is one.
pub(super) fn read(expr: Expr, ty: ColumnType, schema: &DFSchema) -> Expr {
    let is_one = |(_, field): (_, FieldRef)| ColumnType::from_field(&field) == Some(ty);
    if expr.to_field(schema).is_ok_and(is_one) {
        return expr;
    }
    to_type(expr, ty, ty.arrow(), None)
}

/// A literal or text as a value of an enumerated type.
pub(super) fn read_label(expr: Expr, ty: ColumnType, labels: Labels) -> Expr {
    to_type(expr, ty, ty.arrow(), Some(labels))
}

fn rewrite_cast(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Cast { expr, field } = cast;
    let (_, source) = expr.to_field(schema)?;
    let needed = match (ColumnType::from_field(&source), ColumnType::from_field(&field)) {
        (Some(from), Some(to)) => is_ours(from, to),
        _ => false,
    };
    match ColumnType::from_field(&field) {
        Some(to) if needed => {
            let ty = field.data_type().clone();
            Ok(Transformed::yes(to_type(*expr, to, ty, labels_in(&field))))
        }
        _ => Ok(Transformed::no(Expr::Cast(Cast::new_from_field(expr, field)))),
    }
}

/// Whether Arrow would do it differently.
fn is_ours(from: ColumnType, to: ColumnType) -> bool {
    let is_text = |ty: ColumnType| ty.arrow() == DataType::Utf8View;
    match (from, to) {
        (from, to) if from == to => false,
        (ColumnType::Array { .. }, ColumnType::Array { .. }) => true,
        // What has the form of a text is one.
        (from, ColumnType::Text) if is_text(from) => false,
        (from, _) if is_text(from) => true,
        (ColumnType::Bool | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, ColumnType::Text) => false,
        (_, to) => is_text(to),
    }
}

fn to_type(expr: Expr, ty: ColumnType, data_type: DataType, labels: Option<Labels>) -> Expr {
    let function = CastFunction {
        ty,
        data_type,
        labels,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CastFunction {
    ty: ColumnType,
    /// The Arrow type that is wanted: DataFusion's own functions have other units of time.
    data_type: DataType,
    /// Those of an enumerated type.
    labels: Option<Labels>,
    signature: Signature,
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &'static str {
        "pg_cast"
    }

    /// A cast has the name of what is cast.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [inner] = args else {
            return plan_err!("a cast takes one value");
        };
        Ok(inner.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    /// As nullable as the cast it stands for.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let field = self
            .ty
            .field(self.name(), nullable)
            .with_data_type(self.data_type.clone());
        Ok(Arc::new(match &self.labels {
            Some(labels) => enums::with_labels(field, labels),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => self.cast(array).map(ColumnarValue::Array),
            [ColumnarValue::Scalar(value)] => {
                let array = self.cast(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("a cast takes one value"),
        }
    }
}

impl CastFunction {
    fn cast(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let cast = cast(array, self.ty)?;
        if let Some(labels) = &self.labels {
            enums::check(&cast, labels).map_err(|(_, message)| EngineError::bad_value(message))?;
        }
        if *cast.data_type() == self.data_type {
            return Ok(cast);
        }
        Ok(cast_with_options(&cast, &self.data_type, &STRICT)?)
    }
}

/// The values of `array` as values of `ty`.
fn cast(array: &ArrayRef, ty: ColumnType) -> Result<ArrayRef, EngineError> {
    match array.data_type() {
        DataType::Null => Ok(arrow::array::new_null_array(&ty.arrow(), array.len())),
        DataType::Utf8 | DataType::LargeUtf8 => cast(&cast_with_options(array, &DataType::Utf8View, &STRICT)?, ty),
        DataType::Utf8View => from_texts(array.as_string_view().iter(), ty),
        DataType::List(_) if ty.item().is_some() => cast_items(array.as_list(), ty),
        _ if ty.arrow() == DataType::Utf8View => {
            let writer = TextWriter::new(array.as_ref())?;
            from_texts((0..array.len()).map(|row| writer.value(row)), ty)
        }
        DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) if ty.arrow().is_integer() => {
            let whole = round(array).map_err(|error| EngineError::internal(error.to_string()))?;
            Ok(cast_with_options(&whole, &ty.arrow(), &STRICT)?)
        }
        _ => Ok(cast_with_options(array, &ty.arrow(), &STRICT)?),
    }
}

fn from_texts<T: AsRef<str>>(texts: impl Iterator<Item = Option<T>>, ty: ColumnType) -> Result<ArrayRef, EngineError> {
    match ty {
        ColumnType::Text => Ok(written(texts, |text| text)),
        ColumnType::Varchar(length) => Ok(written(texts, |text| match text.char_indices().nth(length as usize) {
            Some((end, _)) => &text[..end],
            None => text,
        })),
        _ => {
            let mut column = TextColumn::new(ty);
            for text in texts {
                match text {
                    Some(text) => column.push(text.as_ref()).map_err(EngineError::bad_value)?,
                    None => column.push_null(),
                }
            }
            Ok(column.finish())
        }
    }
}

fn written<T: AsRef<str>>(texts: impl Iterator<Item = Option<T>>, shown: impl Fn(&str) -> &str) -> ArrayRef {
    let mut builder = StringViewBuilder::new();
    for text in texts {
        builder.append_option(text.as_ref().map(|text| shown(text.as_ref())));
    }
    Arc::new(builder.finish())
}

fn cast_items(list: &ListArray, ty: ColumnType) -> Result<ArrayRef, EngineError> {
    let Some(item) = ty.item() else {
        return Err(EngineError::bad_value(format!("an array is not a value of type {ty}")));
    };
    let values = cast(list.values(), item)?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(
        field,
        list.offsets().clone(),
        values,
        list.nulls().cloned(),
    )?))
}
