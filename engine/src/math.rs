//! Functions of numbers that PostgreSQL has and DataFusion has not: angles in degrees.
//!
//! Multiples of 30 and 45 degrees come out exactly, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::EngineError;

type OfOne = fn(f64) -> Option<f64>;

const OF_ONE: [(&str, OfOne); 8] = [
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
        signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable),
    });
    let of_two = NumberFunction {
        name: "atan2d",
        kind: Kind::OfTwo(arc_tangent_of),
        signature: Signature::exact(vec![DataType::Float64, DataType::Float64], Volatility::Immutable),
    };
    of_one
        .chain([of_two])
        .map(|function| Arc::new(ScalarUDF::from(function)))
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

fn arc_tangent_of(y: f64, x: f64) -> f64 {
    y.atan2(x) / 1_f64.atan() * 45.0
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    OfOne(OfOne),
    OfTwo(fn(f64, f64) -> f64),
}

#[derive(Debug)]
struct NumberFunction {
    name: &'static str,
    kind: Kind,
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

    fn signature(&self) -> &Signature {
        &self.signature
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
            (Kind::OfTwo(function), [first, second]) => Ok(numbers(first)
                .iter()
                .zip(numbers(second).iter())
                .map(|pair| Some(function(pair.0?, pair.1?)))
                .collect()),
            _ => Err(EngineError::internal(format!("{} has other arguments", self.name)).into()),
        }
    }

    fn of_one(&self, function: OfOne, number: f64) -> Result<f64> {
        function(number).ok_or_else(|| {
            EngineError::Overflow {
                message: format!("{number} is out of range for {}", self.name),
            }
            .into()
        })
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
