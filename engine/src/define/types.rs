//! CREATE TYPE … AS ENUM, ALTER TYPE and DROP TYPE.

use std::sync::Arc;

use candor_storage::{SchemaChange, TypeDef};
use sqlparser::ast;

use super::{check_name, exists, own_database, split_ast};
use crate::env::Env;
use crate::error::EngineError;
use crate::prepare::folded;
use crate::write::Evaluated;

/// Evaluates a statement about types.
pub(crate) fn define_type(env: &Env, statement: &ast::Statement) -> Result<Evaluated, EngineError> {
    match statement {
        ast::Statement::CreateType {
            name,
            representation: Some(ast::UserDefinedTypeRepresentation::Enum { labels }),
        } => create(env, name, labels),
        ast::Statement::CreateType { .. } => Err(EngineError::unsupported_try(
            "a type that is not an enumerated one",
            "CREATE TYPE name AS ENUM ('…', …) is there",
        )),
        ast::Statement::AlterType(alter) => change(env, alter),
        ast::Statement::Drop {
            object_type: ast::ObjectType::Type,
            if_exists,
            names,
            ..
        } => remove(env, names, *if_exists),
        other => Err(EngineError::internal(format!("`{other}` is not about types"))),
    }
}

fn create(env: &Env, name: &ast::ObjectName, labels: &[ast::Ident]) -> Result<Evaluated, EngineError> {
    let (database, name) = split_ast(env, name)?;
    check_name("type", &name)?;
    own_database(env, &database)?;
    if env.names.definitions().type_named(&database, &name).is_some() {
        return exists("type", &name, false);
    }
    let labels: Vec<String> = labels.iter().map(|label| label.value.clone()).collect();
    for (at, label) in labels.iter().enumerate() {
        check_name("label", label)?;
        if labels[..at].contains(label) {
            return Err(EngineError::plan(format!("the label `{label}` stands twice")));
        }
    }
    Ok(Evaluated::schema(vec![SchemaChange::DefineType(TypeDef {
        id: env.names.definitions().next_type_id(),
        database,
        name,
        labels,
    })]))
}

fn existing(env: &Env, name: &ast::ObjectName) -> Result<Arc<TypeDef>, EngineError> {
    let (database, name) = split_ast(env, name)?;
    let found = env.names.definitions().type_named(&database, &name);
    found.map(Arc::clone).ok_or(EngineError::UnknownName {
        what: "type",
        name,
        help: None,
        span: None,
    })
}

fn change(env: &Env, alter: &ast::AlterType) -> Result<Evaluated, EngineError> {
    let mut def = TypeDef::clone(&*existing(env, &alter.name)?);
    match &alter.operation {
        ast::AlterTypeOperation::Rename(rename) => {
            let name = folded(&rename.new_name);
            check_name("type", &name)?;
            if env.names.definitions().type_named(&def.database, &name).is_some() {
                return exists("type", &name, false);
            }
            def.name = name;
        }
        ast::AlterTypeOperation::AddValue(add) => {
            let label = add.value.value.clone();
            check_name("label", &label)?;
            if def.labels.contains(&label) {
                return exists("label", &label, add.if_not_exists);
            }
            let at = place(&def, add.position.as_ref())?;
            def.labels.insert(at, label);
        }
        ast::AlterTypeOperation::RenameValue(_) => {
            return Err(EngineError::unsupported_try(
                "renaming a label",
                "rows hold the label: ALTER TYPE … ADD VALUE, then UPDATE the rows",
            ));
        }
    }
    Ok(Evaluated::schema(vec![SchemaChange::ChangeType(def)]))
}

fn place(def: &TypeDef, position: Option<&ast::AlterTypeAddValuePosition>) -> Result<usize, EngineError> {
    let find = |ident: &ast::Ident| {
        let at = def.labels.iter().position(|label| *label == ident.value);
        at.ok_or_else(|| EngineError::plan(format!("`{}` has no label `{}`", def.name, ident.value)))
    };
    match position {
        None => Ok(def.labels.len()),
        Some(ast::AlterTypeAddValuePosition::Before(label)) => find(label),
        Some(ast::AlterTypeAddValuePosition::After(label)) => find(label).map(|at| at + 1),
    }
}

fn remove(env: &Env, names: &[ast::ObjectName], if_exists: bool) -> Result<Evaluated, EngineError> {
    let mut schema = Vec::new();
    for name in names {
        match existing(env, name) {
            Ok(def) => {
                check_unused(env, &def)?;
                schema.push(SchemaChange::RemoveType { id: def.id });
            }
            Err(EngineError::UnknownName { .. } | EngineError::NoDatabase { .. }) if if_exists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Evaluated::schema(schema))
}

fn check_unused(env: &Env, def: &TypeDef) -> Result<(), EngineError> {
    for collection in env.names.definitions().all_collections() {
        let of_type = |column: &&candor_storage::ColumnDef| candor_storage::enum_of(column.ty) == Some(def.id);
        if let Some(column) = collection.columns.iter().find(of_type) {
            return Err(EngineError::plan(format!(
                "the column `{}` of `{}` has the type `{}`: drop it first",
                column.name, collection.name, def.name
            )));
        }
    }
    Ok(())
}
