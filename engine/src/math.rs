//! Functions of floating point numbers that DataFusion has not, or whose answer it gives outside of their domain too.
//!
//! Multiples of 30 and 45 degrees come out exactly, and a number outside of the domain is an error, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::EngineError;

type OfOne = fn(f64) -> Option<f64>;

const OF_ONE: [(&str, OfOne); 21] = [
    ("sin", |x| finite(x).map(f64::sin)),
    ("cos", |x| finite(x).map(f64::cos)),
    ("tan", |x| finite(x).map(f64::tan)),
    ("cot", |x| finite(x).map(|x| 1.0 / x.tan())),
    ("asin", |x| within_one(x).map(f64::asin)),
    ("acos", |x| within_one(x).map(f64::acos)),
    ("atanh", |x| within_one(x).map(f64::atanh)),
    ("acosh", |x| (x.is_nan() || x >= 1.0).then(|| x.acosh())),
    ("sqrt", |x| (x.is_nan() || x >= 0.0).then(|| x.sqrt())),
    ("ln", |x| positive(x).map(f64::ln)),
    ("log10", |x| positive(x).map(f64::log10)),
    ("exp", exponential),
    ("cbrt", |x| Some(x.cbrt())),
    ("sind", |x| finite(x).map(sine)),
    ("cosd", |x| finite(x).map(cosine)),
    ("tand", |x| finite(x).map(|x| sine(x) / cosine(x))),
    ("cotd", |x| finite(x).map(|x| cosine(x) / sine(x))),
    ("asind", |x| within_one(x).map(arc_sine)),
    ("acosd", |x| within_one(x).map(|x| 90.0 - arc_sine(x))),
    ("atand", |x| Some(arc_tangent(x))),
    ("coth", |x| Some(1.0 / x.tanh())),
];

/// All of them.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let of_one = OF_ONE.iter().map(|(name, function)| NumberFunction {
        name,
        kind: Kind::OfOne(*function),
        aliases: Vec::new(),
        signature: Signature::user_defined(Volatility::Immutable),
    });
    let of_two = OF_TWO.iter().map(|(name, alias, function)| NumberFunction {
        name,
        kind: Kind::OfTwo(*function),
        aliases: alias.iter().map(|alias| (*alias).to_owned()).collect(),
        signature: Signature::user_defined(Volatility::Immutable),
    });
    of_one.chain(of_two).map(|function| Arc::new(ScalarUDF::from(function)))
}

/// `round` of one number, in the middle to the even one.
pub(crate) fn round() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(NumberFunction {
        name: "round",
        kind: Kind::OfOne(|x| Some(x.round_ties_even())),
        aliases: Vec::new(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

type OfTwo = fn(f64, f64) -> Option<f64>;

const OF_TWO: [(&str, Option<&str>, OfTwo); 2] = [
    ("atan2d", None, |y, x| Some(y.atan2(x) / 1_f64.atan() * 45.0)),
    ("power", Some("pow"), power),
];

fn positive(x: f64) -> Option<f64> {
    (x.is_nan() || x > 0.0).then_some(x)
}

/// What is too large or too small for a number is no infinity and no zero.
fn exponential(x: f64) -> Option<f64> {
    let value = x.exp();
    let is_out = x.is_finite() && (value.is_infinite() || value == 0.0);
    (!is_out).then_some(value)
}

fn power(base: f64, exponent: f64) -> Option<f64> {
    if base == 0.0 && exponent < 0.0 || base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return None;
    }
    let value = base.powf(exponent);
    let is_out = base.is_finite() && exponent.is_finite() && (value.is_infinite() || value == 0.0 && base != 0.0);
    (!is_out).then_some(value)
}

fn finite(x: f64) -> Option<f64> {
    (!x.is_infinite()).then_some(x)
}

fn within_one(x: f64) -> Option<f64> {
    (x.is_nan() || x.abs() <= 1.0).then_some(x)
}

/// The sine of an angle in degrees.
fn sine(x: f64) -> f64 {
    let turned = x % 360.0;
    let (angle, sign) = if turned < 0.0 { (-turned, -1.0) } else { (turned, 1.0) };
    let (angle, sign) = if angle > 180.0 {
        (360.0 - angle, -sign)
    } else {
        (angle, sign)
    };
    let angle = if angle > 90.0 { 180.0 - angle } else { angle };
    sign * sine_of_quarter(angle)
}

/// The cosine of an angle in degrees.
fn cosine(x: f64) -> f64 {
    let turned = (x % 360.0).abs();
    let angle = if turned > 180.0 { 360.0 - turned } else { turned };
    if angle > 90.0 {
        -sine_of_quarter(angle - 90.0)
    } else {
        sine_of_quarter(90.0 - angle)
    }
}

/// Of an angle between 0 and 90, exact at 0, 30 and 90.
fn sine_of_quarter(angle: f64) -> f64 {
    if angle <= 30.0 {
        angle.to_radians().sin() / 30_f64.to_radians().sin() / 2.0
    } else {
        let rest = 90.0 - angle;
        1.0 - (1.0 - rest.to_radians().cos()) / (1.0 - 60_f64.to_radians().cos()) / 2.0
    }
}

/// In degrees, exact at 0, ½ and 1.
fn arc_sine(x: f64) -> f64 {
    let size = x.abs();
    let angle = if size <= 0.5 {
        size.asin() / 0.5_f64.asin() * 30.0
    } else {
        90.0 - size.acos() / 0.5_f64.acos() * 60.0
    };
    if x < 0.0 { -angle } else { angle }
}

/// In degrees, exact at 1.
fn arc_tangent(x: f64) -> f64 {
    x.atan() / 1_f64.atan() * 45.0
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    OfOne(OfOne),
    OfTwo(OfTwo),
}

#[derive(Debug)]
struct NumberFunction {
    name: &'static str,
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

/// There is one function of each name.
impl PartialEq for NumberFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NumberFunction {}

impl std::hash::Hash for NumberFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for NumberFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Any number is one of these, and so is a literal that has no type yet.
    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let count = match self.kind {
            Kind::OfOne(_) => 1,
            Kind::OfTwo(_) => 2,
        };
        let is_number = |ty: &DataType| ty.is_numeric() || ty.is_null() || ty.is_string();
        if given.len() != count || !given.iter().all(is_number) {
            return plan_err!(
                "{} takes {count} number{}",
                self.name,
                if count == 1 { "" } else { "s" }
            );
        }
        Ok(vec![DataType::Float64; count])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let mut columns = Vec::with_capacity(args.args.len());
        for arg in &args.args {
            columns.push(cast(&arg.to_array(rows)?, &DataType::Float64)?);
        }
        let result: ArrayRef = Arc::new(self.of(&columns)?);
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl NumberFunction {
    fn of(&self, columns: &[ArrayRef]) -> Result<Float64Array> {
        let numbers = |column: &ArrayRef| column.as_primitive::<Float64Type>().clone();
        match (self.kind, columns) {
            (Kind::OfOne(function), [column]) => numbers(column)
                .iter()
                .map(|number| number.map(|number| self.of_one(function, number)).transpose())
                .collect(),
            (Kind::OfTwo(function), [first, second]) => numbers(first)
                .iter()
                .zip(numbers(second).iter())
                .map(|pair| match pair {
                    (Some(a), Some(b)) => match function(a, b) {
                        Some(value) => Ok(Some(value)),
                        None => Err(self.out_of_range(&format!("{a} and {b} are"))),
                    },
                    _ => Ok(None),
                })
                .collect(),
            _ => Err(EngineError::internal(format!("{} has other arguments", self.name)).into()),
        }
    }

    fn of_one(&self, function: OfOne, number: f64) -> Result<f64> {
        function(number).ok_or_else(|| self.out_of_range(&format!("{number} is")))
    }

    fn out_of_range(&self, numbers: &str) -> DataFusionError {
        EngineError::Overflow {
            message: format!("{numbers} out of range for {}", self.name),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_angles_are_exact() {
        for (angle, expected) in [
            (0.0, 0.0),
            (30.0, 0.5),
            (90.0, 1.0),
            (150.0, 0.5),
            (270.0, -1.0),
            (-30.0, -0.5),
        ] {
            assert_eq!(sine(angle).to_bits(), f64::to_bits(expected), "sind({angle})");
        }
        for (angle, expected) in [(60.0, 0.5), (120.0, -0.5), (180.0, -1.0), (360.0, 1.0)] {
            assert_eq!(cosine(angle).to_bits(), f64::to_bits(expected), "cosd({angle})");
        }
        assert_eq!(arc_sine(0.5).to_bits(), 30_f64.to_bits());
        assert_eq!(arc_tangent(1.0).to_bits(), 45_f64.to_bits());
    }
}
