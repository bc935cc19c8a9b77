//! Functions that give rows: in FROM, where their one column has the name of the alias, and in SELECT.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, Visit as _, Visitor};

use crate::pg::rewrite;
use crate::prepare::{folded, folded_parts, quoted};
use crate::tree::{call, query};

/// Functions of DataFusion that give a list as a value and rows as a table.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// What WITH ORDINALITY calls its column where nobody names it.
const ORDINALITY: &str = "ordinality";

/// Gives a function in FROM its column's name, lets its arguments speak of what stands before it, and numbers its rows
/// for WITH ORDINALITY.
pub(crate) fn name_rows(factor: &mut ast::TableFactor) {
    unnest_by_name(factor);
    let (list, function, alias, numbered) = match factor {
        ast::TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_ordinality,
            ..
        } => {
            let Some(function) = series(name) else {
                return;
            };
            // DataFusion has a table for whole numbers, which is never in memory as a whole.
            if args.args.iter().all(is_whole_number) && !*with_ordinality {
                *name = ast::ObjectName::from(vec![ast::Ident::new(&function)]);
                return name_column(alias, &function, false);
            }
            (call(&function, args.args.clone()), function, alias, *with_ordinality)
        }
        ast::TableFactor::Function {
            name,
            alias,
            args,
            with_ordinality,
            ..
        } => {
            let Some(function) = series(name) else {
                return;
            };
            (call(&function, args.clone()), function, alias, *with_ordinality)
        }
        ast::TableFactor::UNNEST {
            alias,
            array_exprs,
            with_ordinality,
            ..
        } => {
            let [array] = array_exprs.as_slice() else {
                return;
            };
            if !expr_speaks_of_columns(array) && !*with_ordinality {
                let flat = call(
                    "array_flat",
                    vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array.clone()))],
                );
                *array_exprs = vec![flat];
                return name_column(alias, "unnest", false);
            }
            (array.clone(), "unnest".to_owned(), alias, *with_ordinality)
        }
        _ => return,
    };
    name_column(alias, &function, numbered);
    *factor = rows_of(list, numbered, alias.take());
}

/// `LATERAL unnest(a)`, which sqlparser reads as a function like any other.
fn unnest_by_name(factor: &mut ast::TableFactor) {
    let ast::TableFactor::Function {
        name,
        args,
        alias,
        with_ordinality,
        ..
    } = factor
    else {
        return;
    };
    if folded_parts(name).as_deref() != Some(&["unnest".to_owned()]) {
        return;
    }
    let values = args.iter().map(|arg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let Some(array_exprs) = values.collect::<Option<Vec<_>>>() else {
        return;
    };
    *factor = ast::TableFactor::UNNEST {
        alias: alias.take(),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    };
}

fn is_whole_number(arg: &ast::FunctionArg) -> bool {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
        return false;
    };
    let expr = match expr {
        Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => expr,
        expr => expr,
    };
    matches!(expr, Expr::Value(value)
        if matches!(&value.value, ast::Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit())))
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
        let Some(name) = <[String; 1]>::try_from(folded_parts(&function.name).unwrap_or_default()).ok() else {
            continue;
        };
        let [name] = name;
        let rows = match name.as_str() {
            "generate_series" => unnest(expr.clone()),
            other if rewrite::gives_rows(other) => expr.clone(),
            _ => continue,
        };
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
fn name_column(alias: &mut Option<ast::TableAlias>, function: &str, numbered: bool) {
    let alias = alias.get_or_insert_with(|| ast::TableAlias {
        explicit: true,
        name: quoted(function),
        columns: Vec::new(),
        at: None,
    });
    let column = |name: &str| ast::TableAliasColumnDef {
        name: quoted(name),
        data_type: None,
    };
    if alias.columns.is_empty() {
        alias.columns.push(column(&folded(&alias.name)));
    }
    if numbered && alias.columns.len() == 1 {
        alias.columns.push(column(ORDINALITY));
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

/// `LATERAL (SELECT unnest(list) [, unnest(generate_series(1, array_length(list, 1)))]) AS alias`
fn rows_of(list: Expr, numbered: bool, alias: Option<ast::TableAlias>) -> ast::TableFactor {
    let arg = |expr: Expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
    let item = |expr: Expr, name: &str| ast::SelectItem::ExprWithAlias {
        expr: unnest(expr),
        alias: quoted(name),
    };
    let mut items = vec![item(list.clone(), "value")];
    if numbered {
        let one = Expr::value(ast::Value::Number("1".to_owned(), false));
        // Elements, not those of lists inside the list: what `array_length` of the first dimension is.
        let count = call("array_length", vec![arg(list), arg(one.clone())]);
        let numbers = call("generate_series", vec![arg(one), arg(count)]);
        items.push(item(numbers, ORDINALITY));
    }
    ast::TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query(items, Vec::new(), None)),
        alias,
        sample: None,
    }
}
