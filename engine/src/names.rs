//! What the columns of an answer are called: as PostgreSQL calls them.
//!
//! DataFusion names a column by the text of its expression and refuses two of one name; SQL does neither. Before
//! planning each column gets its name as an alias. Where a name comes again it gets a number behind a character that no
//! name holds, which [`shown_name`] takes off. In FROM and WITH all columns of such a name get one, so that nobody can
//! speak of one of them and mean another.

use std::collections::HashMap;

use sqlparser::ast;

use crate::prepare::{folded, quoted};

/// Stands between a column's name and a number that tells it from another column of the same name.
const APART: char = '\0';

/// What PostgreSQL calls a column that has no better name.
const NAMELESS: &str = "?column?";

/// Gives the columns of a SELECT the names that SQL gives them.
pub(crate) fn name_columns(projection: &mut [ast::SelectItem]) {
    let mut seen = HashMap::new();
    for (at, item) in projection.iter_mut().enumerate() {
        let Some(name) = item_name(item).filter(|_| !is_numbered(item)) else {
            continue;
        };
        let count = seen.entry(name.clone()).or_insert(0_usize);
        *count += 1;
        let alias = match *count {
            1 => name,
            _ => numbered(&name, at),
        };
        set_alias(item, &alias);
    }
}

/// The same for a query whose columns others speak of by name.
pub(crate) fn name_columns_inside(query: &mut ast::Query) {
    let mut body = query.body.as_mut();
    loop {
        body = match body {
            ast::SetExpr::Select(select) => return hide_repeated(&mut select.projection),
            ast::SetExpr::SetOperation { left, .. } => left,
            ast::SetExpr::Query(query) => query.body.as_mut(),
            _ => return,
        };
    }
}

/// Already told from the others, by [`name_columns_inside`].
fn is_numbered(item: &ast::SelectItem) -> bool {
    matches!(item, ast::SelectItem::ExprWithAlias { alias, .. } if alias.value.contains(APART))
}

fn hide_repeated(projection: &mut [ast::SelectItem]) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in projection.iter().filter_map(item_name) {
        *counts.entry(name).or_default() += 1;
    }
    for (at, item) in projection.iter_mut().enumerate() {
        if let Some(name) = item_name(item)
            && counts.get(&name).is_some_and(|count| *count > 1)
        {
            set_alias(item, &numbered(&name, at));
        }
    }
}

/// `SELECT *, id`: only where nothing outside can speak of the column by its name.
pub(crate) fn name_apart_from_wildcard(statement: &mut ast::Statement) {
    let ast::Statement::Query(query) = statement else {
        return;
    };
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let is_wildcard = |item: &ast::SelectItem| {
        matches!(
            item,
            ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..)
        )
    };
    if !select.projection.iter().any(is_wildcard) {
        return;
    }
    let ordered = ordered_names(query.order_by.as_ref());
    for (at, item) in select.projection.iter_mut().enumerate() {
        // A plain column is found by ORDER BY in the tables too.
        let is_column = matches!(item, ast::SelectItem::UnnamedExpr(expr) if column_name(expr).is_some());
        if let Some(name) = item_name(item)
            && !is_numbered(item)
            && (is_column || !ordered.contains(&name))
        {
            set_alias(item, &numbered(&name, at));
        }
    }
}

/// The names that ORDER BY speaks of.
fn ordered_names(order_by: Option<&ast::OrderBy>) -> Vec<String> {
    let Some(ast::OrderByKind::Expressions(keys)) = order_by.map(|order_by| &order_by.kind) else {
        return Vec::new();
    };
    keys.iter().filter_map(|key| column_name(&key.expr)).collect()
}

/// `SELECT a + 1 … ORDER BY a + 1`: the column is spoken of by its name, as DataFusion has it for DISTINCT.
pub(crate) fn order_by_names(query: &mut ast::Query) {
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let Some(ast::OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order_by| &mut order_by.kind) else {
        return;
    };
    for key in keys {
        if matches!(key.expr, ast::Expr::Identifier(_) | ast::Expr::Value(_)) {
            continue;
        }
        let same = select.projection.iter().find_map(|item| match item {
            ast::SelectItem::ExprWithAlias { expr, alias } if *expr == key.expr => Some(alias),
            _ => None,
        });
        if let Some(alias) = same {
            key.expr = ast::Expr::Identifier(alias.clone());
        }
    }
}

fn numbered(name: &str, at: usize) -> String {
    format!("{name}{APART}{at}")
}

/// A column that is nothing but a column keeps its table's name.
fn set_alias(item: &mut ast::SelectItem, name: &str) {
    match item {
        ast::SelectItem::UnnamedExpr(expr) if column_name(expr).is_none_or(|own| own != name) => {
            *item = ast::SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: quoted(name),
            };
        }
        ast::SelectItem::ExprWithAlias { alias, .. } if folded(alias) != name => *alias = quoted(name),
        _ => {}
    }
}

/// The name of a column that is nothing but a column.
fn column_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(ident) => Some(folded(ident)),
        ast::Expr::CompoundIdentifier(idents) => idents.last().map(folded),
        _ => None,
    }
}

/// What a column of an answer is called; `None` for a wildcard.
pub(crate) fn item_name(item: &ast::SelectItem) -> Option<String> {
    match item {
        ast::SelectItem::ExprWithAlias { alias, .. } => Some(shown_name(&folded(alias)).to_owned()),
        ast::SelectItem::UnnamedExpr(expr) => Some(match name_of(expr) {
            Some(Named::Well(name) | Named::Weakly(name)) => name,
            None => NAMELESS.to_owned(),
        }),
        _ => None,
    }
}

/// How good a name is: a cast or CASE takes the name of what is inside only if that is a good one.
enum Named {
    Well(String),
    Weakly(String),
}

fn name_of(expr: &ast::Expr) -> Option<Named> {
    let well = |name: &str| Some(Named::Well(name.to_owned()));
    match expr {
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => column_name(expr).map(Named::Well),
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => name_of(inner),
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(field) => Some(name_of(field)),
                ast::AccessExpr::Subscript(_) => None,
            });
            field.unwrap_or_else(|| name_of(root))
        }
        ast::Expr::Function(function) => function_name(function).map(Named::Well),
        ast::Expr::Cast { expr, data_type, .. } => Some(named_by_type(name_of(expr), data_type)),
        ast::Expr::TypedString(text) => Some(named_by_type(None, &text.data_type)),
        ast::Expr::Interval(_) => Some(Named::Weakly("interval".to_owned())),
        ast::Expr::Case { else_result, .. } => match else_result.as_deref().and_then(name_of) {
            Some(Named::Well(name)) => Some(Named::Well(name)),
            _ => Some(Named::Weakly("case".to_owned())),
        },
        ast::Expr::Exists { negated: false, .. } => well("exists"),
        ast::Expr::Subquery(query) => query_name(query).map(Named::Well),
        ast::Expr::Array(_) => well("array"),
        ast::Expr::Tuple(_) => well("row"),
        ast::Expr::Extract { .. } => well("extract"),
        ast::Expr::Ceil { .. } => well("ceil"),
        ast::Expr::Floor { .. } => well("floor"),
        ast::Expr::Position { .. } => well("position"),
        ast::Expr::Substring { .. } => well("substring"),
        ast::Expr::Overlay { .. } => well("overlay"),
        ast::Expr::AtTimeZone { .. } => well("timezone"),
        ast::Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => well("ltrim"),
            Some(ast::TrimWhereField::Trailing) => well("rtrim"),
            Some(ast::TrimWhereField::Both) | None => well("btrim"),
        },
        _ => None,
    }
}

fn function_name(function: &ast::Function) -> Option<String> {
    let name = folded(function.name.0.last()?.as_ident()?);
    // What arrays are written as before planning.
    Some(if name == "make_array" { "array".to_owned() } else { name })
}

fn named_by_type(inner: Option<Named>, data_type: &ast::DataType) -> Named {
    match inner {
        Some(Named::Well(name)) => Named::Well(name),
        _ => Named::Weakly(type_name(data_type)),
    }
}

/// PostgreSQL's own name of a type.
fn type_name(data_type: &ast::DataType) -> String {
    let text = data_type.to_string().to_lowercase();
    let bare = text
        .split(['(', '['])
        .next()
        .unwrap_or_default()
        .trim()
        .trim_matches('"');
    let own = match bare {
        "smallint" => "int2",
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "float" | "double precision" | "double" => "float8",
        "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "char" | "character" => "bpchar",
        "character varying" | "char varying" => "varchar",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        other => other,
    };
    own.to_owned()
}

/// The name of the first column of a query.
fn query_name(query: &ast::Query) -> Option<String> {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            ast::SetExpr::Select(select) => return select.projection.first().and_then(item_name),
            ast::SetExpr::SetOperation { left, .. } => left,
            ast::SetExpr::Query(query) => &query.body,
            ast::SetExpr::Values(_) => return Some("column1".to_owned()),
            _ => return None,
        };
    }
}

/// Names for the columns of a query's answer; `None` where only planning knows them.
pub(crate) fn column_names(statement: &ast::Statement) -> Option<Vec<String>> {
    let ast::Statement::Query(query) = statement else {
        return None;
    };
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            ast::SetExpr::Select(select) => return select.projection.iter().map(item_name).collect(),
            ast::SetExpr::SetOperation { left, .. } => left,
            ast::SetExpr::Query(query) => &query.body,
            _ => return None,
        };
    }
}

/// A column's name as the statement gave it.
pub(crate) fn shown_name(name: &str) -> &str {
    match name.split_once(APART) {
        Some((shown, _)) if !shown.is_empty() => shown,
        _ => name,
    }
}

/// True if `name` is one of several columns called `shown`.
pub(crate) fn is_one_of_several(name: &str, shown: &str) -> bool {
    name.split_once(APART).is_some_and(|(own, _)| own == shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_called_as_in_postgresql() {
        let names = |sql: &str| {
            let statement = crate::parse::parse_query(sql).expect("a query");
            column_names(&statement).expect("no wildcard")
        };
        let nameless = NAMELESS;
        assert_eq!(
            names("SELECT a, t.b, a AS \"C\", -a, 1, 'x', a + 1"),
            ["a", "b", "C", nameless, nameless, nameless, nameless]
        );
        assert_eq!(
            names("SELECT count(*), sum(a) OVER (), Lower(a), extract(year FROM a), trim(a)"),
            ["count", "sum", "lower", "extract", "btrim"]
        );
        assert_eq!(
            names("SELECT a::int, 1::int, '1'::text, date '2024-01-01', (a)"),
            ["a", "int4", "text", "date", "a"]
        );
        assert_eq!(
            names("SELECT CASE WHEN a THEN 1 END, CASE WHEN a THEN 1 ELSE b END, array[1], EXISTS (SELECT 1)"),
            ["case", "b", "array", "exists"]
        );
        assert_eq!(
            names("SELECT (SELECT max(a) FROM t), a IN (SELECT 1), (SELECT 1)"),
            ["max", nameless, nameless]
        );
    }

    #[test]
    fn names_that_come_again_are_told_apart() {
        let ast::Statement::Query(mut query) = crate::parse::parse_query("SELECT a, b, a, sum(a)").expect("a query")
        else {
            unreachable!("a query")
        };
        let ast::SetExpr::Select(select) = query.body.as_mut() else {
            unreachable!("a SELECT")
        };
        name_columns(&mut select.projection);
        let planned: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        assert_eq!(planned, ["a", "b", "a AS \"a\0\u{32}\"", "sum(a) AS \"sum\""]);
        assert_eq!(shown_name("a\0\u{32}"), "a");
    }
}
