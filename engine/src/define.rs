//! Definitions: databases, collections, views, and taking them away.
//!
//! What a definition says is kept or refused, never taken and forgotten: PRIMARY KEY, UNIQUE, NOT NULL, DEFAULT and
//! CHECK and foreign keys are enforced; every other constraint or option is refused by name.

mod alter;
mod changes;
mod columns;
mod constraints;
mod sequences;
mod types;

use std::sync::Arc;

use candor_parser::{Define, DefineCollection, DefineWhat, QualifiedName, Remove, RemoveKind};
use candor_proto::limits::NAME_BYTES_MAX;
use candor_storage::{CollectionDef, CollectionId, ColumnDef, ColumnType, KeyKind, SchemaChange, TableChange, ViewDef};
use sqlparser::ast::{self, Spanned as _};

use changes::Changes;
use columns::{check_columns, closed_definition};
pub(crate) use sequences::define_sequence;
pub(crate) use types::define_type;

use crate::catalog::{INFORMATION_SCHEMA, SYSTEM_SCHEMA};
use crate::env::Env;
use crate::error::EngineError;
use crate::names::shown_name;
use crate::pending::concat;
use crate::prepare::folded_parts;
use crate::types::from_answer;
use crate::write::{Evaluated, RowCompleter};

pub(crate) use alter::{alter_table, create_index};

pub(crate) fn define(env: &Env, define: &Define) -> Result<Evaluated, EngineError> {
    match &define.what {
        DefineWhat::Database { name, .. } => define_database(env, name, define.if_not_exists),
        DefineWhat::Collection(collection) => define_collection(env, collection, define.if_not_exists),
        DefineWhat::Namespace(_) | DefineWhat::Replica(_) => {
            Err(EngineError::internal("a definition of the node reached the engine"))
        }
    }
}

fn define_database(env: &Env, name: &str, if_not_exists: bool) -> Result<Evaluated, EngineError> {
    check_name("database", name)?;
    if name == SYSTEM_SCHEMA || name == INFORMATION_SCHEMA {
        return Err(EngineError::plan(format!(
            "`{name}` is the name of a schema that is always there"
        )));
    }
    if env.names.definitions().has_database(name) {
        return exists("database", name, if_not_exists);
    }
    Ok(Evaluated::schema(vec![SchemaChange::DefineDatabase {
        name: name.to_owned(),
    }]))
}

fn define_collection(env: &Env, define: &DefineCollection, if_not_exists: bool) -> Result<Evaluated, EngineError> {
    let (database, name) = split(env, &define.name)?;
    check_name("collection", &name)?;
    own_database(env, &database)?;
    let taken = env.names.has_table(&database, &name);
    let mut schema = Vec::new();
    match env.names.definitions().collection(&database, &name) {
        Some(old) if define.overwrite => schema.push(removal_of_old(env, old)?),
        _ if taken => return exists("collection", &name, if_not_exists),
        _ => {}
    }
    let (mut def, sequences) = if define.open {
        (open_definition(), Vec::new())
    } else {
        closed_definition(env, &database, &name, &define.table)?
    };
    def.id = env.names.definitions().next_collection_id();
    def.database = database;
    if define.open {
        def.key_name = format!("{name}_pkey");
    }
    def.name = name;
    schema.push(SchemaChange::DefineCollection(def));
    schema.extend(sequences.into_iter().map(SchemaChange::DefineSequence));
    Ok(Evaluated::schema(schema))
}

/// A key `id` and nothing else. Its type is the first row's to say; TEXT compares with anything until then.
fn open_definition() -> CollectionDef {
    let id = ColumnDef {
        nullable: false,
        ..ColumnDef::new("id", ColumnType::Text)
    };
    CollectionDef {
        open: true,
        key: vec![0],
        ..CollectionDef::new(CollectionId::default(), "", "", [id])
    }
}

pub(crate) async fn create_table(env: &Env, create: &ast::CreateTable) -> Result<Evaluated, EngineError> {
    check_create(create)?;
    let (database, name) = split_ast(env, &create.name)?;
    check_name("table", &name)?;
    own_database(env, &database)?;
    let replaced = match env.names.definitions().collection(&database, &name) {
        Some(old) if create.or_replace => Some(removal_of_old(env, old)?),
        _ if env.names.has_table(&database, &name) => return exists("table", &name, create.if_not_exists),
        _ => None,
    };
    let (def, sequences) = closed_definition(env, &database, &name, create)?;
    let mut evaluated = match &create.query {
        None if def.columns.is_empty() => return Err(EngineError::plan("a table has at least one column")),
        None => {
            let mut schema = vec![SchemaChange::DefineCollection(def)];
            schema.extend(sequences.into_iter().map(SchemaChange::DefineSequence));
            Evaluated::schema(schema)
        }
        // The query may read the old table, which is there until the statement has run.
        Some(query) => create_table_as(env, def, query).await?,
    };
    evaluated.schema.splice(0..0, replaced);
    Ok(evaluated)
}

/// Takes a collection away that a new one of its name replaces.
fn removal_of_old(env: &Env, old: &CollectionDef) -> Result<SchemaChange, EngineError> {
    let what = format!("the table `{}`", old.name);
    Changes::new(env).drop_references(old.id, &what, false, |child, _| child.id != old.id)?;
    Ok(SchemaChange::RemoveCollection { id: old.id })
}

/// The columns are those of the answer, under the names of a column list if there is one.
async fn create_table_as(env: &Env, mut def: CollectionDef, query: &ast::Query) -> Result<Evaluated, EngineError> {
    let (schema, batches) = env.collect(&ast::Statement::Query(Box::new(query.clone()))).await?;
    if def.columns.is_empty() {
        for field in schema.fields() {
            let ty = from_answer(field)?.unwrap_or(ColumnType::Text);
            def.push_column(ColumnDef::new(shown_name(field.name()), ty));
        }
        check_columns(&def)?;
    } else if def.columns.len() != schema.fields().len() {
        return Err(EngineError::plan(format!(
            "`{}` has {} columns, and the query gives {}",
            def.name,
            def.columns.len(),
            schema.fields().len()
        )));
    }
    let def = Arc::new(def);
    let names: Vec<String> = def.columns.iter().map(|column| column.name.clone()).collect();
    let mut completer = RowCompleter::new(env, &def, &names)?;
    let rows = batches
        .iter()
        .map(|batch| completer.complete(batch.columns(), batch.num_rows()))
        .collect::<Result<Vec<_>, _>>()?;
    let begun = concat(&rows)?;
    Ok(Evaluated {
        schema: vec![SchemaChange::DefineCollection(CollectionDef::clone(&def))],
        rows_affected: begun.as_ref().map_or(0, |rows| rows.num_rows() as u64),
        changes: begun
            .map(|rows| TableChange {
                collection: def.id,
                ended: None,
                begun: Some(rows),
            })
            .into_iter()
            .collect(),
        ..Evaluated::nothing()
    })
}

/// Options of CREATE TABLE that say something we would not do.
fn check_create(create: &ast::CreateTable) -> Result<(), EngineError> {
    let no_options = matches!(create.table_options, ast::CreateTableOptions::None);
    let refused = [
        (create.temporary, "a temporary table"),
        (create.external, "an external table"),
        (create.like.is_some(), "CREATE TABLE … LIKE"),
        (create.clone.is_some(), "CREATE TABLE … CLONE"),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "a partitioned table",
        ),
        (create.on_commit.is_some(), "ON COMMIT"),
        (!no_options, "a table option"),
        (create.without_rowid, "WITHOUT ROWID"),
        (create.strict, "STRICT"),
        (
            create.location.is_some() || create.file_format.is_some(),
            "a file of its own",
        ),
        (
            create.order_by.is_some() || create.primary_key.is_some(),
            "a ClickHouse table",
        ),
        (create.comment.is_some(), "COMMENT"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(EngineError::unsupported(*what)),
        None => Ok(()),
    }
}

pub(crate) async fn create_view(env: &Env, create: &ast::CreateView) -> Result<Evaluated, EngineError> {
    let refused = [
        (create.materialized, "a materialized view"),
        (create.temporary, "a temporary view"),
        (create.or_alter, "CREATE OR ALTER VIEW"),
        (create.secure, "a secure view"),
        (create.to.is_some(), "CREATE VIEW … TO"),
        (!create.cluster_by.is_empty(), "CLUSTER BY"),
        (
            !matches!(create.options, ast::CreateTableOptions::None),
            "a view option",
        ),
    ];
    if let Some((_, what)) = refused.iter().find(|(present, _)| *present) {
        return Err(EngineError::unsupported(*what));
    }
    let (database, name) = split_ast(env, &create.name)?;
    check_name("view", &name)?;
    own_database(env, &database)?;
    let mut schema = Vec::new();
    match env.names.definitions().view(&database, &name) {
        Some(_) if create.or_replace => schema.push(SchemaChange::RemoveView {
            database: database.clone(),
            name: name.clone(),
        }),
        _ if env.names.has_table(&database, &name) => return exists("view", &name, create.if_not_exists),
        _ => {}
    }
    let query = view_query(create)?;
    // A view is planned as if it stood in its own database.
    let sql = query.to_string();
    let statement = crate::parse::parse_query(&sql)?;
    let home = env.in_database(&database);
    let plan = home.plan(&statement).await?;
    check_view_columns(&plan, create)?;
    schema.push(SchemaChange::DefineView(ViewDef { database, name, sql }));
    Ok(Evaluated::schema(schema))
}

/// The query, with the view's own column names if it has some.
fn view_query(create: &ast::CreateView) -> Result<ast::Statement, EngineError> {
    if create.columns.is_empty() {
        return Ok(ast::Statement::Query(create.query.clone()));
    }
    let columns = create
        .columns
        .iter()
        .map(|column| column.name.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    crate::parse::parse_query(&format!("SELECT * FROM ({}) AS view ({columns})", create.query))
}

fn check_view_columns(
    plan: &datafusion::logical_expr::LogicalPlan,
    create: &ast::CreateView,
) -> Result<(), EngineError> {
    let mut seen = std::collections::BTreeSet::new();
    for field in plan.schema().fields() {
        if !seen.insert(shown_name(field.name())) {
            return Err(EngineError::plan(format!(
                "view `{}` would have two columns `{}`",
                create.name,
                shown_name(field.name())
            )));
        }
    }
    Ok(())
}

pub(crate) fn remove(env: &Env, remove: &Remove) -> Result<Evaluated, EngineError> {
    let mut changes = Changes::new(env);
    for name in &remove.names {
        let removed = match remove.kind {
            RemoveKind::Database => remove_database(&mut changes, name),
            RemoveKind::Collection => remove_collection(env, &mut changes, name, remove),
            RemoveKind::View => remove_view(env, &mut changes, name, remove.cascade),
            RemoveKind::Index => remove_index(env, &mut changes, name, remove.cascade),
            RemoveKind::Namespace | RemoveKind::Replica => {
                return Err(EngineError::internal("a removal of the node reached the engine"));
            }
        };
        match removed {
            Err(error) if remove.if_exists && is_missing(&error) => {}
            removed => removed?,
        }
    }
    Ok(Evaluated::schema(changes.schema))
}

/// Whether what was to go is not there.
fn is_missing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::UnknownTable { .. } | EngineError::NoDatabase { .. } | EngineError::UnknownName { .. }
    )
}

fn remove_database(changes: &mut Changes, name: &QualifiedName) -> Result<(), EngineError> {
    if !changes.catalog.has_database(&name.name) {
        return Err(EngineError::NoDatabase {
            message: format!("there is no database `{}`", name.name),
            span: Some(name.span),
        });
    }
    changes.push(SchemaChange::RemoveDatabase {
        name: name.name.clone(),
    })
}

fn remove_collection(
    env: &Env,
    changes: &mut Changes,
    name: &QualifiedName,
    remove: &Remove,
) -> Result<(), EngineError> {
    let (database, table) = split(env, name)?;
    let Some(def) = changes.catalog.collection(&database, &table).map(Arc::clone) else {
        if changes.catalog.view(&database, &table).is_some() {
            return Err(EngineError::plan(format!(
                "`{table}` is a view: DROP VIEW or REMOVE VIEW takes it away"
            )));
        }
        return Err(env.unknown_table(&database, &table, Some(name.span)));
    };
    let what = format!("the table `{table}`");
    // What goes with the same statement is no reason to keep it.
    let goes_too = |child: &CollectionDef| {
        let names = remove.names.iter().filter_map(|name| split(env, name).ok());
        names
            .into_iter()
            .any(|(database, name)| child.database == database && child.name == name)
    };
    changes.drop_references(def.id, &what, remove.cascade, |child, _| !goes_too(child))?;
    changes.drop_references(def.id, &what, true, |child, _| child.id != def.id && goes_too(child))?;
    changes.drop_views((&database, &table), &what, remove.cascade)?;
    changes.push(SchemaChange::RemoveCollection { id: def.id })
}

fn remove_view(env: &Env, changes: &mut Changes, name: &QualifiedName, cascade: bool) -> Result<(), EngineError> {
    let (database, table) = split(env, name)?;
    if changes.catalog.view(&database, &table).is_none() {
        if changes.catalog.collection(&database, &table).is_some() {
            return Err(EngineError::plan(format!(
                "`{table}` is a table: DROP TABLE or REMOVE COLLECTION takes it away"
            )));
        }
        return Err(env.unknown_table(&database, &table, Some(name.span)));
    }
    changes.push(SchemaChange::RemoveView {
        database: database.clone(),
        name: table.clone(),
    })?;
    changes.drop_views((&database, &table), &format!("the view `{table}`"), cascade)
}

fn remove_index(env: &Env, changes: &mut Changes, name: &QualifiedName, cascade: bool) -> Result<(), EngineError> {
    let (database, index) = split(env, name)?;
    let has = |def: &&Arc<CollectionDef>| def.keys.iter().any(|key| key.name == index);
    let Some(def) = changes.catalog.collections(&database).find(has).map(Arc::clone) else {
        return Err(EngineError::UnknownName {
            what: "index",
            name: index,
            help: None,
            span: Some(name.span),
        });
    };
    let key = def
        .keys
        .iter()
        .find(|key| key.name == index && key.kind == KeyKind::Unique);
    if key.is_some() {
        return Err(EngineError::Definition {
            message: format!(
                "the index `{index}` cannot go, because the constraint `{index}` of `{}` needs it",
                def.name
            ),
            sqlstate: "2BP01",
            help: Some(format!("ALTER TABLE {} DROP CONSTRAINT {index}", def.name)),
        });
    }
    let mut after = CollectionDef::clone(&def);
    after.keys.retain(|key| key.name != index);
    changes.drop_references(def.id, &format!("the index `{index}`"), cascade, |_, ids| {
        let ordinals = ids.iter().map(|id| after.ordinal_of(*id).map(|at| at as u32));
        let ordinals: Option<Vec<u32>> = ordinals.collect();
        ordinals.is_none_or(|ordinals| after.unique_on(&ordinals).is_none())
    })?;
    let newest = changes
        .catalog
        .collection_by_id(def.id)
        .map(|def| CollectionDef::clone(def));
    let mut after = newest.ok_or_else(|| EngineError::internal("a collection is gone"))?;
    after.keys.retain(|key| key.name != index);
    changes.alter(after, false)
}

fn exists(what: &'static str, name: &str, if_not_exists: bool) -> Result<Evaluated, EngineError> {
    if if_not_exists {
        Ok(Evaluated::nothing())
    } else {
        Err(EngineError::AlreadyExists {
            what,
            name: name.to_owned(),
        })
    }
}

fn check_name(what: &str, name: &str) -> Result<(), EngineError> {
    if name.is_empty() {
        return Err(EngineError::plan(format!("the name of a {what} is not empty")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(EngineError::plan(format!(
            "the name of a {what} has at most {NAME_BYTES_MAX} bytes: `{name}` has {}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(EngineError::plan(format!(
            "the name of a {what} has no control characters"
        )));
    }
    Ok(())
}

/// Definitions stand in databases, not in the schemas that are always there.
fn own_database(env: &Env, database: &str) -> Result<(), EngineError> {
    if env.names.definitions().has_database(database) {
        Ok(())
    } else {
        Err(EngineError::plan(format!("nothing can be defined in `{database}`")))
    }
}

/// Database and name.
pub(crate) fn split(env: &Env, name: &QualifiedName) -> Result<(String, String), EngineError> {
    let parts: Vec<String> = [name.namespace.clone(), name.database.clone(), Some(name.name.clone())]
        .into_iter()
        .flatten()
        .collect();
    env.split(&parts, Some(name.span))
}

fn split_ast(env: &Env, name: &ast::ObjectName) -> Result<(String, String), EngineError> {
    let parts = folded_parts(name).ok_or_else(|| EngineError::plan(format!("`{name}` is not a name")))?;
    env.split(&parts, env.ctx.text.bytes(name.span()))
}
