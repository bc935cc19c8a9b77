//! ON CONFLICT: rows whose key exists already are left alone, or turned into an update.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{Field, Schema};
use candor_storage::{CollectionDef, KeyKind};
use sqlparser::ast;

use super::assign::{Assignments, assignments};
use super::build;
use super::direct::Direct;
use super::references::{Replaced, has_actions};
use super::sides::{Side, Sides, beside, number, split_number};
use super::{RowCompleter, unique};
use crate::env::Env;
use crate::error::EngineError;
use crate::existing::{Existing, Place};
use crate::keys::{columns_on, encode_complete, key_sets};
use crate::pending::concat;
use crate::prepare::{folded, quoted};
use crate::text::key_text;

/// What ON CONFLICT DO UPDATE calls the row that was to be inserted.
const EXCLUDED: &str = "excluded";

/// Rows that begin, and what tells the rows apart that end for them.
pub(super) struct Outcome {
    pub(super) ended: Option<RecordBatch>,
    pub(super) begun: Vec<RecordBatch>,
    pub(super) replaced: Vec<Replaced>,
}

/// No ON CONFLICT: a key that exists is an error.
pub(super) fn refuse(env: &Env, def: &Arc<CollectionDef>, rows: Vec<RecordBatch>) -> Result<Outcome, EngineError> {
    unique::check(env, def, None, &rows, None)?;
    Ok(Outcome {
        ended: None,
        begun: rows,
        replaced: Vec::new(),
    })
}

/// What a row that is to be inserted meets.
enum Met {
    /// Nothing with its key.
    Nothing,
    /// A row that is there.
    Row(Place),
    /// An earlier row of the same statement, by this key.
    Earlier(Vec<u32>),
}

/// ON CONFLICT DO NOTHING / DO UPDATE.
pub(super) async fn resolve(
    env: &Env,
    def: &Arc<CollectionDef>,
    alias: &ast::Ident,
    rows: Vec<RecordBatch>,
    on_conflict: &ast::OnConflict,
) -> Result<Outcome, EngineError> {
    let arbiters = arbiters(def, on_conflict)?;
    let Some(rows) = concat(&rows)? else {
        return Ok(Outcome {
            ended: None,
            begun: rows,
            replaced: Vec::new(),
        });
    };
    let existing = Existing::of(&env.ctx, def);
    let met = meet(def, &existing, &arbiters, &rows)?;
    let fresh = met.iter().enumerate().filter(|(_, met)| matches!(met, Met::Nothing));
    let fresh: Vec<u64> = fresh.map(|(row, _)| row as u64).collect();
    let outcome = match &on_conflict.action {
        ast::OnConflictAction::DoNothing => Outcome {
            ended: None,
            begun: vec![take(&rows, &fresh)?],
            replaced: Vec::new(),
        },
        ast::OnConflictAction::DoUpdate(update) => {
            let meetings = meetings(def, &rows, &met)?;
            let merged = merge(env, def, alias, &existing, &rows, &meetings, update).await?;
            in_order(&rows, &fresh, merged)?
        }
    };
    unique::check(env, def, outcome.ended.as_ref(), &outcome.begun, None)?;
    Ok(outcome)
}

fn take(rows: &RecordBatch, at: &[u64]) -> Result<RecordBatch, EngineError> {
    Ok(take_record_batch(rows, &UInt64Array::from(at.to_vec()))?)
}

/// The keys that the statement has an answer for.
fn arbiters(def: &CollectionDef, on_conflict: &ast::OnConflict) -> Result<Vec<Vec<u32>>, EngineError> {
    match &on_conflict.conflict_target {
        None if matches!(on_conflict.action, ast::OnConflictAction::DoNothing) => {
            Ok(key_sets(def).map(<[u32]>::to_vec).collect())
        }
        None => Err(EngineError::plan(
            "ON CONFLICT DO UPDATE must say which key it is about: ON CONFLICT (columns) DO UPDATE",
        )),
        Some(ast::ConflictTarget::Columns(columns)) => {
            let named: HashSet<String> = columns.iter().map(folded).collect();
            if let Some(unknown) = named.iter().find(|name| def.column(name).is_none()) {
                return Err(super::grow::unknown_column(def, unknown));
            }
            let is_named =
                |key: &&[u32]| names(def, key).collect::<HashSet<_>>() == named.iter().map(String::as_str).collect();
            let matching: Vec<_> = key_sets(def).filter(is_named).map(<[u32]>::to_vec).collect();
            if matching.is_empty() {
                return Err(no_key(def));
            }
            Ok(matching)
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => constraint(def, name).map(|key| vec![key]),
    }
}

fn names<'a>(def: &'a CollectionDef, key: &'a [u32]) -> impl Iterator<Item = &'a str> {
    key.iter().map(|at| def.columns[*at as usize].name.as_str())
}

/// The key that the constraint of this name is.
fn constraint(def: &CollectionDef, name: &ast::ObjectName) -> Result<Vec<u32>, EngineError> {
    let wanted = match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => folded(ident),
        _ => return Err(EngineError::plan(format!("`{name}` is not the name of a constraint"))),
    };
    let primary = (!def.key.is_empty()).then_some((&def.key_name, &def.key));
    // An index is no constraint, as in PostgreSQL.
    let unique = def.keys.iter().filter(|key| key.kind == KeyKind::Unique);
    let mut named = primary.into_iter().chain(unique.map(|key| (&key.name, &key.columns)));
    let found = named.find(|(name, _)| **name == wanted).map(|(_, key)| key.clone());
    found.ok_or_else(|| {
        let known = key_sets(def).map(|key| format!("({})", names(def, key).collect::<Vec<_>>().join(", ")));
        EngineError::UnknownName {
            what: "unique constraint",
            name: wanted.clone(),
            help: Some(format!(
                "`{}` has these keys: {}",
                def.name,
                known.collect::<Vec<_>>().join(", ")
            )),
            span: None,
        }
    })
}

fn no_key(def: &CollectionDef) -> EngineError {
    let known: Vec<String> = key_sets(def)
        .map(|key| format!("({})", names(def, key).collect::<Vec<_>>().join(", ")))
        .collect();
    let known = if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    };
    EngineError::plan(format!(
        "ON CONFLICT must name the columns of a primary or unique key of `{}`: {known}",
        def.name
    ))
}

/// What each row meets, taken one after another.
fn meet(
    def: &CollectionDef,
    existing: &Existing,
    arbiters: &[Vec<u32>],
    rows: &RecordBatch,
) -> Result<Vec<Met>, EngineError> {
    let mut found = Vec::with_capacity(arbiters.len());
    let mut keys = Vec::with_capacity(arbiters.len());
    for arbiter in arbiters {
        found.push(existing.find(arbiter, rows)?);
        keys.push(encode_complete(&columns_on(def, arbiter, rows)?)?);
    }
    let mut seen = vec![HashSet::new(); arbiters.len()];
    let mut met = Vec::with_capacity(rows.num_rows());
    for row in 0..rows.num_rows() {
        let there = found.iter().find_map(|found| found[row]);
        let earlier =
            || (0..arbiters.len()).find(|at| keys[*at][row].as_ref().is_some_and(|key| seen[*at].contains(key)));
        met.push(if let Some(place) = there {
            Met::Row(place)
        } else if let Some(at) = earlier() {
            Met::Earlier(arbiters[at].clone())
        } else {
            for (seen, keys) in seen.iter_mut().zip(&keys) {
                seen.extend(keys[row].clone());
            }
            Met::Nothing
        });
    }
    Ok(met)
}

/// The rows that meet one that is there, with its place.
fn meetings(def: &CollectionDef, rows: &RecordBatch, met: &[Met]) -> Result<Vec<(u64, Place)>, EngineError> {
    let mut meetings = Vec::new();
    for (row, met) in met.iter().enumerate() {
        match met {
            Met::Nothing => {}
            Met::Row(place) => meetings.push((row as u64, *place)),
            Met::Earlier(key) => return Err(second_time(def, key, rows, row)),
        }
    }
    Ok(meetings)
}

/// One statement changes a row once.
fn second_time(def: &CollectionDef, key: &[u32], rows: &RecordBatch, row: usize) -> EngineError {
    let key = columns_on(def, key, rows).map(|keys| key_text(&keys, row));
    EngineError::Constraint {
        message: format!(
            "ON CONFLICT DO UPDATE would change the row with the key {} a second time",
            key.unwrap_or_default()
        ),
        sqlstate: super::CARDINALITY_VIOLATION,
        row: Some(row as u64 + 1),
    }
}

/// Rows that are there, updated.
struct Merged {
    ended: Option<RecordBatch>,
    begun: Vec<RecordBatch>,
    replaced: Vec<Replaced>,
    /// For each row that begins, which row of the statement brought it about.
    by: Vec<u64>,
}

async fn merge(
    env: &Env,
    def: &Arc<CollectionDef>,
    alias: &ast::Ident,
    existing: &Existing,
    rows: &RecordBatch,
    meetings: &[(u64, Place)],
    update: &ast::DoUpdate,
) -> Result<Merged, EngineError> {
    let assigned = assignments(def, &update.assignments)?;
    if assigned.keys().any(|name| def.column(name).is_none()) {
        return Err(EngineError::unsupported("a new column in ON CONFLICT DO UPDATE"));
    }
    let (by, places): (Vec<u64>, Vec<Place>) = meetings.iter().copied().unzip();
    let there = existing.read(&places)?;
    let brought = take(rows, &by)?;
    let pairs = beside(&there, &brought)?;
    let sides = vec![
        Side::collection(alias, def),
        Side::new(quoted(EXCLUDED), &rows.schema()),
    ];
    let value = |(at, column): (usize, &candor_storage::ColumnDef)| {
        let value = assigned.get(&column.name).cloned();
        let value = value.unwrap_or_else(|| build::column(alias, &column.name));
        build::named(value, &format!("\0new{at}"))
    };
    let mut projection: Vec<_> = def.columns.iter().enumerate().map(value).collect();
    projection.push(number());
    let sides = Sides::new(sides, vec![pairs]).numbered()?;
    let batches = match directly(env, def, &sides, &assigned, update.selection.as_ref()) {
        Some(batch) => vec![batch],
        None => sides.select(env, projection, update.selection.clone()).await?.1,
    };
    let names: Vec<String> = def.columns.iter().map(|column| column.name.clone()).collect();
    let mut completer = RowCompleter::new(env, def, &names)?;
    let identity = existing.identity(&places, &there)?;
    let mut seen = HashSet::new();
    let mut merged = Merged {
        ended: None,
        begun: Vec::new(),
        replaced: Vec::new(),
        by: Vec::new(),
    };
    let mut ended = Vec::new();
    for batch in &batches {
        let (values, numbers) = split_number(batch)?;
        for at in numbers.values() {
            if !seen.insert(places[*at as usize]) {
                let arbiter = key_sets(def).next().unwrap_or_default();
                return Err(second_time(def, arbiter, rows, by[*at as usize] as usize));
            }
            merged.by.push(by[*at as usize]);
        }
        let begun = completer.complete(values.columns(), values.num_rows())?;
        let old = take_record_batch(&identity, numbers)?;
        if has_actions(env, def) {
            merged.replaced.push(Replaced {
                collection: def.id,
                ended: old.clone(),
                begun: begun.clone(),
            });
        }
        merged.begun.push(begun);
        ended.push(old);
    }
    merged.ended = concat(&ended)?;
    Ok(merged)
}

/// The new values and the number of each row that is updated, if that can be told without a plan.
fn directly(
    env: &Env,
    def: &CollectionDef,
    sides: &Sides,
    assigned: &Assignments,
    selection: Option<&ast::Expr>,
) -> Option<RecordBatch> {
    let (named, [rows]) = sides.parts() else { return None };
    let direct = Direct::new(env, named)?;
    let rows = match selection {
        Some(condition) => filter_record_batch(rows, &direct.holds(condition, rows)?).ok()?,
        None => rows.clone(),
    };
    let mut values = direct.updated(def, assigned, &rows)?;
    values.push(Arc::clone(rows.columns().last()?));
    let field = |(at, values): (usize, &ArrayRef)| Field::new(at.to_string(), values.data_type().clone(), true);
    let schema = Schema::new(values.iter().enumerate().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), values).ok()
}

/// Inserted and updated rows in the order of the statement.
fn in_order(rows: &RecordBatch, fresh: &[u64], merged: Merged) -> Result<Outcome, EngineError> {
    let mut by = merged.by;
    by.extend(fresh);
    let mut begun = merged.begun;
    begun.push(take(rows, fresh)?);
    let mut order: Vec<u64> = (0..by.len() as u64).collect();
    order.sort_by_key(|at| by[*at as usize]);
    let begun = match concat(&begun)? {
        Some(all) => vec![take(&all, &order)?],
        None => begun,
    };
    Ok(Outcome {
        ended: merged.ended,
        begun,
        replaced: merged.replaced,
    })
}
