//! Syntax trees made by hand: the queries that writes are planned as.

use sqlparser::ast;

use crate::catalog::PASSING_SCHEMA;
use crate::prepare::quoted;
use crate::tree::query;

/// `qualifier.column`, never folded.
pub(super) fn column(qualifier: &ast::Ident, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![qualifier.clone(), quoted(name)])
}

/// `expr AS name`.
pub(super) fn named(expr: ast::Expr, name: &str) -> ast::SelectItem {
    ast::SelectItem::ExprWithAlias {
        expr,
        alias: quoted(name),
    }
}

/// The rows in passing of this name, under an alias.
pub(super) fn passing(name: &str, alias: ast::Ident) -> ast::TableWithJoins {
    let parts = [quoted(PASSING_SCHEMA), quoted(name)].map(ast::ObjectNamePart::Identifier);
    ast::TableWithJoins {
        relation: ast::TableFactor::Table {
            name: ast::ObjectName(parts.to_vec()),
            alias: Some(ast::TableAlias {
                explicit: true,
                name: alias,
                columns: Vec::new(),
                at: None,
            }),
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        },
        joins: Vec::new(),
    }
}

/// `SELECT projection FROM from WHERE selection`.
pub(super) fn select(
    projection: Vec<ast::SelectItem>,
    from: Vec<ast::TableWithJoins>,
    selection: Option<ast::Expr>,
) -> ast::Statement {
    ast::Statement::Query(Box::new(query(projection, from, selection)))
}

/// `SELECT projection FROM name`.
pub(crate) fn select_from(name: ast::ObjectName, projection: Vec<ast::SelectItem>) -> ast::Statement {
    let mut from = passing("", quoted(""));
    if let ast::TableFactor::Table { name: table, alias, .. } = &mut from.relation {
        *table = name;
        *alias = None;
    }
    select(projection, vec![from], None)
}
