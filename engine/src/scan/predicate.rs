//! Conditions that a scan applies to its own rows.
//!
//! They come from the filters above it, and from joins and limits that learn while they run which rows they can still
//! use (dynamic filters). What is applied here is not applied again above, so every row is judged.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;

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

    /// Ready to judge batches that hold the columns at `read`.
    pub(super) fn judge(&self, read: &[usize]) -> Result<Judge> {
        let place = |column| read.iter().position(|other| *other == column);
        let expr = moved(&self.0, place)?;
        expr.map(Judge)
            .ok_or_else(|| internal_datafusion_err!("a scan does not read what its condition looks at"))
    }
}

/// A condition on the columns of batches.
pub(super) struct Judge(Arc<dyn PhysicalExpr>);

impl Judge {
    /// Which rows stay. NULL counts as no.
    pub(super) fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let value = self.0.evaluate(batch)?.into_array(batch.num_rows())?;
        let keep = value.as_boolean_opt();
        keep.cloned()
            .ok_or_else(|| internal_datafusion_err!("a condition gives {}", value.data_type()))
    }
}

/// The expression on columns at other places; `None` if one of them has no place.
fn moved(
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
