//! Syntax trees made by hand: the queries that writes are planned as.

use sqlparser::ast::{self, helpers::attached_token::AttachedToken};

use crate::catalog::PASSING_SCHEMA;
use crate::prepare::quoted;

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
    let select = ast::Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    };
    ast::Statement::Query(Box::new(ast::Query {
        with: None,
        body: Box::new(ast::SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }))
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
