//! Functions that give rows: in FROM, where their one column has the name of the alias, and in SELECT.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, Visit as _, Visitor};

use crate::prepare::{folded, folded_parts, quoted};

/// Functions of DataFusion that give a list as a value and rows as a table.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Gives a function in FROM its column's name, and lets its arguments speak of what stands before it.
pub(crate) fn name_rows(factor: &mut ast::TableFactor) {
    match factor {
        ast::TableFactor::Table {
            name,
            alias,
            args: Some(args),
            ..
        } => {
            let Some(function) = series(name) else {
                return;
            };
            name_column(alias, &function);
            if args.args.iter().any(speaks_of_columns) {
                let call = call(&function, args.args.clone());
                *factor = rows_of(unnest(call), alias.take());
            }
        }
        ast::TableFactor::Function { name, alias, args, .. } => {
            let Some(function) = series(name) else {
                return;
            };
            name_column(alias, &function);
            if args.iter().any(speaks_of_columns) {
                let call = call(&function, std::mem::take(args));
                *factor = rows_of(unnest(call), alias.take());
            }
        }
        ast::TableFactor::UNNEST { alias, array_exprs, .. } => {
            let [array] = array_exprs.as_slice() else {
                return;
            };
            name_column(alias, "unnest");
            if expr_speaks_of_columns(array) {
                *factor = rows_of(unnest(array.clone()), alias.take());
            }
        }
        _ => {}
    }
}

/// A series among the columns of a SELECT is as many rows, not a list.
pub(crate) fn rows_in_select(projection: &mut [ast::SelectItem]) {
    for item in projection {
        let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let Expr::Function(function) = &*expr else {
            continue;
        };
        let Some(name) = series(&function.name).filter(|name| name == "generate_series") else {
            continue;
        };
        let rows = unnest(expr.clone());
        if let ast::SelectItem::ExprWithAlias { expr, .. } = item {
            *expr = rows;
        } else {
            *item = ast::SelectItem::ExprWithAlias {
                expr: rows,
                alias: quoted(&name),
            };
        }
    }
}

fn series(name: &ast::ObjectName) -> Option<String> {
    let [name] = <[String; 1]>::try_from(folded_parts(name)?).ok()?;
    SERIES.contains(&name.as_str()).then_some(name)
}

/// The column of a function that gives single values is called like the table.
fn name_column(alias: &mut Option<ast::TableAlias>, function: &str) {
    let alias = alias.get_or_insert_with(|| ast::TableAlias {
        explicit: true,
        name: quoted(function),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef {
            name: quoted(&folded(&alias.name)),
            data_type: None,
        });
    }
}

fn speaks_of_columns(arg: &ast::FunctionArg) -> bool {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => expr_speaks_of_columns(expr),
        _ => false,
    }
}

pub(crate) fn expr_speaks_of_columns(expr: &Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Finder).is_break()
}

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

fn unnest(array: Expr) -> Expr {
    call(
        "unnest",
        vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))],
    )
}

/// `LATERAL (SELECT rows) AS alias`
fn rows_of(rows: Expr, alias: Option<ast::TableAlias>) -> ast::TableFactor {
    let item = ast::SelectItem::ExprWithAlias {
        expr: rows,
        alias: quoted("value"),
    };
    ast::TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query_of(vec![item], None, None)),
        alias,
        sample: None,
    }
}

/// `SELECT items [FROM table] [WHERE condition]`
pub(crate) fn query_of(
    projection: Vec<ast::SelectItem>,
    table: Option<ast::TableFactor>,
    condition: Option<Expr>,
) -> ast::Query {
    let from = table.map(|relation| ast::TableWithJoins {
        relation,
        joins: Vec::new(),
    });
    let select = ast::Select {
        select_token: ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from: from.into_iter().collect(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection: condition,
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
