//! SQL text kept in definitions: queries of views, defaults and checks. It was parsed once when it was defined.

use candor_parser::{Body, parse_script};
use sqlparser::ast;

use crate::error::EngineError;

/// The query of a view.
pub(crate) fn parse_query(sql: &str) -> Result<ast::Statement, EngineError> {
    let script = parse_script(sql).map_err(|error| EngineError::plan(error.to_string()))?;
    match script.statements.into_iter().next().map(|statement| statement.body) {
        // A query that draws from a sequence is a write for whoever sends it.
        Some(Body::Query(statement) | Body::Write(statement)) if matches!(*statement, ast::Statement::Query(_)) => {
            Ok(*statement)
        }
        _ => Err(EngineError::internal(format!("`{sql}` is not a query"))),
    }
}

/// The expression of a default or a check.
pub(crate) fn parse_expr(sql: &str) -> Result<ast::Expr, EngineError> {
    let ast::Statement::Query(query) = parse_query(&format!("SELECT {sql}"))? else {
        return Err(EngineError::internal(format!("`{sql}` is not an expression")));
    };
    let ast::SetExpr::Select(select) = *query.body else {
        return Err(EngineError::internal(format!("`{sql}` is not an expression")));
    };
    match select.projection.into_iter().next() {
        Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => Ok(expr),
        _ => Err(EngineError::internal(format!("`{sql}` is not an expression"))),
    }
}
