//! LIMIT, OFFSET and ORDER BY of a subquery, counted for each value of its domain.

use datafusion::common::{Column, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt as _, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, WindowFunctionDefinition,
    cast, lit,
};

use super::domain::{Domain, shared};
use super::outer::bind;
use super::{Unnester, columns_of};

impl Unnester {
    pub(super) fn depend_limit(&mut self, limit: Limit, domain: &Domain) -> Result<LogicalPlan> {
        let Limit { skip, fetch, input } = limit;
        match super::owned(input) {
            // The columns of an answer are made of rows one by one, so the rows may be counted before.
            LogicalPlan::Projection(Projection {
                expr, input, schema, ..
            }) => {
                let counted = LogicalPlan::Limit(Limit { skip, fetch, input });
                let projection = Projection::try_new_with_schema(expr, shared(counted), schema)?;
                self.depend(LogicalPlan::Projection(projection), domain)
            }
            LogicalPlan::Sort(Sort {
                expr,
                input,
                fetch: None,
            }) => self.first_rows(super::owned(input), expr, skip.as_deref(), fetch.as_deref(), domain),
            input => self.first_rows(input, Vec::new(), skip.as_deref(), fetch.as_deref(), domain),
        }
    }

    /// The rows after `skip` and up to `fetch` more, in the order of `order`, for each value of the domain.
    pub(super) fn first_rows(
        &mut self,
        input: LogicalPlan,
        order: Vec<SortExpr>,
        skip: Option<&Expr>,
        fetch: Option<&Expr>,
        domain: &Domain,
    ) -> Result<LogicalPlan> {
        let dependent = self.depend(input, domain)?;
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            keys.push(SortExpr {
                expr: bind(key.expr, domain)?,
                ..key
            });
        }
        let name = self.fresh();
        let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let number = Expr::from(WindowFunction::new(function, Vec::new()))
            .partition_by(domain.exprs())
            .order_by(keys)
            .build()?
            .alias(name.clone());
        let number_column = || {
            cast(
                Expr::Column(Column::new_unqualified(name.clone())),
                arrow::datatypes::DataType::Int64,
            )
        };
        let columns = columns_of(&dependent);
        let skipped = skip
            .filter(|skip| !is_null(skip))
            .cloned()
            .unwrap_or_else(|| lit(0_i64));
        let mut kept = number_column().gt(skipped.clone());
        if let Some(fetch) = fetch.filter(|fetch| !is_null(fetch)) {
            kept = kept.and(number_column().lt_eq(skipped + fetch.clone()));
        }
        LogicalPlanBuilder::from(dependent)
            .window([number])?
            .filter(bind(kept, domain)?)?
            .project(columns)?
            .build()
    }
}

/// LIMIT NULL and OFFSET NULL say nothing.
fn is_null(rows: &Expr) -> bool {
    matches!(rows, Expr::Literal(value, _) if value.is_null())
}
