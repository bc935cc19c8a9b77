//! Values as the scripts of an origin write them.

use candor_client::StatementResult;
use serde_json::Value;

use super::origins::{Arrays, Booleans, Offsets, Style};
use crate::column::Kind;
use crate::render::real;

/// One value of an answer, printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) boolean: bool,
}

/// The rows of `result`, printed in the way of the origin; `letters` are those of the `query` line.
pub(crate) fn rows(result: &StatementResult, letters: &str, style: Style) -> Vec<Vec<Cell>> {
    if result.columns.is_empty() {
        // A write asked for as a query answers with the number of its rows.
        return result
            .rows_affected
            .map_or_else(Vec::new, |count| vec![vec![plain(count.to_string())]]);
    }
    let kinds: Vec<Kind> = result.columns.iter().map(|column| Kind::of(&column.r#type)).collect();
    let letters: Vec<char> = letters.chars().collect();
    let cell = |(place, value): (usize, &Value)| {
        let kind = kinds.get(place).copied().unwrap_or(Kind::Other);
        let text = if style.letters_render {
            by_letter(value, letters.get(place).copied().unwrap_or('T'))
        } else {
            let text = text(value, kind, style);
            let ty = result.columns.get(place).map(|column| column.r#type.as_str());
            let text = match ty {
                Some("TIME" | "TIMESTAMP" | "TIMESTAMPTZ") if style.thousandths => thousandths(&text),
                _ => text,
            };
            match ty {
                Some("INTERVAL") if style.months_in_full => months_in_full(&text),
                Some("BYTEA") if style.bytes_one_by_one => one_by_one(&text),
                Some("TIMESTAMPTZ") if text.contains(' ') => offset(&text, style.offsets),
                _ => text,
            }
        };
        Cell {
            text,
            boolean: value.is_boolean(),
        }
    };
    result
        .rows
        .iter()
        .map(|row| row.iter().enumerate().map(cell).collect())
        .collect()
}

/// `1 mon` as `1 month`, `-1 days` as `-1 day`, and no plus behind a minus.
fn months_in_full(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut printed = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let is_one = at > 0 && matches!(words[at - 1], "1" | "+1" | "-1");
        let bare = word.strip_prefix('+').unwrap_or(word);
        printed.push(match bare.trim_end_matches('s') {
            unit @ ("year" | "mon" | "day") => {
                let unit = if unit == "mon" { "month" } else { unit };
                if is_one { unit.to_owned() } else { format!("{unit}s") }
            }
            _ => bare.to_owned(),
        });
    }
    printed.join(" ")
}

/// `08:15:55.33` as `08:15:55.330`.
fn thousandths(text: &str) -> String {
    let Some((before, rest)) = text.split_once('.') else {
        return text.to_owned();
    };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, behind) = rest.split_at(end);
    let zeros = "0".repeat(digits.len().next_multiple_of(3) - digits.len());
    format!("{before}.{digits}{zeros}{behind}")
}

/// A timestamp with the offset `+00` behind it, and perhaps BC behind that.
fn offset(text: &str, offsets: Offsets) -> String {
    let (moment, era) = match text.strip_suffix(" BC") {
        Some(moment) => (moment, " BC"),
        None => (text, ""),
    };
    match (offsets, moment.strip_suffix("+00")) {
        (Offsets::Short, _) | (_, None) => text.to_owned(),
        (Offsets::Minutes, Some(_)) => format!("{moment}:00{era}"),
        (Offsets::Apart, Some(bare)) => format!("{bare}{era} +00:00"),
    }
}

/// `\xaa31` as `\xAA1`.
fn one_by_one(text: &str) -> String {
    let Some(digits) = text.strip_prefix("\\x") else {
        return text.to_owned();
    };
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let printed = digits.as_bytes().chunks(2).filter_map(byte).map(|byte| match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    });
    let printed: String = printed.collect();
    if printed.is_empty() {
        "(empty)".to_owned()
    } else {
        printed
    }
}

fn plain(text: String) -> Cell {
    Cell { text, boolean: false }
}

fn text(value: &Value, kind: Kind, style: Style) -> String {
    match value {
        Value::Null if style.null_is_empty => String::new(),
        Value::Null => "NULL".to_owned(),
        Value::Bool(flag) => boolean(*flag, style.booleans).to_owned(),
        Value::Number(number) if kind == Kind::Real && style.plain_fractions => real(&number.to_string()),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.is_empty() && !style.null_is_empty => "(empty)".to_owned(),
        Value::String(text) => match kind {
            Kind::Real if style.plain_fractions => real(text),
            Kind::Timestamp if style.iso_timestamps => text.replacen(' ', "T", 1),
            Kind::Text => text.trim_end().to_owned(),
            _ => text.clone(),
        },
        Value::Array(_) | Value::Object(_) => parts(value, style),
    }
}

/// An array or a struct.
fn parts(value: &Value, style: Style) -> String {
    match (style.arrays, value) {
        (Arrays::Json, _) => value.to_string(),
        (Arrays::Spaced, Value::Array(values)) => format!("[{}]", list(values.iter(), ", ", style)),
        (Arrays::Postgres, Value::Array(values)) => format!("{{{}}}", list(values.iter(), ",", style)),
        (Arrays::Postgres, Value::Object(fields)) => {
            let part = |value: &Value| {
                if value.is_null() {
                    String::new()
                } else {
                    part(value, style)
                }
            };
            format!("({})", fields.values().map(part).collect::<Vec<_>>().join(","))
        }
        (Arrays::Spaced, Value::Object(fields)) => {
            let field = |(name, value): (&String, &Value)| format!("{name}: {}", part(value, style));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        _ => text(value, Kind::Other, style),
    }
}

fn list<'a>(values: impl Iterator<Item = &'a Value>, between: &str, style: Style) -> String {
    values.map(|value| part(value, style)).collect::<Vec<_>>().join(between)
}

/// One part of an array or a struct.
fn part(value: &Value, style: Style) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) if style.arrays == Arrays::Postgres => {
            let special = |c: char| c.is_whitespace() || "{}(),\"\\".contains(c);
            if text.is_empty() || text.contains(special) || text.eq_ignore_ascii_case("null") {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            } else {
                text.clone()
            }
        }
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => parts(value, style),
        other => text(other, Kind::Other, style),
    }
}

fn boolean(flag: bool, style: Booleans) -> &'static str {
    match (style, flag) {
        (Booleans::Words, true) => "true",
        (Booleans::Words, false) => "false",
        (Booleans::Letters, true) => "t",
        (Booleans::Letters, false) => "f",
        (Booleans::Digits, true) => "1",
        (Booleans::Digits, false) => "0",
    }
}

/// As SQLite's runner prints: `I` as `%d`, `R` as `%.3f`, control characters in texts as `@`.
fn by_letter(value: &Value, letter: char) -> String {
    let text = match value {
        Value::Null => return "NULL".to_owned(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match letter {
        'I' => integer(&text),
        'R' => format!("{:.3}", leading_number(&text)),
        _ if text.is_empty() => "(empty)".to_owned(),
        _ => text
            .chars()
            .map(|c| if (' '..='~').contains(&c) { c } else { '@' })
            .collect(),
    }
}

/// The whole part of a number, 0 for what is none.
fn integer(text: &str) -> String {
    if text.parse::<i64>().is_ok() {
        return text.to_owned();
    }
    (leading_number(text).trunc() as i64).to_string()
}

/// The number at the start of a text, 0 if there is none.
fn leading_number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| {
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))
            .unwrap_or(text.len());
        text[..end].parse().unwrap_or(0.0)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arrays_are_printed_in_three_ways() {
        let value = json!([[1, null], ["a b", "c"]]);
        for (arrays, expected) in [
            (Arrays::Spaced, "[[1, NULL], [a b, c]]"),
            (Arrays::Json, "[[1,null],[\"a b\",\"c\"]]"),
            (Arrays::Postgres, "{{1,NULL},{\"a b\",c}}"),
        ] {
            let style = Style {
                arrays,
                ..Style::default()
            };
            assert_eq!(parts(&value, style), expected);
        }
        let style = Style {
            arrays: Arrays::Postgres,
            ..Style::default()
        };
        assert_eq!(parts(&json!({"a": 1, "b": null}), style), "(1,)");
    }

    #[test]
    fn intervals_are_printed_with_whole_words() {
        for (value, expected) in [
            ("2 years 1 mon 00:01:03", "2 years 1 month 00:01:03"),
            ("-2 years +4 days +05:01:03", "-2 years 4 days 05:01:03"),
            ("-1 days -12:00:00", "-1 day -12:00:00"),
            ("01:00:00", "01:00:00"),
        ] {
            assert_eq!(months_in_full(value), expected);
        }
    }

    #[test]
    fn offsets_are_printed_in_three_ways() {
        for (offsets, expected) in [
            (Offsets::Short, "0044-03-15 12:00:00+00 BC"),
            (Offsets::Minutes, "0044-03-15 12:00:00+00:00 BC"),
            (Offsets::Apart, "0044-03-15 12:00:00 BC +00:00"),
        ] {
            assert_eq!(offset("0044-03-15 12:00:00+00 BC", offsets), expected);
        }
    }

    #[test]
    fn fractions_are_filled_up() {
        for (value, expected) in [
            ("08:15:55.33", "08:15:55.330"),
            ("2024-02-29 08:15:55.3304+00 BC", "2024-02-29 08:15:55.330400+00 BC"),
            ("08:15:55", "08:15:55"),
        ] {
            assert_eq!(thousandths(value), expected);
        }
    }

    #[test]
    fn bytes_are_printed_one_by_one() {
        for (value, expected) in [
            ("\\xaaff1199", "\\xAA\\xFF\\x11\\x99"),
            ("\\x61e9", "a\\xE9"),
            ("\\x", "(empty)"),
            ("NULL", "NULL"),
        ] {
            assert_eq!(one_by_one(value), expected);
        }
    }

    #[test]
    fn letters_decide_as_in_sqlites_runner() {
        for (value, letter, expected) in [
            (json!(2.7), 'I', "2"),
            (json!("-2.7"), 'I', "-2"),
            (json!("tea"), 'I', "0"),
            (json!("9007199254740993"), 'I', "9007199254740993"),
            (json!(3), 'R', "3.000"),
            (json!("2.0005"), 'R', "2.001"),
            (json!("a\tb"), 'T', "a@b"),
            (json!(""), 'T', "(empty)"),
            (json!(null), 'R', "NULL"),
            (json!(true), 'I', "1"),
        ] {
            assert_eq!(by_letter(&value, letter), expected, "{value} {letter}");
        }
    }
}
