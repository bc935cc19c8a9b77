//! Subqueries of expressions, each answered by a join of the rows that ask.

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable as _, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, lit, not, when,
};

use super::depend::cross;
use super::domain::{Domain, all_same};
use super::outer::free_columns;
use super::single::{gives_one_row, only_value};
use super::{Unnester, columns_of, owned, subquery_plan};

/// Rows that ask, with the answers joined to them.
pub(super) struct Asking {
    pub(super) plan: LogicalPlan,
    /// Subqueries that were answered already, and where.
    answered: Vec<(Expr, Expr)>,
}

impl Asking {
    pub(super) fn new(plan: LogicalPlan) -> Self {
        Self {
            plan,
            answered: Vec::new(),
        }
    }
}

impl Unnester {
    /// Replaces the subqueries of `expr` that `is_ours` by columns that are joined to the rows.
    pub(super) fn attach(
        &mut self,
        asking: &mut Asking,
        expr: Expr,
        is_ours: &impl Fn(&Expr) -> Result<bool>,
    ) -> Result<Expr> {
        let replaced = expr.transform_up(|expr| {
            if subquery_plan(&expr).is_none() || !is_ours(&expr)? {
                return Ok(Transformed::no(expr));
            }
            if let Some((_, answer)) = asking.answered.iter().find(|(known, _)| *known == expr) {
                return Ok(Transformed::yes(answer.clone()));
            }
            let answer = self.answer(asking, expr.clone())?;
            asking.answered.push((expr, answer.clone()));
            Ok(Transformed::yes(answer))
        })?;
        Ok(replaced.data)
    }

    fn answer(&mut self, asking: &mut Asking, expr: Expr) -> Result<Expr> {
        match expr {
            Expr::ScalarSubquery(subquery) => self.scalar(asking, owned(subquery.subquery)),
            Expr::Exists(exists) => {
                let found = self.exists(asking, owned(exists.subquery.subquery))?;
                Ok(if exists.negated { not(found) } else { found })
            }
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }) => {
                let query = owned(subquery.subquery);
                let within = if free_columns(&query)?.is_empty() {
                    self.within(asking, *expr, query)?
                } else {
                    self.any(asking, *expr, Operator::Eq, query, false)?
                };
                Ok(if negated { not(within) } else { within })
            }
            Expr::SetComparison(comparison) => self.compare(asking, comparison),
            other => Ok(other),
        }
    }

    fn compare(&mut self, asking: &mut Asking, comparison: SetComparison) -> Result<Expr> {
        let SetComparison {
            expr,
            subquery,
            op,
            quantifier,
        } = comparison;
        let query = owned(subquery.subquery);
        let uncorrelated = free_columns(&query)?.is_empty();
        match (quantifier, op) {
            (SetQuantifier::Any, Operator::Eq) if uncorrelated => self.within(asking, *expr, query),
            (SetQuantifier::All, Operator::NotEq) if uncorrelated => Ok(not(self.within(asking, *expr, query)?)),
            (SetQuantifier::Any, op) => self.any(asking, *expr, op, query, false),
            // All are so where none is not so.
            (SetQuantifier::All, op) => Ok(not(self.any(asking, *expr, op, query, true)?)),
        }
    }

    /// Which of the columns that the query speaks of belong to the rows that ask.
    fn domain_of(&mut self, asking: &LogicalPlan, query: &LogicalPlan, more: Option<&Column>) -> Result<Domain> {
        let mut columns = free_columns(query)?;
        columns.retain(|column| asking.schema().has_column(column));
        columns.extend(more.cloned());
        self.domain(asking, &columns)
    }

    fn scalar(&mut self, asking: &mut Asking, query: LogicalPlan) -> Result<Expr> {
        let single = gives_one_row(&query);
        let domain = self.domain_of(&asking.plan, &query, None)?;
        let dependent = self.depend(query, &domain)?;
        let table = self.fresh();
        let value = Column::new(Some(table.as_str()), "value");
        let value_in = |plan: &LogicalPlan| Expr::Column(plan.schema().columns().swap_remove(domain.len()));
        let rows = if single {
            dependent
        } else {
            let only = only_value(value_in(&dependent)).alias("value");
            LogicalPlanBuilder::from(dependent)
                .aggregate(domain.exprs(), [only])?
                .build()?
        };
        let result = value_in(&rows).alias_qualified(value.relation.clone(), "value");
        let answers = LogicalPlanBuilder::from(rows)
            .project(domain.renamed(&table).into_iter().chain([result]))?
            .build()?;
        asking.join(answers, &domain, &table)?;
        Ok(Expr::Column(value))
    }

    fn exists(&mut self, asking: &mut Asking, query: LogicalPlan) -> Result<Expr> {
        let query = rows_only(query);
        let domain = self.domain_of(&asking.plan, &query, None)?;
        let dependent = self.depend(query, &domain)?;
        let table = self.fresh();
        let found = Column::new(Some(table.as_str()), "found");
        let mark = lit(true).alias_qualified(found.relation.clone(), "found");
        let answers = LogicalPlanBuilder::from(dependent).project(domain.renamed(&table).into_iter().chain([mark]))?;
        let answers = if domain.is_empty() {
            answers.limit(0, Some(1))?
        } else {
            answers.distinct()?
        };
        asking.join(answers.build()?, &domain, &table)?;
        Ok(Expr::Column(found).is_not_null())
    }

    /// `value IN (query)` where the query speaks of nothing outside: the values are looked up in its distinct rows.
    fn within(&mut self, asking: &mut Asking, value: Expr, query: LogicalPlan) -> Result<Expr> {
        let table = self.fresh();
        let column = |name: &str| Column::new(Some(table.as_str()), name);
        let (found, rows, unknown) = (column("value"), column("rows"), column("unknown"));
        let member = query.schema().columns().swap_remove(0);
        let nullable = query.schema().field(0).is_nullable() || value.nullable(asking.plan.schema())?;
        let members = LogicalPlanBuilder::from(query.clone())
            .project([Expr::Column(member.clone()).alias_qualified(found.relation.clone(), "value")])?
            .distinct()?
            .build()?;
        let equal = value.clone().eq(Expr::Column(found.clone()));
        let joined = LogicalPlanBuilder::from(asking.plan.clone())
            .join_on(members, JoinType::Left, [equal])?
            .build()?;
        let is_found = Expr::Column(found).is_not_null();
        if !nullable {
            asking.plan = joined;
            return Ok(is_found);
        }
        let summary = LogicalPlanBuilder::from(query)
            .aggregate(
                Vec::<Expr>::new(),
                [
                    count(lit(1_i64)).alias("rows"),
                    bool_or(Expr::Column(member).is_null()).alias("unknown"),
                ],
            )?
            .alias(table.clone() + "_all")?
            .build()?;
        let named = ["rows", "unknown"].map(|name| {
            let from = Column::new(Some(table.clone() + "_all"), name);
            Expr::Column(from).alias_qualified(Some(table.as_str()), name)
        });
        let summary = LogicalPlanBuilder::from(summary).project(named)?.build()?;
        asking.plan = cross(joined, summary)?;
        when(is_found, lit(true))
            .when(Expr::Column(rows).eq(lit(0_i64)), lit(false))
            .when(
                value.is_null().or(Expr::Column(unknown)),
                lit(ScalarValue::Boolean(None)),
            )
            .otherwise(lit(false))
    }

    /// `value op ANY (query)`: true if one comparison is true, else NULL if one is NULL, else false. With `reversed`
    /// each comparison is denied first.
    fn any(
        &mut self,
        asking: &mut Asking,
        value: Expr,
        op: Operator,
        query: LogicalPlan,
        reversed: bool,
    ) -> Result<Expr> {
        let value = self.as_column(asking, value)?;
        let domain = self.domain_of(&asking.plan, &query, Some(&value))?;
        let dependent = self.depend(query, &domain)?;
        let table = self.fresh();
        let member = Expr::Column(dependent.schema().columns().swap_remove(domain.len()));
        let asked = domain.column(&value).cloned().unwrap_or(value);
        let compared = Expr::BinaryExpr(BinaryExpr::new(Box::new(Expr::Column(asked)), op, Box::new(member)));
        let compared = if reversed { not(compared) } else { compared };
        let column = |name: &str| Column::new(Some(table.as_str()), name);
        let aggregates = [
            bool_or(compared.clone()).alias("any"),
            bool_or(compared.is_null()).alias("unknown"),
        ];
        let results = ["any", "unknown"].map(|name| {
            let from = Column::new_unqualified(name);
            Expr::Column(from).alias_qualified(Some(table.as_str()), name)
        });
        let answers = LogicalPlanBuilder::from(dependent)
            .aggregate(domain.exprs(), aggregates)?
            .project(domain.renamed(&table).into_iter().chain(results))?
            .build()?;
        asking.join(answers, &domain, &table)?;
        when(Expr::Column(column("any")), lit(true))
            .when(Expr::Column(column("unknown")), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
    }

    /// The value as a column of the rows that ask.
    fn as_column(&mut self, asking: &mut Asking, value: Expr) -> Result<Column> {
        if let Expr::Column(column) = value {
            return Ok(column);
        }
        let column = Column::new(Some(self.fresh()), "asked");
        let asked = value.alias_qualified(column.relation.clone(), "asked");
        let plan = std::mem::replace(&mut asking.plan, LogicalPlanBuilder::empty(false).build()?);
        let columns = columns_of(&plan);
        asking.plan = LogicalPlanBuilder::from(plan)
            .project(columns.into_iter().chain([asked]))?
            .build()?;
        Ok(column)
    }
}

impl Asking {
    fn join(&mut self, answers: LogicalPlan, domain: &Domain, table: &str) -> Result<()> {
        self.plan = LogicalPlanBuilder::from(self.plan.clone())
            .join_on(answers, JoinType::Left, [all_same(domain.outer_pairs(table))])?
            .build()?;
        Ok(())
    }
}

/// A plan that has rows whenever `plan` has: what only orders, shapes or merges rows is left out.
pub(super) fn rows_only(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => rows_only(owned(projection.input)),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => rows_only(owned(sort.input)),
        LogicalPlan::SubqueryAlias(alias) => rows_only(owned(alias.input)),
        LogicalPlan::Distinct(Distinct::All(input)) => rows_only(owned(input)),
        other => other,
    }
}
