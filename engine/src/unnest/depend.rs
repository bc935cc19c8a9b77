//! A subquery's plan for all values of its domain at once.
//!
//! `depend(plan, domain)` gives, for each value of the domain, the rows that `plan` gives with that value, behind the
//! columns of the value. Each kind of node has its own way to keep the values' rows apart.

use std::sync::Arc;

use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Distinct, DistinctOn, EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
    Sort, SubqueryAlias, Union, Unnest, Values, Window,
};

use super::domain::{Domain, all_same, shared};
use super::outer::{bind, free_columns};
use super::{Unnester, columns_of, named, owned};
use crate::error::EngineError;

/// True if the plan speaks of a column of the domain.
pub(super) fn depends(plan: &LogicalPlan, domain: &Domain) -> Result<bool> {
    Ok(domain.holds_any(&free_columns(plan)?))
}

impl Unnester {
    pub(super) fn depend(&mut self, plan: LogicalPlan, domain: &Domain) -> Result<LogicalPlan> {
        if !depends(&plan, domain)? {
            return cross(domain.plan.clone(), plan);
        }
        match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let input = self.depend(owned(input), domain)?;
                LogicalPlanBuilder::from(input)
                    .filter(bind(predicate, domain)?)?
                    .build()
            }
            LogicalPlan::Projection(Projection {
                expr, input, schema, ..
            }) => {
                let input = self.depend(owned(input), domain)?;
                project(input, domain, bound(expr, domain)?, &schema.columns())
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, schema, .. }) => {
                let input = self.depend(owned(input), domain)?;
                let columns = domain.others(&input);
                project(input, domain, columns, &schema.columns())
            }
            LogicalPlan::Subquery(subquery) => self.depend(owned(subquery.subquery), domain),
            LogicalPlan::Join(join) => self.depend_join(join, domain),
            LogicalPlan::Aggregate(aggregate) => self.depend_aggregate(aggregate, domain),
            LogicalPlan::Window(window) => self.depend_window(window, domain),
            LogicalPlan::Distinct(distinct) => self.depend_distinct(distinct, domain),
            LogicalPlan::Sort(Sort {
                expr,
                input,
                fetch: Some(fetch),
            }) => {
                let fetch = datafusion::logical_expr::lit(i64::try_from(fetch).unwrap_or(i64::MAX));
                self.first_rows(owned(input), expr, None, Some(&fetch), domain)
            }
            // Joins that follow do not keep an order, and nothing asks for it.
            LogicalPlan::Sort(sort) => self.depend(owned(sort.input), domain),
            LogicalPlan::Limit(limit) => self.depend_limit(limit, domain),
            LogicalPlan::Union(union) => self.depend_union(union, domain),
            LogicalPlan::Values(values) => self.depend_values(values, domain),
            LogicalPlan::Unnest(unnest) => self.depend_unnest(unnest, domain),
            other => Err(EngineError::unsupported(format!(
                "a subquery that speaks of outer rows within {}",
                kind(&other)
            ))
            .into()),
        }
    }

    fn depend_join(&mut self, join: Join, domain: &Domain) -> Result<LogicalPlan> {
        let columns = join.schema.columns();
        let (mut left_depends, mut right_depends) = (depends(&join.left, domain)?, depends(&join.right, domain)?);
        match join.join_type {
            JoinType::Inner if left_depends || right_depends => {}
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right_depends = true,
            JoinType::Full => (left_depends, right_depends) = (true, true),
            _ => left_depends = true,
        }
        let left = if left_depends {
            self.depend(owned(join.left), domain)?
        } else {
            owned(join.left)
        };
        let right = if right_depends {
            self.depend(owned(join.right), domain)?
        } else {
            owned(join.right)
        };
        let mut on = Vec::with_capacity(join.on.len());
        for (left, right) in join.on {
            on.push((bind(left, domain)?, bind(right, domain)?));
        }
        let filter = join.filter.map(|filter| bind(filter, domain)).transpose()?;
        let mut parts = Join {
            left: shared(left),
            right: shared(right),
            on,
            filter,
            ..join_shell(join.join_type, join.null_equality, join.null_aware)
        };
        let mut keys = domain.exprs();
        if left_depends && right_depends {
            let table = self.fresh();
            parts.right = shared(renamed(owned(parts.right), domain, &table)?);
            join_values(&mut parts, domain.own_pairs(&table));
            keys = joined_keys(parts.join_type, domain, &table);
        }
        let joined = Join::try_new(
            parts.left,
            parts.right,
            parts.on,
            parts.filter,
            parts.join_type,
            datafusion::logical_expr::JoinConstraint::On,
            parts.null_equality,
            parts.null_aware,
        )?;
        let rest = columns.into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(LogicalPlan::Join(joined))
            .project(keys.into_iter().chain(rest))?
            .build()
    }

    fn depend_window(&mut self, window: Window, domain: &Domain) -> Result<LogicalPlan> {
        let columns = window.schema.columns();
        let input = self.depend(owned(window.input), domain)?;
        let input_width = columns.len() - window.window_expr.len();
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        for (expr, column) in window.window_expr.into_iter().zip(&columns[input_width..]) {
            let apart = partitioned(bind(expr, domain)?, domain);
            exprs.push(named(apart, column));
        }
        let windowed = LogicalPlan::Window(Window::try_new(exprs, shared(input))?);
        project(
            windowed,
            domain,
            columns.iter().cloned().map(Expr::Column).collect(),
            &columns,
        )
    }

    fn depend_distinct(&mut self, distinct: Distinct, domain: &Domain) -> Result<LogicalPlan> {
        match distinct {
            Distinct::All(input) => {
                let input = self.depend(owned(input), domain)?;
                LogicalPlanBuilder::from(input).distinct()?.build()
            }
            Distinct::On(DistinctOn {
                on_expr,
                select_expr,
                sort_expr,
                input,
                schema,
            }) => {
                let input = self.depend(owned(input), domain)?;
                let keys = domain.exprs();
                let on = keys.iter().cloned().chain(bound(on_expr, domain)?).collect();
                let selected = bound(select_expr, domain)?.into_iter().zip(schema.columns());
                let selected = selected.map(|(expr, column)| named(expr, &column));
                let selected = keys.iter().cloned().chain(selected).collect();
                let mut order: Vec<_> = keys.iter().cloned().map(|key| key.sort(true, false)).collect();
                for key in sort_expr.into_iter().flatten() {
                    order.push(datafusion::logical_expr::expr::Sort {
                        expr: bind(key.expr, domain)?,
                        ..key
                    });
                }
                LogicalPlanBuilder::from(input)
                    .distinct_on(on, selected, Some(order))?
                    .build()
            }
        }
    }

    fn depend_union(&mut self, union: Union, domain: &Domain) -> Result<LogicalPlan> {
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in union.inputs {
            let columns = input.schema().columns();
            let dependent = self.depend(owned(input), domain)?;
            let exprs = columns.iter().cloned().map(Expr::Column).collect();
            inputs.push(shared(project(dependent, domain, exprs, &columns)?));
        }
        let together = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let own = domain.exprs().into_iter().filter_map(|expr| match expr {
            Expr::Column(column) => Some(column),
            _ => None,
        });
        let names = own.chain(union.schema.columns());
        let exprs: Vec<Expr> = columns_of(&together)
            .into_iter()
            .zip(names)
            .map(|(expr, name)| named(expr, &name))
            .collect();
        LogicalPlanBuilder::from(together).project(exprs)?.build()
    }

    /// Rows of VALUES are rows of SELECTs without a table.
    fn depend_values(&mut self, values: Values, domain: &Domain) -> Result<LogicalPlan> {
        let columns = values.schema.columns();
        let mut rows = Vec::with_capacity(values.values.len());
        for row in values.values {
            let one = LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: true,
                schema: Arc::new(datafusion::common::DFSchema::empty()),
            });
            let exprs = row.into_iter().zip(&columns).map(|(expr, column)| named(expr, column));
            rows.push(shared(LogicalPlanBuilder::from(one).project(exprs)?.build()?));
        }
        let mut plans = rows.into_iter();
        match (plans.next(), plans.len()) {
            (Some(only), 0) => self.depend(owned(only), domain),
            (first, _) => {
                let inputs = first.into_iter().chain(plans).collect();
                let mut union = Union::try_new_with_loose_types(inputs)?;
                union.schema = values.schema;
                self.depend_union(union, domain)
            }
        }
    }

    fn depend_unnest(&mut self, unnest: Unnest, domain: &Domain) -> Result<LogicalPlan> {
        let columns = unnest.schema.columns();
        let input = self.depend(owned(unnest.input), domain)?;
        let unnested = LogicalPlanBuilder::from(input)
            .unnest_columns_with_options(unnest.exec_columns, unnest.options)?
            .build()?;
        project(
            unnested,
            domain,
            columns.iter().cloned().map(Expr::Column).collect(),
            &columns,
        )
    }
}

/// The domain's columns, then `exprs` under the names of `columns`.
pub(super) fn project(
    input: LogicalPlan,
    domain: &Domain,
    exprs: Vec<Expr>,
    columns: &[Column],
) -> Result<LogicalPlan> {
    let exprs = exprs.into_iter().zip(columns).map(|(expr, column)| named(expr, column));
    LogicalPlanBuilder::from(input)
        .project(domain.exprs().into_iter().chain(exprs))?
        .build()
}

pub(super) fn bound(exprs: Vec<Expr>, domain: &Domain) -> Result<Vec<Expr>> {
    exprs.into_iter().map(|expr| bind(expr, domain)).collect()
}

/// The domain's columns of `plan` under another table's name, and its other columns.
pub(super) fn renamed(plan: LogicalPlan, domain: &Domain, table: &str) -> Result<LogicalPlan> {
    let others = domain.others(&plan);
    LogicalPlanBuilder::from(plan)
        .project(domain.renamed(table).into_iter().chain(others))?
        .build()
}

/// Adds to a join's condition that both sides are about the same value.
fn join_values(join: &mut Join, pairs: Vec<(Expr, Expr)>) {
    if join.null_equality == NullEquality::NullEqualsNull {
        join.on.extend(pairs);
    } else {
        let same = all_same(pairs);
        join.filter = Some(match join.filter.take() {
            Some(filter) => filter.and(same),
            None => same,
        });
    }
}

/// Where the domain's columns are found after a join of two sides that both have them.
fn joined_keys(join_type: JoinType, domain: &Domain, table: &str) -> Vec<Expr> {
    let pairs = domain.own_pairs(table).into_iter();
    let own = domain.exprs();
    match join_type {
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            rename_back(pairs.map(|(_, right)| right), own)
        }
        JoinType::Full => {
            let either = pairs.map(|(left, right)| datafusion::functions::core::expr_fn::coalesce(vec![left, right]));
            rename_back(either, own)
        }
        _ => own,
    }
}

fn rename_back(exprs: impl Iterator<Item = Expr>, own: Vec<Expr>) -> Vec<Expr> {
    exprs
        .zip(own)
        .map(|(expr, own)| match own {
            Expr::Column(column) => named(expr, &column),
            _ => expr,
        })
        .collect()
}

/// A window function that sees the rows of one value only.
fn partitioned(expr: Expr, domain: &Domain) -> Expr {
    match expr {
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(partitioned(*alias.expr, domain));
            Expr::Alias(alias)
        }
        Expr::WindowFunction(function) => {
            let WindowFunction { fun, mut params } = *function;
            params.partition_by.extend(domain.exprs());
            Expr::from(WindowFunction { fun, params })
        }
        other => other,
    }
}

/// Every pair of rows.
pub(super) fn cross(left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(left).cross_join(right)?.build()
}

fn join_shell(join_type: JoinType, null_equality: NullEquality, null_aware: bool) -> Join {
    let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(datafusion::common::DFSchema::empty()),
    });
    Join {
        left: shared(nothing.clone()),
        right: shared(nothing),
        on: Vec::new(),
        filter: None,
        join_type,
        join_constraint: datafusion::logical_expr::JoinConstraint::On,
        schema: Arc::new(datafusion::common::DFSchema::empty()),
        null_equality,
        null_aware,
    }
}

fn kind(plan: &LogicalPlan) -> &'static str {
    match plan {
        LogicalPlan::RecursiveQuery(_) => "WITH RECURSIVE",
        LogicalPlan::TableScan(_) => "the arguments of a table function",
        _ => "this kind of query",
    }
}
