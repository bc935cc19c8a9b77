//! One node of a plan and the subqueries in its expressions.

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias,
};

use super::attach::{Asking, rows_only};
use super::depend::renamed;
use super::domain::{all_same, shared};
use super::left::{condition_is_left, scalar_is_left};
use super::outer::{free_columns, free_columns_of};
use super::{Unnester, columns_of, expr_has_subquery, named, node_has_subquery, owned, subquery_plan};
use crate::error::EngineError;

impl Unnester {
    /// The inputs of `node` are done.
    pub(super) fn node(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let node = match node {
            LogicalPlan::Join(join) => self.lateral(join)?,
            other => other,
        };
        if !node_has_subquery(&node)? {
            return Ok(node);
        }
        let node = self.inner(node)?;
        match node {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Join(join) => self.condition(join),
            LogicalPlan::Subquery(_) => Ok(node),
            other => self.other(other),
        }
    }

    /// Does the queries inside the node's expressions first.
    fn inner(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let names = NamePreserver::new(&node);
        let done = node.map_expressions(|expr| {
            if !expr_has_subquery(&expr)? {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let done = expr.transform_up(|expr| self.query_of(expr))?;
            Ok(done.update_data(|expr| name.restore(expr)))
        })?;
        Ok(done.data)
    }

    fn query_of(&mut self, mut expr: Expr) -> Result<Transformed<Expr>> {
        let subquery = match &mut expr {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &mut exists.subquery,
            Expr::InSubquery(within) => &mut within.subquery,
            Expr::SetComparison(comparison) => &mut comparison.subquery,
            _ => return Ok(Transformed::no(expr)),
        };
        let plan = self.plan(owned(std::mem::take(&mut subquery.subquery)))?;
        subquery.subquery = shared(plan);
        Ok(Transformed::yes(expr))
    }

    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let input = owned(filter.input);
        let columns = columns_of(&input);
        let schema = input.schema().clone();
        let (mut left, mut ours) = (Vec::new(), Vec::new());
        for condition in split_conjunction_owned(filter.predicate) {
            if is_left_in_filter(&condition, &schema)? {
                left.push(condition);
            } else {
                ours.push(condition);
            }
        }
        let input = match conjunction(left) {
            Some(left) => LogicalPlan::Filter(Filter::try_new(left, shared(input))?),
            None => input,
        };
        if ours.is_empty() {
            return Ok(input);
        }
        let mut asking = Asking::new(input);
        let mut conditions = Vec::with_capacity(ours.len());
        for condition in ours {
            match whole_exists(condition) {
                Ok(exists) => self.semi_join(&mut asking, exists)?,
                Err(condition) => {
                    conditions.push(self.attach(&mut asking, condition, &|expr| is_ours(expr, &schema, true))?);
                }
            }
        }
        let mut plan = LogicalPlanBuilder::from(asking.plan);
        if let Some(condition) = conjunction(conditions) {
            plan = plan.filter(condition)?;
        }
        plan.project(columns)?.build()
    }

    /// `WHERE EXISTS (…)` keeps rows or drops them, and needs no answer in a column.
    fn semi_join(&mut self, asking: &mut Asking, exists: Exists) -> Result<()> {
        let query = rows_only(owned(exists.subquery.subquery));
        let mut columns = free_columns(&query)?;
        columns.retain(|column| asking.plan.schema().has_column(column));
        let domain = self.domain(&asking.plan, &columns)?;
        let dependent = self.depend(query, &domain)?;
        let table = self.fresh();
        let mut keys = domain.renamed(&table);
        if keys.is_empty() {
            keys.push(datafusion::logical_expr::lit(true).alias_qualified(Some(table.as_str()), "found"));
        }
        let found = LogicalPlanBuilder::from(dependent).project(keys)?.build()?;
        let join_type = if exists.negated {
            JoinType::LeftAnti
        } else {
            JoinType::LeftSemi
        };
        asking.plan = LogicalPlanBuilder::from(asking.plan.clone())
            .join_on(found, join_type, [all_same(domain.outer_pairs(&table))])?
            .build()?;
        Ok(())
    }

    fn projection(&mut self, projection: Projection) -> Result<LogicalPlan> {
        let columns = projection.schema.columns();
        let input = owned(projection.input);
        let schema = input.schema().clone();
        let mut asking = Asking::new(input);
        let mut exprs = Vec::with_capacity(columns.len());
        for (expr, column) in projection.expr.into_iter().zip(&columns) {
            let answered = self.attach(&mut asking, expr, &|expr| is_ours(expr, &schema, true))?;
            exprs.push(named(answered, column));
        }
        LogicalPlanBuilder::from(asking.plan).project(exprs)?.build()
    }

    /// Any node with one input: its subqueries are answered below it.
    fn other(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let inputs = node.inputs();
        let [input] = inputs.as_slice() else {
            return Ok(node);
        };
        let input = (*input).clone();
        let schema = input.schema().clone();
        let columns = columns_of(&node);
        let names = NamePreserver::new(&node);
        let mut asking = Asking::new(input);
        let mut exprs = Vec::new();
        for expr in node.expressions() {
            let name = names.save(&expr);
            let answered = self.attach(&mut asking, expr, &|expr| is_ours(expr, &schema, false))?;
            exprs.push(name.restore(answered));
        }
        let rebuilt = node.with_new_exprs(exprs, vec![asking.plan])?;
        if rebuilt.schema().fields().len() == columns.len() {
            Ok(rebuilt)
        } else {
            LogicalPlanBuilder::from(rebuilt).project(columns)?.build()
        }
    }

    /// A join whose right side speaks of rows of its left side.
    fn lateral(&mut self, join: Join) -> Result<LogicalPlan> {
        let mut columns = free_columns(&join.right)?;
        columns.retain(|column| join.left.schema().has_column(column));
        if columns.is_empty() {
            return Ok(LogicalPlan::Join(join));
        }
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Err(EngineError::unsupported("LATERAL on the right of this kind of join").into());
        }
        let kept = join.schema.columns().into_iter().map(Expr::Column);
        let domain = self.domain(&join.left, &columns)?;
        let dependent = self.depend(without_wrapper(owned(join.right)), &domain)?;
        let table = self.fresh();
        let right = renamed(dependent, &domain, &table)?;
        let mut condition = all_same(domain.outer_pairs(&table));
        for (left, right) in join.on {
            condition = condition.and(left.eq(right));
        }
        if let Some(filter) = join.filter {
            condition = condition.and(filter);
        }
        LogicalPlanBuilder::from(owned(join.left))
            .join_on(right, join.join_type, [condition])?
            .project(kept)?
            .build()
    }

    /// Subqueries in ON: asked of the one side that they speak of; of an inner join's pairs in a condition after it.
    fn condition(&mut self, join: Join) -> Result<LogicalPlan> {
        let Some(filter) = join.filter.clone() else {
            return Ok(LogicalPlan::Join(join));
        };
        let columns = join.schema.columns();
        if join.join_type == JoinType::Inner {
            let pairs = Join { filter: None, ..join };
            let filter = Filter::try_new(filter, shared(LogicalPlan::Join(pairs)))?;
            return self.filter(filter);
        }
        let (left_schema, right_schema) = (join.left.schema().clone(), join.right.schema().clone());
        let mut left = Asking::new(owned(join.left));
        let mut right = Asking::new(owned(join.right));
        let filter = self.attach(&mut left, filter, &|expr| asks_only(expr, &left_schema, &right_schema))?;
        let filter = self.attach(&mut right, filter, &|expr| asks_only(expr, &right_schema, &left_schema))?;
        if expr_has_subquery(&filter)? {
            return Err(EngineError::unsupported_try(
                "a subquery in ON of an outer join that speaks of both sides",
                "move it into the query of one side",
            )
            .into());
        }
        let on = join.on.into_iter();
        let on = on.map(|(left, right)| left.eq(right)).chain([filter]);
        LogicalPlanBuilder::from(left.plan)
            .join_on(right.plan, join.join_type, on)?
            .project(columns.into_iter().map(Expr::Column))?
            .build()
    }
}

fn is_left_in_filter(condition: &Expr, input: &DFSchema) -> Result<bool> {
    if !expr_has_subquery(condition)? || condition_is_left(condition, input)? {
        return Ok(true);
    }
    // Conditions that hold nothing but values that are left.
    let mut left = true;
    condition.exists(|expr| {
        left &= subquery_plan(expr).is_none() || scalar_is_left(expr, input)?;
        Ok(!left)
    })?;
    Ok(left)
}

/// `in_place`: whether DataFusion can answer correlated subqueries of this kind of node.
fn is_ours(expr: &Expr, input: &DFSchema, in_place: bool) -> Result<bool> {
    match (expr, subquery_plan(expr)) {
        (Expr::ScalarSubquery(_), Some(plan)) => {
            let is_left = free_columns(plan)?.is_empty() || in_place && scalar_is_left(expr, input)?;
            Ok(!is_left)
        }
        _ => Ok(true),
    }
}

/// A subquery that speaks of columns of `own` and of none of `other`.
fn asks_only(expr: &Expr, own: &DFSchema, other: &DFSchema) -> Result<bool> {
    let Some(plan) = subquery_plan(expr) else {
        return Ok(false);
    };
    let mut columns = free_columns(plan)?;
    if matches!(expr, Expr::ScalarSubquery(_)) && columns.is_empty() {
        return Ok(false);
    }
    columns.extend(free_columns_of(expr, own)?);
    columns.extend(expr.column_refs().into_iter().cloned());
    Ok(columns
        .iter()
        .all(|column| own.has_column(column) || !other.has_column(column)))
}

/// A condition that is an EXISTS and nothing else.
fn whole_exists(condition: Expr) -> std::result::Result<Exists, Expr> {
    match condition {
        Expr::Exists(exists) => Ok(exists),
        Expr::Not(inner) => match *inner {
            Expr::Exists(exists) => Ok(Exists {
                negated: !exists.negated,
                ..exists
            }),
            inner => Err(Expr::Not(Box::new(inner))),
        },
        other => Err(other),
    }
}

/// A LATERAL item as the query that it is.
fn without_wrapper(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Subquery(subquery) => owned(subquery.subquery),
        LogicalPlan::SubqueryAlias(SubqueryAlias {
            input, alias, schema, ..
        }) => {
            let input = without_wrapper(owned(input));
            match SubqueryAlias::try_new(shared(input.clone()), alias) {
                Ok(alias) if alias.schema.fields().len() == schema.fields().len() => LogicalPlan::SubqueryAlias(alias),
                _ => input,
            }
        }
        other => other,
    }
}
