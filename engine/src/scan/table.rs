//! What planning asks of a collection, and its rows as the statement may see them.
//!
//! A scan hands out the parts of the store, several partitions at a time, and then the rows that an open transaction
//! has written. Rows that the transaction has ended are left out. When the filters fix the whole primary key, or all
//! columns of another key or index, the rows are looked up instead. The logical plan keeps its filters (`Inexact`): the
//! physical plan hands them to the scan.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use candor_storage::{
    CollectionDef, PartRead, ROW_ID_COLUMN, RowFilter, RowId, TablePart, TableSnapshot, TableSummary,
};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, Result, ScalarValue};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::deal::{Dealt, deal};
use super::exec::{ScanExec, Source};
use crate::error::EngineError;
use crate::keys::{self, KeyCoder};
use crate::pending::PendingTable;
use crate::rules::{ColumnEstimate, TableEstimates, place};

/// Rows of a batch that the store hands out, at most.
const BATCH_ROWS: usize = 8192;

/// Rows that an index has found are read this many at a time.
pub(super) const FOUND_ROWS_MAX: usize = 8192;

/// A collection at one version, seen through an open transaction.
#[derive(Clone)]
pub(crate) struct CollectionTable {
    def: Arc<CollectionDef>,
    schema: SchemaRef,
    /// Whether the hidden row id is the last column.
    with_row_id: bool,
    base: Option<TableSnapshot>,
    pending: Option<Arc<PendingTable>>,
    constraints: Constraints,
}

impl CollectionTable {
    pub(crate) fn new(
        def: Arc<CollectionDef>,
        schema: SchemaRef,
        base: Option<TableSnapshot>,
        pending: Option<Arc<PendingTable>>,
    ) -> Self {
        let key: Vec<usize> = def.key.iter().map(|ordinal| *ordinal as usize).collect();
        let constraints = if key.is_empty() {
            Constraints::default()
        } else {
            Constraints::new_unverified(vec![Constraint::PrimaryKey(key)])
        };
        Self {
            schema,
            with_row_id: false,
            constraints,
            def,
            base,
            pending,
        }
    }

    /// The same without any rows.
    pub(crate) fn without_rows(&self) -> Self {
        Self {
            base: None,
            pending: None,
            ..self.clone()
        }
    }

    /// The same with the hidden row id as last column, for writes to collections without a key.
    pub(crate) fn with_row_id(mut self) -> Self {
        let mut fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_ID_COLUMN, DataType::UInt64, false)));
        self.schema = Arc::new(Schema::new(fields));
        self.with_row_id = true;
        self
    }

    pub(crate) fn def(&self) -> &Arc<CollectionDef> {
        &self.def
    }

    /// An upper bound on the rows a scan reads.
    pub(crate) fn row_count_max(&self) -> usize {
        self.base.as_ref().map_or(0, TableSnapshot::row_count) + self.pending.as_ref().map_or(0, |p| p.row_count())
    }

    /// What is known of the columns without looking at rows; `None` where nothing is.
    pub(super) fn summary(&self) -> Option<Arc<TableSummary>> {
        self.base.as_ref().and_then(TableSnapshot::summary)
    }

    /// The same for the order of joins.
    pub(crate) fn estimates(&self) -> TableEstimates {
        let rows = self.row_count_max();
        let mut columns = vec![ColumnEstimate::default(); self.schema.fields().len()];
        for (column, known) in columns.iter_mut().zip(self.summary().iter().flat_map(|all| all.iter())) {
            column.distinct = known.distinct.map(|distinct| distinct as f64);
            column.range = known.bounds.as_ref().and_then(|bounds| {
                let place = |value| place(&ScalarValue::try_from_array(value, 0).ok()?);
                Some((place(&bounds.min)?, place(&bounds.max)?))
            });
        }
        if let [key] = self.def.key[..] {
            columns[key as usize].distinct = Some(rows as f64);
        }
        TableEstimates { rows, columns }
    }

    /// The rows with these keys (columns of the primary key, each key once), columns of the definition at `projection`.
    pub(crate) fn lookup(&self, keys: &RecordBatch, projection: &[usize]) -> Result<Vec<RecordBatch>, EngineError> {
        let mut found = Vec::new();
        let visible = match &self.pending {
            Some(pending) => pending.not_ended(keys)?,
            None => keys.clone(),
        };
        if let Some(base) = &self.base
            && visible.num_rows() > 0
        {
            if base.is_indexed(&self.def.key) {
                found.push(self.read_base(projection, |columns| Ok(base.get(&visible, Some(columns))?))?);
            } else {
                found.extend(self.scan_for(base, &visible, projection)?);
            }
        }
        if let Some(pending) = &self.pending {
            found.extend(pending.lookup(keys, &self.def, projection)?);
        }
        Ok(found)
    }

    /// The rows with these keys where the store has no index of the key: it is newer than the version, or the open
    /// transaction has added it.
    fn scan_for(
        &self,
        base: &TableSnapshot,
        keys: &RecordBatch,
        projection: &[usize],
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let coder = KeyCoder::new(&self.def)?;
        let wanted: HashSet<keys::Key> = coder.encode(keys.columns())?.into_iter().collect();
        let width = projection.len();
        let key = self.def.key.iter().map(|ordinal| *ordinal as usize);
        let columns: Vec<usize> = projection.iter().copied().chain(key).collect();
        let mut found = Vec::new();
        let stored = base.def().columns.len();
        let request = PartRead {
            projection: columns.iter().copied().filter(|column| *column < stored).collect(),
            with_row_id: false,
            batch_rows: BATCH_ROWS,
            filter: None,
        };
        for part in base.parts() {
            for batch in part.read(&request)? {
                let batch = self.read_base(&columns, |_| Ok(batch?))?;
                let keep = coder.encode(&batch.columns()[width..])?;
                let keep = keep.iter().map(|key| Some(wanted.contains(key))).collect();
                let rows = batch.project(&(0..width).collect::<Vec<_>>())?;
                found.push(filter_record_batch(&rows, &keep)?);
            }
        }
        Ok(found)
    }

    /// Rows of the store by their ids, without those that the transaction has ended.
    pub(super) fn read_found(&self, ids: &[RowId], projection: &[usize]) -> Result<RecordBatch, EngineError> {
        let base = self.base.as_ref();
        let base = base.ok_or_else(|| EngineError::internal("rows of a table that is not stored"))?;
        let width = projection.len();
        let mut wanted = projection.to_vec();
        let pending = self.pending.as_ref().filter(|pending| pending.ends_rows());
        if pending.is_some() {
            wanted.extend(self.def.key.iter().map(|ordinal| *ordinal as usize));
        }
        let batch = self.read_base(&wanted, |columns| Ok(base.rows(ids, Some(columns))?))?;
        let rows = batch.project(&(0..width).collect::<Vec<_>>())?;
        let Some(pending) = pending else { return Ok(rows) };
        let keep = if self.def.key.is_empty() {
            let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(ids.iter().map(|id| id.0)));
            pending.not_ended_rows(&ids)?
        } else {
            pending.not_ended_keys(&KeyCoder::new(&self.def)?.encode(&batch.columns()[width..])?)
        };
        Ok(filter_record_batch(&rows, &keep)?)
    }

    /// The rows of the store that an index finds, if `filters` fix the columns of one.
    fn indexed_rows(&self, filters: &[Expr]) -> Result<Option<Vec<RowId>>, EngineError> {
        let Some(base) = self.base.as_ref().filter(|_| !self.with_row_id) else {
            return Ok(None);
        };
        for list in self.def.indexed() {
            if base.is_indexed(list)
                && let Some(keys) = keys::fixed_by(&self.def, list, filters)?
            {
                return Ok(Some(base.find_all(list, &keys)?));
            }
        }
        Ok(None)
    }

    /// Reads `projection` from the store, filling in NULL for columns that the store does not have yet.
    fn read_base(
        &self,
        projection: &[usize],
        read: impl FnOnce(&[usize]) -> Result<RecordBatch, EngineError>,
    ) -> Result<RecordBatch, EngineError> {
        let stored = self.base.as_ref().map_or(0, |base| base.def().columns.len());
        let present: Vec<usize> = projection.iter().copied().filter(|column| *column < stored).collect();
        let batch = read(&present)?;
        if present.len() == projection.len() {
            return Ok(batch);
        }
        let rows = batch.num_rows();
        let mut taken = batch.columns().iter();
        let columns: Vec<ArrayRef> = projection
            .iter()
            .map(|column| {
                if *column < stored {
                    taken
                        .next()
                        .map(Arc::clone)
                        .ok_or_else(|| EngineError::internal("a column is missing"))
                } else {
                    Ok(new_null_array(self.schema.field(*column).data_type(), rows))
                }
            })
            .collect::<Result<_, _>>()?;
        let schema = Arc::new(self.schema.project(projection)?);
        Ok(RecordBatch::try_new_with_options(
            schema,
            columns,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )?)
    }

    /// Whether the store itself can judge rows by the columns at `condition`: it holds them, and no row that it holds is
    /// hidden from the statement.
    pub(super) fn store_judges(&self, condition: &[usize]) -> bool {
        let stored = self.base.as_ref().map_or(0, |base| base.def().columns.len());
        let hides = self.pending.as_ref().is_some_and(|pending| pending.ends_rows());
        !hides && condition.iter().all(|column| *column < stored)
    }

    /// The rows of one part of the store that `filter` keeps, without those that the transaction has ended.
    pub(super) fn read_part(
        &self,
        part: &TablePart,
        projection: &Arc<[usize]>,
        filter: Option<Arc<dyn RowFilter>>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, EngineError>> + Send + use<>, EngineError> {
        let keyless = self.def.key.is_empty();
        let ends_rows = self.pending.as_ref().is_some_and(|pending| pending.ends_rows());
        let is_row_id = |column: &&usize| self.is_row_id(**column);
        let mut wanted: Vec<usize> = projection.iter().filter(|column| !is_row_id(column)).copied().collect();
        if ends_rows {
            wanted.extend(self.def.key.iter().map(|ordinal| *ordinal as usize));
        }
        let stored = self.base.as_ref().map_or(0, |base| base.def().columns.len());
        let request = PartRead {
            projection: wanted.iter().copied().filter(|column| *column < stored).collect(),
            with_row_id: projection.iter().any(|column| is_row_id(&column)) || (ends_rows && keyless),
            batch_rows: BATCH_ROWS,
            filter,
        };
        let (table, projection) = (self.clone(), Arc::clone(projection));
        let with_ids = request.with_row_id;
        let rows = part.read(&request)?;
        Ok(rows.map(move |batch| table.shown(batch?, &wanted, with_ids, &projection)))
    }

    /// The columns at `projection` of a batch that holds what the store has of the columns at `wanted`, without the rows
    /// that the transaction has ended.
    fn shown(
        &self,
        mut batch: RecordBatch,
        wanted: &[usize],
        with_ids: bool,
        projection: &[usize],
    ) -> Result<RecordBatch, EngineError> {
        let ids = with_ids.then(|| batch.remove_column(batch.num_columns() - 1));
        let batch = self.read_base(wanted, |_| Ok(batch))?;
        let width = projection.iter().filter(|column| !self.is_row_id(**column)).count();
        let mut values = batch.columns()[..width].iter();
        let columns = projection.iter().map(|column| {
            if self.is_row_id(*column) {
                ids.clone()
            } else {
                values.next().cloned()
            }
        });
        let columns = columns.collect::<Option<Vec<_>>>();
        let columns = columns.ok_or_else(|| EngineError::internal("a column is missing"))?;
        let output = with_rows(Arc::new(self.schema.project(projection)?), columns, batch.num_rows())?;
        let Some(pending) = self.pending.as_ref().filter(|pending| pending.ends_rows()) else {
            return Ok(output);
        };
        let keep = match ids.filter(|_| self.def.key.is_empty()) {
            Some(ids) => pending.not_ended_rows(&ids)?,
            None => pending.not_ended_keys(&KeyCoder::new(&self.def)?.encode(&batch.columns()[width..])?),
        };
        Ok(filter_record_batch(&output, &keep)?)
    }

    fn is_row_id(&self, column: usize) -> bool {
        self.with_row_id && column == self.schema.fields().len() - 1
    }

    /// Keys that `filters` fix completely, as columns of the primary key; `None` when they do not.
    fn fixed_keys(&self, filters: &[Expr]) -> Result<Option<RecordBatch>, EngineError> {
        if self.with_row_id || self.def.key.is_empty() {
            return Ok(None);
        }
        keys::fixed_by(&self.def, &self.def.key, filters)
    }

    /// Whether an index has the column.
    fn key_column(&self, name: &str) -> bool {
        let mut lists = self.def.indexed().into_iter().flatten();
        lists.any(|ordinal| self.def.columns[*ordinal as usize].name == name)
    }
}

fn with_rows(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, EngineError> {
    Ok(RecordBatch::try_new_with_options(
        schema,
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )?)
}

impl fmt::Debug for CollectionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectionTable")
            .field("name", &self.def.name)
            .field("with_row_id", &self.with_row_id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for CollectionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match keys::fixed_column(filter) {
                Some(column) if self.key_column(column) => TableProviderFilterPushDown::Inexact,
                _ => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let source = match self.fixed_keys(filters)? {
            Some(keys) => Source::Keys(keys),
            None => match self.indexed_rows(filters)? {
                Some(rows) => Source::Rows(rows.into()),
                None => Source::Blocks(self.partitions(state.config().target_partitions())),
            },
        };
        Ok(Arc::new(ScanExec::new(self.clone(), projection, source, limit)?))
    }
}

impl CollectionTable {
    /// Name of the collection.
    pub(super) fn name(&self) -> &str {
        &self.def.name
    }

    /// The schema of what a scan can give: the columns, and the row id where it was asked for.
    pub(super) fn row_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether rows are seen that are not in the store, or not seen that are.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// How many rows the open transaction has written.
    pub(super) fn pending_row_count(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.row_count())
    }

    /// The rows that the open transaction has written, columns at `projection`.
    pub(super) fn pending_rows(&self, projection: &[usize]) -> Result<Vec<RecordBatch>, EngineError> {
        match &self.pending {
            Some(pending) => pending.rows(&self.def, projection, self.with_row_id),
            None => Ok(Vec::new()),
        }
    }

    /// The blocks dealt out to partitions.
    fn partitions(&self, partitions_max: usize) -> Dealt {
        let blocks = self.base.as_ref().map(TableSnapshot::parts).unwrap_or_default();
        let mut dealt = deal(blocks, partitions_max, &self.schema);
        // Pending rows come behind all others, in no order.
        if self.is_pending() {
            dealt.order = None;
        }
        dealt
    }
}
