//! Which columns a plan speaks of that are not its own.

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::domain::Domain;
use super::subquery_plan;

/// The outer columns of `plan` and of the subqueries in it, each once, in the order of their first mention.
pub(super) fn free_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut free = Vec::new();
    collect_plan(plan, &mut free)?;
    Ok(free)
}

/// The outer columns of an expression whose own columns are those of `schema`.
pub(super) fn free_columns_of(expr: &Expr, schema: &DFSchema) -> Result<Vec<Column>> {
    let mut free = Vec::new();
    collect_expr(expr, schema, &mut free)?;
    Ok(free)
}

fn collect_plan(plan: &LogicalPlan, free: &mut Vec<Column>) -> Result<()> {
    if let LogicalPlan::Join(join) = plan {
        // What stands to the left is known to a LATERAL item on the right.
        collect_plan(&join.left, free)?;
        let mut right = Vec::new();
        collect_plan(&join.right, &mut right)?;
        let left = join.left.schema();
        right
            .into_iter()
            .filter(|column| !left.has_column(column))
            .for_each(|column| add(column, free));
    } else {
        for input in plan.inputs() {
            collect_plan(input, free)?;
        }
    }
    if matches!(plan, LogicalPlan::Subquery(_)) {
        return Ok(());
    }
    let schema = merge_schema(&plan.inputs());
    plan.apply_expressions(|expr| {
        collect_expr(expr, &schema, free)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn collect_expr(expr: &Expr, schema: &DFSchema, free: &mut Vec<Column>) -> Result<()> {
    expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr {
            add(column.clone(), free);
        }
        if let Some(plan) = subquery_plan(expr) {
            free_columns(plan)?
                .into_iter()
                .filter(|column| !schema.has_column(column))
                .for_each(|column| add(column, free));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn add(column: Column, free: &mut Vec<Column>) {
    if !free.contains(&column) {
        free.push(column);
    }
}

/// Puts the columns of `domain` in the place of the outer columns that it holds. Subqueries inside are done already,
/// and speak of nothing out there.
pub(super) fn bind(expr: Expr, domain: &Domain) -> Result<Expr> {
    let bound = expr.transform(|expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => Ok(match domain.column(column) {
            Some(own) => Transformed::yes(Expr::Column(own.clone())),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(bound.data)
}
