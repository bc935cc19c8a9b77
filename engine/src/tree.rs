//! Pieces of syntax trees that no statement wrote: what rewriting puts in the place of something else.

use sqlparser::ast::{self, Expr, helpers::attached_token::AttachedToken};

/// `name(args)`.
pub(crate) fn call(name: &str, args: Vec<ast::FunctionArg>) -> Expr {
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `SELECT projection [FROM from] [WHERE selection]`.
pub(crate) fn query(
    projection: Vec<ast::SelectItem>,
    from: Vec<ast::TableWithJoins>,
    selection: Option<Expr>,
) -> ast::Query {
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
    ast::Query {
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
    }
}

/// The two arguments of a call that has no other, both without names.
pub(crate) fn two_arguments(call: &ast::Function) -> Option<(&Expr, &Expr)> {
    let ast::FunctionArguments::List(list) = &call.args else {
        return None;
    };
    match list.args.as_slice() {
        [
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first)),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(second)),
        ] => Some((first, second)),
        _ => None,
    }
}

/// The rows of a query as a table with these names.
pub(crate) fn derived(
    query: ast::Query,
    name: ast::Ident,
    columns: impl Iterator<Item = ast::Ident>,
) -> ast::TableWithJoins {
    let columns = columns.map(|name| ast::TableAliasColumnDef { name, data_type: None });
    alone(ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(ast::TableAlias {
            explicit: true,
            name,
            columns: columns.collect(),
            at: None,
        }),
        sample: None,
    })
}

/// A table that is joined with nothing.
pub(crate) fn alone(relation: ast::TableFactor) -> ast::TableWithJoins {
    ast::TableWithJoins {
        relation,
        joins: Vec::new(),
    }
}
