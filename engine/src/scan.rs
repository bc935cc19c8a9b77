//! One collection at one version as DataFusion sees it.
//!
//! A scan hands out the blocks of the store, several partitions at a time, and then the rows that an open transaction
//! has written. Rows that the transaction has ended are left out. When the filters fix the whole primary key, the rows
//! are looked up instead. Filters stay in the plan above (`Inexact`), so a lookup may never lose a row but need not be
//! exact. No order is promised; the row count is exact only where nothing is pending.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use candor_storage::{BlockSnapshot, CollectionDef, ROW_ID_COLUMN, TableSnapshot};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraint, Constraints, DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use crate::error::EngineError;
use crate::keys::{self, KeyCoder};
use crate::pending::PendingTable;

/// Rows a partition should have before another one is worth its thread.
const PARTITION_ROWS_MIN: usize = 16 * 1024;

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
            found.push(self.read_base(projection, |columns| Ok(base.get(&visible, Some(columns))?))?);
        }
        if let Some(pending) = &self.pending {
            found.extend(pending.lookup(keys, &self.def, projection)?);
        }
        Ok(found)
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

    /// One block of the store without the rows that the transaction has ended.
    fn read_block(&self, block: &BlockSnapshot, projection: &[usize]) -> Result<Option<RecordBatch>, EngineError> {
        let pending = self.pending.as_ref().filter(|pending| pending.ends_rows());
        let is_row_id = |column: &usize| self.with_row_id && *column == self.schema.fields().len() - 1;
        let keyless = self.def.key.is_empty();
        let mut wanted: Vec<usize> = projection.iter().copied().filter(|column| !is_row_id(column)).collect();
        let width = wanted.len();
        if pending.is_some() {
            wanted.extend(self.def.key.iter().map(|ordinal| *ordinal as usize));
        }
        let with_ids = projection.iter().any(is_row_id) || (pending.is_some() && keyless);
        let Some((batch, ids)) = self.read_rows(block, &wanted, with_ids)? else {
            return Ok(None);
        };
        let mut values = batch.columns()[..width].iter();
        let columns = projection.iter().map(|column| {
            if is_row_id(column) {
                ids.clone()
            } else {
                values.next().cloned()
            }
        });
        let columns = columns.collect::<Option<Vec<_>>>();
        let columns = columns.ok_or_else(|| EngineError::internal("a column is missing"))?;
        let output = with_rows(Arc::new(self.schema.project(projection)?), columns, batch.num_rows())?;
        let Some(pending) = pending else {
            return Ok(Some(output));
        };
        let keep = match ids.filter(|_| keyless) {
            Some(ids) => pending.not_ended_rows(&ids)?,
            None => pending.not_ended_keys(&KeyCoder::new(&self.def)?.encode(&batch.columns()[width..])?),
        };
        Ok(Some(filter_record_batch(&output, &keep)?))
    }

    /// The visible rows of a block, and their ids if they are asked for; `None` when no row is visible.
    fn read_rows(
        &self,
        block: &BlockSnapshot,
        wanted: &[usize],
        with_ids: bool,
    ) -> Result<Option<(RecordBatch, Option<ArrayRef>)>, EngineError> {
        let mut ids = None;
        let mut is_empty = false;
        let batch = self.read_base(wanted, |columns| {
            let Some(batch) = block.read(Some(columns), with_ids) else {
                is_empty = true;
                return Ok(RecordBatch::new_empty(Arc::new(self.schema.project(columns)?)));
            };
            if !with_ids {
                return Ok(batch);
            }
            let last = batch.num_columns() - 1;
            ids = Some(Arc::clone(batch.column(last)));
            Ok(batch.project(&(0..last).collect::<Vec<_>>())?)
        })?;
        Ok((!is_empty).then_some((batch, ids)))
    }

    /// Keys that `filters` fix completely, as columns of the primary key; `None` when they do not.
    fn fixed_keys(&self, filters: &[Expr]) -> Result<Option<RecordBatch>, EngineError> {
        if self.with_row_id || self.def.key.is_empty() {
            return Ok(None);
        }
        keys::fixed_by(&self.def, filters)
    }

    fn key_column(&self, name: &str) -> bool {
        self.def
            .key
            .iter()
            .any(|ordinal| self.def.columns[*ordinal as usize].name == name)
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
            None => Source::Blocks(self.partitions(state.config().target_partitions()).into()),
        };
        Ok(Arc::new(ScanExec::new(self.clone(), projection, source, limit)?))
    }
}

impl CollectionTable {
    /// The blocks dealt out to partitions of about the same number of rows.
    fn partitions(&self, partitions_max: usize) -> Vec<Vec<BlockSnapshot>> {
        let Some(base) = &self.base else {
            return vec![Vec::new()];
        };
        let blocks = base.blocks();
        let rows: usize = blocks.iter().map(BlockSnapshot::len).sum();
        let count = (rows / PARTITION_ROWS_MIN).clamp(1, partitions_max.max(1));
        let share = rows.div_ceil(count).max(1);
        let mut partitions = vec![Vec::new()];
        let mut filled = 0;
        for block in blocks {
            if filled >= share && partitions.len() < count {
                partitions.push(Vec::new());
                filled = 0;
            }
            filled += block.len();
            if let Some(last) = partitions.last_mut() {
                last.push(block);
            }
        }
        partitions
    }
}

/// Where a scan's rows come from.
#[derive(Clone)]
enum Source {
    Keys(RecordBatch),
    Blocks(Arc<[Vec<BlockSnapshot>]>),
}

/// Reads one collection.
#[derive(Clone)]
struct ScanExec {
    table: CollectionTable,
    projection: Arc<[usize]>,
    source: Source,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    fn new(table: CollectionTable, projection: Vec<usize>, source: Source, limit: Option<usize>) -> Result<Self> {
        let schema = Arc::new(table.schema.project(&projection)?);
        let partitions = match &source {
            Source::Keys(_) => 1,
            Source::Blocks(partitions) => partitions.len(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            table,
            projection: projection.into(),
            source,
            limit,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The batches of one partition, read one by one as they are asked for.
    fn batches(&self, partition: usize) -> Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send> {
        let table = self.table.clone();
        let projection = Arc::clone(&self.projection);
        match &self.source {
            Source::Keys(keys) => match table.lookup(keys, &projection) {
                Ok(found) => Box::new(found.into_iter().map(Ok)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            Source::Blocks(partitions) => {
                let partitions = Arc::clone(partitions);
                let blocks = partitions.get(partition).map_or(0, Vec::len);
                let pending = match (&table.pending, partition) {
                    (Some(pending), 0) => pending.rows(&table.def, &projection, table.with_row_id),
                    _ => Ok(Vec::new()),
                };
                let pending = match pending {
                    Ok(batches) => batches.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error)],
                };
                let stored = (0..blocks)
                    .filter_map(move |at| table.read_block(&partitions[partition][at], &projection).transpose());
                Box::new(stored.chain(pending))
            }
        }
    }
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanExec")
            .field("table", &self.table)
            .field("projection", &self.projection)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.properties.eq_properties.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let name = &self.table.def.name;
        match &self.source {
            Source::Keys(keys) => write!(f, "KeyLookup: {name}, keys={}", keys.num_rows())?,
            Source::Blocks(partitions) => {
                let blocks: usize = partitions.iter().map(Vec::len).sum();
                write!(f, "Scan: {name}, partitions={}, blocks={blocks}", partitions.len())?;
            }
        }
        write!(f, ", columns=[{}]", columns.join(", "))
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        match self.source {
            Source::Keys(_) => "KeyLookup",
            Source::Blocks(_) => "Scan",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let mut batches = self.batches(partition);
        let mut left = self.limit.unwrap_or(usize::MAX);
        let reading = std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let timer = metrics.elapsed_compute().timer();
            let batch = batches.next()?;
            timer.done();
            if let Ok(batch) = &batch {
                left = left.saturating_sub(batch.num_rows());
                metrics.record_output(batch.num_rows());
            }
            Some(batch.map_err(DataFusionError::from))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::iter(reading),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let rows = self.table.row_count_max();
        let limited = self.limit.map_or(rows, |limit| limit.min(rows));
        statistics.num_rows = match &self.source {
            Source::Keys(keys) => Precision::Inexact(keys.num_rows()),
            Source::Blocks(partitions) => match args.partition() {
                Some(_) => Precision::Inexact(limited / partitions.len()),
                None if self.table.pending.is_none() && self.limit.is_none() => Precision::Exact(rows),
                None => Precision::Inexact(limited),
            },
        };
        Ok(Arc::new(statistics))
    }
}
