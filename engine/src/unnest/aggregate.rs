//! Aggregates of a subquery, one set of groups for each value of its domain.

use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::enumerate_grouping_sets;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable as _, GroupingSet, JoinType, LogicalPlan, LogicalPlanBuilder, lit, when,
};

use super::domain::{Domain, all_same, shared};
use super::outer::bind;
use super::{Unnester, depend, named, owned};

/// The column that is NULL where a value has no group.
const MARK: &str = "found";

impl Unnester {
    pub(super) fn depend_aggregate(&mut self, aggregate: Aggregate, domain: &Domain) -> Result<LogicalPlan> {
        let input = self.depend(owned(aggregate.input), domain)?;
        let columns = aggregate.schema.columns();
        let groups_width = columns.len() - aggregate.aggr_expr.len();
        let mut aggregates = Vec::with_capacity(aggregate.aggr_expr.len());
        for (expr, column) in aggregate.aggr_expr.iter().zip(&columns[groups_width..]) {
            aggregates.push(renamed_if_changed(expr.clone(), domain, column)?);
        }
        if aggregate.group_expr.is_empty() {
            return self.ungrouped(input, aggregates, &columns, domain);
        }
        let groups = keyed_groups(aggregate.group_expr, &columns, domain)?;
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(shared(input), groups, aggregates)?);
        let exprs = columns.iter().cloned().map(Expr::Column).collect();
        depend::project(grouped, domain, exprs, &columns)
    }

    /// Without GROUP BY there is a row for every value, also for one without rows: then it counts none.
    fn ungrouped(
        &mut self,
        input: LogicalPlan,
        aggregates: Vec<Expr>,
        columns: &[Column],
        domain: &Domain,
    ) -> Result<LogicalPlan> {
        if domain.is_empty() {
            let all = Aggregate::try_new(shared(input), Vec::new(), aggregates)?;
            return Ok(LogicalPlan::Aggregate(all));
        }
        let table = self.fresh();
        let mark = Column::new(Some(table.as_str()), MARK);
        let mut values = Vec::with_capacity(aggregates.len());
        for (expr, column) in aggregates.iter().zip(columns) {
            let data_type = expr.get_type(input.schema())?;
            let empty = value_of_nothing(expr, &data_type)?;
            let found = Expr::Column(column.clone());
            values.push(if empty.is_null() {
                found
            } else {
                let missing = Expr::Column(mark.clone()).is_null();
                named(when(missing, lit(empty)).otherwise(found)?, column)
            });
        }
        let grouped = Aggregate::try_new(shared(input), domain.exprs(), aggregates)?;
        let results = columns.iter().cloned().map(Expr::Column);
        let marked = domain
            .renamed(&table)
            .into_iter()
            .chain(results)
            .chain([lit(true).alias_qualified(mark.relation.clone(), MARK)]);
        let grouped = LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped))
            .project(marked)?
            .build()?;
        LogicalPlanBuilder::from(domain.plan.clone())
            .join_on(grouped, JoinType::Left, [all_same(domain.own_pairs(&table))])?
            .project(domain.exprs().into_iter().chain(values))?
            .build()
    }
}

fn value_of_nothing(expr: &Expr, data_type: &arrow::datatypes::DataType) -> Result<datafusion::common::ScalarValue> {
    match expr {
        Expr::Alias(alias) => value_of_nothing(&alias.expr, data_type),
        Expr::AggregateFunction(aggregate) => aggregate.func.default_value(data_type),
        _ => datafusion::common::ScalarValue::try_from(data_type),
    }
}

fn renamed_if_changed(expr: Expr, domain: &Domain, column: &Column) -> Result<Expr> {
    if expr.contains_outer() {
        Ok(bind(expr, domain)?.alias(column.name.clone()))
    } else {
        Ok(expr)
    }
}

/// The domain's columns in front of each grouping.
fn keyed_groups(groups: Vec<Expr>, columns: &[Column], domain: &Domain) -> Result<Vec<Expr>> {
    let keys = domain.exprs();
    if !matches!(groups.as_slice(), [Expr::GroupingSet(_)]) {
        let mut keyed = keys;
        for (group, column) in groups.into_iter().zip(columns) {
            keyed.push(renamed_if_changed(group, domain, column)?);
        }
        return Ok(keyed);
    }
    let with_keys = |set: Vec<Expr>| -> Result<Vec<Expr>> {
        let rest = depend::bound(set, domain)?;
        Ok(keys.iter().cloned().chain(rest).collect())
    };
    let sets = match enumerate_grouping_sets(groups)?.into_iter().next() {
        Some(Expr::GroupingSet(GroupingSet::GroupingSets(sets))) => sets,
        Some(Expr::GroupingSet(GroupingSet::Rollup(exprs))) => {
            (0..=exprs.len()).rev().map(|length| exprs[..length].to_vec()).collect()
        }
        Some(Expr::GroupingSet(GroupingSet::Cube(exprs))) => cube(&exprs),
        _ => Vec::new(),
    };
    let sets = sets.into_iter().map(with_keys).collect::<Result<Vec<_>>>()?;
    Ok(vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))])
}

/// Every subset.
fn cube(exprs: &[Expr]) -> Vec<Vec<Expr>> {
    exprs.iter().fold(vec![Vec::new()], |sets, expr| {
        let with = sets.iter().cloned().map(|mut set| {
            set.push(expr.clone());
            set
        });
        let with: Vec<Vec<Expr>> = with.collect();
        with.into_iter().chain(sets).collect()
    })
}
