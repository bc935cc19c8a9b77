//! Functions that give rows: in FROM, where their one column has the name of the alias, and in SELECT.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, Visit as _, Visitor};

use crate::prepare::{folded, folded_parts, quoted};
use crate::tree::{call, query};

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
        subquery: Box::new(query(vec![item], Vec::new(), None)),
        alias,
        sample: None,
    }
}
