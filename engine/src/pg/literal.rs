//! Literals while a statement is planned: what has no type yet, and what type it takes.

use arrow::datatypes::DataType;
use candor_storage::ColumnType;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};

use crate::error::EngineError;
use crate::text::TextColumn;

/// One side of an operator, as far as choosing the operator goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    /// A text in quotes, which takes any type.
    Unknown,
    /// NULL, or an expression whose type is not known or not one of a column.
    Other,
    Typed(ColumnType),
}

impl Side {
    pub(super) fn of(expr: &Expr, schema: &DFSchema) -> Self {
        if unknown_text(expr).is_some() {
            return Self::Unknown;
        }
        match expr.to_field(schema) {
            Ok((_, field)) if *field.data_type() == DataType::Null => Self::Other,
            Ok((_, field)) => ColumnType::from_field(&field).map_or(Self::Other, Self::Typed),
            Err(_) => Self::Other,
        }
    }

    pub(super) fn ty(self) -> Option<ColumnType> {
        match self {
            Self::Typed(ty) => Some(ty),
            _ => None,
        }
    }
}

/// The text of a literal without a type.
pub(super) fn unknown_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text), None) => text.as_deref(),
        _ => None,
    }
}

/// A text as a literal of a type.
pub(super) fn typed(text: &str, ty: ColumnType) -> Result<Expr> {
    let mut column = TextColumn::new(ty);
    column.push(text).map_err(EngineError::bad_value)?;
    let value = ScalarValue::try_from_array(&column.finish(), 0)?;
    let field = ty.field("", true);
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::from(field.metadata()));
    Ok(Expr::Literal(value, metadata))
}

/// An integer literal that is an INTEGER in PostgreSQL.
pub(super) fn small_integer(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), None) => i32::try_from(*value).ok(),
        Expr::Negative(inner) => small_integer(inner)?.checked_neg(),
        _ => None,
    }
}

/// A literal with an integer that fits as INTEGER; everything else as it is.
pub(super) fn narrowed(expr: Expr) -> Expr {
    match small_integer(&expr) {
        Some(value) => Expr::Literal(ScalarValue::Int32(Some(value)), None),
        None => expr,
    }
}

/// A cast that the rules of [`super::casts`] see.
pub(super) fn cast_to(expr: Expr, ty: ColumnType) -> Expr {
    let field = std::sync::Arc::new(ty.field("", true));
    Expr::Cast(Cast::new_from_field(Box::new(expr), field))
}

/// The value of a constant date: a typed literal, or `DATE '…'`.
pub(super) fn constant_date(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Literal(ScalarValue::Date32(days), _) => *days,
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Date32 => {
            crate::value::moment::parse_date(unknown_text(&cast.expr)?)
        }
        _ => None,
    }
}
