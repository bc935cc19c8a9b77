//! `ARRAY (SELECT …)`, the rows of a query as an array, written out as an aggregate.

use sqlparser::ast::{self, Expr};

use crate::prepare::{folded_parts, quoted};
use crate::tree::{self, call};

/// The name under which the rows of a query are collected.
const ROWS: &str = "__array";

/// Writes such an expression out; leaves everything else as it is.
pub(crate) fn as_aggregate(expr: &mut Expr) {
    let Expr::Function(function) = &*expr else { return };
    let ast::FunctionArguments::Subquery(query) = &function.args else {
        return;
    };
    if folded_parts(&function.name).as_deref() != Some(&["array".to_owned()]) {
        return;
    }
    let collected = collected_in_place(query).unwrap_or_else(|| collected_behind(query));
    *expr = Expr::Subquery(Box::new(collected));
}

/// `array_or_empty(array_agg(value ORDER BY …))`: no rows are no NULL here.
fn aggregate(value: Expr, order: Vec<ast::OrderByExpr>) -> ast::SelectItem {
    let mut collect = call("array_agg", vec![argument(value)]);
    if let Expr::Function(function) = &mut collect
        && let ast::FunctionArguments::List(list) = &mut function.args
        && !order.is_empty()
    {
        list.clauses.push(ast::FunctionArgumentClause::OrderBy(order));
    }
    ast::SelectItem::UnnamedExpr(call("array_or_empty", vec![argument(collect)]))
}

fn argument(expr: Expr) -> ast::FunctionArg {
    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))
}

/// The one value that a SELECT gives, and its name.
fn value_of(select: &ast::Select) -> Option<(&Expr, Option<&ast::Ident>)> {
    match select.projection.as_slice() {
        [ast::SelectItem::UnnamedExpr(value)] => Some((value, None)),
        [ast::SelectItem::ExprWithAlias { expr, alias }] => Some((expr, Some(alias))),
        _ => None,
    }
}

/// Whether a key of ORDER BY is the value itself: by its place, by its name or written out.
fn is_value(key: &Expr, value: Option<(&Expr, Option<&ast::Ident>)>) -> bool {
    let is_first =
        matches!(key, Expr::Value(number) if matches!(&number.value, ast::Value::Number(digits, _) if digits == "1"));
    is_first
        || value.is_some_and(|(value, alias)| {
            key == value
                || matches!(key, Expr::Identifier(name) if alias.is_some_and(|alias| alias.value == name.value))
        })
}

fn order_of(query: &ast::Query) -> Option<Vec<ast::OrderByExpr>> {
    match &query.order_by {
        None => Some(Vec::new()),
        Some(ast::OrderBy {
            kind: ast::OrderByKind::Expressions(keys),
            ..
        }) => Some(keys.clone()),
        Some(_) => None,
    }
}

fn is_limited(query: &ast::Query) -> bool {
    query.limit_clause.is_some() || query.fetch.is_some()
}

/// The query itself with an aggregate in the place of its column, where it has nothing that comes behind aggregates.
fn collected_in_place(query: &ast::Query) -> Option<ast::Query> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let is_grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let is_more = select.distinct.is_some() || is_grouped || select.having.is_some() || select.qualify.is_some();
    if is_more || is_limited(query) {
        return None;
    }
    let (value, alias) = value_of(select)?;
    // What looks like an aggregate or a window would be one inside another.
    let mut calls = false;
    let _ = ast::visit_expressions(value, |expr| {
        calls |= matches!(expr, Expr::Function(_));
        std::ops::ControlFlow::<()>::Continue(())
    });
    if calls {
        return None;
    }
    let mut order = order_of(query)?;
    for key in &mut order {
        if is_value(&key.expr, Some((value, alias))) {
            key.expr = value.clone();
        }
    }
    let mut select = select.as_ref().clone();
    select.projection = vec![aggregate(value.clone(), order)];
    let mut collected = query.clone();
    collected.order_by = None;
    collected.body = Box::new(ast::SetExpr::Select(Box::new(select)));
    Some(collected)
}

/// The rows of the query, sorted by what it sorts them by. The rows of a LIMIT are collected as they come.
fn collected_behind(query: &ast::Query) -> ast::Query {
    let mut inner = query.clone();
    let mut order = Vec::new();
    let mut columns = vec![quoted(ROWS)];
    let value = match query.body.as_ref() {
        ast::SetExpr::Select(select) => value_of(select),
        _ => None,
    };
    if !is_limited(query) {
        inner.order_by = None;
        for (mut key, at) in order_of(query).unwrap_or_default().into_iter().zip(1..) {
            let select = match inner.body.as_mut() {
                ast::SetExpr::Select(select) => Some(select),
                _ => None,
            };
            let name = match select {
                _ if is_value(&key.expr, value) => quoted(ROWS),
                Some(select) if select.distinct.is_none() => {
                    let name = quoted(&format!("{ROWS}_{at}"));
                    select.projection.push(ast::SelectItem::ExprWithAlias {
                        expr: key.expr.clone(),
                        alias: name.clone(),
                    });
                    columns.push(name.clone());
                    name
                }
                _ => quoted(ROWS),
            };
            key.expr = column(name);
            order.push(key);
        }
    }
    let rows = tree::derived(inner, quoted(ROWS), columns.into_iter());
    let collected = aggregate(column(quoted(ROWS)), order);
    tree::query(vec![collected], vec![rows], None)
}

fn column(name: ast::Ident) -> Expr {
    Expr::CompoundIdentifier(vec![quoted(ROWS), name])
}
