//! Regular expressions where PostgreSQL's functions give lists.

use std::cell::RefCell;

use candor_storage::{ColumnType, ElementType};
use datafusion::common::ScalarValue;
use regex::{Captures, Regex, RegexBuilder};

use super::function::Kind::Text;
use super::function::{Gives, Spec, TEXTS, of_text, text};
use super::json::list;
use crate::error::EngineError;

const LISTS: Gives = Gives::Type(ColumnType::Array {
    element: ElementType::Text,
    depth: 2,
});

pub(super) static FUNCTIONS: &[Spec] = &[
    Spec::new("regexp_match", &[&[Text, Text], &[Text, Text, Text]], TEXTS, |args| {
        let (regex, is_global) = regex(args)?;
        if is_global {
            return Err(EngineError::bad_value(
                "regexp_match finds one match: regexp_matches takes the flag g",
            ));
        }
        Ok(regex
            .captures(text(&args[0]))
            .map_or(ScalarValue::Null, |found| groups(&found)))
    }),
    Spec::new(
        "regexp_match_list",
        &[&[Text, Text], &[Text, Text, Text]],
        LISTS,
        |args| {
            let (regex, is_global) = regex(args)?;
            let count = if is_global { usize::MAX } else { 1 };
            let matches: Vec<ScalarValue> = regex
                .captures_iter(text(&args[0]))
                .take(count)
                .map(|found| groups(&found))
                .collect();
            let ty = ColumnType::Array {
                element: ElementType::Text,
                depth: 1,
            };
            Ok(ScalarValue::List(ScalarValue::new_list(&matches, &ty.arrow(), true)))
        },
    ),
    Spec::new(
        "regexp_substr",
        &[&[Text, Text]],
        Gives::Type(ColumnType::Text),
        |args| {
            let (regex, _) = regex(args)?;
            let found = regex.find(text(&args[0]));
            Ok(found.map_or(ScalarValue::Null, |found| of_text(found.as_str())))
        },
    ),
    Spec::new(
        "regexp_split_to_array",
        &[&[Text, Text], &[Text, Text, Text]],
        TEXTS,
        |args| {
            let (regex, _) = regex(args)?;
            Ok(list(
                split(&regex, text(&args[0]))
                    .into_iter()
                    .map(|part| Some(part.to_owned())),
            ))
        },
    ),
];

/// The groups of a match, or the whole of it where the expression has none.
fn groups(found: &Captures<'_>) -> ScalarValue {
    let text = |at: usize| found.get(at).map(|part| part.as_str().to_owned());
    match found.len() {
        1 => list([text(0)]),
        count => list((1..count).map(text)),
    }
}

/// What stands between the matches; empty ones count only inside the text and not directly behind another one.
fn split<'a>(regex: &Regex, text: &'a str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for found in regex.find_iter(text) {
        if found.is_empty() && (found.start() == start || found.start() == text.len()) {
            continue;
        }
        parts.push(&text[start..found.start()]);
        start = found.end();
    }
    parts.push(&text[start..]);
    parts
}

/// The expression of the second argument with the flags of the third, and whether all matches are asked for.
fn regex(args: &[ScalarValue]) -> Result<(Regex, bool), EngineError> {
    let flags = args.get(2).map(text).unwrap_or_default();
    let pattern = text(&args[1]);
    thread_local! {
        /// The one that was used last: rows mostly share theirs.
        static LAST: RefCell<Option<(String, String, Regex)>> = const { RefCell::new(None) };
    }
    let is_global = flags.contains('g');
    let known = LAST.with_borrow(|last| match last {
        Some((known, with, regex)) if known == pattern && with == flags => Some(regex.clone()),
        _ => None,
    });
    if let Some(regex) = known {
        return Ok((regex, is_global));
    }
    let regex = compiled(pattern, flags)?;
    LAST.set(Some((pattern.to_owned(), flags.to_owned(), regex.clone())));
    Ok((regex, is_global))
}

fn compiled(pattern: &str, flags: &str) -> Result<Regex, EngineError> {
    // A dot is any character, a line break too, unless the flags say otherwise.
    let (mut insensitive, mut by_line, mut spaced, mut literal) = (false, false, false, false);
    for flag in flags.chars() {
        match flag {
            'g' | 'e' => {}
            'i' => insensitive = true,
            'c' => insensitive = false,
            'n' | 'm' => by_line = true,
            's' => by_line = false,
            'x' => spaced = true,
            't' => spaced = false,
            'q' => literal = true,
            other => {
                return Err(EngineError::bad_value(format!(
                    "`{other}` is no flag of a regular expression here"
                )));
            }
        }
    }
    let pattern = if literal {
        regex::escape(pattern)
    } else {
        constraints(pattern)
    };
    let built = RegexBuilder::new(&pattern)
        .case_insensitive(insensitive)
        .dot_matches_new_line(!by_line)
        .multi_line(by_line)
        .ignore_whitespace(spaced)
        .build();
    built.map_err(|error| EngineError::bad_value(format!("`{pattern}` is no regular expression here: {error}")))
}

/// PostgreSQL's words for the borders of words and of the text.
fn constraints(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            written.push(character);
            continue;
        }
        match rest.next() {
            Some('y') => written.push_str("\\b"),
            Some('Y') => written.push_str("\\B"),
            Some('m') => written.push_str("\\b{start}"),
            Some('M') => written.push_str("\\b{end}"),
            Some('Z') => written.push_str("\\z"),
            Some(other) => written.extend(['\\', other]),
            None => written.push('\\'),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_as_postgresql_splits_them() {
        // SELECT regexp_split_to_array(text, pattern)
        for (text, pattern, expected) in [
            ("a,b,,c", ",", vec!["a", "b", "", "c"]),
            ("the  quick", "\\s*", vec!["t", "h", "e", "q", "u", "i", "c", "k"]),
            ("", ",", vec![""]),
            (",", ",", vec!["", ""]),
        ] {
            let regex = compiled(pattern, "").expect(pattern);
            assert_eq!(split(&regex, text), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn the_last_flag_about_case_counts() {
        for (flags, matches) in [("", false), ("i", true), ("ic", false), ("ci", true)] {
            assert_eq!(compiled("Bc", flags).expect(flags).is_match("abc"), matches, "{flags}");
        }
        assert!(compiled("a", "z").is_err());
        assert!(compiled("\\mb", "").expect("a border").is_match("a b"));
    }
}
