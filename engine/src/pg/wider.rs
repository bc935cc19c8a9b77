//! The type that holds the numbers of two types.

use candor_storage::ColumnType;

/// The type of an array that holds the elements of both; `None` where they are no numbers or have one type already.
pub(super) fn wider_array(one: ColumnType, other: ColumnType) -> Option<ColumnType> {
    let (
        ColumnType::Array { element, depth },
        ColumnType::Array {
            element: with,
            depth: levels,
        },
    ) = (one, other)
    else {
        return None;
    };
    if depth != levels || element == with {
        return None;
    }
    let wide = wider(element.into(), with.into())?;
    (0..depth).try_fold(wide, |ty, _| ty.array())
}

/// The types of two arrays of any dimensions with the elements that both can have.
pub(super) fn wider_arrays(one: ColumnType, other: ColumnType) -> (ColumnType, ColumnType) {
    let (ColumnType::Array { element, .. }, ColumnType::Array { element: with, .. }) = (one, other) else {
        return (one, other);
    };
    let wide = wider(element.into(), with.into()).unwrap_or(element.into());
    let array = |like: ColumnType| (0..depth(like)).try_fold(wide, |ty, _| ty.array());
    (array(one).unwrap_or(one), array(other).unwrap_or(other))
}

/// How many dimensions an array has.
pub(super) const fn depth(ty: ColumnType) -> u8 {
    match ty {
        ColumnType::Array { depth, .. } => depth,
        _ => 0,
    }
}

fn wider(one: ColumnType, other: ColumnType) -> Option<ColumnType> {
    let is_float = |ty| matches!(ty, ColumnType::Float32 | ColumnType::Float64);
    if is_float(one) && is_float(other)
        || is_float(one) && digits(other).is_some()
        || is_float(other) && digits(one).is_some()
    {
        return Some(ColumnType::Float64);
    }
    let ((whole, scale), (more, finer)) = (digits(one)?, digits(other)?);
    if is_integer(one) && is_integer(other) {
        return Some(if whole.max(more) > 10 {
            ColumnType::Int64
        } else {
            ColumnType::Int32
        });
    }
    let scale = scale.max(finer);
    Some(ColumnType::Decimal {
        precision: (whole.max(more) + scale).clamp(1, 38),
        scale: scale as i8,
    })
}

const fn is_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64)
}

/// How many digits stand before the point and behind it.
fn digits(ty: ColumnType) -> Option<(u8, u8)> {
    Some(match ty {
        ColumnType::Int16 => (5, 0),
        ColumnType::Int32 => (10, 0),
        ColumnType::Int64 => (19, 0),
        ColumnType::Decimal { precision, scale } => {
            let scale = u8::try_from(scale).unwrap_or(0);
            (precision.saturating_sub(scale), scale)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_types_have_place() {
        let numeric = |precision, scale| ColumnType::Decimal { precision, scale };
        for (one, other, expected) in [
            (ColumnType::Int16, ColumnType::Int32, Some(ColumnType::Int32)),
            (ColumnType::Int64, ColumnType::Int16, Some(ColumnType::Int64)),
            (ColumnType::Int32, numeric(2, 1), Some(numeric(11, 1))),
            (numeric(4, 0), numeric(5, 3), Some(numeric(7, 3))),
            (ColumnType::Float32, ColumnType::Int64, Some(ColumnType::Float64)),
            (ColumnType::Text, ColumnType::Int64, None),
        ] {
            assert_eq!(wider(one, other), expected, "{one} {other}");
        }
    }
}
