//! What another definition asks of the rows that are there: values where they are required now, and indexes for keys
//! that are new. A pure function of the rows and the two definitions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;

use super::keys::{KeyList, KeySpec, Late, key_text};
use super::stage::{Ended, ends};
use super::{RowId, Table, TableSnapshot, Unfit};
use crate::error::ApplyRefusal;
use crate::schema::CollectionDef;
use crate::segments::PartRead;

/// Rows are looked at this many at a time.
pub(super) const LOOKED_AT_ROWS: usize = 16_384;

/// The rows of a table under their old definition and under the new one.
pub(crate) struct Altered<'a> {
    pub(crate) table: &'a Table,
    pub(crate) old: &'a CollectionDef,
    /// The rows that are there, seen through the new definition.
    pub(crate) rows: TableSnapshot,
}

impl Altered<'_> {
    fn def(&self) -> &CollectionDef {
        self.rows.def()
    }

    /// The indexes that the new definition asks for: those that are there, and new ones for lists of columns that were
    /// not indexed, or not by a unique key.
    pub(crate) fn keys(&self) -> Result<KeyList, Unfit> {
        let present = self.table.keys();
        let lists = self.def().indexed().into_iter().map(|list| {
            let ids = self.def().column_ids(list);
            let promised = self.def().unique_on(list).is_none() || self.was_unique(&ids);
            match present.iter().find(|index| index.columns() == ids) {
                Some(index) if promised => Ok(Arc::clone(index)),
                _ => self.late(list).map(Arc::new),
            }
        });
        lists.collect()
    }

    /// Whether the columns with these ids were a unique key already.
    pub(crate) fn was_unique(&self, ids: &[u32]) -> bool {
        let ordinals = ids.iter().map(|id| self.old.ordinal_of(*id).map(|at| at as u32));
        let ordinals: Option<Vec<u32>> = ordinals.collect();
        ordinals.is_some_and(|ordinals| self.old.unique_on(&ordinals).is_some())
    }

    /// What rows are found by that were not found by it before.
    fn late(&self, list: &[u32]) -> Result<KeySpec, Unfit> {
        let mut spec = KeySpec::new(self.def(), list);
        let index = spec.index();
        let ordinals: Vec<usize> = list.iter().map(|ordinal| *ordinal as usize).collect();
        let mut row_end = 0;
        let mut batches = Vec::new();
        each(&self.rows, &ordinals, |rows, columns| {
            let keys = spec.encode(columns).map_err(ApplyRefusal::schema)?;
            for (at, row) in rows.iter().enumerate() {
                if keys.key(at).is_some() {
                    row_end = row_end.max(*row + 1);
                }
            }
            batches.push((rows.to_vec(), keys));
            Ok(())
        })?;
        // An index takes rows in the order of their ids, and segments hold them in the order of the key.
        let mut order: Vec<(u64, usize, usize)> = Vec::new();
        for (batch, (rows, _)) in batches.iter().enumerate() {
            order.extend(rows.iter().enumerate().map(|(at, row)| (*row, batch, at)));
        }
        order.sort_unstable();
        for (row, batch, at) in order {
            if let Some((hash, key)) = batches[batch].1.key(at) {
                index.insert(hash, key, row);
            }
        }
        let row_end = row_end.max(self.table.at(u64::MAX).rows);
        let version = self.rows.version();
        spec.set_late(Late {
            version,
            row_end,
            index,
        });
        Ok(spec)
    }

    /// Whether no two rows that stay share a unique key that is new, and none has a NULL where a value is required now.
    /// `ended` are the rows that the transaction ends, in ascending order.
    pub(crate) fn check(&self, keys: &KeyList, ended: &[Ended]) -> Result<(), Unfit> {
        self.check_nulls(ended)?;
        for (index, list) in keys.iter().zip(self.def().indexed()) {
            match self.def().unique_on(list) {
                Some(name) if !self.was_unique(index.columns()) => self.check_unique(index, list, name, ended)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_unique(&self, spec: &KeySpec, list: &[u32], name: &str, ended: &[Ended]) -> Result<(), Unfit> {
        let second = spec.late().and_then(|late| late.index.second(|row| !ends(ended, row)));
        let Some(row) = second else {
            return Ok(());
        };
        let ordinals: Vec<usize> = list.iter().map(|ordinal| *ordinal as usize).collect();
        let key = self
            .rows
            .rows(&[RowId(row)], Some(&ordinals))
            .map_err(ApplyRefusal::schema)?;
        Err(Unfit::Refused(ApplyRefusal::Unique {
            collection: self.def().name.clone(),
            constraint: name.to_owned(),
            columns: self.def().column_names(list).join(", "),
            key: key_text(key.columns(), 0),
        }))
    }

    fn check_nulls(&self, ended: &[Ended]) -> Result<(), Unfit> {
        let required = (0..self.def().columns.len()).filter(|ordinal| {
            let before = self.old.ordinal_of(self.def().columns[*ordinal].id);
            self.def().requires_value(*ordinal) && !before.is_some_and(|before| self.old.requires_value(before))
        });
        let required: Vec<usize> = required.collect();
        if required.is_empty() {
            return Ok(());
        }
        each(&self.rows, &required, |rows, columns| {
            for (column, ordinal) in columns.iter().zip(&required) {
                let stays = |at: usize| column.is_null(at) && !ends(ended, rows[at]);
                if column.null_count() > 0 && (0..rows.len()).any(stays) {
                    return Err(Unfit::Refused(ApplyRefusal::NotNull {
                        collection: self.def().name.clone(),
                        column: self.def().columns[*ordinal].name.clone(),
                    }));
                }
            }
            Ok(())
        })
    }
}

/// Shows all rows, some at a time: their ids, ascending, and their values in the columns at `ordinals`.
pub(super) fn each(
    rows: &TableSnapshot,
    ordinals: &[usize],
    mut look: impl FnMut(&[u64], &[ArrayRef]) -> Result<(), Unfit>,
) -> Result<(), Unfit> {
    let request = PartRead {
        projection: ordinals.to_vec(),
        with_row_id: true,
        batch_rows: LOOKED_AT_ROWS,
        filter: None,
    };
    for part in rows.parts() {
        for batch in part.read(&request)? {
            let batch = batch?;
            let (columns, ids) = batch.columns().split_at(ordinals.len());
            look(ids[0].as_primitive::<UInt64Type>().values(), columns)?;
        }
    }
    Ok(())
}
