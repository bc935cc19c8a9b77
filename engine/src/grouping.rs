//! GROUP BY with sets of keys that DataFusion does not plan: `()`, `(a, b)`, and sets of several keys in ROLLUP and CUBE.
//!
//! They are written out as one list of GROUPING SETS, which means the same.

use sqlparser::ast::{self, Expr, GroupByExpr};

use crate::error::EngineError;

/// The most grouping sets of one GROUP BY, as in PostgreSQL.
const SETS_MAX: usize = 4096;

/// Writes the groups of a SELECT out where they are of such a kind.
pub(crate) fn write_out_groups(select: &mut ast::Select) -> Result<(), EngineError> {
    let GroupByExpr::Expressions(items, modifiers) = &mut select.group_by else {
        return Ok(());
    };
    if !modifiers.is_empty() || !items.iter().any(is_other) {
        return Ok(());
    }
    let mut sets: Vec<Vec<Expr>> = vec![Vec::new()];
    for item in std::mem::take(items) {
        let others = sets_of(item)?;
        if sets.len().saturating_mul(others.len()) > SETS_MAX {
            return Err(EngineError::plan(format!(
                "GROUP BY has more than {SETS_MAX} grouping sets"
            )));
        }
        sets = sets
            .iter()
            .flat_map(|set| others.iter().map(|other| together(set, other)))
            .collect();
    }
    match sets.as_mut_slice() {
        [one] if !one.is_empty() => *items = std::mem::take(one),
        [_] => {
            // All rows are one group, also where there are none.
            let all = Expr::value(ast::Value::Boolean(true));
            select.having.get_or_insert(all);
        }
        _ => *items = vec![Expr::GroupingSets(sets)],
    }
    Ok(())
}

fn is_other(item: &Expr) -> bool {
    let is_tuple = |keys: &Vec<Expr>| keys.len() != 1 || has_twice(keys);
    match item {
        Expr::Tuple(_) => true,
        Expr::Rollup(sets) | Expr::Cube(sets) => {
            sets.iter().any(is_tuple) || has_twice(&sets.iter().flatten().collect::<Vec<_>>())
        }
        _ => false,
    }
}

fn has_twice<T: PartialEq>(keys: &[T]) -> bool {
    keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key))
}

fn together(set: &[Expr], other: &[Expr]) -> Vec<Expr> {
    let mut keys = set.to_vec();
    for key in other {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

fn sets_of(item: Expr) -> Result<Vec<Vec<Expr>>, EngineError> {
    Ok(match item {
        Expr::Tuple(keys) => vec![keys],
        Expr::GroupingSets(sets) => sets,
        Expr::Rollup(sets) => (0..=sets.len()).rev().map(|count| sets[..count].concat()).collect(),
        Expr::Cube(sets) => {
            let count = u32::try_from(sets.len())
                .ok()
                .and_then(|bits| 1_usize.checked_shl(bits));
            let Some(count) = count.filter(|count| *count <= SETS_MAX) else {
                return Err(EngineError::plan(format!(
                    "CUBE has more than {SETS_MAX} grouping sets"
                )));
            };
            let is_in = |mask: usize, at: usize| mask >> (sets.len() - 1 - at) & 1 == 1;
            let chosen = |mask: usize| sets.iter().enumerate().filter(move |(at, _)| is_in(mask, *at));
            (0..count)
                .rev()
                .map(|mask| chosen(mask).flat_map(|(_, keys)| keys.clone()).collect())
                .collect()
        }
        key => vec![vec![key]],
    })
}
