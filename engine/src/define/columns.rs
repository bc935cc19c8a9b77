//! Columns and constraints: what a definition may say of its rows.

use std::ops::ControlFlow;

use candor_storage::{CheckDef, CollectionDef, CollectionId, ColumnDef, ROW_ID_COLUMN};
use datafusion::common::DFSchema;
use sqlparser::ast::{self, Visit as _, Visitor};

use super::check_name;
use crate::env::Env;
use crate::error::EngineError;
use crate::prepare::folded;
use crate::types::of_column;

/// Columns and constraints of a definition; where it goes is the caller's.
pub(super) fn closed_definition(
    env: &Env,
    name: &str,
    create: &ast::CreateTable,
) -> Result<CollectionDef, EngineError> {
    let mut def = CollectionDef::new(CollectionId::default(), "", name, []);
    for column in &create.columns {
        def.push_column(ColumnDef::new(folded(&column.name), of_column(env, &column.data_type)?));
    }
    check_columns(&def)?;
    let mut keys = Keys::default();
    for (ordinal, column) in create.columns.iter().enumerate() {
        for option in &column.options {
            column_option(env, &mut def, &mut keys, ordinal as u32, option)?;
        }
    }
    for constraint in &create.constraints {
        table_constraint(&mut def, &mut keys, constraint)?;
    }
    def.key = keys.primary.unwrap_or_default();
    def.unique = keys.unique;
    for ordinal in def.key.clone() {
        def.columns[ordinal as usize].nullable = false;
    }
    check_checks(env, &def)?;
    Ok(def)
}

#[derive(Default)]
struct Keys {
    primary: Option<Vec<u32>>,
    unique: Vec<Vec<u32>>,
}

impl Keys {
    fn set_primary(&mut self, columns: Vec<u32>) -> Result<(), EngineError> {
        match self.primary.replace(columns) {
            None => Ok(()),
            Some(_) => Err(EngineError::plan("a table has one primary key")),
        }
    }
}

fn column_option(
    env: &Env,
    def: &mut CollectionDef,
    keys: &mut Keys,
    ordinal: u32,
    option: &ast::ColumnOptionDef,
) -> Result<(), EngineError> {
    let at = ordinal as usize;
    match &option.option {
        ast::ColumnOption::Null => {}
        ast::ColumnOption::NotNull => def.columns[at].nullable = false,
        ast::ColumnOption::Default(expr) => {
            no_subquery(expr, "DEFAULT")?;
            // A default that cannot be evaluated is refused now, not at the first row.
            env.expression(expr.clone(), &DFSchema::empty())?;
            def.columns[at].default = Some(expr.to_string());
        }
        ast::ColumnOption::PrimaryKey(key) => {
            plain_constraint(key.characteristics.as_ref(), "PRIMARY KEY")?;
            keys.set_primary(vec![ordinal])?;
        }
        ast::ColumnOption::Unique(key) => {
            plain_unique(key)?;
            keys.unique.push(vec![ordinal]);
        }
        ast::ColumnOption::Check(check) => add_check(def, option.name.as_ref(), check)?,
        other => return Err(refused_option(other)),
    }
    Ok(())
}

fn refused_option(option: &ast::ColumnOption) -> EngineError {
    match option {
        ast::ColumnOption::ForeignKey(_) => EngineError::unsupported("a foreign key (REFERENCES)"),
        ast::ColumnOption::Generated { .. } => EngineError::unsupported("a generated or identity column (GENERATED)"),
        ast::ColumnOption::Identity(_) => EngineError::unsupported("an identity column (IDENTITY)"),
        ast::ColumnOption::Collation(_) => EngineError::unsupported("COLLATE"),
        other => EngineError::unsupported(format!("the column option `{other}`")),
    }
}

fn table_constraint(
    def: &mut CollectionDef,
    keys: &mut Keys,
    constraint: &ast::TableConstraint,
) -> Result<(), EngineError> {
    match constraint {
        ast::TableConstraint::PrimaryKey(key) => {
            plain_constraint(key.characteristics.as_ref(), "PRIMARY KEY")?;
            keys.set_primary(key_ordinals(def, &key.columns)?)
        }
        ast::TableConstraint::Unique(key) => {
            plain_unique(key)?;
            keys.unique.push(key_ordinals(def, &key.columns)?);
            Ok(())
        }
        ast::TableConstraint::Check(check) => add_check(def, check.name.as_ref(), check),
        ast::TableConstraint::ForeignKey(_) => Err(EngineError::unsupported("a foreign key (FOREIGN KEY)")),
        other => Err(EngineError::unsupported(format!("the constraint `{other}`"))),
    }
}

fn plain_constraint(characteristics: Option<&ast::ConstraintCharacteristics>, what: &str) -> Result<(), EngineError> {
    match characteristics {
        None => Ok(()),
        Some(_) => Err(EngineError::unsupported(format!(
            "DEFERRABLE or NOT ENFORCED on {what}"
        ))),
    }
}

fn plain_unique(key: &ast::UniqueConstraint) -> Result<(), EngineError> {
    plain_constraint(key.characteristics.as_ref(), "UNIQUE")?;
    match key.nulls_distinct {
        ast::NullsDistinctOption::NotDistinct => Err(EngineError::unsupported("UNIQUE NULLS NOT DISTINCT")),
        _ => Ok(()),
    }
}

fn key_ordinals(def: &CollectionDef, columns: &[ast::IndexColumn]) -> Result<Vec<u32>, EngineError> {
    let mut ordinals = Vec::new();
    for column in columns {
        let ast::Expr::Identifier(ident) = &column.column.expr else {
            return Err(EngineError::unsupported("an expression in a key"));
        };
        let name = folded(ident);
        let ordinal = def
            .column(&name)
            .ok_or_else(|| EngineError::plan(format!("the key names `{name}`, which is no column")))?;
        if ordinals.contains(&(ordinal as u32)) {
            return Err(EngineError::plan(format!("the key names `{name}` twice")));
        }
        ordinals.push(ordinal as u32);
    }
    Ok(ordinals)
}

fn add_check(
    def: &mut CollectionDef,
    name: Option<&ast::Ident>,
    check: &ast::CheckConstraint,
) -> Result<(), EngineError> {
    if check.enforced == Some(false) {
        return Err(EngineError::unsupported("CHECK … NOT ENFORCED"));
    }
    no_subquery(&check.expr, "CHECK")?;
    let name = match name.or(check.name.as_ref()) {
        Some(name) => folded(name),
        None => format!("{}_check{}", def.name, def.checks.len() + 1),
    };
    if def.checks.iter().any(|other| other.name == name) {
        return Err(EngineError::plan(format!("the constraint `{name}` stands twice")));
    }
    def.checks.push(CheckDef {
        name,
        sql: check.expr.to_string(),
    });
    Ok(())
}

/// A check that cannot be evaluated is refused now, not at the first row.
fn check_checks(env: &Env, def: &CollectionDef) -> Result<(), EngineError> {
    let columns =
        DFSchema::try_from_qualified_schema(def.name.as_str(), &def.schema()).map_err(|error| env.error(error))?;
    for check in &def.checks {
        let expr = env.expression(crate::parse::parse_expr(&check.sql)?, &columns)?;
        let ty = expr.data_type(&def.schema()).map_err(|error| env.error(error))?;
        if !matches!(
            ty,
            arrow::datatypes::DataType::Boolean | arrow::datatypes::DataType::Null
        ) {
            return Err(EngineError::plan(format!(
                "the check `{}` is {ty}, not a condition",
                check.name
            )));
        }
    }
    Ok(())
}

fn no_subquery(expr: &ast::Expr, place: &str) -> Result<(), EngineError> {
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
            return Err(EngineError::plan(format!("column `{}` stands twice", column.name)));
        }
    }
    Ok(())
}
