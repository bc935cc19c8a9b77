//! Arithmetic that fails instead of wrapping.
//!
//! DataFusion adds, subtracts and multiplies integers modulo their width, and has no setting for it. After its types
//! are settled, an analyzer rule puts a checked function in the place of each such operator and of each negation. The
//! functions print like the operators they replace, so names of columns and plans do not change. Decimals are checked
//! by Arrow itself, and so is integer division; the functions only make decimals faster ([`decimals`]). The same rule makes floating point refuse to divide by zero, and casts
//! to integers round, as PostgreSQL has it.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array as _, ArrayRef, AsArray as _, new_empty_array};
use arrow::compute::cast;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

use crate::decimals;
use crate::error::EngineError;

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
    let plan = match plan {
        LogicalPlan::Sort(mut sort) => {
            sort.expr = sort
                .expr
                .into_iter()
                .map(|each| crate::pg::enums::ranked_sort(each, &schema))
                .collect();
            LogicalPlan::Sort(sort)
        }
        other => other,
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let cast = crate::pg::casts::rewrite(expr, &schema)?;
        let checked = cast.transform_data(|expr| check_expr(expr, &schema))?;
        Ok(checked.update_data(|expr| name.restore(expr)))
    })
}

/// Rewrites one expression over `schema`, bottom up.
pub(crate) fn check_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::BinaryExpr(binary) => Ok(check_binary(binary, schema)),
        Expr::Cast(cast) if rounds(&cast, schema) => {
            let Cast { expr, field } = cast;
            let rounded = Box::new(Checked::Round.udf().call(vec![*expr]));
            Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(rounded, field))))
        }
        Expr::Negative(inner) if type_of(&inner, schema).is_ok_and(|ty| ty.is_signed_integer()) => {
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

fn check_binary(binary: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let types = (type_of(&binary.left, schema), type_of(&binary.right, schema));
    let checked = match (types, binary.op) {
        ((Ok(left), Ok(right)), op) if left == right && left.is_integer() => Checked::of_integers(op),
        ((Ok(left), Ok(right)), op) if left == right && left.is_floating() => Checked::of_floats(op),
        ((Ok(DataType::Decimal128(..)), Ok(DataType::Decimal128(..))), op) => Checked::of_integers(op),
        _ => None,
    };
    match checked {
        Some(checked) => Transformed::yes(checked.udf().call(vec![*binary.left, *binary.right])),
        None => Transformed::no(Expr::BinaryExpr(binary)),
    }
}

/// The type of an expression whose operators are replaced already. Each but those of decimals has the type of its first
/// operand, and asking DataFusion at every step of a long sum would cost the third power of its length.
fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    let Expr::ScalarFunction(call) = expr else {
        return expr.get_type(schema);
    };
    match (
        call.func.inner().downcast_ref::<CheckedFunction>(),
        call.args.as_slice(),
    ) {
        (Some(checked), [left, rest @ ..]) => match (type_of(left, schema)?, rest) {
            (ty @ DataType::Decimal128(..), [right]) => checked.return_type(&[ty, type_of(right, schema)?]),
            (ty, _) => Ok(ty),
        },
        _ => expr.get_type(schema),
    }
}

/// A cast of a fraction to an integer: PostgreSQL rounds, DataFusion cuts off.
fn rounds(cast: &Cast, schema: &DFSchema) -> bool {
    let fraction = |ty: &DataType| {
        matches!(ty, DataType::Float32 | DataType::Float64)
            || matches!(ty, DataType::Decimal128(_, scale) if *scale > 0)
    };
    cast.field.data_type().is_integer() && type_of(&cast.expr, schema).is_ok_and(|ty| fraction(&ty))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Checked {
    Add,
    Subtract,
    Multiply,
    Negate,
    Divide,
    Modulo,
    Round,
}

impl Checked {
    const ALL: [Self; 7] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Negate,
        Self::Divide,
        Self::Modulo,
        Self::Round,
    ];

    /// Integer division and modulo need no help: Arrow checks them.
    fn of_integers(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            _ => None,
        }
    }

    fn of_floats(op: Operator) -> Option<Self> {
        match op {
            Operator::Divide => Some(Self::Divide),
            Operator::Modulo => Some(Self::Modulo),
            _ => None,
        }
    }

    fn udf(self) -> Arc<ScalarUDF> {
        static UDFS: LazyLock<[Arc<ScalarUDF>; Checked::ALL.len()]> = LazyLock::new(|| {
            Checked::ALL.map(|checked| {
                let arity = if matches!(checked, Checked::Negate | Checked::Round) {
                    1
                } else {
                    2
                };
                Arc::new(ScalarUDF::from(CheckedFunction {
                    checked,
                    signature: Signature::any(arity, Volatility::Immutable),
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
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Round => "round",
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
            Checked::Divide => "checked_divide",
            Checked::Modulo => "checked_modulo",
            Checked::Round => "rounded",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let symbol = self.checked.symbol();
        match args {
            [left, right] => Ok(format!("{} {symbol} {}", left.schema_name(), right.schema_name())),
            [inner] if self.checked == Checked::Negate => Ok(format!("(- {})", inner.schema_name())),
            // A cast has the name of what is cast.
            [inner] => Ok(inner.schema_name().to_string()),
            _ => plan_err!("`{symbol}` takes one or two values"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.checked, arg_types) {
            (Checked::Round, [DataType::Decimal128(..)]) => Ok(WHOLE),
            (checked, [left @ DataType::Decimal128(..), right @ DataType::Decimal128(..)]) => {
                let (left, right) = (new_empty_array(left), new_empty_array(right));
                let result = match checked {
                    Checked::Add => numeric::add(&left, &right)?,
                    Checked::Subtract => numeric::sub(&left, &right)?,
                    Checked::Multiply => numeric::mul(&left, &right)?,
                    other => return plan_err!("`{}` takes no decimals", other.symbol()),
                };
                Ok(result.data_type().clone())
            }
            (_, [first, ..]) => Ok(first.clone()),
            (_, []) => plan_err!("`{}` takes one or two values", self.checked.symbol()),
        }
    }

    /// As nullable as the operator it stands for: plans were made with that.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.checked, args.args.as_slice()) {
            // What is no decimal is Arrow's alone.
            (Checked::Add, [left, right]) => apply(left, right, decimals::add),
            (Checked::Subtract, [left, right]) => apply(left, right, decimals::sub),
            (Checked::Multiply, [left, right]) => apply(left, right, decimals::mul),
            (Checked::Divide, [left, right]) => {
                check_divisor(left, right)?;
                apply(left, right, numeric::div)
            }
            (Checked::Modulo, [left, right]) => {
                check_divisor(left, right)?;
                apply(left, right, numeric::rem)
            }
            (Checked::Negate, [value]) => each(value, |array| Ok(numeric::neg(array.as_ref())?)),
            (Checked::Round, [value]) => each(value, round),
            _ => plan_err!("`{}` takes one or two values", self.checked.symbol()),
        }
    }
}

/// A rounded decimal.
const WHOLE: DataType = DataType::Decimal128(38, 0);

/// Applies a function of arrays to a value of either kind.
fn each(value: &ColumnarValue, apply: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    match value {
        ColumnarValue::Array(array) => apply(array).map(ColumnarValue::Array),
        ColumnarValue::Scalar(scalar) => {
            let result = apply(&scalar.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        }
    }
}

/// Halves go away from zero in a NUMERIC, and to the even neighbour in floating point.
/// Whole numbers: floating point ones to the even one in the middle, NUMERICs away from zero.
pub(crate) fn round(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Float32 => Ok(Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(f32::round_ties_even),
        )),
        DataType::Float64 => Ok(Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(f64::round_ties_even),
        )),
        _ => Ok(cast(array, &WHOLE)?),
    }
}

/// Floats divide by zero without a word, so the divisors are looked at first.
fn check_divisor(dividend: &ColumnarValue, divisor: &ColumnarValue) -> Result<()> {
    let rows = match (dividend, divisor) {
        (ColumnarValue::Array(array), _) | (_, ColumnarValue::Array(array)) => array.len(),
        _ => 1,
    };
    let divisors = divisor.to_array(rows)?;
    let is_zero: Box<dyn Fn(usize) -> bool> = match divisors.data_type() {
        DataType::Float32 => {
            let values = divisors.as_primitive::<Float32Type>().clone();
            Box::new(move |row| values.value(row) == 0.0)
        }
        DataType::Float64 => {
            let values = divisors.as_primitive::<Float64Type>().clone();
            Box::new(move |row| values.value(row) == 0.0)
        }
        _ => return Ok(()),
    };
    let zero = (0..rows).filter(|row| divisors.is_valid(*row) && is_zero(*row));
    let dividends = dividend.to_array(rows)?;
    if zero.into_iter().any(|row| dividends.is_valid(row)) {
        Err(EngineError::DivisionByZero.into())
    } else {
        Ok(())
    }
}
