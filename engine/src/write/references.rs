//! What a write does to the children of the rows that it ends: the actions of foreign keys.
//!
//! A statement is evaluated first, without a thought of others. Then each key that no parent has any more is followed to
//! its children, which go too, or take another key; their own children are followed in turn. Whether every child has its
//! parent in the end is decided where the write is applied: there a child that another writer has brought meanwhile is a
//! conflict, and the statement is evaluated again. NO ACTION asks for nothing here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{cast, filter_record_batch, take};
use arrow::datatypes::{Field, Schema};
use candor_storage::{CollectionDef, CollectionId, ForeignAction, ForeignKeyDef, TableChange};

use super::unique::identity_keys;
use super::{Evaluated, RowCompleter};
use crate::env::Env;
use crate::error::EngineError;
use crate::existing::Existing;
use crate::keys::{Key, columns_on, encode_complete};

/// Rows that others replace: what tells the old ones apart, and the new ones in the same order.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) collection: CollectionId,
    pub(crate) ended: RecordBatch,
    pub(crate) begun: RecordBatch,
}

/// Whether a foreign key has more to do than to refuse when rows of the collection end.
pub(super) fn has_actions(env: &Env, def: &CollectionDef) -> bool {
    let mut references = env.names.definitions().references_to(def.id);
    references.any(|(_, key)| key.on_delete != ForeignAction::NoAction || key.on_update != ForeignAction::NoAction)
}

/// Adds to a write what the foreign keys ask for that point to its collections.
///
/// # Errors
/// A child that RESTRICT keeps its parent for; a child that cannot take its new key.
pub(crate) fn carry_out(env: &Env, evaluated: Evaluated) -> Result<Evaluated, EngineError> {
    let definitions = env.names.definitions();
    let ends = |change: &&TableChange| {
        let def = definitions.collection_by_id(change.collection);
        change.ended.is_some() && def.is_some_and(|def| has_actions(env, def))
    };
    if !evaluated.changes.iter().any(|change| ends(&change)) {
        return Ok(evaluated);
    }
    let mut gone = VecDeque::new();
    for change in evaluated.changes.iter().filter(ends) {
        gone.extend(rows_gone(env, change, &evaluated.updated)?);
    }
    let mut run = Run {
        after: env.with_written(&evaluated)?,
        more: Vec::new(),
        gone,
    };
    run.all()?;
    let Run { after, more, .. } = run;
    if more.is_empty() {
        return Ok(evaluated);
    }
    // Inside a transaction the changes are added to those before, one after another. Outside of one they reach the store
    // at once, where a row that comes and goes is no row.
    let changes = match (&env.ctx.pending, &after.ctx.pending) {
        (None, Some(written)) => written.changes()?,
        _ => evaluated.changes.into_iter().chain(more).collect(),
    };
    Ok(Evaluated { changes, ..evaluated })
}

/// Rows that are no more, with all columns, and those that replace them.
struct Gone {
    def: Arc<CollectionDef>,
    old: RecordBatch,
    new: Option<RecordBatch>,
}

/// The rows that a statement ends, those that are replaced by themselves.
fn rows_gone(env: &Env, change: &TableChange, updated: &[Replaced]) -> Result<Vec<Gone>, EngineError> {
    let def = env.names.definitions().collection_by_id(change.collection);
    let (Some(def), Some(ended)) = (def, &change.ended) else {
        return Ok(Vec::new());
    };
    let existing = Existing::of(&env.ctx, def);
    let mut gone = Vec::new();
    let mut replaced = HashSet::new();
    for pair in updated.iter().filter(|pair| pair.collection == def.id) {
        replaced.extend(identity_keys(def, &pair.ended)?);
        gone.push(Gone {
            def: Arc::clone(def),
            old: existing.read(&existing.places_of(&pair.ended)?)?,
            new: Some(pair.begun.clone()),
        });
    }
    let keys = identity_keys(def, ended)?;
    let deleted: BooleanArray = keys.iter().map(|key| Some(!replaced.contains(key))).collect();
    let deleted = filter_record_batch(ended, &deleted)?;
    if deleted.num_rows() > 0 {
        gone.push(Gone {
            def: Arc::clone(def),
            old: existing.read(&existing.places_of(&deleted)?)?,
            new: None,
        });
    }
    Ok(gone)
}

struct Run {
    /// Everything as it is after what is gathered so far.
    after: Env,
    more: Vec<TableChange>,
    gone: VecDeque<Gone>,
}

/// A key that no parent has any more, and what takes its place.
struct LostKeys {
    /// The values, in the types of the child's columns and under their names.
    keys: RecordBatch,
    /// The row of each key in `keys`.
    at: HashMap<Key, usize>,
    /// The new values, in the same order, for keys that were changed.
    new: Option<Vec<ArrayRef>>,
}

impl Run {
    fn all(&mut self) -> Result<(), EngineError> {
        while let Some(gone) = self.gone.pop_front() {
            let definitions = Arc::clone(self.after.names.definitions());
            for (child, key) in definitions.references_to(gone.def.id) {
                let action = match gone.new {
                    None => key.on_delete,
                    Some(_) => key.on_update,
                };
                if action == ForeignAction::NoAction {
                    continue;
                }
                if let Some(lost) = self.lost(&gone, child, key)? {
                    self.act(&gone, child, key, action, &lost)?;
                }
            }
        }
        Ok(())
    }

    /// The keys of `gone` that no row has any more.
    fn lost(&self, gone: &Gone, child: &CollectionDef, key: &ForeignKeyDef) -> Result<Option<LostKeys>, EngineError> {
        let parent = &gone.def;
        let ordinals = key.parent_columns.iter().map(|id| parent.ordinal_of(*id));
        let ordinals: Option<Vec<usize>> = ordinals.collect();
        let ordinals = ordinals.ok_or_else(|| EngineError::internal("a foreign key points to no column"))?;
        let on: Vec<u32> = ordinals.iter().map(|ordinal| *ordinal as u32).collect();
        let there = Existing::of(&self.after.ctx, parent).find(&on, &gone.old)?;
        let rows: Vec<u64> = (0..there.len())
            .filter(|row| there[*row].is_none())
            .map(|row| row as u64)
            .collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let rows = UInt64Array::from(rows);
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (at, ordinal) in key.columns.iter().zip(&ordinals) {
            let column = &child.columns[*at as usize];
            // A value that the child's type cannot hold is no child's.
            let values = cast(&take(gone.old.column(*ordinal), &rows, None)?, &column.ty.arrow())?;
            fields.push(Field::new(&column.name, column.ty.arrow(), true));
            columns.push(values);
        }
        let keys = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        let encoded = encode_complete(&columns_on(child, &key.columns, &keys)?)?;
        let at = encoded
            .into_iter()
            .enumerate()
            .filter_map(|(row, key)| Some((key?, row)));
        let new = gone.new.as_ref().map(|new| {
            let new = ordinals.iter().map(|ordinal| take(new.column(*ordinal), &rows, None));
            new.collect::<Result<Vec<_>, _>>()
        });
        Ok(Some(LostKeys {
            keys,
            at: at.collect(),
            new: new.transpose()?,
        }))
    }

    fn act(
        &mut self,
        gone: &Gone,
        child: &Arc<CollectionDef>,
        key: &ForeignKeyDef,
        action: ForeignAction,
        lost: &LostKeys,
    ) -> Result<(), EngineError> {
        let existing = Existing::of(&self.after.ctx, child);
        let places = existing.find_all(&key.columns, &lost.keys)?;
        if places.is_empty() {
            return Ok(());
        }
        if action == ForeignAction::Restrict {
            return Err(EngineError::Constraint {
                message: format!(
                    "rows of `{}` cannot go, because the foreign key `{}` of `{}` restricts it",
                    gone.def.name, key.name, child.name
                ),
                sqlstate: "23001",
                row: None,
            });
        }
        let old = existing.read(&places)?;
        let ended = existing.identity(&places, &old)?;
        let new = match (action, &lost.new) {
            (ForeignAction::Cascade, None) => None,
            (ForeignAction::Cascade, Some(values)) => {
                let rows = encode_complete(&columns_on(child, &key.columns, &old)?)?;
                let parent = |row: Option<Key>| row.and_then(|row| lost.at.get(&row).map(|at| *at as u64));
                let rows: UInt64Array = rows.into_iter().map(parent).collect();
                let values = values.iter().map(|values| take(values, &rows, None));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                Some(self.with_key(child, key, &old, Some(&values))?)
            }
            (ForeignAction::SetNull, _) => {
                let null = |at: &u32| new_null_array(&child.columns[*at as usize].ty.arrow(), old.num_rows());
                let values: Vec<ArrayRef> = key.columns.iter().map(null).collect();
                Some(self.with_key(child, key, &old, Some(&values))?)
            }
            _ => Some(self.with_key(child, key, &old, None)?),
        };
        let change = TableChange {
            collection: child.id,
            ended: Some(ended),
            begun: new.clone(),
        };
        self.after = self.after.with_written(&Evaluated {
            changes: vec![change.clone()],
            ..Evaluated::nothing()
        })?;
        self.more.push(change);
        self.gone.push_back(Gone {
            def: Arc::clone(child),
            old,
            new,
        });
        Ok(())
    }

    /// Children with other values in their key; none = with its defaults.
    fn with_key(
        &self,
        child: &Arc<CollectionDef>,
        key: &ForeignKeyDef,
        old: &RecordBatch,
        values: Option<&[ArrayRef]>,
    ) -> Result<RecordBatch, EngineError> {
        let mut names = Vec::new();
        let mut given = Vec::new();
        for (ordinal, column) in child.columns.iter().enumerate() {
            let place = key.columns.iter().position(|at| *at as usize == ordinal);
            let value = match (place, values) {
                (None, _) => Arc::clone(old.column(ordinal)),
                (Some(place), Some(values)) => Arc::clone(&values[place]),
                (Some(_), None) => continue,
            };
            names.push(column.name.clone());
            given.push(value);
        }
        RowCompleter::new(&self.after, child, &names)?.complete(&given, old.num_rows())
    }
}
