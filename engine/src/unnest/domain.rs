//! The distinct values that a subquery is asked with.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};

use super::Unnester;
use crate::error::EngineError;

/// The distinct values of some columns, each under a name of its own.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) plan: LogicalPlan,
    /// What the subquery calls the column, and what it is called in `plan`.
    columns: Vec<(Column, Column)>,
}

impl Domain {
    /// What stands for an outer column.
    pub(super) fn column(&self, outer: &Column) -> Option<&Column> {
        let mut columns = self.columns.iter();
        columns.find(|(known, _)| known == outer).map(|(_, own)| own)
    }

    pub(super) fn holds_any(&self, outer: &[Column]) -> bool {
        outer.iter().any(|column| self.column(column).is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The columns as expressions over a plan that depends on this domain.
    pub(super) fn exprs(&self) -> Vec<Expr> {
        self.columns.iter().map(|(_, own)| Expr::Column(own.clone())).collect()
    }

    /// The columns of `plan` that are not the domain's.
    pub(super) fn others(&self, plan: &LogicalPlan) -> Vec<Expr> {
        let own = |column: &Column| self.columns.iter().any(|(_, own)| own == column);
        let columns = plan.schema().columns().into_iter();
        columns.filter(|column| !own(column)).map(Expr::Column).collect()
    }

    /// The domain's columns under the name of another table.
    pub(super) fn renamed(&self, table: &str) -> Vec<Expr> {
        let names = (0..self.columns.len()).map(|at| column(table, at));
        self.exprs()
            .into_iter()
            .zip(names)
            .map(|(expr, name)| expr.alias_qualified(name.relation, name.name))
            .collect()
    }

    /// True where the rows of a table made with [`Domain::renamed`] belong to the values in `from`.
    fn same(from: impl Iterator<Item = Column>, table: &str) -> Vec<(Expr, Expr)> {
        from.enumerate()
            .map(|(at, from)| (Expr::Column(from), Expr::Column(column(table, at))))
            .collect()
    }

    /// Pairs of the outer columns and the renamed ones.
    pub(super) fn outer_pairs(&self, table: &str) -> Vec<(Expr, Expr)> {
        Self::same(self.columns.iter().map(|(outer, _)| outer.clone()), table)
    }

    /// Pairs of the domain's columns and the renamed ones.
    pub(super) fn own_pairs(&self, table: &str) -> Vec<(Expr, Expr)> {
        Self::same(self.columns.iter().map(|(_, own)| own.clone()), table)
    }
}

/// All pairs hold the same value, or NULL both.
pub(super) fn all_same(pairs: Vec<(Expr, Expr)>) -> Expr {
    let same = |(left, right): (Expr, Expr)| {
        Expr::BinaryExpr(BinaryExpr::new(
            Box::new(left),
            Operator::IsNotDistinctFrom,
            Box::new(right),
        ))
    };
    conjunction(pairs.into_iter().map(same)).unwrap_or_else(|| lit(true))
}

fn column(table: &str, at: usize) -> Column {
    Column::new(Some(table), format!("{table}_{at}"))
}

impl Unnester {
    /// The distinct values of `columns` in `input`.
    pub(super) fn domain(&mut self, input: &LogicalPlan, columns: &[Column]) -> Result<Domain> {
        if columns.is_empty() {
            return Ok(Domain {
                plan: LogicalPlanBuilder::empty(true).build()?,
                columns: Vec::new(),
            });
        }
        refuse_volatile(input)?;
        let table = self.fresh();
        let columns: Vec<(Column, Column)> = columns
            .iter()
            .enumerate()
            .map(|(at, outer)| (outer.clone(), column(&table, at)))
            .collect();
        let exprs = columns.iter().map(|(outer, own)| {
            let outer = Expr::Column(outer.clone());
            outer.alias_qualified(own.relation.clone(), own.name.clone())
        });
        let plan = LogicalPlanBuilder::from(input.clone())
            .project(exprs)?
            .distinct()?
            .build()?;
        Ok(Domain { plan, columns })
    }
}

/// A domain reads its rows a second time, and must find the same.
fn refuse_volatile(input: &LogicalPlan) -> Result<()> {
    let mut volatile = false;
    input.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !volatile {
        return Ok(());
    }
    Err(EngineError::unsupported_try(
        "a subquery about rows that random() or the like makes",
        "store the rows first: CREATE TABLE name AS SELECT …",
    )
    .into())
}

/// The plan as an input.
pub(super) fn shared(plan: LogicalPlan) -> Arc<LogicalPlan> {
    Arc::new(plan)
}
