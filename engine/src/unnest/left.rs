//! Which subqueries are left to DataFusion: those that its own rules turn into a good join, rightly.
//!
//! The shapes are kept narrow. What is not known to come out right is ours.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable as _, JoinType, LogicalPlan, Operator};

use super::outer::free_columns;
use super::{expr_has_subquery, subquery_plan};

/// A condition of WHERE that is nothing but `[NOT] EXISTS (…)` or `x [NOT] IN (…)`.
pub(super) fn condition_is_left(condition: &Expr, input: &DFSchema) -> Result<bool> {
    match condition {
        Expr::Not(inner) => match inner.as_ref() {
            Expr::Exists(_) => condition_is_left(inner, input),
            _ => Ok(false),
        },
        Expr::Exists(exists) => {
            let plan = exists.subquery.subquery.as_ref();
            Ok(speaks_only_of(plan, input)? && is_plain(plan)?)
        }
        Expr::InSubquery(within) => in_is_left(within, input),
        _ => Ok(false),
    }
}

fn in_is_left(within: &InSubquery, input: &DFSchema) -> Result<bool> {
    let plan = within.subquery.subquery.as_ref();
    if expr_has_subquery(&within.expr)? || !speaks_only_of(plan, input)? {
        return Ok(false);
    }
    if free_columns(plan)?.is_empty() {
        return Ok(true);
    }
    let null_matters = within.negated && (within.expr.nullable(input)? || plan.schema().field(0).is_nullable());
    Ok(!null_matters && is_plain(plan)?)
}

/// A subquery used as a value in SELECT or WHERE: an aggregate of the rows where inner columns equal outer ones.
pub(super) fn scalar_is_left(expr: &Expr, input: &DFSchema) -> Result<bool> {
    let Expr::ScalarSubquery(subquery) = expr else {
        return Ok(false);
    };
    let plan = subquery.subquery.as_ref();
    if free_columns(plan)?.is_empty() {
        return Ok(true);
    }
    Ok(speaks_only_of(plan, input)? && is_plain_aggregate(plan)?)
}

/// Nothing is left to DataFusion that speaks of what stands further out than `input`.
fn speaks_only_of(plan: &LogicalPlan, input: &DFSchema) -> Result<bool> {
    Ok(free_columns(plan)?.iter().all(|column| input.has_column(column)))
}

fn is_plain_aggregate(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) => {
            Ok(projection.expr.iter().all(is_strict) && is_plain_aggregate(&projection.input)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let mut null_when_empty = true;
            for expr in &aggregate.aggr_expr {
                null_when_empty &= is_null_when_empty(expr)? && !expr.contains_outer() && !expr_has_subquery(expr)?;
            }
            Ok(null_when_empty && aggregate.group_expr.is_empty() && is_equated(&aggregate.input)?)
        }
        _ => Ok(false),
    }
}

/// NULL where one of its columns is NULL.
fn is_strict(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => is_strict(&alias.expr),
        Expr::Cast(cast) => is_strict(&cast.expr),
        Expr::BinaryExpr(binary) => {
            let arithmetic = matches!(
                binary.op,
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide
            );
            arithmetic && is_strict(&binary.left) && is_strict(&binary.right)
        }
        _ => false,
    }
}

fn is_null_when_empty(expr: &Expr) -> Result<bool> {
    match expr {
        Expr::Alias(alias) => is_null_when_empty(&alias.expr),
        Expr::AggregateFunction(aggregate) => {
            let empty = aggregate.func.default_value(&arrow::datatypes::DataType::Int64);
            Ok(empty.as_ref().is_ok_and(ScalarValue::is_null))
        }
        _ => Ok(false),
    }
}

/// Outer columns stand in `inner = outer` conditions only.
fn is_equated(plan: &LogicalPlan) -> Result<bool> {
    let equated = |condition: &Expr| match condition {
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
            let sides = [binary.left.as_ref(), binary.right.as_ref()];
            sides.iter().any(|side| matches!(side, Expr::OuterReferenceColumn(..)))
                && sides.iter().any(|side| matches!(side, Expr::Column(_)))
        }
        _ => false,
    };
    let mut right = true;
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let conditions = split_conjunction(&filter.predicate);
            right &= conditions
                .iter()
                .all(|condition| !condition.contains_outer() || equated(condition));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(right && is_plain(plan)?)
}

/// Tables, inner joins, conditions and columns: outer columns in conditions only, each of which can be asked after
/// the joins just as well.
fn is_plain(plan: &LogicalPlan) -> Result<bool> {
    if free_columns(plan)?.is_empty() {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            let plain = projection.expr.iter().all(|expr| !expr.contains_outer());
            Ok(plain && no_nested(plan)? && is_plain(&projection.input)?)
        }
        LogicalPlan::Filter(filter) => Ok(no_nested(plan)? && is_plain(&filter.input)?),
        LogicalPlan::Distinct(Distinct::All(input)) => is_plain(input),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.on.is_empty() => {
            let condition = join.filter.as_ref();
            let plain = condition.is_none_or(|condition| !condition.contains_outer());
            Ok(plain && no_nested(plan)? && is_plain(&join.left)? && is_plain(&join.right)?)
        }
        _ => Ok(false),
    }
}

/// No subquery in this node that itself speaks of the outside.
fn no_nested(node: &LogicalPlan) -> Result<bool> {
    let mut none = true;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Some(plan) = subquery_plan(expr) {
                none &= free_columns(plan)?.is_empty() && matches!(expr, Expr::ScalarSubquery(_));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(none)
}
