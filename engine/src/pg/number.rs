//! Arithmetic and functions of numbers.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array as _, ArrayRef, AsArray as _, Decimal128Builder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, i256};
use candor_storage::ColumnType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sqlparser::ast::BinaryOperator as Op;

use super::function::Kind::{Bytes, Float, Int, Numeric};
use super::function::{Gives, Spec, float, int};
use super::literal::cast_to;
use crate::error::EngineError;

/// The digits behind the point that a quotient has at least, as in PostgreSQL.
const QUOTIENT_SCALE: i8 = 16;

/// The most digits of a NUMERIC.
const PRECISION_MAX: u8 = 38;

const INT4: Gives = Gives::Type(ColumnType::Int32);

pub(super) static FUNCTIONS: &[Spec] = &[
    Spec::new("div", &[&[Numeric, Numeric]], Gives::Type(whole()), |args| {
        let (a, b) = (decimal(&args[0]), decimal(&args[1]));
        if b.0 == 0 {
            return Err(EngineError::DivisionByZero);
        }
        let scale = a.1.max(b.1);
        let wide =
            |(value, from): (i128, i8)| value.checked_mul(10_i128.checked_pow(u32::try_from(scale - from).ok()?)?);
        let quotient = wide(a).zip(wide(b)).and_then(|(a, b)| a.checked_div(b));
        let quotient = quotient.ok_or_else(|| overflow("the quotient is out of range for NUMERIC"))?;
        Ok(ScalarValue::Decimal128(Some(quotient), PRECISION_MAX, 0))
    }),
    Spec::new("scale", &[&[Numeric]], INT4, |args| {
        Ok(ScalarValue::Int32(Some(i32::from(decimal(&args[0]).1))))
    }),
    Spec::new("min_scale", &[&[Numeric]], INT4, |args| {
        let (mut value, mut scale) = decimal(&args[0]);
        while scale > 0 && value % 10 == 0 {
            value /= 10;
            scale -= 1;
        }
        Ok(ScalarValue::Int32(Some(i32::from(scale))))
    }),
    Spec::new("width_bucket", &[&[Float, Float, Float, Int]], INT4, |args| {
        let (value, low, high, count) = (float(&args[0]), float(&args[1]), float(&args[2]), int(&args[3]));
        if count <= 0 || (high - low).abs() <= 0.0 || !(value.is_finite() && low.is_finite() && high.is_finite()) {
            return Err(EngineError::bad_value(
                "width_bucket takes two different bounds and a number of buckets",
            ));
        }
        let at = ((value - low) / (high - low) * count as f64).floor() as i64;
        Ok(ScalarValue::Int32(i32::try_from((at + 1).clamp(0, count + 1)).ok()))
    }),
    Spec::new("trim_scale", &[&[Numeric]], Gives::First, |args| Ok(args[0].clone())),
    Spec::new(
        "bit_count",
        &[&[Int], &[Bytes]],
        Gives::Type(ColumnType::Int64),
        |args| match &args[0] {
            ScalarValue::BinaryView(Some(bytes)) => {
                let ones: i64 = bytes.iter().map(|byte| i64::from(byte.count_ones())).sum();
                Ok(ScalarValue::Int64(Some(ones)))
            }
            number => Ok(ScalarValue::Int64(Some(i64::from(int(number).count_ones())))),
        },
    ),
    Spec::new("sign", &[&[Float]], Gives::Type(ColumnType::Float64), |args| {
        let value = float(&args[0]);
        Ok(of_float(if value == 0.0 || value.is_nan() {
            value
        } else {
            value.signum()
        }))
    }),
];

const fn of_float(value: f64) -> ScalarValue {
    ScalarValue::Float64(Some(value))
}

const fn whole() -> ColumnType {
    ColumnType::Decimal {
        precision: PRECISION_MAX,
        scale: 0,
    }
}

fn decimal(value: &ScalarValue) -> (i128, i8) {
    match value {
        ScalarValue::Decimal128(Some(value), _, scale) => (*value, *scale),
        _ => (0, 0),
    }
}

fn overflow(message: &str) -> EngineError {
    EngineError::Overflow {
        message: message.to_owned(),
    }
}

/// Arithmetic with a NUMERIC on one side at least; `None` where DataFusion's own will do.
pub(super) fn planned(op: &Op, left: &Expr, right: &Expr, a: ColumnType, b: ColumnType) -> Option<Expr> {
    let is_numeric = |ty| matches!(ty, ColumnType::Decimal { .. });
    let is_float = |ty| matches!(ty, ColumnType::Float32 | ColumnType::Float64);
    let is_exact = |ty| is_numeric(ty) || matches!(ty, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64);
    let float = |expr: &Expr| cast_to(expr.clone(), ColumnType::Float64);
    if is_numeric(a) && is_float(b) {
        return Some(binary(op, float(left), right.clone()));
    }
    if is_float(a) && is_numeric(b) {
        return Some(binary(op, left.clone(), float(right)));
    }
    let divides = *op == Op::Divide && is_exact(a) && is_exact(b) && (is_numeric(a) || is_numeric(b));
    divides.then(|| Quotient::udf().call(vec![left.clone(), right.clone()]))
}

fn binary(op: &Op, left: Expr, right: Expr) -> Expr {
    let operator = match op {
        Op::Plus => Operator::Plus,
        Op::Minus => Operator::Minus,
        Op::Multiply => Operator::Multiply,
        Op::Divide => Operator::Divide,
        _ => Operator::Modulo,
    };
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// The quotient of two NUMERICs: 16 digits behind the point at least, halves rounded away from zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quotient(Signature);

impl Quotient {
    fn udf() -> Arc<ScalarUDF> {
        static UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
            Arc::new(ScalarUDF::from(Quotient(Signature::user_defined(
                Volatility::Immutable,
            ))))
        });
        Arc::clone(&UDF)
    }
}

fn exact(ty: &DataType) -> DataType {
    match ty {
        DataType::Int16 => DataType::Decimal128(5, 0),
        DataType::Int32 => DataType::Decimal128(10, 0),
        ty if ty.is_integer() => DataType::Decimal128(20, 0),
        DataType::Null => DataType::Decimal128(1, 0),
        ty => ty.clone(),
    }
}

fn scale_of(ty: &DataType) -> i8 {
    match ty {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &'static str {
        "numeric_div"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return plan_err!("`/` takes two values");
        };
        Ok(format!("{} / {}", left.schema_name(), right.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.iter().map(exact).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let scale = types.iter().map(scale_of).fold(QUOTIENT_SCALE, i8::max);
        Ok(DataType::Decimal128(PRECISION_MAX, scale))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return plan_err!("`/` takes two values");
        };
        let is_constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let quotients = divide(
            &left.to_array(rows)?,
            &right.to_array(rows)?,
            args.return_field.data_type(),
        )?;
        if is_constant {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&quotients, 0)?))
        } else {
            Ok(ColumnarValue::Array(quotients))
        }
    }
}

fn divide(left: &ArrayRef, right: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let (left, right) = (
        cast(left, &exact(left.data_type()))?,
        cast(right, &exact(right.data_type()))?,
    );
    let scale = scale_of(ty);
    let shift = scale + scale_of(right.data_type()) - scale_of(left.data_type());
    let factor = i256::from_i128(10).checked_pow(u32::try_from(shift).unwrap_or(0));
    let (left, right) = (
        left.as_primitive::<Decimal128Type>(),
        right.as_primitive::<Decimal128Type>(),
    );
    let mut quotients = Decimal128Builder::with_capacity(left.len()).with_data_type(ty.clone());
    for row in 0..left.len() {
        if left.is_null(row) || right.is_null(row) {
            quotients.append_null();
            continue;
        }
        if right.value(row) == 0 {
            return Err(EngineError::DivisionByZero.into());
        }
        let quotient = factor.and_then(|factor| rounded(left.value(row), factor, right.value(row)));
        match quotient.filter(|quotient| quotient.unsigned_abs() < 10_u128.pow(u32::from(PRECISION_MAX))) {
            Some(quotient) => quotients.append_value(quotient),
            None => return Err(overflow("the quotient is out of range for NUMERIC").into()),
        }
    }
    Ok(Arc::new(quotients.finish()))
}

fn rounded(dividend: i128, factor: i256, divisor: i128) -> Option<i128> {
    let (dividend, divisor) = (i256::from_i128(dividend).checked_mul(factor)?, i256::from_i128(divisor));
    let quotient = dividend.checked_div(divisor)?;
    let rest = dividend.checked_rem(divisor)?;
    let doubled = rest.checked_add(rest)?;
    let is_half = doubled.checked_abs()? >= divisor.checked_abs()?;
    let away = match (is_half, dividend.is_negative() == divisor.is_negative()) {
        (false, _) => i256::ZERO,
        (true, true) => i256::ONE,
        (true, false) => i256::MINUS_ONE,
    };
    quotient.checked_add(away)?.to_i128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded_away_from_zero() {
        let factor = i256::from_i128(10);
        assert_eq!(rounded(1, factor, 3), Some(3));
        assert_eq!(rounded(5, factor, 3), Some(17));
        assert_eq!(rounded(-5, factor, 3), Some(-17));
        assert_eq!(rounded(1, factor, 4), Some(3));
        assert_eq!(rounded(1, factor, -4), Some(-3));
    }
}
