//! Functions of texts.

use candor_storage::{ColumnType, ElementType};
use datafusion::common::ScalarValue;

use super::function::Kind::{Any, Int, Text};
use super::function::{Gives, Spec, TEXTS, int, of_int, of_text, text};
use super::json::list;
use crate::error::EngineError;
use crate::text::TextWriter;

const TEXT: Gives = Gives::Type(ColumnType::Text);
const INT4: Gives = Gives::Type(ColumnType::Int32);

pub(super) static FUNCTIONS: &[Spec] = &[
    Spec::new("like_escape", &[&[Text, Text]], TEXT, |args| {
        like_escape(text(&args[0]), text(&args[1])).map(of_text)
    }),
    Spec::new("quote_literal", &[&[Any]], TEXT, |args| {
        Ok(of_text(quoted_literal(&shown(&args[0]).unwrap_or_default())))
    }),
    Spec::new("quote_nullable", &[&[Any]], TEXT, |args| {
        Ok(of_text(
            shown(&args[0]).map_or_else(|| "NULL".to_owned(), |text| quoted_literal(&text)),
        ))
    })
    .seeing_null(),
    Spec::new("quote_ident", &[&[Text]], TEXT, |args| {
        Ok(of_text(quoted_name(text(&args[0]))))
    }),
    Spec::new("format", &[&[Text], &[Text, Any]], TEXT, |args| match &args[0] {
        format if format.is_null() => Ok(ScalarValue::Null),
        format => formatted(text(format), &args[1..]).map(of_text),
    })
    .variadic()
    .seeing_null(),
    Spec::new("num_nulls", &[&[Any]], INT4, |args| {
        Ok(of_int(args.iter().filter(|arg| arg.is_null()).count() as i64))
    })
    .variadic()
    .seeing_null(),
    Spec::new("num_nonnulls", &[&[Any]], INT4, |args| {
        Ok(of_int(args.iter().filter(|arg| !arg.is_null()).count() as i64))
    })
    .variadic()
    .seeing_null(),
    Spec::new("parse_ident", &[&[Text]], TEXTS, |args| {
        let parts = text(&args[0]).split('.').map(|part| match part.strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').to_owned(),
            None => part.trim().to_lowercase(),
        });
        Ok(list(parts.map(Some).collect::<Vec<_>>()))
    }),
    Spec::new(
        "generate_subscript_list",
        &[&[Int, Int]],
        Gives::Type(ColumnType::Array {
            element: ElementType::Int64,
            depth: 1,
        }),
        |args| {
            let numbers: Vec<ScalarValue> = (int(&args[0])..=int(&args[1])).map(of_int).collect();
            Ok(ScalarValue::List(ScalarValue::new_list(
                &numbers,
                &arrow::datatypes::DataType::Int64,
                true,
            )))
        },
    ),
];

/// What DataFusion has too, with BOOLEANs as letters.
pub(super) static OVERLOADS: &[Spec] = &[
    Spec::new("concat", &[&[Any]], TEXT, |args| {
        Ok(of_text(args.iter().filter_map(as_part).collect::<String>()))
    })
    .variadic()
    .seeing_null(),
    Spec::new("concat_ws", &[&[Text, Any]], TEXT, |args| {
        if args[0].is_null() {
            return Ok(ScalarValue::Null);
        }
        let parts: Vec<String> = args[1..].iter().filter_map(as_part).collect();
        Ok(of_text(parts.join(text(&args[0]))))
    })
    .variadic()
    .seeing_null(),
];

/// A value as PostgreSQL prints it, a BOOLEAN as `t` or `f`.
fn as_part(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Boolean(Some(flag)) => Some(if *flag { "t" } else { "f" }.to_owned()),
        value => shown(value),
    }
}

/// A pattern of LIKE with the escape character `escape`, written with a backslash; an empty one escapes nothing.
fn like_escape(pattern: &str, escape: &str) -> Result<String, EngineError> {
    let mut characters = escape.chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return Err(EngineError::bad_value("ESCAPE takes one character, or none"));
    }
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if Some(character) == escape {
            let escaped = rest.next().ok_or_else(|| {
                EngineError::bad_value("a pattern of LIKE ends with its escape character: write it twice for itself")
            })?;
            written.extend(['\\', escaped]);
        } else if character == '\\' {
            written.push_str("\\\\");
        } else {
            written.push(character);
        }
    }
    Ok(written)
}

/// A value as PostgreSQL prints it; `None` for NULL.
fn shown(value: &ScalarValue) -> Option<String> {
    let array = value.to_array().ok()?;
    TextWriter::new(array.as_ref()).ok()?.value(0)
}

fn quoted_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// A name in quotes where it would be read as another: capitals, signs, words of the grammar.
fn quoted_name(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_word = || {
        let keyword = sqlparser::keywords::ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str());
        let keyword = keyword.map(|at| sqlparser::keywords::ALL_KEYWORDS_INDEX[at]);
        keyword.is_ok_and(|word| {
            sqlparser::keywords::RESERVED_FOR_IDENTIFIER.contains(&word)
                || sqlparser::keywords::RESERVED_FOR_COLUMN_ALIAS.contains(&word)
                || sqlparser::keywords::RESERVED_FOR_TABLE_ALIAS.contains(&word)
        })
    };
    if is_plain && !is_word() {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// `format('%s is %L', …)`: `%s` a text, `%I` a name, `%L` a literal, `%%` a percent sign, `%2$s` the second value,
/// `%-10s` a width.
fn formatted(format: &str, values: &[ScalarValue]) -> Result<String, EngineError> {
    let mut out = String::new();
    let mut rest = format;
    let mut next = 0;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let end = after
            .find(['s', 'I', 'L'])
            .ok_or_else(|| EngineError::bad_value("format() knows %s, %I, %L and %%"))?;
        let (spec, kind) = (&after[..end], &after[end..=end]);
        rest = &after[end + 1..];
        let (at, spec) = match spec.split_once('$') {
            Some((at, spec)) => (at.parse::<usize>().ok().and_then(|at| at.checked_sub(1)), spec),
            None => (Some(next), spec),
        };
        let value = at.and_then(|at| values.get(at));
        let value = value.ok_or_else(|| EngineError::bad_value("format() has fewer values than its text asks for"))?;
        next = at.unwrap_or(next) + 1;
        let text = match (kind, shown(value)) {
            ("s", text) => text.unwrap_or_default(),
            ("L", text) => text.map_or_else(|| "NULL".to_owned(), |text| quoted_literal(&text)),
            (_, Some(text)) => quoted_name(&text),
            (_, None) => return Err(EngineError::bad_value("NULL is not a name")),
        };
        let width: i32 = match spec {
            "" => 0,
            spec => spec
                .parse()
                .map_err(|_| EngineError::bad_value(format!("`%{spec}{kind}` is not a format")))?,
        };
        let blanks = (width.unsigned_abs() as usize).saturating_sub(text.chars().count());
        if width >= 0 {
            out.extend(std::iter::repeat_n(' ', blanks));
        }
        out.push_str(&text);
        if width < 0 {
            out.extend(std::iter::repeat_n(' ', blanks));
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_formatted() {
        let values = [of_text("it's"), of_text("Name"), ScalarValue::Null];
        let format = |text: &str| formatted(text, &values).ok();
        assert_eq!(format("%s %I %L %%").as_deref(), Some("it's \"Name\" NULL %"));
        assert_eq!(format("%2$s|%1$L|").as_deref(), Some("Name|'it''s'|"));
        assert_eq!(format("[%6s][%-6s]").as_deref(), Some("[  it's][Name  ]"));
        assert_eq!(format("%s %s %s %s"), None);
    }

    #[test]
    fn names_are_quoted_where_they_must() {
        assert_eq!(quoted_name("plain_1"), "plain_1");
        assert_eq!(quoted_name("select"), "\"select\"");
        assert_eq!(quoted_name("A\"b"), "\"A\"\"b\"");
    }
}
