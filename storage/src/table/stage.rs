//! Whether a change fits a table: a pure function of the table and the change, the same on every replica.
//!
//! Nothing is written before everything fits, so a refusal leaves no trace.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, UInt64Type};

use super::Table;
use super::alter::Altered;
use super::distinct::Distinct;
use super::freeze::SegmentHome;
use super::keys::{KeyList, KeySpec, Keys, key_text};
use super::layers::{Layers, MainSegment, Place, Seen};
use crate::error::{ApplyRefusal, ReadError, StorageError};
use crate::layout::Layout;
use crate::record::TableChange;
use crate::runs::PendingRun;
use crate::schema::{CollectionDef, ROW_ID_COLUMN};

/// A change that fits.
pub(crate) struct StagedChange {
    /// The rows that end, by id.
    pub(crate) ended: Vec<Ended>,
    /// Rows that begin in segments of their own: before the others, in the order of their ids.
    pub(crate) attached: Vec<Arc<MainSegment>>,
    pub(crate) begun: Vec<StagedBatch>,
    /// Ids of the columns of the rows that begin.
    pub(crate) column_ids: Arc<[u32]>,
    /// What rows are found by from now on.
    pub(crate) keys: KeyList,
    /// Whether the first of these is the primary key.
    pub(crate) has_primary: bool,
}

/// A row that ends.
pub(crate) struct Ended {
    pub(crate) row: u64,
    pub(crate) place: Place,
}

/// Why a change does not take effect.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It does not fit, and does not on any replica.
    Refused(ApplyRefusal),
    /// Whether it fits cannot be told here, because rows cannot be read.
    Unreadable(StorageError),
}

impl From<ApplyRefusal> for Unfit {
    fn from(refusal: ApplyRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ReadError> for Unfit {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(error) => Self::Unreadable(error),
            other => Self::Refused(ApplyRefusal::schema(other)),
        }
    }
}

impl From<StorageError> for Unfit {
    fn from(error: StorageError) -> Self {
        Self::Unreadable(error)
    }
}

/// Rows that begin.
pub(crate) struct StagedBatch {
    pub(crate) rows: usize,
    /// By ordinal.
    pub(crate) columns: Vec<ArrayRef>,
    /// For each of the table's lists of indexed columns.
    pub(crate) keys: Vec<Keys>,
}

impl StagedChange {
    pub(crate) fn ended_count(&self) -> u64 {
        self.ended.len() as u64
    }

    pub(crate) fn begun_count(&self) -> u64 {
        self.attached_count() + self.begun.iter().map(|batch| batch.rows as u64).sum::<u64>()
    }

    pub(crate) fn attached_count(&self) -> u64 {
        self.attached.iter().map(|main| u64::from(main.segment.rows())).sum()
    }
}

/// A table, and what it is about to be.
pub(crate) struct Staging<'a> {
    pub(crate) table: &'a Table,
    pub(crate) def: &'a CollectionDef,
    pub(crate) layout: &'a Layout,
    /// The old definition and the rows under the new one, if the transaction alters the definition.
    pub(crate) altered: Option<Altered<'a>>,
}

/// Whether all `changes` and the rows of `runs`, made at the version `snapshot`, fit the table. No `snapshot` means that it
/// is older than the horizon: which rows had begun by then is not known any more, so none can be ended.
pub(crate) fn stage(
    staging: &Staging<'_>,
    snapshot: Option<u64>,
    (changes, runs, home): (&[TableChange], &[PendingRun], &SegmentHome),
) -> Result<StagedChange, Unfit> {
    let keys = match &staging.altered {
        None => staging.table.keys(),
        Some(altered) => altered.keys()?,
    };
    let stage = Stage {
        staging,
        def: staging.def,
        layout: staging.layout,
        keys: &keys,
        layers: staging.table.layers(),
    };
    let mut ended = Vec::new();
    for batch in changes.iter().filter_map(|change| change.ended.as_ref()) {
        stage.end(batch, snapshot, &mut ended)?;
    }
    ended.sort_unstable_by_key(|ended: &Ended| ended.row);
    if ended.windows(2).any(|pair| pair[0].row == pair[1].row) {
        return Err(stage.conflict().into());
    }
    if let Some(altered) = &staging.altered {
        altered.check(&keys, &ended)?;
    }
    let begun = changes
        .iter()
        .filter_map(|change| change.begun.as_ref())
        .filter(|batch| batch.num_rows() > 0)
        .map(|batch| stage.begin(batch))
        .collect::<Result<Vec<_>, _>>()?;
    let attached = stage.attach(runs, home)?;
    for (number, list) in staging.def.indexed().into_iter().enumerate() {
        if let Some(name) = staging.def.unique_on(list) {
            stage.check_key((number, name), &begun, &ended)?;
            if !attached.is_empty() {
                stage.check_runs((number, name), &attached, &begun, &ended)?;
            }
        }
    }
    let column_ids = staging.layout.columns.iter().map(|column| column.id).collect();
    Ok(StagedChange {
        ended,
        attached,
        begun,
        column_ids,
        has_primary: !staging.def.key.is_empty(),
        keys,
    })
}

struct Stage<'a> {
    staging: &'a Staging<'a>,
    def: &'a CollectionDef,
    layout: &'a Layout,
    keys: &'a KeyList,
    layers: Arc<Layers>,
}

impl Stage<'_> {
    /// Finds the rows that end: each must be live, and must have begun at or before the snapshot.
    fn end(&self, batch: &RecordBatch, snapshot: Option<u64>, ended: &mut Vec<Ended>) -> Result<(), Unfit> {
        let known = snapshot.map_or(0, |snapshot| self.staging.table.at(snapshot).rows);
        let mut take = |place: Option<Place>| -> Result<(), Unfit> {
            let place = place
                .filter(|place| place.lives_at(u64::MAX))
                .ok_or_else(|| self.conflict())?;
            let row = place.row_id()?;
            if row >= known {
                return Err(self.conflict().into());
            }
            ended.push(Ended { row, place });
            Ok(())
        };
        let by_id = batch.schema_ref().index_of(ROW_ID_COLUMN).is_ok();
        let Some(spec) = self.keys.first().filter(|_| !self.def.key.is_empty() && !by_id) else {
            let rows = self.named(batch, ROW_ID_COLUMN, &DataType::UInt64)?;
            let rows = rows.as_primitive::<UInt64Type>().values();
            return rows.iter().try_for_each(|row| take(self.layers.by_id(*row)?));
        };
        let columns = spec.ordinals(self.layout).into_iter().map(|ordinal| {
            let name = &self.def.columns[ordinal].name;
            self.named(batch, name, &self.layout.columns[ordinal].ty)
        });
        let keys = encode(spec, &columns.collect::<Result<Vec<_>, _>>()?)?;
        (0..keys.len()).try_for_each(|row| take(self.layers.by_key(spec, &keys, row, Seen::NOW)?))
    }

    /// Brings the columns of a batch into the order of the definition, and encodes its keys.
    fn begin(&self, batch: &RecordBatch) -> Result<StagedBatch, ApplyRefusal> {
        let columns = fit_columns(self.def, self.layout, batch)?;
        let keys = self
            .keys
            .iter()
            .map(|index| encode(index, &self.key_columns(index, &columns)));
        Ok(StagedBatch {
            rows: batch.num_rows(),
            keys: keys.collect::<Result<_, _>>()?,
            columns,
        })
    }

    /// Gives the rows of runs the ids behind all others, and checks everything of them but their keys.
    fn attach(&self, runs: &[PendingRun], home: &SegmentHome) -> Result<Vec<Arc<MainSegment>>, ApplyRefusal> {
        let mut base = self.layers.active().row_end();
        let mut attached = Vec::with_capacity(runs.len());
        for run in runs {
            let info = run.segment.info();
            self.check_run(run)?;
            let moved = info
                .based_at(base)
                .filter(|moved| info.row_ids.0 == 0 && moved.row_ids.1 >= base);
            let segment = moved.and_then(|moved| home.segment(moved, &[]));
            attached.push(segment.ok_or_else(|| schema(format!("a run of `{}` has no sound row ids", self.def.name)))?);
            base += u64::from(info.rows());
        }
        Ok(attached)
    }

    fn check_run(&self, run: &PendingRun) -> Result<(), ApplyRefusal> {
        let info = run.segment.info();
        let columns = self.def.columns.iter().map(|column| (column.id, column.ty));
        // The definition has changed since the rows were made, as rows that are read again will tell.
        if !columns.eq(run.columns.iter().copied())
            || info.sorted_by != self.def.column_ids(&self.def.key)
            || self.staging.altered.is_some()
        {
            return Err(self.conflict());
        }
        if info.row_ids.1 != u64::from(info.rows() - 1) || info.columns.len() != self.def.columns.len() {
            return Err(schema(format!("a run of `{}` does not hold together", self.def.name)));
        }
        for (ordinal, column) in self.def.columns.iter().enumerate() {
            let nulls = info.column(column.id).map(|statistics| statistics.null_count);
            if nulls != Some(0) && self.def.requires_value(ordinal) {
                return Err(ApplyRefusal::NotNull {
                    collection: self.def.name.clone(),
                    column: column.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Whether no key of the rows in runs is that of a row that stays live, of another of them, or of `begun`.
    fn check_runs(
        &self,
        (number, name): (usize, &str),
        runs: &[Arc<MainSegment>],
        begun: &[StagedBatch],
        ended: &[Ended],
    ) -> Result<(), Unfit> {
        let list = self.def.indexed()[number];
        let shared = Distinct {
            layers: &self.layers,
            spec: &self.keys[number],
            is_sorted: list == self.def.key,
            ended,
        };
        match shared.find(runs, begun.iter().map(|batch| &batch.keys[number]))? {
            None => Ok(()),
            Some(columns) => Err(Unfit::Refused(ApplyRefusal::Unique {
                collection: self.def.name.clone(),
                constraint: name.to_owned(),
                columns: self.def.column_names(list).join(", "),
                key: key_text(&columns, 0),
            })),
        }
    }

    /// Whether no key of the rows that begin is that of a row that stays live, or of another of them.
    fn check_key(&self, (number, name): (usize, &str), begun: &[StagedBatch], ended: &[Ended]) -> Result<(), Unfit> {
        let spec = &self.keys[number];
        let altered = self.staging.altered.as_ref();
        let is_new = altered.is_some_and(|altered| !altered.was_unique(spec.columns()));
        let several = begun.iter().map(|batch| batch.rows).sum::<usize>() > 1;
        let mut seen = HashSet::new();
        for batch in begun {
            let keys = &batch.keys[number];
            for row in 0..keys.len() {
                let Some((_, key)) = keys.key(row) else { continue };
                // Of a key that was unique all along, at most one row is live.
                let live = if is_new {
                    self.layers.all_by_key(spec, keys, row, Seen::NOW)?
                } else {
                    Vec::from_iter(self.layers.by_key(spec, keys, row, Seen::NOW)?)
                };
                let mut is_taken = false;
                for place in live {
                    is_taken |= !ends(ended, place.row_id()?);
                }
                if is_taken || (several && !seen.insert(key)) {
                    return Err(Unfit::Refused(ApplyRefusal::Unique {
                        collection: self.def.name.clone(),
                        constraint: name.to_owned(),
                        columns: self.def.column_names(self.def.indexed()[number]).join(", "),
                        key: key_text(&self.key_columns(spec, &batch.columns), row),
                    }));
                }
            }
        }
        Ok(())
    }

    fn key_columns(&self, index: &KeySpec, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let ordinals = index.ordinals(self.layout).into_iter();
        ordinals.map(|ordinal| Arc::clone(&columns[ordinal])).collect()
    }

    fn named(&self, batch: &RecordBatch, name: &str, ty: &DataType) -> Result<ArrayRef, ApplyRefusal> {
        match batch.column_by_name(name) {
            Some(column) if column.data_type() == ty && column.null_count() == 0 => Ok(Arc::clone(column)),
            _ => Err(schema(format!(
                "rows of `{}` end by `{name}`, a {ty} without NULL",
                self.def.name
            ))),
        }
    }

    fn conflict(&self) -> ApplyRefusal {
        ApplyRefusal::Conflict {
            collection: self.def.name.clone(),
        }
    }
}

/// The columns of a batch of rows that begin, in the order of the definition; a column that is missing is NULL.
///
/// # Errors
/// Columns that the definition does not have, of other types, or with NULL where it requires a value.
pub(crate) fn fit_columns(
    def: &CollectionDef,
    layout: &Layout,
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>, ApplyRefusal> {
    for field in batch.schema_ref().fields() {
        if def.column(field.name()).is_none() {
            return Err(schema(format!("`{}` has no column `{}`", def.name, field.name())));
        }
    }
    let columns = (0..def.columns.len()).map(|ordinal| fit_column(def, layout, batch, ordinal));
    columns.collect()
}

fn fit_column(
    def: &CollectionDef,
    layout: &Layout,
    batch: &RecordBatch,
    ordinal: usize,
) -> Result<ArrayRef, ApplyRefusal> {
    let column = &def.columns[ordinal];
    let ty = &layout.columns[ordinal].ty;
    let array = match batch.schema_ref().index_of(&column.name) {
        Err(_) => new_null_array(ty, batch.num_rows()),
        Ok(at) => Arc::clone(batch.column(at)),
    };
    if array.data_type() != ty {
        let found = array.data_type();
        return Err(schema(format!(
            "`{}` of `{}` is {}, not {found}",
            column.name, def.name, column.ty
        )));
    }
    if def.requires_value(ordinal) && array.null_count() > 0 {
        return Err(ApplyRefusal::NotNull {
            collection: def.name.clone(),
            column: column.name.clone(),
        });
    }
    Ok(array)
}

fn encode(index: &KeySpec, columns: &[ArrayRef]) -> Result<Keys, ApplyRefusal> {
    index.encode(columns).map_err(ApplyRefusal::schema)
}

/// Whether a row is among those that end.
pub(super) fn ends(ended: &[Ended], row: u64) -> bool {
    ended.binary_search_by_key(&row, |ended| ended.row).is_ok()
}

fn schema(why: String) -> ApplyRefusal {
    ApplyRefusal::Schema { why }
}
