//! INTERSECT ALL and EXCEPT ALL: rows count as often as they are there. DataFusion asks only whether they are.
//!
//! It plans both as joins on all columns. Before that join the equal rows of each side are numbered, and the numbers
//! join too: the n-th copy of a row meets the n-th copy on the other side.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt as _, Join, JoinType, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;

/// The column that numbers equal rows.
const COPY: &str = "__copy";

/// Counts rows where SQL says ALL.
#[derive(Debug)]
pub(crate) struct CountedSets;

impl AnalyzerRule for CountedSets {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut counts = false;
        plan.apply_with_subqueries(|node| {
            counts |= matches!(node, LogicalPlan::Join(join) if is_counted(join));
            Ok(if counts {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if counts {
            Ok(plan.transform_up_with_subqueries(count_copies)?.data)
        } else {
            Ok(plan)
        }
    }

    fn name(&self) -> &'static str {
        "counted_sets"
    }
}

fn count_copies(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else {
        return Ok(Transformed::no(plan));
    };
    if !is_counted(&join) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let left = numbered(Arc::unwrap_or_clone(join.left), "__left")?;
    let right = numbered(Arc::unwrap_or_clone(join.right), "__right")?;
    let mut on = join.on;
    let copy = |side: &str| Expr::Column(Column::new(Some(side), COPY));
    on.push((copy("__left"), copy("__right")));
    let counted = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let counted = LogicalPlanBuilder::from(LogicalPlan::Join(counted)).project(columns)?;
    Ok(Transformed::yes(counted.build()?))
}

/// No other join of a statement keeps rows and takes NULL for equal to NULL. Distinct rows need not be counted.
fn is_counted(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn numbered(plan: LogicalPlan, side: &str) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
    let number = Expr::from(WindowFunction::new(function, Vec::new()))
        .partition_by(columns.clone())
        .build()?
        .alias(COPY);
    let copy = Expr::Column(Column::new_unqualified(COPY)).alias_qualified(Some(side), COPY);
    LogicalPlanBuilder::from(plan)
        .window([number])?
        .project(columns.into_iter().chain([copy]))?
        .build()
}
