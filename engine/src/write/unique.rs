//! Keys that exist already, found before a write is proposed.
//!
//! The store has the last word, at the moment a write is applied. Looking here too keeps writes out of the log that will
//! be refused, names the row, and lets a statement inside a transaction fail where it stands and not at COMMIT.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use candor_storage::CollectionDef;

use crate::env::Env;
use crate::error::EngineError;
use crate::existing::{Existing, Place};
use crate::keys::{Key, KeyCoder, columns_on, encode_complete, key_sets, shown_key};

/// More rows than this are left to the store, except inside a transaction.
const CHECKED_ROWS_MAX: usize = 1024;

/// Refuses rows that begin with a key that another row has: one of the collection's that `ended` does not end, or one
/// of themselves. `changed` are the columns that an update gives new values, all others being as they were; `None` = all.
///
/// # Errors
/// [`EngineError::Unique`].
pub(super) fn check(
    env: &Env,
    def: &Arc<CollectionDef>,
    ended: Option<&RecordBatch>,
    begun: &[RecordBatch],
    changed: Option<&HashSet<usize>>,
) -> Result<(), EngineError> {
    let count: usize = begun.iter().map(RecordBatch::num_rows).sum();
    if count == 0 || (count > CHECKED_ROWS_MAX && env.ctx.pending.is_none()) {
        return Ok(());
    }
    // A column that is made of others may change with any of them.
    let is_made = |at: usize| def.columns[at].generated.is_some();
    let may_change = |changed: &HashSet<usize>, at: usize| changed.contains(&at) || is_made(at);
    let touched = |key: &&[u32]| changed.is_none_or(|changed| key.iter().any(|at| may_change(changed, *at as usize)));
    let existing = Existing::of(&env.ctx, def);
    let ended = match ended {
        Some(ended) => identities(def, ended)?,
        None => HashSet::new(),
    };
    for key in key_sets(def).filter(touched) {
        let mut seen = HashSet::new();
        let mut first_row = 1;
        for rows in begun {
            let keys = columns_on(def, key, rows)?;
            let standing = standing(&existing, def, key, rows, &ended)?;
            for (row, encoded) in encode_complete(&keys)?.into_iter().enumerate() {
                let Some(encoded) = encoded else { continue };
                if standing[row] || !seen.insert(encoded) {
                    return Err(EngineError::Unique {
                        collection: def.name.clone(),
                        key: shown_key(def, key, &keys, row),
                        row: Some(first_row + row as u64),
                    });
                }
            }
            first_row += rows.num_rows() as u64;
        }
    }
    Ok(())
}

/// For each of `rows` whether a row has its key that `ended` does not end.
fn standing(
    existing: &Existing,
    def: &CollectionDef,
    key: &[u32],
    rows: &RecordBatch,
    ended: &HashSet<Key>,
) -> Result<Vec<bool>, EngineError> {
    let found = existing.find(key, rows)?;
    let mut standing: Vec<bool> = found.iter().map(Option::is_some).collect();
    if ended.is_empty() {
        return Ok(standing);
    }
    let places: Vec<Place> = found.iter().flatten().copied().collect();
    if places.is_empty() {
        return Ok(standing);
    }
    let identity = existing.identity(&places, &existing.read(&places)?)?;
    let mut ends = identity_keys(def, &identity)?
        .into_iter()
        .map(|key| ended.contains(&key));
    for standing in standing.iter_mut().filter(|standing| **standing) {
        *standing = !ends.next().unwrap_or(false);
    }
    Ok(standing)
}

/// What tells the rows of a change apart, as bytes.
pub(super) fn identity_keys(def: &CollectionDef, identity: &RecordBatch) -> Result<Vec<Key>, EngineError> {
    if def.key.is_empty() {
        KeyCoder::of_types(identity)?.encode(identity.columns())
    } else {
        KeyCoder::new(def)?.encode_named(def, identity)
    }
}

fn identities(def: &CollectionDef, ended: &RecordBatch) -> Result<HashSet<Key>, EngineError> {
    Ok(identity_keys(def, ended)?.into_iter().collect())
}
