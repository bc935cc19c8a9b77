//! Integer arithmetic that fails instead of wrapping.
//!
//! DataFusion adds, subtracts and multiplies integers modulo their width, and has no setting for it. After its types
//! are settled, an analyzer rule puts a checked function in the place of each such operator and of each negation. The
//! functions print like the operators they replace, so names of columns and plans do not change. Decimals are checked
//! by Arrow itself; division checks for zero everywhere but in floating point.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

/// Puts checked functions in the place of integer operators.
#[derive(Debug)]
pub(crate) struct CheckedIntegers;

impl AnalyzerRule for CheckedIntegers {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(check_node)
            .map(|transformed| transformed.data)
    }

    fn name(&self) -> &'static str {
        "checked_integers"
    }
}

fn check_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(check_expr(expr, &schema)?.update_data(|expr| name.restore(expr)))
    })
}

/// Rewrites one expression over `schema`, bottom up.
pub(crate) fn check_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if Checked::of(op).is_some() => {
            let integer = |side: &Expr| side.get_type(schema).ok().filter(DataType::is_integer);
            match (integer(&left), integer(&right), Checked::of(op)) {
                (Some(l), Some(r), Some(checked)) if l == r => {
                    Ok(Transformed::yes(checked.udf().call(vec![*left, *right])))
                }
                _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            }
        }
        Expr::Negative(inner) if inner.get_type(schema).is_ok_and(|ty| ty.is_signed_integer()) => {
            // `-literal` is a literal, except at the edge of the type.
            match *inner {
                Expr::Literal(value, metadata) if !value.is_null() && value.arithmetic_negate().is_ok() => {
                    Ok(Transformed::yes(Expr::Literal(value.arithmetic_negate()?, metadata)))
                }
                inner => Ok(Transformed::yes(Checked::Negate.udf().call(vec![inner]))),
            }
        }
        other => Ok(Transformed::no(other)),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Checked {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl Checked {
    fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            _ => None,
        }
    }

    fn udf(self) -> Arc<ScalarUDF> {
        static UDFS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
            [Checked::Add, Checked::Subtract, Checked::Multiply, Checked::Negate].map(|checked| {
                Arc::new(ScalarUDF::from(CheckedFunction {
                    checked,
                    signature: Signature::any(if checked == Checked::Negate { 1 } else { 2 }, Volatility::Immutable),
                }))
            })
        });
        Arc::clone(&UDFS[self as usize])
    }

    const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract | Self::Negate => "-",
            Self::Multiply => "*",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedFunction {
    checked: Checked,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedFunction {
    fn name(&self) -> &'static str {
        match self.checked {
            Checked::Add => "checked_add",
            Checked::Subtract => "checked_subtract",
            Checked::Multiply => "checked_multiply",
            Checked::Negate => "checked_negate",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let symbol = self.checked.symbol();
        match args {
            [left, right] => Ok(format!("{} {symbol} {}", left.schema_name(), right.schema_name())),
            [inner] => Ok(format!("(- {})", inner.schema_name())),
            _ => plan_err!("`{symbol}` takes one or two values"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [first, ..] => Ok(first.clone()),
            [] => plan_err!("`{}` takes one or two values", self.checked.symbol()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.checked, args.args.as_slice()) {
            (Checked::Add, [left, right]) => apply(left, right, numeric::add),
            (Checked::Subtract, [left, right]) => apply(left, right, numeric::sub),
            (Checked::Multiply, [left, right]) => apply(left, right, numeric::mul),
            (Checked::Negate, [ColumnarValue::Array(array)]) => Ok(ColumnarValue::Array(numeric::neg(array.as_ref())?)),
            (Checked::Negate, [ColumnarValue::Scalar(value)]) => {
                let negated = numeric::neg(value.to_array()?.as_ref())?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?))
            }
            _ => plan_err!("`{}` takes one or two values", self.checked.symbol()),
        }
    }
}
