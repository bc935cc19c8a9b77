//! The leaf of physical plans that reads a collection.
//!
//! It applies the conditions above it itself: a part that can hold no row they keep is not read, and the columns that only
//! survivors need are read for survivors only. The order in which rows stand in the store is declared where it is one.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr, RangePartitioning,
    SplitPoint,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use candor_storage::RowId;

use super::deal::Dealt;
use super::predicate::Predicate;
use super::stream::Reading;
use super::table::CollectionTable;

/// Of the rows that a condition looks at, the share that is thought to stay: one in this many, as DataFusion takes it.
const SELECTIVITY_PART: usize = 5;

/// Where a scan's rows come from.
#[derive(Clone)]
pub(super) enum Source {
    /// The rows with these keys.
    Keys(RecordBatch),
    /// Rows of the store that an index has found, and the pending rows.
    Rows(Arc<[RowId]>),
    /// Parts of the store, by partition; the first partition has the pending rows too.
    Blocks(Dealt),
}

/// An upper bound on the rows that the scans of a plan read; what is looked up does not count.
pub(crate) fn rows_scanned(plan: &dyn ExecutionPlan) -> usize {
    let own = match plan.downcast_ref::<ScanExec>() {
        Some(scan) if matches!(scan.source, Source::Blocks(_)) => scan.table.row_count_max(),
        _ => 0,
    };
    let below = plan.children().into_iter().map(|child| rows_scanned(child.as_ref()));
    own + below.sum::<usize>()
}

/// Reads one collection.
#[derive(Clone)]
pub(super) struct ScanExec {
    table: CollectionTable,
    /// Ordinals of the columns that come out.
    projection: Arc<[usize]>,
    predicate: Option<Predicate>,
    source: Source,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    pub(super) fn new(
        table: CollectionTable,
        projection: Vec<usize>,
        source: Source,
        limit: Option<usize>,
    ) -> Result<Self> {
        let properties = properties(&table, &projection, None, &source)?;
        Ok(Self {
            table,
            projection: projection.into(),
            predicate: None,
            source,
            limit,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same with other columns or another condition.
    fn with(&self, projection: Arc<[usize]>, predicate: Option<Predicate>) -> Result<Self> {
        Ok(Self {
            properties: properties(&self.table, &projection, predicate.as_ref(), &self.source)?,
            projection,
            predicate,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }

    fn rows_estimated(&self, partition: Option<usize>) -> Precision<usize> {
        let rows = self.table.row_count_max();
        let found = match (&self.source, partition) {
            (Source::Keys(keys), _) => return Precision::Inexact(keys.num_rows()),
            (Source::Rows(found), _) => return Precision::Inexact(found.len() + self.table.pending_row_count()),
            (Source::Blocks(dealt), Some(_)) => rows / dealt.partitions.len(),
            (Source::Blocks(_), None) => rows,
        };
        let limited = self.limit.map_or(found, |limit| limit.min(found));
        match &self.predicate {
            Some(_) => Precision::Inexact(limited.div_ceil(SELECTIVITY_PART)),
            None if partition.is_none() && self.limit.is_none() && !self.table.is_pending() => Precision::Exact(rows),
            None => Precision::Inexact(limited),
        }
    }
}

fn properties(
    table: &CollectionTable,
    projection: &[usize],
    predicate: Option<&Predicate>,
    source: &Source,
) -> Result<Arc<PlanProperties>> {
    let schema = Arc::new(table.row_schema().project(projection)?);
    let (partitions, order) = match source {
        Source::Keys(_) | Source::Rows(_) => (1, None),
        Source::Blocks(dealt) => (dealt.partitions.len(), dealt.order.as_ref()),
    };
    let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
    let constants = predicate.map(Predicate::constants).unwrap_or_default();
    let constants = constants.into_iter().filter_map(|(ordinal, value)| {
        let at = projection.iter().position(|column| *column == ordinal)?;
        let column = Arc::new(Column::new(schema.field(at).name(), at));
        Some(ConstExpr::new(column, AcrossPartitions::Uniform(Some(value))))
    });
    equivalences.add_constants(constants)?;
    let mut partitioning = Partitioning::UnknownPartitioning(partitions);
    if let Some(order) = order
        && let Some(at) = projection.iter().position(|column| *column == order.column)
    {
        let column = Arc::new(Column::new(schema.field(at).name(), at));
        let options = SortOptions::new(false, false);
        let by = LexOrdering::from([PhysicalSortExpr::new(column, options)]);
        if let Some(splits) = order.splits.as_ref().filter(|splits| !splits.is_empty()) {
            let splits = splits.iter().map(|least| SplitPoint::new(vec![least.clone()]));
            partitioning = Partitioning::Range(RangePartitioning::try_new(by.clone(), splits.collect())?);
        }
        equivalences.add_ordering(by);
    }
    Ok(Arc::new(PlanProperties::new(
        equivalences,
        partitioning,
        EmissionType::Incremental,
        Boundedness::Bounded,
    )))
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanExec")
            .field("table", &self.table)
            .field("projection", &self.projection)
            .field("predicate", &self.predicate)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.properties.eq_properties.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let name = self.table.name();
        match &self.source {
            Source::Keys(keys) => write!(f, "KeyLookup: {name}, keys={}", keys.num_rows())?,
            Source::Rows(rows) => write!(f, "IndexLookup: {name}, rows={}", rows.len())?,
            Source::Blocks(dealt) => {
                let blocks: usize = dealt.partitions.iter().map(Vec::len).sum();
                write!(
                    f,
                    "Scan: {name}, partitions={}, blocks={blocks}",
                    dealt.partitions.len()
                )?;
            }
        }
        write!(f, ", columns=[{}]", columns.join(", "))?;
        match &self.predicate {
            Some(predicate) => write!(f, ", predicate={}", predicate.expr()),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        match self.source {
            Source::Keys(_) => "KeyLookup",
            Source::Rows(_) => "IndexLookup",
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.predicate {
            Some(predicate) => f(predicate.expr()),
            None => Ok(TreeNodeRecursion::Continue),
        }
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

    /// Takes every condition on its columns, whether it stands in the statement or is learned while the plan runs.
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut predicate = self.predicate.clone();
        let mut answers = Vec::with_capacity(result.parent_filters.len());
        for asked in &result.parent_filters {
            // A limit counts rows before any condition that comes later.
            let taken = match self.limit {
                None => Predicate::on_table(&asked.filter, &self.projection)?,
                Some(_) => None,
            };
            answers.push(if taken.is_some() {
                PushedDown::Yes
            } else {
                PushedDown::No
            });
            if let Some(taken) = taken {
                predicate = Some(Predicate::and(predicate, taken));
            }
        }
        let changed = answers.iter().any(|answer| matches!(answer, PushedDown::Yes));
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if !changed {
            return Ok(propagation);
        }
        let taken: Arc<dyn ExecutionPlan> = Arc::new(self.with(Arc::clone(&self.projection), predicate)?);
        Ok(propagation.with_updated_node(taken))
    }

    /// Leaves columns out that only its own conditions look at.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = self.schema();
        let mut columns = Vec::with_capacity(projection.expr().len());
        for projected in projection.expr() {
            match projected.expr.downcast_ref::<Column>() {
                Some(column) if schema.field(column.index()).name() == &projected.alias => {
                    columns.push(self.projection[column.index()]);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Arc::new(self.with(columns.into(), self.predicate.clone())?)))
    }

    fn execute(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = Reading::new(
            super::stream::Job {
                table: self.table.clone(),
                projection: Arc::clone(&self.projection),
                predicate: self.predicate.clone(),
                source: self.source.clone(),
                limit: self.limit,
                partition,
                batch_rows: ctx.session_config().batch_size(),
            },
            &self.metrics,
            self.schema(),
        )?;
        Ok(Box::pin(reading))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = self.rows_estimated(args.partition());
        let Some(summary) = self.table.summary() else {
            return Ok(Arc::new(statistics));
        };
        for (known, ordinal) in statistics.column_statistics.iter_mut().zip(self.projection.iter()) {
            let Some(column) = summary.get(*ordinal) else { continue };
            if let Some(distinct) = column.distinct {
                known.distinct_count = Precision::Inexact(distinct as usize);
            }
            if let Some(bounds) = &column.bounds {
                known.min_value = Precision::Inexact(ScalarValue::try_from_array(&bounds.min, 0)?);
                known.max_value = Precision::Inexact(ScalarValue::try_from_array(&bounds.max, 0)?);
                known.null_count = Precision::Inexact(bounds.null_count as usize);
            }
        }
        Ok(Arc::new(statistics))
    }
}
