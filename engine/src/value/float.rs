//! Floating point as PostgreSQL prints it: the fewest digits that read back as the same value, an exponent where the
//! plain form would need more than the type's digits.

use std::fmt::Write as _;

/// Digits in front of the point beyond which an exponent is printed.
const DOUBLE_DIGITS: i32 = 15;
const REAL_DIGITS: i32 = 6;

/// Appends a DOUBLE PRECISION.
pub(crate) fn write_f64(value: f64, out: &mut String) {
    if let Some(word) = special(value) {
        out.push_str(word);
    } else {
        write_shortest(&format!("{value:e}"), DOUBLE_DIGITS, out);
    }
}

/// Appends a REAL.
pub(crate) fn write_f32(value: f32, out: &mut String) {
    if let Some(word) = special(f64::from(value)) {
        out.push_str(word);
    } else {
        write_shortest(&format!("{value:e}"), REAL_DIGITS, out);
    }
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

/// `-1.25e3` as `-1250`.
fn write_shortest(scientific: &str, digits_max: i32, out: &mut String) {
    let (sign, rest) = match scientific.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", scientific),
    };
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (first, more) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    out.push_str(sign);
    if exponent < -4 || exponent >= digits_max {
        out.push_str(mantissa);
        out.push_str(if exponent < 0 { "e-" } else { "e+" });
        // Writing to a String cannot fail.
        let _ = write!(out, "{:02}", exponent.abs());
        return;
    }
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(first);
        out.push_str(more);
        return;
    }
    let whole = exponent as usize;
    out.push_str(first);
    if more.len() <= whole {
        out.push_str(more);
        out.extend(std::iter::repeat_n('0', whole - more.len()));
    } else {
        out.push_str(&more[..whole]);
        out.push('.');
        out.push_str(&more[whole..]);
    }
}

/// Reads a number with PostgreSQL's words for what is none; `None` for other text.
pub(crate) fn parse<T: std::str::FromStr>(text: &str) -> Option<T> {
    let text = text.trim();
    let bare = text.trim_start_matches(['+', '-']);
    let is_word = bare.starts_with(|first: char| first.is_ascii_alphabetic());
    // Rust would read `infinit` no more than PostgreSQL, but it reads `+nan`.
    let is_known = ["nan", "inf", "infinity"]
        .iter()
        .any(|word| bare.eq_ignore_ascii_case(word));
    if is_word && !(is_known && text.len() <= bare.len() + 1) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_postgresql_prints_them() {
        for (value, expected) in [
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (1_250.0, "1250"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            let mut text = String::new();
            write_f64(value, &mut text);
            assert_eq!(text, expected);
        }
        for (value, expected) in [(1e6_f32, "1e+06"), (123_456.0, "123456"), (0.1, "0.1")] {
            let mut text = String::new();
            write_f32(value, &mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn words_for_what_is_no_number_are_read() {
        assert_eq!(parse::<f64>(" -Infinity "), Some(f64::NEG_INFINITY));
        assert_eq!(parse::<f64>("inf"), Some(f64::INFINITY));
        assert!(parse::<f64>("NaN").is_some_and(f64::is_nan));
        assert_eq!(parse::<f64>("infinit"), None);
        assert_eq!(parse::<f64>("1.5e3"), Some(1500.0));
    }
}
