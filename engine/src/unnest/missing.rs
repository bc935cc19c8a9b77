//! Subqueries used as values may be NULL, because they may have no row.
//!
//! DataFusion takes the value of such a subquery for as nullable as its column, and then finds `(SELECT 5 WHERE false) IS
//! NULL` to be false without looking.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Subquery, Volatility,
};

use super::outer::free_columns;
use super::owned;

/// `plan` with a nullable column in each subquery that is used as a value and stands for itself.
pub(super) fn nullable_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let transformed = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(nullable))?;
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(transformed.data)
}

fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(subquery) if is_never_null(&subquery.subquery)? => {
            let plan = owned(Arc::clone(&subquery.subquery));
            let Some((qualifier, field)) = plan.schema().iter().next() else {
                return plan_err!("a subquery without a column is no value");
            };
            let column = Expr::from((qualifier, field));
            let value = Expr::ScalarFunction(ScalarFunction::new_udf(maybe(), vec![column]));
            let value = value.alias_qualified(qualifier.cloned(), field.name());
            let plan = LogicalPlan::Projection(Projection::try_new(vec![value], Arc::new(plan))?);
            Ok(Transformed::yes(Expr::ScalarSubquery(Subquery {
                subquery: Arc::new(plan),
                ..subquery
            })))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the one column says that it holds no NULL, of a subquery that can be without a row.
fn is_never_null(plan: &LogicalPlan) -> Result<bool> {
    let says_so = plan.schema().fields().first().is_some_and(|field| !field.is_nullable());
    Ok(says_so && !has_a_row(plan) && free_columns(plan)?.is_empty())
}

fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// A function that gives its value back, of which nobody can tell that it is not NULL.
fn maybe() -> Arc<ScalarUDF> {
    static MAYBE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(Maybe {
            // Else it would be evaluated where its value is constant.
            signature: Signature::any(1, Volatility::Volatile),
        }))
    });
    Arc::clone(&MAYBE)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Maybe {
    signature: Signature,
}

impl ScalarUDFImpl for Maybe {
    fn name(&self) -> &'static str {
        "maybe"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
