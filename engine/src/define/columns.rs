//! Columns: what a definition may say of its values.

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use candor_storage::{CollectionDef, ColumnDef, ColumnType, Generated, ROW_ID_COLUMN, SequenceDef};
use datafusion::common::DFSchema;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use sqlparser::ast;

use super::check_name;
use super::constraints::{Constraint, What, check_checks, columns_in};
use super::sequences::{of_column_at, serial, with_whole_names};
use crate::env::Env;
use crate::error::EngineError;
use crate::parse::parse_expr;
use crate::prepare::folded;
use crate::types::of_column;
use crate::write::has_subquery;

/// Functions whose value is fixed for one statement only.
const STABLE_FUNCTIONS: [&str; 12] = [
    "now",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtime",
    "localtimestamp",
    "transaction_timestamp",
    "statement_timestamp",
    "current_database",
    "current_schema",
    "current_namespace",
    "today",
];

/// Columns and constraints of a new collection, and the sequences of its columns.
pub(super) fn closed_definition(
    env: &Env,
    database: &str,
    name: &str,
    create: &ast::CreateTable,
) -> Result<(CollectionDef, Vec<SequenceDef>), EngineError> {
    let mut def = CollectionDef::new(env.names.definitions().next_collection_id(), database, name, []);
    let mut constraints = Vec::new();
    let mut sequences = Vec::new();
    for column in &create.columns {
        constraints.extend(add_column(env, &mut def, column, &mut sequences)?);
    }
    check_columns(&def)?;
    for constraint in &create.constraints {
        constraints.push(Constraint::of_table(constraint)?);
    }
    constraints.sort_by_key(Constraint::rank);
    for constraint in constraints {
        constraint.add(env, &mut def)?;
    }
    check_checks(env, &def)?;
    check_generated(env, &def)?;
    Ok((def, sequences))
}

/// Adds a column; its constraints come back to be added when all columns are there, and its sequence stands behind those
/// of other columns.
pub(super) fn add_column<'a>(
    env: &Env,
    def: &mut CollectionDef,
    column: &'a ast::ColumnDef,
    sequences: &mut Vec<SequenceDef>,
) -> Result<Vec<Constraint<'a>>, EngineError> {
    let ordinal = def.columns.len() as u32;
    let serial = serial(&column.data_type);
    let ty = match serial {
        Some(ty) => ty,
        None => of_column(env, &column.data_type)?,
    };
    let mut added = ColumnDef::new(folded(&column.name), ty);
    let mut constraints = Vec::new();
    let mut draw = |added: &mut ColumnDef, options: &[ast::SequenceOptions]| {
        if added.default.is_some() {
            return Err(two_defaults(added));
        }
        let at = (added.name.as_str(), def.next_column_id);
        let (sequence, default) = of_column_at(env, def, at, ty, options, sequences)?;
        added.default = Some(default);
        added.nullable = false;
        sequences.push(sequence);
        Ok(())
    };
    if serial.is_some() {
        draw(&mut added, &[])?;
    }
    for option in &column.options {
        let what = match &option.option {
            ast::ColumnOption::Null => continue,
            ast::ColumnOption::NotNull => {
                added.nullable = false;
                continue;
            }
            ast::ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr: None,
                ..
            } => {
                draw(&mut added, sequence_options.as_deref().unwrap_or_default())?;
                let always = !matches!(generated_as, ast::GeneratedAs::ByDefault);
                added.generated = Some(Generated::Identity { always });
                continue;
            }
            ast::ColumnOption::Generated {
                generation_expr: Some(expr),
                generation_expr_mode,
                ..
            } => {
                if !matches!(generation_expr_mode, Some(ast::GeneratedExpressionMode::Stored)) {
                    return Err(EngineError::unsupported_try(
                        "a generated column that is VIRTUAL",
                        "write STORED",
                    ));
                }
                if added.default.is_some() {
                    return Err(two_defaults(&added));
                }
                no_subquery(expr, "GENERATED")?;
                added.generated = Some(Generated::Stored(expr.to_string()));
                continue;
            }
            ast::ColumnOption::Default(_) if added.default.is_some() || added.generated.is_some() => {
                return Err(two_defaults(&added));
            }
            ast::ColumnOption::Default(expr) => {
                added.default = Some(default_text(env, expr)?);
                continue;
            }
            ast::ColumnOption::PrimaryKey(key) => What::PrimaryKey(key),
            ast::ColumnOption::Unique(key) => What::Unique(key),
            ast::ColumnOption::Check(check) => What::Check(check),
            ast::ColumnOption::ForeignKey(key) => What::ForeignKey(key),
            other => return Err(refused_option(other)),
        };
        constraints.push(Constraint {
            name: option.name.as_ref(),
            column: Some(ordinal),
            what,
        });
    }
    def.push_column(added);
    Ok(constraints)
}

/// A default that cannot be evaluated is refused now, not at the first row.
pub(super) fn default_text(env: &Env, expr: &ast::Expr) -> Result<String, EngineError> {
    no_subquery(expr, "DEFAULT")?;
    let expr = &with_whole_names(env, expr);
    env.expression(expr.clone(), &DFSchema::empty())?;
    Ok(expr.to_string())
}

fn two_defaults(column: &ColumnDef) -> EngineError {
    EngineError::definition(format!("column `{}` has two defaults", column.name), "42601")
}

/// What makes the values of generated columns is looked at now, not at the first row: it may name columns that are given,
/// and must be the same whenever it is evaluated.
pub(super) fn check_generated(env: &Env, def: &CollectionDef) -> Result<(), EngineError> {
    let columns =
        DFSchema::try_from_qualified_schema(def.name.as_str(), &def.schema()).map_err(|error| env.error(error))?;
    for column in &def.columns {
        let Some(Generated::Stored(sql)) = &column.generated else {
            continue;
        };
        let expr = parse_expr(sql)?;
        let made = |name: &String| {
            let column = def.column(name).map(|at| &def.columns[at]);
            column.is_some_and(|column| matches!(column.generated, Some(Generated::Stored(_))))
        };
        if let Some(other) = columns_in(&expr).into_iter().find(made) {
            return Err(EngineError::definition(
                format!(
                    "column `{}` is generated from `{other}`, which is generated itself",
                    column.name
                ),
                "42P17",
            ));
        }
        let mut varies = has_stable_function(&expr);
        let planned = env.expression(expr, &columns)?;
        varies |= is_volatile(&planned);
        if varies {
            return Err(EngineError::definition(
                format!(
                    "column `{}` is generated from something that is not always the same",
                    column.name
                ),
                "42P17",
            ));
        }
        let ty = planned.data_type(&def.schema()).map_err(|error| env.error(error))?;
        if !can_be_assigned(&ty, column.ty) {
            return Err(EngineError::definition(
                format!(
                    "column `{}` is {}, and its expression gives {ty}",
                    column.name, column.ty
                ),
                "42804",
            ));
        }
    }
    Ok(())
}

/// Whether the expression asks for the time or for the session, which are the same for one statement only.
fn has_stable_function(expr: &ast::Expr) -> bool {
    let asks = |expr: &ast::Expr| {
        let ast::Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let name = function.name.to_string().to_ascii_lowercase();
        if STABLE_FUNCTIONS.contains(&name.as_str()) || name.starts_with("session.") {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    ast::visit_expressions(expr, asks).is_break()
}

fn can_be_assigned(from: &DataType, to: ColumnType) -> bool {
    let is_text = |ty: &DataType| matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    *from == DataType::Null || *from == to.arrow() || is_text(from) == is_text(&to.arrow())
}

fn refused_option(option: &ast::ColumnOption) -> EngineError {
    match option {
        ast::ColumnOption::Identity(_) => EngineError::unsupported("an identity column (IDENTITY)"),
        ast::ColumnOption::Collation(_) => EngineError::unsupported("COLLATE"),
        other => EngineError::unsupported(format!("the column option `{other}`")),
    }
}

pub(super) fn no_subquery(expr: &ast::Expr, place: &str) -> Result<(), EngineError> {
    if has_subquery(expr) {
        return Err(EngineError::unsupported(format!("a subquery in {place}")));
    }
    Ok(())
}

pub(super) fn check_columns(def: &CollectionDef) -> Result<(), EngineError> {
    for (ordinal, column) in def.columns.iter().enumerate() {
        check_name("column", &column.name)?;
        if column.name == ROW_ID_COLUMN {
            return Err(EngineError::plan(format!(
                "`{ROW_ID_COLUMN}` stands for the hidden row id and names no column"
            )));
        }
        if def.column(&column.name) != Some(ordinal) {
            return Err(EngineError::definition(
                format!("column `{}` stands twice in `{}`", column.name, def.name),
                "42701",
            ));
        }
    }
    Ok(())
}
