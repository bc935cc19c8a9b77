//! Columns: what a definition may say of its values.

use std::ops::ControlFlow;

use candor_storage::{CollectionDef, ColumnDef, ROW_ID_COLUMN};
use datafusion::common::DFSchema;
use sqlparser::ast::{self, Visit as _, Visitor};

use super::check_name;
use super::constraints::{Constraint, What, check_checks};
use crate::env::Env;
use crate::error::EngineError;
use crate::prepare::folded;
use crate::types::of_column;

/// Columns and constraints of a new collection.
pub(super) fn closed_definition(
    env: &Env,
    database: &str,
    name: &str,
    create: &ast::CreateTable,
) -> Result<CollectionDef, EngineError> {
    let mut def = CollectionDef::new(env.names.definitions().next_collection_id(), database, name, []);
    let mut constraints = Vec::new();
    for column in &create.columns {
        constraints.extend(add_column(env, &mut def, column)?);
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
    Ok(def)
}

/// Adds a column; its constraints come back to be added when all columns are there.
pub(super) fn add_column<'a>(
    env: &Env,
    def: &mut CollectionDef,
    column: &'a ast::ColumnDef,
) -> Result<Vec<Constraint<'a>>, EngineError> {
    let ordinal = def.columns.len() as u32;
    let mut added = ColumnDef::new(folded(&column.name), of_column(env, &column.data_type)?);
    let mut constraints = Vec::new();
    for option in &column.options {
        let what = match &option.option {
            ast::ColumnOption::Null => continue,
            ast::ColumnOption::NotNull => {
                added.nullable = false;
                continue;
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
    env.expression(expr.clone(), &DFSchema::empty())?;
    Ok(expr.to_string())
}

fn refused_option(option: &ast::ColumnOption) -> EngineError {
    match option {
        ast::ColumnOption::Generated { .. } => EngineError::unsupported("a generated or identity column (GENERATED)"),
        ast::ColumnOption::Identity(_) => EngineError::unsupported("an identity column (IDENTITY)"),
        ast::ColumnOption::Collation(_) => EngineError::unsupported("COLLATE"),
        other => EngineError::unsupported(format!("the column option `{other}`")),
    }
}

pub(super) fn no_subquery(expr: &ast::Expr, place: &str) -> Result<(), EngineError> {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    match expr.visit(&mut Finder) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(EngineError::unsupported(format!("a subquery in {place}"))),
    }
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
