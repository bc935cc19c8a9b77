//! Subqueries that speak of rows outside of them, turned into joins.
//!
//! DataFusion does this for the common shapes only, and for some of them it loses the difference between FALSE and NULL.
//! This analyzer rule takes the rest. It follows Neumann and Kemper, "Unnesting arbitrary queries": the *domain* of a
//! subquery is the set of distinct values that it is asked with. The subquery is joined with its domain as deep inside
//! as its outer columns are spoken of ([`depend`]), so that it answers for all of them at once, and the answers are
//! joined back to the rows that asked ([`attach`]).
//!
//! Subqueries that DataFusion turns into good joins by itself are left to it: see [`left`]. After this rule no
//! subquery speaks of anything further out than the node that it stands in.

mod aggregate;
mod attach;
mod depend;
mod domain;
mod left;
mod limit;
mod missing;
mod node;
mod outer;
mod single;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::error::EngineError;

/// Turns subqueries into joins.
#[derive(Debug)]
pub(crate) struct Unnest;

impl AnalyzerRule for Unnest {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_subquery(&plan)? {
            return Ok(plan);
        }
        let plan = missing::nullable_values(Unnester::default().plan(plan)?)?;
        match outer::free_columns(&plan)?.first() {
            None => Ok(plan),
            Some(column) => Err(EngineError::unsupported_try(
                format!("a subquery that speaks of `{}` at this place", column.flat_name()),
                "make the subquery a column of a query in FROM, and speak of that column here",
            )
            .into()),
        }
    }

    fn name(&self) -> &'static str {
        "unnest_subqueries"
    }
}

/// Works through one statement; the names it makes are its own.
#[derive(Default)]
struct Unnester {
    made: usize,
}

impl Unnester {
    /// `plan` without the subqueries that are ours to take away; its columns stay as they are.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Ok(plan.transform_up(|node| self.node(node).map(Transformed::yes))?.data)
    }

    /// A table's name that stands nowhere in the statement.
    fn fresh(&mut self) -> String {
        self.made += 1;
        format!("__unnest_{}", self.made)
    }
}

fn has_subquery(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found = matches!(node, LogicalPlan::Subquery(_)) || node_has_subquery(node)?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

fn node_has_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = expr_has_subquery(expr)?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

fn expr_has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(subquery_plan(expr).is_some()))
}

/// The query of a subquery expression.
fn subquery_plan(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(within) => Some(&within.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

/// The plan itself, copied only if someone else has it too.
fn owned(plan: Arc<LogicalPlan>) -> LogicalPlan {
    Arc::unwrap_or_clone(plan)
}

/// The columns of a plan as expressions.
fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// `expr` under the name of `column`.
fn named(expr: Expr, column: &Column) -> Expr {
    match &expr {
        Expr::Column(own) if own.relation == column.relation && own.name == column.name => expr,
        _ => expr.alias_qualified(column.relation.clone(), column.name.clone()),
    }
}
