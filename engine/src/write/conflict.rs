//! Rows whose key exists already: refused, left alone, or turned into an update.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, not};
use candor_storage::CollectionDef;
use sqlparser::ast;

use super::build;
use super::modify::{Target, assignments, new_rows_query, run_update};
use crate::env::Env;
use crate::error::EngineError;
use crate::keys::{Key, KeyCoder, key_columns, named_columns};
use crate::pending::concat;
use crate::prepare::{folded, quoted};
use crate::text::key_text;

/// More rows than this are left to the store, which checks every key when the write is applied.
const CHECKED_ROWS_MAX: usize = 1024;

/// What ON CONFLICT DO UPDATE calls the row that was to be inserted.
const EXCLUDED: &str = "excluded";

/// Rows that begin, and keys of rows that end for them.
pub(super) struct Outcome {
    pub(super) ended: Option<RecordBatch>,
    pub(super) begun: Vec<RecordBatch>,
}

/// No ON CONFLICT: a key that exists is an error. It is found early here to keep the log free of writes that will be
/// refused, and to name the row; the store has the last word.
pub(super) fn refuse(env: &Env, def: &Arc<CollectionDef>, rows: Vec<RecordBatch>) -> Result<Outcome, EngineError> {
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    if !def.key.is_empty() && count <= CHECKED_ROWS_MAX {
        let mut seen = HashSet::new();
        let mut first_row = 1;
        for batch in &rows {
            let taken = taken(env, def, batch, &mut seen)?;
            if let Some(row) = taken.iter().position(|taken| taken == Some(true)) {
                return Err(EngineError::Unique {
                    collection: def.name.clone(),
                    key: key_text(&named_columns(def, batch)?, row),
                    row: Some(first_row + row as u64),
                });
            }
            first_row += batch.num_rows() as u64;
        }
    }
    Ok(Outcome {
        ended: None,
        begun: rows,
    })
}

/// Which rows have a key that the collection has, or that an earlier row has.
fn taken(
    env: &Env,
    def: &Arc<CollectionDef>,
    batch: &RecordBatch,
    seen: &mut HashSet<Key>,
) -> Result<BooleanArray, EngineError> {
    let existing = existing(env, def, batch)?;
    let keys = KeyCoder::new(def)?.encode_named(def, batch)?;
    Ok(keys
        .into_iter()
        .map(|key| Some(existing.contains(&key) || !seen.insert(key)))
        .collect())
}

/// The keys of the batch that the collection has.
fn existing(env: &Env, def: &Arc<CollectionDef>, batch: &RecordBatch) -> Result<HashSet<Key>, EngineError> {
    let projection: Vec<usize> = def.key.iter().map(|ordinal| *ordinal as usize).collect();
    let coder = KeyCoder::new(def)?;
    let mut existing = HashSet::new();
    // A lookup wants each key once.
    let keys = named_columns(def, batch)?;
    let mut seen = HashSet::new();
    let first: BooleanArray = coder
        .encode(keys.columns())?
        .into_iter()
        .map(|key| Some(seen.insert(key)))
        .collect();
    for found in env
        .names
        .table(def)
        .lookup(&filter_record_batch(&keys, &first)?, &projection)?
    {
        existing.extend(coder.encode(found.columns())?);
    }
    Ok(existing)
}

/// ON CONFLICT DO NOTHING / DO UPDATE.
pub(super) async fn resolve(
    env: &Env,
    def: &Arc<CollectionDef>,
    alias: &ast::Ident,
    rows: Vec<RecordBatch>,
    on_conflict: &ast::OnConflict,
) -> Result<Outcome, EngineError> {
    check_target(def, on_conflict)?;
    let Some(rows) = concat(&rows)? else {
        return Ok(Outcome {
            ended: None,
            begun: rows,
        });
    };
    let mut seen = HashSet::new();
    match &on_conflict.action {
        ast::OnConflictAction::DoNothing => {
            let fresh = not(&taken(env, def, &rows, &mut seen)?)?;
            Ok(Outcome {
                ended: None,
                begun: vec![filter_record_batch(&rows, &fresh)?],
            })
        }
        ast::OnConflictAction::DoUpdate(update) => {
            check_once(def, &rows)?;
            let taken = taken(env, def, &rows, &mut seen)?;
            let conflicting = filter_record_batch(&rows, &taken)?;
            let mut outcome = merge(env, def, alias, conflicting, update).await?;
            outcome.begun.push(filter_record_batch(&rows, &not(&taken)?)?);
            Ok(outcome)
        }
    }
}

/// The conflict must be about the primary key: it is what rows are looked up by.
fn check_target(def: &CollectionDef, on_conflict: &ast::OnConflict) -> Result<(), EngineError> {
    if def.key.is_empty() {
        return Err(EngineError::plan(format!(
            "`{}` has no primary key, so nothing can be in conflict with it",
            def.name
        )));
    }
    match &on_conflict.conflict_target {
        None if def.unique.is_empty() && matches!(on_conflict.action, ast::OnConflictAction::DoNothing) => Ok(()),
        None => Err(EngineError::plan(
            "ON CONFLICT must name the columns of the primary key here",
        )),
        Some(ast::ConflictTarget::Columns(columns)) => {
            let named: HashSet<String> = columns.iter().map(folded).collect();
            let key: HashSet<String> = key_columns(def).map(|column| column.name.clone()).collect();
            if named == key {
                Ok(())
            } else {
                Err(EngineError::unsupported_try(
                    "ON CONFLICT on other columns than the primary key",
                    format!(
                        "the primary key of `{}` is ({})",
                        def.name,
                        key_columns(def).map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
                    ),
                ))
            }
        }
        Some(ast::ConflictTarget::OnConstraint(_)) => Err(EngineError::unsupported_try(
            "ON CONFLICT ON CONSTRAINT",
            "name the columns of the primary key",
        )),
    }
}

/// One statement changes a row once.
fn check_once(def: &CollectionDef, rows: &RecordBatch) -> Result<(), EngineError> {
    let mut seen = HashSet::new();
    let twice = KeyCoder::new(def)?
        .encode_named(def, rows)?
        .into_iter()
        .position(|key| !seen.insert(key));
    match twice {
        None => Ok(()),
        Some(row) => Err(EngineError::Constraint {
            message: format!(
                "ON CONFLICT DO UPDATE would change the row with the key {} a second time",
                key_text(&named_columns(def, rows)?, row)
            ),
            sqlstate: "21000",
            row: Some(row as u64 + 1),
        }),
    }
}

async fn merge(
    env: &Env,
    def: &Arc<CollectionDef>,
    alias: &ast::Ident,
    conflicting: RecordBatch,
    update: &ast::DoUpdate,
) -> Result<Outcome, EngineError> {
    let target = Target {
        def: Arc::clone(def),
        alias: alias.clone(),
    };
    let assigned = assignments(&target, &update.assignments)?;
    let excluded = quoted(EXCLUDED);
    let same_key = key_columns(def)
        .map(|column| {
            build::equal(
                build::column(alias, &column.name),
                build::column(&excluded, &column.name),
            )
        })
        .fold(None, |all, one| build::and(all, Some(one)));
    let selection = build::and(same_key, update.selection.clone());
    let query = new_rows_query(&target, &assigned, vec![build::passing(EXCLUDED, excluded)], selection);
    let rows = Env::rows_table(conflicting.schema(), vec![conflicting])?;
    let updated = run_update(&target.pass(env, vec![(EXCLUDED, rows)]), &target, &assigned, &query).await?;
    if !updated.grown.schema.is_empty() {
        return Err(EngineError::unsupported("a new column in ON CONFLICT DO UPDATE"));
    }
    Ok(Outcome {
        ended: concat(&updated.ended)?,
        begun: updated.begun,
    })
}
