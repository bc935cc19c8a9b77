//! Values as the scripts write them.

use serde_json::Value;

use crate::column::Kind;

/// One value of an answer as text.
pub(crate) fn render(value: &Value, kind: Kind) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) if kind == Kind::Real => real(&number.to_string()),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.is_empty() => "(empty)".to_owned(),
        Value::String(text) => match kind {
            Kind::Real => real(text),
            // A line of a script cannot hold a line break or a blank at its end.
            Kind::Text => text.trim_end().replace('\n', "\\n"),
            _ => text.clone(),
        },
        Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Decimals that are printed, as DataFusion's scripts do: the last digits of a double differ between libraries.
const DECIMALS_MAX: usize = 12;

/// Plain digits: no exponent, no zeros after the last digit that counts, rounded to [`DECIMALS_MAX`].
pub(crate) fn real(text: &str) -> String {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    if !text.contains(['e', 'E']) && decimals <= DECIMALS_MAX {
        return trim_zeros(text);
    }
    match text.parse::<f64>() {
        Ok(number) if number.abs() < 1e18 => trim_zeros(&format!("{number:.DECIMALS_MAX$}")),
        Ok(number) => format!("{number}"),
        Err(_) => text.to_owned(),
    }
}

fn trim_zeros(text: &str) -> String {
    let Some((whole, decimals)) = text.split_once('.') else {
        return text.to_owned();
    };
    match (decimals.trim_end_matches('0'), whole) {
        ("", "-0") => "0".to_owned(),
        ("", whole) => whole.to_owned(),
        (kept, whole) => format!("{whole}.{kept}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_scripts_write_them() {
        for (value, kind, expected) in [
            (Value::Null, Kind::Text, "NULL"),
            (serde_json::json!(""), Kind::Text, "(empty)"),
            (serde_json::json!("9007199254740993"), Kind::Integer, "9007199254740993"),
            (serde_json::json!(true), Kind::Boolean, "true"),
            (serde_json::json!(2.0), Kind::Real, "2"),
            (serde_json::json!(0.1), Kind::Real, "0.1"),
            (serde_json::json!(1e-7), Kind::Real, "0.0000001"),
            (serde_json::json!("12.500"), Kind::Real, "12.5"),
            (serde_json::json!(7.389_056_098_930_65), Kind::Real, "7.389056098931"),
            (serde_json::json!("-0.0"), Kind::Real, "0"),
            (serde_json::json!("100"), Kind::Real, "100"),
            (serde_json::json!(1e300), Kind::Real, &format!("{}", 1e300)),
        ] {
            assert_eq!(render(&value, kind), expected, "{value}");
        }
    }
}
