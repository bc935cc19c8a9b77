//! INSERT of literals, which needs no plan: the texts go into the columns as they stand, digit for digit.

use arrow::array::ArrayRef;
use candor_storage::{CollectionDef, ColumnType};
use sqlparser::ast;

use crate::context::Param;
use crate::error::EngineError;
use crate::text::TextColumn;

/// Rows of literals, for the columns of one INSERT.
pub(super) struct Literals<'a> {
    rows: Vec<Vec<Cell<'a>>>,
}

enum Cell<'a> {
    Null,
    Number(std::borrow::Cow<'a, str>),
    Text(std::borrow::Cow<'a, str>),
    Bool(bool),
}

impl<'a> Literals<'a> {
    /// The rows of `VALUES`, if all of them are literals or parameters.
    pub(super) fn of(source: &'a ast::Query, params: &'a [Param]) -> Option<Self> {
        let ast::Query {
            with: None,
            body,
            order_by: None,
            limit_clause: None,
            fetch: None,
            ..
        } = source
        else {
            return None;
        };
        let ast::SetExpr::Values(values) = body.as_ref() else {
            return None;
        };
        let row = |row: &'a ast::Parens<Vec<ast::Expr>>| {
            row.content
                .iter()
                .map(|expr| cell(expr, params))
                .collect::<Option<Vec<_>>>()
        };
        let rows: Vec<_> = values.rows.iter().map(row).collect::<Option<_>>()?;
        // Rows of different lengths get their message from the planner.
        let width = rows.first()?.len();
        rows.iter().all(|row| row.len() == width).then_some(Self { rows })
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn width(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// The type that the first value of a column sets in an open collection.
    pub(super) fn first_type(&self, column: usize) -> Option<ColumnType> {
        self.rows.iter().find_map(|row| match &row[column] {
            Cell::Null => None,
            Cell::Number(text) if text.parse::<i64>().is_ok() => Some(ColumnType::Int64),
            Cell::Number(_) => Some(ColumnType::Float64),
            Cell::Text(_) => Some(ColumnType::Text),
            Cell::Bool(_) => Some(ColumnType::Bool),
        })
    }

    /// The values of one column as the column `name` of `def` takes them.
    pub(super) fn column(&self, at: usize, def: &CollectionDef, name: &str) -> Result<Option<ArrayRef>, EngineError> {
        let Some(ordinal) = def.column(name) else {
            // Only NULLs: the column was not made.
            return Ok(None);
        };
        let ty = def.columns[ordinal].ty;
        let mut column = TextColumn::new(ty);
        for (row, cells) in self.rows.iter().enumerate() {
            let pushed = push(&mut column, ty, &cells[at]);
            pushed.map_err(|message| EngineError::BadValue {
                message,
                row: Some(row as u64 + 1),
                column: Some(name.to_owned()),
            })?;
        }
        Ok(Some(column.finish()))
    }
}

/// A literal or parameter as the value of a column of type `ty`, once for each of `rows` rows; `None` for any other
/// expression, and where the value does not fit.
pub(super) fn repeated(expr: &ast::Expr, params: &[Param], ty: ColumnType, rows: usize) -> Option<ArrayRef> {
    let cell = cell(expr, params)?;
    let mut column = TextColumn::new(ty);
    for _ in 0..rows {
        push(&mut column, ty, &cell).ok()?;
    }
    Some(column.finish())
}

fn push(column: &mut TextColumn, ty: ColumnType, cell: &Cell<'_>) -> Result<(), String> {
    match cell {
        Cell::Null => {
            column.push_null();
            Ok(())
        }
        Cell::Number(_) if ty == ColumnType::Bool => Err("a number is not a BOOLEAN".to_owned()),
        Cell::Number(text) | Cell::Text(text) => column.push(text),
        Cell::Bool(value) if matches!(ty, ColumnType::Bool | ColumnType::Text | ColumnType::Varchar(_)) => {
            column.push(if *value { "true" } else { "false" })
        }
        Cell::Bool(_) => Err(format!("a BOOLEAN is not a value of type {ty}")),
    }
}

fn cell<'a>(expr: &'a ast::Expr, params: &'a [Param]) -> Option<Cell<'a>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(Cell::Null),
            ast::Value::Number(digits, _) if !digits.contains('_') => Some(Cell::Number(digits.into())),
            ast::Value::SingleQuotedString(text) => Some(Cell::Text(text.into())),
            ast::Value::Boolean(value) => Some(Cell::Bool(*value)),
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                parameter(params.get(number.checked_sub(1)?)?)
            }
            _ => None,
        },
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => match cell(expr, params)? {
            Cell::Number(digits) if !digits.starts_with('-') => Some(Cell::Number(format!("-{digits}").into())),
            _ => None,
        },
        _ => None,
    }
}

fn parameter(param: &Param) -> Option<Cell<'_>> {
    Some(match param {
        Param::Null => Cell::Null,
        Param::Bool(value) => Cell::Bool(*value),
        Param::Int(value) => Cell::Number(value.to_string().into()),
        Param::Float(value) if value.is_finite() => Cell::Number(format!("{value:?}").into()),
        Param::Number(text) => Cell::Number(text.into()),
        Param::Text(text) => Cell::Text(text.into()),
        Param::Float(_) | Param::Bytes(_) => return None,
    })
}
