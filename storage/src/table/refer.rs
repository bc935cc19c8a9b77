//! Whether every child has its parent after a transaction: a pure function of the tables and what is staged.
//!
//! Only what the transaction touches is looked at: rows that begin in a table with foreign keys, and rows that end in a
//! table that foreign keys point to. A foreign key that is new is checked for all rows of its table.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::error::ArrowError;

use super::alter::{LOOKED_AT_ROWS, each};
use super::keys::{KeySpec, Keys, key_text};
use super::layers::{Place, Seen};
use super::stage::ends;
use super::{RowId, StagedChange, Table, TableSnapshot, Unfit};
use crate::error::ApplyRefusal;
use crate::schema::{CollectionDef, ForeignKeyDef};

/// A table as it was before the transaction, seen through its new definition, and what the transaction does to it.
pub(crate) struct Side<'a> {
    pub(crate) table: &'a Table,
    pub(crate) rows: TableSnapshot,
    pub(crate) staged: Option<&'a StagedChange>,
}

/// One foreign key between its two tables, which may be the same.
pub(crate) struct Reference<'a> {
    pub(crate) key: &'a ForeignKeyDef,
    pub(crate) child: &'a Side<'a>,
    pub(crate) parent: &'a Side<'a>,
}

impl Side<'_> {
    fn def(&self) -> &CollectionDef {
        self.rows.def()
    }

    /// What rows are found by on the columns at `ordinals`, and its place among those of the table.
    fn spec(&self, ordinals: &[u32]) -> Result<(usize, Arc<KeySpec>), ApplyRefusal> {
        let place = self.def().indexed().into_iter().position(|list| list == ordinals);
        let keys = self
            .staged
            .map_or_else(|| self.table.keys(), |staged| Arc::clone(&staged.keys));
        let spec = place.and_then(|place| Some((place, Arc::clone(keys.get(place)?))));
        spec.ok_or_else(|| ApplyRefusal::schema(format!("a key of `{}` has no index", self.def().name)))
    }

    /// Whether a row that is live now still is after the transaction.
    fn stays(&self, row: u64) -> bool {
        !self.staged.is_some_and(|staged| ends(&staged.ended, row))
    }

    /// Whether a row that is there now, or comes in a segment, has the key in row `at` of `keys`, and stays.
    fn has_stored(&self, spec: &Arc<KeySpec>, keys: &Keys, at: usize) -> Result<bool, Unfit> {
        let any = |places: &mut dyn Iterator<Item = Place>| -> Result<bool, Unfit> {
            for place in places {
                if self.stays(place.row_id()?) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let layers = self.table.layers();
        let wanted = keys.wanted(spec, at);
        for main in self.staged.iter().flat_map(|staged| &staged.attached) {
            if let Some(wanted) = wanted
                && !main.segment.find(wanted)?.is_empty()
            {
                return Ok(true);
            }
        }
        // Mostly the newest one is it.
        Ok(any(&mut layers.by_key(spec, keys, at, Seen::NOW)?.into_iter())?
            || any(&mut layers.all_by_key(spec, keys, at, Seen::NOW)?.into_iter())?)
    }

    /// The keys of the rows that begin.
    fn begun(&self, place: usize) -> HashSet<&[u8]> {
        let batches = self.staged.iter().flat_map(|staged| &staged.begun);
        let keys = batches.map(|batch| &batch.keys[place]);
        keys.flat_map(|keys| (0..keys.len()).filter_map(|row| keys.key(row).map(|(_, key)| key)))
            .collect()
    }
}

impl Reference<'_> {
    /// Whether the rows that begin in the child have their parents, or all of its rows if the foreign key is new.
    pub(crate) fn check_children(&self, is_new: bool) -> Result<(), Unfit> {
        let (place, spec) = self.parent.spec(&self.parent_ordinals()?)?;
        let begun = self.parent.begun(place);
        let check = |row_stays: &dyn Fn(usize) -> bool, columns: &[ArrayRef]| -> Result<(), Unfit> {
            let keys = encode(&spec, columns).map_err(ApplyRefusal::schema)?;
            for row in 0..keys.len() {
                let has_key = columns.iter().all(|column| column.is_valid(row));
                if !has_key || !row_stays(row) {
                    continue;
                }
                let comes = keys.key(row).is_some_and(|(_, key)| begun.contains(key));
                if !comes && !self.parent.has_stored(&spec, &keys, row)? {
                    return Err(self.violation(columns, row).into());
                }
            }
            Ok(())
        };
        for batch in self.child.staged.iter().flat_map(|staged| &staged.begun) {
            let columns = self.key.columns.iter();
            let columns = columns.map(|ordinal| Arc::clone(&batch.columns[*ordinal as usize]));
            check(&|_| true, &columns.collect::<Vec<_>>())?;
        }
        let ids = self.child.def().column_ids(&self.key.columns);
        let layout = self.child.rows.layout();
        let types = self
            .key
            .columns
            .iter()
            .map(|ordinal| layout.columns[*ordinal as usize].ty.clone());
        let types: Vec<_> = types.collect();
        for main in self.child.staged.iter().flat_map(|staged| &staged.attached) {
            let rows: Vec<u32> = (0..main.segment.rows()).collect();
            for rows in rows.chunks(LOOKED_AT_ROWS) {
                check(&|_| true, &main.values(&ids, &types, rows)?)?;
            }
        }
        if !is_new {
            return Ok(());
        }
        let ordinals: Vec<usize> = self.key.columns.iter().map(|ordinal| *ordinal as usize).collect();
        each(&self.child.rows, &ordinals, |rows, columns| {
            check(&|row| self.child.stays(rows[row]), columns)
        })
    }

    /// Whether no child is left of the rows that end in the parent.
    pub(crate) fn check_parents(&self) -> Result<(), Unfit> {
        let Some(staged) = self.parent.staged.filter(|staged| !staged.ended.is_empty()) else {
            return Ok(());
        };
        let ordinals = self.parent_ordinals()?;
        let (place, parents) = self.parent.spec(&ordinals)?;
        let (_, children) = self.child.spec(&self.key.columns)?;
        let begun = self.parent.begun(place);
        let ended: Vec<RowId> = staged.ended.iter().map(|ended| RowId(ended.row)).collect();
        let ordinals: Vec<usize> = ordinals.into_iter().map(|ordinal| ordinal as usize).collect();
        let old = self.parent.rows.rows(&ended, Some(&ordinals))?;
        let parent_keys = encode(&parents, old.columns()).map_err(ApplyRefusal::schema)?;
        let child_keys = encode(&children, old.columns()).map_err(ApplyRefusal::schema)?;
        for row in 0..ended.len() {
            let Some((_, key)) = parent_keys.key(row) else { continue };
            let stays = begun.contains(key) || self.parent.has_stored(&parents, &parent_keys, row)?;
            if !stays && self.child.has_stored(&children, &child_keys, row)? {
                return Err(self.left(old.columns(), row).into());
            }
        }
        Ok(())
    }

    fn parent_ordinals(&self) -> Result<Vec<u32>, ApplyRefusal> {
        let ordinal = |id: &u32| self.parent.def().ordinal_of(*id).map(|at| at as u32);
        let ordinals: Option<Vec<u32>> = self.key.parent_columns.iter().map(ordinal).collect();
        ordinals.ok_or_else(|| ApplyRefusal::schema(format!("`{}` points to a column that is gone", self.key.name)))
    }

    /// A child is left: a violation, unless the writer meant to change the children and one came meanwhile.
    fn left(&self, columns: &[ArrayRef], row: usize) -> ApplyRefusal {
        if self.key.on_delete.changes_children() || self.key.on_update.changes_children() {
            return ApplyRefusal::Conflict {
                collection: self.child.def().name.clone(),
            };
        }
        self.violation(columns, row)
    }

    fn violation(&self, columns: &[ArrayRef], row: usize) -> ApplyRefusal {
        ApplyRefusal::ForeignKey {
            collection: self.child.def().name.clone(),
            constraint: self.key.name.clone(),
            columns: self.child.def().column_names(&self.key.columns).join(", "),
            key: key_text(columns, row),
            parent: self.parent.def().name.clone(),
        }
    }
}

/// Keys of another table's columns: a value that does not fit the type of this index makes a key that is not there.
fn encode(index: &KeySpec, columns: &[ArrayRef]) -> Result<Keys, ArrowError> {
    let columns = columns.iter().zip(index.types()).map(|(column, ty)| {
        if column.data_type() == ty {
            Ok(Arc::clone(column))
        } else {
            cast(column, ty)
        }
    });
    index.encode(&columns.collect::<Result<Vec<_>, _>>()?)
}
