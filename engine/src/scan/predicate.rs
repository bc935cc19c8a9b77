//! Conditions that a scan applies to its own rows.
//!
//! They come from the filters above it, and from joins and limits that learn while they run which rows they can still
//! use (dynamic filters). What is applied here is not applied again above, so every row is judged.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use candor_storage::{ColumnBounds, TablePart};
use datafusion::common::Column as ColumnName;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    DynamicFilterTracker, DynamicFilterTracking, PhysicalExpr, conjunction, split_conjunction,
};
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};

use super::judge::Judge;

/// One condition on the columns of a table, by their ordinals.
#[derive(Clone, Debug)]
pub(super) struct Predicate(Arc<dyn PhysicalExpr>);

impl Predicate {
    /// The condition `filter`, which is on the columns at `projection`; `None` if a scan may not apply it.
    pub(super) fn on_table(filter: &Arc<dyn PhysicalExpr>, projection: &[usize]) -> Result<Option<Self>> {
        if is_volatile(filter) {
            return Ok(None);
        }
        moved(filter, |at| projection.get(at).copied()).map(|expr| expr.map(Self))
    }

    /// Both, the older one first: its errors come first, and what it leaves out is not asked of the other.
    pub(super) fn and(older: Option<Self>, newer: Self) -> Self {
        match older {
            Some(older) => Self(conjunction([older.0, newer.0])),
            None => newer,
        }
    }

    pub(super) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.0
    }

    /// Ordinals of the columns it looks at.
    pub(super) fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = collect_columns(&self.0).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Columns, by ordinal, that have one value in all rows that stay.
    pub(super) fn constants(&self) -> Vec<(usize, ScalarValue)> {
        let fixed = |part: &Arc<dyn PhysicalExpr>| {
            let equality = part
                .downcast_ref::<BinaryExpr>()
                .filter(|equality| *equality.op() == Operator::Eq)?;
            let column = equality.left().downcast_ref::<Column>()?;
            let literal = equality.right().downcast_ref::<Literal>()?;
            (!literal.value().is_null()).then(|| (column.index(), literal.value().clone()))
        };
        split_conjunction(&self.0).into_iter().filter_map(fixed).collect()
    }

    /// Ready to judge batches that hold the columns at `read` of a table with this schema.
    pub(super) fn judge(&self, read: &[usize], schema: &SchemaRef) -> Result<Judge> {
        let place = |column| read.iter().position(|other| *other == column);
        let expr = moved(&self.0, place)?;
        let expr = expr.ok_or_else(|| internal_datafusion_err!("a scan does not read what its condition looks at"))?;
        Ok(Judge::new(expr, read.to_vec(), schema))
    }
}

/// Tells which parts cannot hold a row that a condition keeps, from the bounds of their columns.
pub(super) struct Pruner {
    predicate: Predicate,
    schema: SchemaRef,
    /// Conditions that are learned while the plan runs grow narrower with time.
    tracking: DynamicFilterTracking,
    /// The condition on bounds, as it was last made.
    pruning: Option<Arc<PruningPredicate>>,
    is_made: bool,
}

impl Pruner {
    /// `schema` is that of the table.
    pub(super) fn new(predicate: &Predicate, schema: &SchemaRef) -> Self {
        Self {
            tracking: DynamicFilterTracking::classify(&predicate.0),
            predicate: predicate.clone(),
            schema: Arc::clone(schema),
            pruning: None,
            is_made: false,
        }
    }

    /// Whether a row of the part may stay. What cannot be told is true.
    pub(super) fn may_stay(&mut self, part: &TablePart) -> bool {
        let has_moved = self.tracking.watcher().is_some_and(DynamicFilterTracker::changed);
        if !self.is_made || has_moved {
            self.is_made = true;
            self.pruning = self.make();
        }
        let Some(pruning) = &self.pruning else { return true };
        let bounds = Bounds {
            part,
            schema: &self.schema,
        };
        pruning.prune(&bounds).map_or(true, |kept| kept.first() != Some(&false))
    }

    fn make(&self) -> Option<Arc<PruningPredicate>> {
        let now = snapshot_physical_expr(Arc::clone(&self.predicate.0)).ok()?;
        PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&self.schema))
            .build(now)
    }
}

/// The bounds of one part.
struct Bounds<'a> {
    part: &'a TablePart,
    schema: &'a SchemaRef,
}

impl Bounds<'_> {
    fn of(&self, column: &ColumnName) -> Option<ColumnBounds> {
        self.part.bounds(self.schema.index_of(&column.name).ok()?)
    }
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        self.of(column).map(|bounds| bounds.min)
    }

    fn max_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        self.of(column).map(|bounds| bounds.max)
    }

    fn num_containers(&self) -> usize {
        1
    }

    fn null_counts(&self, column: &ColumnName) -> Option<ArrayRef> {
        let nulls = self.of(column)?.null_count;
        Some(Arc::new(UInt64Array::from(vec![nulls])))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(vec![self.part.len() as u64])))
    }

    fn contained(&self, _: &ColumnName, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The expression on columns at other places; `None` if one of them has no place.
pub(super) fn moved(
    expr: &Arc<dyn PhysicalExpr>,
    place: impl Fn(usize) -> Option<usize>,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut lost = false;
    let moved = Arc::clone(expr).transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else {
            return Ok(Transformed::no(node));
        };
        if let Some(at) = place(column.index()) {
            return Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as _));
        }
        lost = true;
        Ok(Transformed::no(node))
    });
    let moved = moved.data()?;
    Ok((!lost).then_some(moved))
}
