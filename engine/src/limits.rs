//! LIMIT and OFFSET that are to be computed first: `LIMIT (SELECT max(a) FROM t)`, `LIMIT 1.5 * 2`, `LIMIT '2'`.
//!
//! DataFusion takes what is constant. As in PostgreSQL such an expression speaks of no column of its query, so it is
//! evaluated before the query is planned, over the same snapshot, and NULL is no limit.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Int64Type};
use sqlparser::ast::{self, Expr, LimitClause, VisitMut as _, VisitorMut};

use crate::arithmetic::round;
use crate::env::Env;
use crate::error::EngineError;
use crate::tree;

/// Puts the numbers into `statement`.
pub(crate) async fn computed(mut statement: ast::Statement, env: &Env) -> Result<ast::Statement, EngineError> {
    let mut taken = Taken(Vec::new());
    let _ = statement.visit(&mut taken);
    if taken.0.is_empty() {
        return Ok(statement);
    }
    let mut numbers = Vec::with_capacity(taken.0.len());
    for query in &taken.0 {
        numbers.push(number(query, env).await?);
    }
    let _ = statement.visit(&mut Put(numbers));
    Ok(statement)
}

/// Whether a LIMIT or OFFSET of `statement` is to be computed first.
pub(crate) fn has_computed(statement: &ast::Statement) -> bool {
    let mut taken = Taken(Vec::new());
    let _ = statement.clone().visit(&mut taken);
    !taken.0.is_empty()
}

/// Stands before the place of a computed number; no parameter is called so.
const PLACE: char = '\0';

/// Queries that compute the limits, taken out of the statement.
struct Taken(Vec<ast::Statement>);

impl VisitorMut for Taken {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let with = &query.with;
        for expr in query.limit_clause.iter_mut().flat_map(parts) {
            if is_computed(expr) {
                let place = ast::Value::Placeholder(format!("{PLACE}{}", self.0.len()));
                let expr = std::mem::replace(expr, Expr::Value(place.into()));
                self.0.push(as_query(expr, with.clone()));
            }
        }
        ControlFlow::Continue(())
    }
}

struct Put(Vec<Option<i64>>);

impl VisitorMut for Put {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        for expr in query.limit_clause.iter_mut().flat_map(parts) {
            if let Expr::Value(value) = expr
                && let ast::Value::Placeholder(name) = &value.value
                && let Some(place) = name.strip_prefix(PLACE).and_then(|place| place.parse::<usize>().ok())
            {
                value.value = match self.0.get(place).copied().flatten() {
                    Some(number) => ast::Value::Number(number.to_string(), false),
                    None => ast::Value::Null,
                };
            }
        }
        ControlFlow::Continue(())
    }
}

fn parts(clause: &mut LimitClause) -> impl Iterator<Item = &mut Expr> {
    let (limit, offset) = match clause {
        LimitClause::LimitOffset { limit, offset, .. } => {
            (limit.as_mut(), offset.as_mut().map(|offset| &mut offset.value))
        }
        LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
    };
    limit.into_iter().chain(offset)
}

/// Whether DataFusion would not take it as it stands.
fn is_computed(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, ast::Value::SingleQuotedString(_)),
        Expr::UnaryOp { expr, .. } => is_computed(expr),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => false,
        _ => true,
    }
}

/// `WITH … VALUES (expr)`, which has no rows to aggregate.
fn as_query(expr: Expr, with: Option<ast::With>) -> ast::Statement {
    let row = ast::Parens::with_empty_span(vec![expr]);
    let values = ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![row],
    };
    let query = tree::query(Vec::new(), Vec::new(), None);
    ast::Statement::Query(Box::new(ast::Query {
        with,
        body: Box::new(ast::SetExpr::Values(values)),
        ..query
    }))
}

/// The one value of the query; `None` for NULL.
async fn number(query: &ast::Statement, env: &Env) -> Result<Option<i64>, EngineError> {
    let (schema, batches) = Box::pin(env.collect(query)).await?;
    let rows = concat_batches(&schema, &batches)?;
    let values = rows.column(0);
    let is_number = |ty: &DataType| ty.is_numeric() || ty.is_null() || ty.is_string();
    if !is_number(values.data_type()) {
        return Err(EngineError::plan("LIMIT and OFFSET take a number"));
    }
    let whole = if values.data_type().is_numeric() && !values.data_type().is_integer() {
        round(values).map_err(|error| env.error(error))?
    } else {
        Arc::clone(values)
    };
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let numbers = cast_with_options(&whole, &DataType::Int64, &options)?;
    Ok(numbers.as_primitive::<Int64Type>().iter().next().flatten())
}
