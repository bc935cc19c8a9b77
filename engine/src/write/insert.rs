//! INSERT.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use candor_storage::{CollectionDef, Generated, TableChange};
use sqlparser::ast;

use super::conflict::{self, Outcome};
use super::literal::Literals;
use super::returning::{self, Returned};
use super::sides::Side;
use super::values::Cells;
use super::{Evaluated, Grown, Incoming, RowCompleter};
use crate::env::Env;
use crate::error::EngineError;
use crate::parse::parse_expr;
use crate::pending::concat;
use crate::prepare::{folded, prepared, quoted};
use crate::types::from_answer;

/// Rows of literals up to this many are written without leaving the caller's thread.
const SMALL_ROWS_MAX: usize = 64;

/// An INSERT of a few literals, which needs neither a plan nor a thread; `None` for any other.
pub(crate) fn small(env: &Env, insert: &ast::Insert) -> Option<Result<Evaluated, EngineError>> {
    if insert.returning.is_some() || insert.on.is_some() {
        return None;
    }
    let literals = Literals::of(insert.source.as_ref()?, &env.ctx.params)?;
    if literals.row_count() > SMALL_ROWS_MAX {
        return None;
    }
    let evaluate = || {
        let (def, columns) = target(env, insert)?;
        let (grown, rows) = literal_rows(env, &def, columns, &literals)?;
        let outcome = conflict::refuse(env, &grown.def, rows)?;
        evaluated(grown, outcome, None)
    };
    Some(evaluate())
}

pub(super) async fn insert(env: &Env, insert: &ast::Insert) -> Result<Evaluated, EngineError> {
    let (def, columns) = target(env, insert)?;
    let alias = match &insert.table_alias {
        Some(alias) => alias.alias.clone(),
        None => quoted(&def.name),
    };
    let (grown, rows) = match &insert.source {
        None => default_rows(env, &def)?,
        Some(source) => match Literals::of(source, &env.ctx.params) {
            Some(literals) => literal_rows(env, &def, columns, &literals)?,
            None => Box::pin(query_rows(env, &def, columns, source)).await?,
        },
    };
    let outcome = match &insert.on {
        None => conflict::refuse(env, &grown.def, rows)?,
        Some(ast::OnInsert::OnConflict(on_conflict)) => {
            conflict::resolve(env, &grown.def, &alias, rows, on_conflict).await?
        }
        Some(_) => {
            return Err(EngineError::unsupported_try(
                "ON DUPLICATE KEY UPDATE",
                "write ON CONFLICT … DO UPDATE",
            ));
        }
    };
    let sides = vec![Side::collection(&alias, &grown.def)];
    let returning = returning::answer(env, sides, insert.returning.as_ref(), outcome.begun.clone()).await?;
    let upsert = insert.on.is_some().then(|| def.name.clone());
    Ok(Evaluated {
        upsert,
        ..evaluated(grown, outcome, returning)?
    })
}

/// The collection, and the columns that the statement names.
fn target(env: &Env, insert: &ast::Insert) -> Result<(Arc<CollectionDef>, Option<Vec<String>>), EngineError> {
    check_insert(insert)?;
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(EngineError::unsupported(
            "INSERT into something that is not a collection",
        ));
    };
    let def = env.collection(name)?;
    let columns = insert_columns(&def, &insert.columns)?;
    Ok((def, columns))
}

fn evaluated(grown: Grown, outcome: Outcome, returning: Option<Returned>) -> Result<Evaluated, EngineError> {
    let rows_affected = outcome.begun.iter().map(|batch| batch.num_rows() as u64).sum();
    let begun = concat(&outcome.begun)?;
    if begun.is_none() && outcome.ended.is_none() {
        // A statement that writes no rows leaves no columns behind either.
        return Ok(Evaluated {
            returning,
            ..Evaluated::nothing()
        });
    }
    Ok(Evaluated {
        schema: grown.schema,
        changes: vec![TableChange {
            collection: grown.def.id,
            ended: outcome.ended,
            begun,
        }],
        rows_affected,
        upsert: None,
        returning,
        updated: outcome.replaced,
    })
}

fn check_insert(insert: &ast::Insert) -> Result<(), EngineError> {
    let refused = [
        (insert.or.is_some(), "INSERT OR …"),
        (insert.ignore, "INSERT IGNORE"),
        (insert.replace_into, "REPLACE INTO"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (!insert.assignments.is_empty(), "INSERT … SET"),
        (
            insert.partitioned.is_some() || !insert.after_columns.is_empty(),
            "INSERT … PARTITION",
        ),
        (insert.output.is_some(), "OUTPUT"),
        (insert.insert_alias.is_some(), "an alias for the inserted row"),
        (
            insert.settings.is_some() || insert.format_clause.is_some(),
            "INSERT … SETTINGS / FORMAT",
        ),
        (insert.priority.is_some(), "a priority"),
        (insert.multi_table_insert_type.is_some(), "INSERT ALL / FIRST"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(EngineError::unsupported(*what)),
        None => Ok(()),
    }
}

/// Names of the columns that the rows bring, in their order; `None` = those of the definition.
pub(super) fn insert_columns(
    def: &CollectionDef,
    columns: &[ast::ObjectName],
) -> Result<Option<Vec<String>>, EngineError> {
    if columns.is_empty() {
        return Ok(None);
    }
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for column in columns {
        let [ast::ObjectNamePart::Identifier(ident)] = column.0.as_slice() else {
            return Err(EngineError::plan(format!("`{column}` is not the name of a column")));
        };
        let name = folded(ident);
        if !def.open && def.column(&name).is_none() {
            return Err(super::grow::unknown_column(def, &name));
        }
        if !seen.insert(name.clone()) {
            return Err(EngineError::plan(format!("column `{name}` stands twice")));
        }
        names.push(name);
    }
    Ok(Some(names))
}

/// The names for rows of `width` values.
pub(super) fn names_for(
    def: &CollectionDef,
    columns: Option<Vec<String>>,
    width: usize,
) -> Result<Vec<String>, EngineError> {
    let (names, exact) = match columns {
        Some(names) => (names, true),
        None => (
            def.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>(),
            false,
        ),
    };
    if width > names.len() || (exact && width < names.len()) {
        return Err(EngineError::plan(format!(
            "INSERT gives {width} values for {} columns of `{}`",
            names.len(),
            def.name
        )));
    }
    Ok(names.into_iter().take(width).collect())
}

type Rows = (Grown, Vec<RecordBatch>);

/// `DEFAULT VALUES`: one row of defaults.
fn default_rows(env: &Env, def: &Arc<CollectionDef>) -> Result<Rows, EngineError> {
    let grown = Grown::of(env, def, &[])?;
    let row = RowCompleter::new(env, &grown.def, &[])?.complete(&[], 1)?;
    Ok((grown, vec![row]))
}

fn literal_rows(
    env: &Env,
    def: &Arc<CollectionDef>,
    columns: Option<Vec<String>>,
    literals: &Literals<'_>,
) -> Result<Rows, EngineError> {
    let names = names_for(def, columns, literals.width())?;
    names.iter().try_for_each(|name| check_given(def, name))?;
    let incoming: Vec<Incoming> = names
        .iter()
        .enumerate()
        .map(|(at, name)| Incoming {
            name: name.clone(),
            ty: literals.first_type(at),
        })
        .collect();
    let grown = Grown::of(env, def, &incoming)?;
    let mut given = Vec::new();
    let mut arrays = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(array) = literals.column(at, &grown.def, name)? {
            given.push(name.clone());
            arrays.push(array);
        }
    }
    let rows = RowCompleter::new(env, &grown.def, &given)?.complete(&arrays, literals.row_count())?;
    Ok((grown, vec![rows]))
}

async fn query_rows(
    env: &Env,
    def: &Arc<CollectionDef>,
    columns: Option<Vec<String>>,
    source: &ast::Query,
) -> Result<Rows, EngineError> {
    let source = ast::Statement::Query(Box::new(source.clone()));
    if let Some(values) = bare_values(&prepared(source.clone(), &env.ctx.params)?) {
        return expression_rows(env, def, columns, values).await;
    }
    let (schema, batches) = env.collect(&source).await?;
    let names = names_for(def, columns, schema.fields().len())?;
    names.iter().try_for_each(|name| check_given(def, name))?;
    let incoming = names
        .iter()
        .zip(schema.fields())
        .map(|(name, field)| incoming(def, name, field))
        .collect::<Result<Vec<_>, _>>()?;
    let grown = Grown::of(env, def, &incoming)?;
    let mut completer = RowCompleter::new(env, &grown.def, &names)?;
    let rows = batches
        .iter()
        .map(|batch| completer.complete(batch.columns(), batch.num_rows()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((grown, rows))
}

/// The rows of a source that is nothing but VALUES.
fn bare_values(source: &ast::Statement) -> Option<&ast::Values> {
    let ast::Statement::Query(query) = source else {
        return None;
    };
    let ast::Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        ..
    } = query.as_ref()
    else {
        return None;
    };
    match body.as_ref() {
        ast::SetExpr::Values(values) => Some(values),
        _ => None,
    }
}

async fn expression_rows(
    env: &Env,
    def: &Arc<CollectionDef>,
    columns: Option<Vec<String>>,
    values: &ast::Values,
) -> Result<Rows, EngineError> {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut names = names_for(def, columns, width)?;
    let mut values = values.clone();
    leave_out_made(def, &mut names, &mut values)?;
    let cells = Cells::of(env, def, &names, &values).await?;
    let incoming = names.iter().enumerate().map(|(at, name)| {
        Ok(Incoming {
            name: name.clone(),
            ty: if def.open { cells.first_type(at)? } else { None },
        })
    });
    let grown = Grown::of(env, def, &incoming.collect::<Result<Vec<_>, EngineError>>()?)?;
    let mut given = Vec::new();
    let mut arrays = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(array) = cells.column(at, &grown.def, name)? {
            given.push(name.clone());
            arrays.push(array);
        }
    }
    let rows = RowCompleter::new(env, &grown.def, &given)?.complete(&arrays, cells.row_count())?;
    Ok((grown, vec![rows]))
}

/// Refuses a value for a column that makes its own.
pub(crate) fn check_given(def: &CollectionDef, name: &str) -> Result<(), EngineError> {
    let column = def.column(name).map(|ordinal| &def.columns[ordinal]);
    let what = match column.and_then(|column| column.generated.as_ref()) {
        Some(Generated::Stored(_)) => "is generated from other columns",
        Some(Generated::Identity { always: true }) => "is GENERATED ALWAYS AS IDENTITY",
        _ => return Ok(()),
    };
    Err(EngineError::Definition {
        message: format!("column `{name}` of `{}` {what} and takes no value", def.name),
        sqlstate: "428C9",
        help: Some("leave it away, or write DEFAULT".to_owned()),
    })
}

/// Takes columns out of a list of VALUES that make their own: each of their values must be DEFAULT.
fn leave_out_made(def: &CollectionDef, names: &mut Vec<String>, values: &mut ast::Values) -> Result<(), EngineError> {
    let made: Vec<usize> = (0..names.len())
        .filter(|at| check_given(def, &names[*at]).is_err())
        .collect();
    for at in made.into_iter().rev() {
        for row in &mut values.rows {
            let is_given = row.content.get(at).is_some_and(|value| !is_default(value));
            if is_given {
                check_given(def, &names[at])?;
            }
            if at < row.content.len() {
                row.content.remove(at);
            }
        }
        names.remove(at);
    }
    Ok(())
}

/// Types matter only where they make a column.
pub(super) fn incoming(def: &CollectionDef, name: &str, field: &Field) -> Result<Incoming, EngineError> {
    Ok(Incoming {
        name: name.to_owned(),
        ty: if def.open { from_answer(field)? } else { None },
    })
}

/// The word DEFAULT in the place of a value.
pub(super) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The default of a column as an expression; NULL where it has none.
pub(super) fn default_of(def: &CollectionDef, name: &str) -> Result<ast::Expr, EngineError> {
    let column = def.column(name).map(|ordinal| &def.columns[ordinal]);
    match column.and_then(|column| column.default.as_ref()) {
        Some(sql) => parse_expr(sql),
        None => Ok(ast::Expr::Value(ast::Value::Null.into())),
    }
}
