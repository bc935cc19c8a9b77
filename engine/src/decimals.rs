//! Sums, differences and products of NUMERICs.
//!
//! Arrow checks each operation on 128 bits for overflow. Most values fit 64 bits, though, and then nothing can overflow:
//! what is computed of a batch this way is the same, and several times faster. A batch with a larger value is left to
//! Arrow.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Datum, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Decimal128Type};
use arrow::error::ArrowError;

/// The greatest power of ten by which 64 bits may be multiplied twice over and added up within 128.
const POWER_MAX: u32 = 18;

/// The sum.
pub(crate) fn add(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    narrow(left, right, numeric::add, scaled(|l, r| l + r))
}

/// The difference.
pub(crate) fn sub(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    narrow(left, right, numeric::sub, scaled(|l, r| l - r))
}

/// The product.
pub(crate) fn mul(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    let product = |l: Operand<'_>, r: Operand<'_>, _: i8| each(l, r, |l, r| i128::from(l) * i128::from(r));
    narrow(left, right, numeric::mul, product)
}

/// One value, or one for each row; and the scale.
#[derive(Clone, Copy)]
enum Operand<'a> {
    One(i128, i8),
    Each(&'a [i128], i8),
}

impl<'a> Operand<'a> {
    /// `None` if it is no NUMERIC, or NULL.
    fn of(array: &'a dyn arrow::array::Array, is_scalar: bool) -> Option<Self> {
        let DataType::Decimal128(_, scale) = *array.data_type() else {
            return None;
        };
        let values = array.as_primitive::<Decimal128Type>();
        if !is_scalar {
            return Some(Self::Each(values.values(), scale));
        }
        (values.len() == 1 && values.is_valid(0)).then(|| Self::One(values.value(0), scale))
    }

    const fn scale(self) -> i8 {
        match self {
            Self::One(_, scale) | Self::Each(_, scale) => scale,
        }
    }
}

/// `of_all` in 64 bits if all values fit, by Arrow otherwise.
fn narrow(
    left: &dyn Datum,
    right: &dyn Datum,
    arrow: fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>,
    of_all: impl Fn(Operand<'_>, Operand<'_>, i8) -> Option<Vec<i128>>,
) -> Result<ArrayRef, ArrowError> {
    let ((l, l_scalar), (r, r_scalar)) = (left.get(), right.get());
    let (Some(l_operand), Some(r_operand)) = (Operand::of(l, l_scalar), Operand::of(r, r_scalar)) else {
        return arrow(left, right);
    };
    if l_scalar && r_scalar || !l_scalar && !r_scalar && l.len() != r.len() {
        return arrow(left, right);
    }
    // Arrow knows precision and scale of the result.
    let ty = arrow(&l.slice(0, 0), &r.slice(0, 0))?.data_type().clone();
    let DataType::Decimal128(_, scale) = ty else {
        return arrow(left, right);
    };
    let Some(values) = of_all(l_operand, r_operand, scale) else {
        return arrow(left, right);
    };
    let nulls = |array: &dyn arrow::array::Array, is_scalar: bool| array.nulls().filter(|_| !is_scalar).cloned();
    let nulls = NullBuffer::union(nulls(l, l_scalar).as_ref(), nulls(r, r_scalar).as_ref());
    let values = PrimitiveArray::<Decimal128Type>::try_new(ScalarBuffer::from(values), nulls)?;
    Ok(Arc::new(values.with_data_type(ty)))
}

/// An operation on operands that are brought to the scale of the result first.
fn scaled(of: impl Fn(i128, i128) -> i128 + Copy) -> impl Fn(Operand<'_>, Operand<'_>, i8) -> Option<Vec<i128>> {
    move |left, right, scale| {
        let power = |operand: Operand<'_>| {
            let by = u32::try_from(scale.checked_sub(operand.scale())?).ok()?;
            (by <= POWER_MAX).then(|| 10_i128.pow(by))
        };
        match (power(left)?, power(right)?) {
            (1, 1) => each(left, right, |l, r| of(i128::from(l), i128::from(r))),
            (l_power, r_power) => each(left, right, |l, r| of(i128::from(l) * l_power, i128::from(r) * r_power)),
        }
    }
}

/// The values of an operation on 64 bits; `None` if an operand does not fit them.
fn each(left: Operand<'_>, right: Operand<'_>, of: impl Fn(i64, i64) -> i128) -> Option<Vec<i128>> {
    let mut fits = true;
    let mut low = |value: i128| {
        let low = value as i64;
        fits &= i128::from(low) == value;
        low
    };
    let values = match (left, right) {
        (Operand::Each(left, _), Operand::Each(right, _)) => {
            left.iter().zip(right).map(|(l, r)| of(low(*l), low(*r))).collect()
        }
        (Operand::One(left, _), Operand::Each(right, _)) => {
            let left = low(left);
            right.iter().map(|r| of(left, low(*r))).collect()
        }
        (Operand::Each(left, _), Operand::One(right, _)) => {
            let right = low(right);
            left.iter().map(|l| of(low(*l), right)).collect()
        }
        (Operand::One(left, _), Operand::One(right, _)) => vec![of(low(left), low(right))],
    };
    fits.then_some(values)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Scalar};

    use super::*;

    /// Values at and beyond the edges of 64 bits, and NULL.
    fn numbers(scale: i8) -> Vec<Decimal128Array> {
        let small: Vec<i128> = vec![0, 1, -1, 7, -12_345, i128::from(i64::MAX), i128::from(i64::MIN)];
        let mut all = vec![small.clone()];
        for large in [i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1, 10_i128.pow(37)] {
            let mut values = small.clone();
            values[3] = large;
            all.push(values);
        }
        let with_null = |values: Vec<i128>| {
            let rows = values.iter().enumerate();
            rows.map(|(at, value)| (at != 1).then_some(*value)).collect()
        };
        all.into_iter()
            .map(with_null)
            .map(|values: Decimal128Array| values.with_precision_and_scale(38, scale).expect("38 digits"))
            .collect()
    }

    /// Whatever Arrow says, error or value, is said.
    #[test]
    fn all_is_as_arrow_has_it() {
        type Op = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;
        let ops: [(Op, Op); 3] = [(add, numeric::add), (sub, numeric::sub), (mul, numeric::mul)];
        let mut compared = 0;
        for (ours, arrows) in ops {
            for (left_scale, right_scale) in [(0, 0), (2, 2), (0, 2), (4, 1), (0, 20)] {
                for left in numbers(left_scale) {
                    for right in numbers(right_scale) {
                        let mut check = |left: &dyn Datum, right: &dyn Datum| {
                            let (got, wanted) = (ours(left, right), arrows(left, right));
                            compared += usize::from(wanted.is_ok());
                            assert_eq!(got.ok(), wanted.ok());
                        };
                        check(&left, &right);
                        for at in 0..left.len() {
                            check(&Scalar::new(left.slice(at, 1)), &right);
                            check(&left, &Scalar::new(right.slice(at, 1)));
                            check(&left.slice(at, 1), &right.slice(at, 1));
                        }
                    }
                }
            }
        }
        assert!(compared > 1000, "most results are values");
    }
}
