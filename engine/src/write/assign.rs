//! SET: which expression each column gets.

use std::collections::BTreeMap;

use candor_storage::{CollectionDef, ColumnDef, Generated};
use sqlparser::ast;

use super::build;
use super::insert::{check_given, default_of, is_default};
use crate::error::EngineError;
use crate::prepare::{folded, folded_parts, quoted};

/// Values assigned to columns, by name.
pub(super) type Assignments = BTreeMap<String, ast::Expr>;

/// What a subquery of several columns is called that is taken apart.
const ROW: &str = "\0row";

/// Takes the SET list apart.
///
/// # Errors
/// A column that is not there or stands twice, a list that does not fit its columns.
pub(super) fn assignments(def: &CollectionDef, list: &[ast::Assignment]) -> Result<Assignments, EngineError> {
    let mut assigned = Assignments::new();
    for assignment in list {
        for (name, value) in pairs(assignment)? {
            let name = column_name(name)?;
            if !def.open && def.column(&name).is_none() {
                return Err(super::grow::unknown_column(def, &name));
            }
            let column = def.column(&name).map(|ordinal| &def.columns[ordinal]);
            let is_made = |column: &ColumnDef| matches!(column.generated, Some(Generated::Stored(_)));
            let value = if is_default(&value) && column.is_some_and(is_made) {
                // It is made of the other columns anyway.
                ast::Expr::Identifier(quoted(&name))
            } else if is_default(&value) {
                default_of(def, &name)?
            } else {
                check_given(def, &name)?;
                value
            };
            if assigned.insert(name.clone(), value).is_some() {
                return Err(EngineError::plan(format!("column `{name}` is assigned twice")));
            }
        }
    }
    Ok(assigned)
}

fn column_name(name: &ast::ObjectName) -> Result<String, EngineError> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => Ok(folded(ident)),
        _ => Err(EngineError::plan(format!(
            "SET takes the bare name of a column, not `{name}`"
        ))),
    }
}

/// Columns and their values; `(a, b) = (…)` is several.
fn pairs(assignment: &ast::Assignment) -> Result<Vec<(&ast::ObjectName, ast::Expr)>, EngineError> {
    let names = match &assignment.target {
        ast::AssignmentTarget::ColumnName(name) => return Ok(vec![(name, assignment.value.clone())]),
        ast::AssignmentTarget::Tuple(names) => names,
    };
    let values = match &assignment.value {
        ast::Expr::Tuple(values) => values.clone(),
        ast::Expr::Subquery(query) => (0..names.len()).map(|at| one_column(query, at, names.len())).collect(),
        ast::Expr::Function(function) => match row_values(function) {
            Some(values) => values,
            None if names.len() == 1 => vec![assignment.value.clone()],
            None => return Err(no_row()),
        },
        ast::Expr::Nested(value) if names.len() == 1 => vec![value.as_ref().clone()],
        value if names.len() == 1 => vec![value.clone()],
        _ => return Err(no_row()),
    };
    if values.len() != names.len() {
        return Err(EngineError::plan(format!(
            "SET gives {} values to {} columns",
            values.len(),
            names.len()
        )));
    }
    Ok(names.iter().zip(values).collect())
}

fn no_row() -> EngineError {
    EngineError::plan("several columns take a list of values, ROW(…) or a query in brackets")
}

/// `ROW(a, b)`.
fn row_values(function: &ast::Function) -> Option<Vec<ast::Expr>> {
    if folded_parts(&function.name)? != ["row"] {
        return None;
    }
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let value = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

/// A query of several columns as a value: one of its columns.
fn one_column(query: &ast::Query, at: usize, width: usize) -> ast::Expr {
    if let Some(query) = narrowed(query, at, width) {
        return ast::Expr::Subquery(Box::new(query));
    }
    let column = |at: usize| ast::TableAliasColumnDef {
        name: quoted(&at.to_string()),
        data_type: None,
    };
    let alias = ast::TableAlias {
        explicit: true,
        name: quoted(ROW),
        columns: (0..width).map(column).collect(),
        at: None,
    };
    let derived = ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(alias),
        sample: None,
    };
    let from = ast::TableWithJoins {
        relation: derived,
        joins: Vec::new(),
    };
    let item = ast::SelectItem::UnnamedExpr(build::column(&quoted(ROW), &at.to_string()));
    match build::select(vec![item], vec![from], None) {
        ast::Statement::Query(query) => ast::Expr::Subquery(query),
        // `select` makes queries.
        _ => ast::Expr::Value(ast::Value::Null.into()),
    }
}

/// The query with one of its columns alone, where the others have no say in which rows there are. Such a query may name
/// columns of the row that is updated.
fn narrowed(query: &ast::Query, at: usize, width: usize) -> Option<ast::Query> {
    let mut query = query.clone();
    if let Some(order_by) = &query.order_by {
        let ast::OrderByKind::Expressions(items) = &order_by.kind else {
            return None;
        };
        // A number would be a place in the list that is made shorter, and a word may be an alias in it.
        let plain = |item: &ast::OrderByExpr| matches!(item.expr, ast::Expr::CompoundIdentifier(_));
        if !items.iter().all(plain) {
            return None;
        }
    }
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let is_value = |item: &ast::SelectItem| {
        matches!(
            item,
            ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. }
        )
    };
    let by_list = matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.iter().all(|by| !matches!(by, ast::Expr::Value(_))));
    if select.distinct.is_some()
        || !by_list
        || select.projection.len() != width
        || !select.projection.iter().all(is_value)
    {
        return None;
    }
    select.projection = vec![select.projection.swap_remove(at)];
    Some(query)
}
