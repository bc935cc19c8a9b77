//! WITH in front of a write, and writes inside a WITH.
//!
//! All parts of such a statement read the same version of the data and see nothing of each other's changes but what
//! RETURNING hands on. So each write inside the WITH is evaluated first, in their order, and stands for the rows that it
//! returns from then on; the changes of all parts make one change.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use candor_storage::{CollectionId, TableChange};
use datafusion::catalog::TableProvider;
use sqlparser::ast;

use super::unique::identity_keys;
use super::{CARDINALITY_VIOLATION, Evaluated, build, evaluate as evaluate_write};
use crate::env::Env;
use crate::error::EngineError;
use crate::keys::Key;
use crate::prepare::{folded, quoted};
use crate::tree;

/// A query that is a write, or has writes in its WITH.
pub(super) async fn evaluate(env: &Env, query: &ast::Query) -> Result<Evaluated, EngineError> {
    let evaluated = Box::pin(evaluate_parts(env, query)).await;
    evaluated.map_err(|error| match error {
        EngineError::UnknownTable { name, .. } if returns_nothing(query, &name) => EngineError::plan(format!(
            "`{name}` has no rows to read, because its write has no RETURNING"
        )),
        other => other,
    })
}

/// Whether `name` is a write of the WITH without RETURNING.
fn returns_nothing(query: &ast::Query, name: &str) -> bool {
    let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
    let mut named = ctes.filter(|cte| folded(&cte.alias.name) == name);
    named.any(|cte| write_of(&cte.query.body).is_some())
}

async fn evaluate_parts(env: &Env, query: &ast::Query) -> Result<Evaluated, EngineError> {
    let mut parts = Vec::new();
    let env = match &query.with {
        Some(with) => written(env, with, &mut parts).await?,
        None => env.with_passing(Vec::new()),
    };
    let main = if let Some(statement) = write_of(&query.body) {
        evaluate_write(&env, statement).await?
    } else {
        let mut bare = query.clone();
        bare.with = None;
        let answer = env.collect_answer(&ast::Statement::Query(Box::new(bare))).await?;
        Evaluated {
            returning: Some(answer),
            rows_affected: parts.iter().map(|part: &Evaluated| part.rows_affected).sum(),
            ..Evaluated::nothing()
        }
    };
    together(&env, parts, main)
}

/// The write that a body is.
fn write_of(body: &ast::SetExpr) -> Option<&ast::Statement> {
    match body {
        ast::SetExpr::Insert(statement)
        | ast::SetExpr::Update(statement)
        | ast::SetExpr::Delete(statement)
        | ast::SetExpr::Merge(statement) => Some(statement),
        ast::SetExpr::Query(query) if query.with.is_none() => write_of(&query.body),
        _ => None,
    }
}

/// The environment in which the queries of `with` have names. Its writes are evaluated into `parts`.
async fn written(env: &Env, with: &ast::With, parts: &mut Vec<Evaluated>) -> Result<Env, EngineError> {
    let mut seen = ast::With {
        cte_tables: Vec::new(),
        ..with.clone()
    };
    let mut env = env.with_passing(Vec::new());
    for cte in &with.cte_tables {
        let statement = write_of(&cte.query.body);
        if statement.is_some() && cte.query.with.is_some() {
            return Err(EngineError::unsupported("WITH before a write inside a WITH"));
        }
        let Some(statement) = statement else {
            seen.cte_tables.push(cte.clone());
            env = env.with_queries(seen.clone());
            continue;
        };
        let part = Box::pin(evaluate_write(&env, statement)).await?;
        if let Some((schema, rows)) = &part.returning {
            let name = format!("returned{}", parts.len());
            let table: Arc<dyn TableProvider> = Env::rows_table(Arc::clone(schema), rows.clone())?;
            env = env.with_passing(vec![(name.as_str(), table)]);
            let everything = ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
            let from = build::passing(&name, quoted(&name));
            let query = Box::new(tree::query(vec![everything], vec![from], None));
            seen.cte_tables.push(ast::Cte { query, ..cte.clone() });
            env = env.with_queries(seen.clone());
        }
        parts.push(part);
    }
    Ok(env)
}

/// One change out of those of all parts.
fn together(env: &Env, parts: Vec<Evaluated>, mut main: Evaluated) -> Result<Evaluated, EngineError> {
    if parts.is_empty() {
        return Ok(main);
    }
    let mut all = Evaluated {
        rows_affected: main.rows_affected,
        returning: main.returning.take(),
        ..Evaluated::nothing()
    };
    for mut part in parts.into_iter().chain([main]) {
        if !all.schema.is_empty() && !part.schema.is_empty() {
            return Err(EngineError::unsupported(
                "new columns from several parts of one statement",
            ));
        }
        all.schema.append(&mut part.schema);
        all.changes.append(&mut part.changes);
        all.updated.append(&mut part.updated);
        all.upsert = all.upsert.or(part.upsert);
    }
    check_once(env, &all.changes)?;
    Ok(all)
}

/// One statement changes a row once.
fn check_once(env: &Env, changes: &[TableChange]) -> Result<(), EngineError> {
    let mut ended: BTreeMap<CollectionId, HashSet<Key>> = BTreeMap::new();
    for change in changes {
        let (Some(rows), Some(def)) = (
            &change.ended,
            env.names.definitions().collection_by_id(change.collection),
        ) else {
            continue;
        };
        let seen = ended.entry(change.collection).or_default();
        if identity_keys(def, rows)?.into_iter().any(|key| !seen.insert(key)) {
            return Err(EngineError::Constraint {
                message: format!("two parts of the statement change the same row of `{}`", def.name),
                sqlstate: CARDINALITY_VIOLATION,
                row: None,
            });
        }
    }
    Ok(())
}
