//! Whether an answer is what a record expects.

use std::borrow::Cow;
use std::fmt::Write as _;

use md5::{Digest, Md5};

use super::nulls::RowOrder;
use super::order::sorts_its_rows;
use super::origins::{Closeness, Style};
use super::record::{Query, QueryExpected, Sort};
use super::values::Cell;

/// Matches any text.
const IGNORED: &str = "<slt:ignore>";

/// Whether `rows` are the expected ones; `order` says whether the order of rows counts where the record names none.
pub(crate) fn is_right(query: &Query, rows: &[Vec<Cell>], style: Style, order: RowOrder) -> bool {
    match &query.expected {
        QueryExpected::Any => true,
        QueryExpected::Error => false,
        QueryExpected::Hash { count, md5 } => {
            let columns = rows.first().map_or(0, Vec::len);
            if rows.len() * columns != *count {
                return false;
            }
            match query.sort {
                Some(sort) => hash(rows, sort) == *md5,
                // The record does not say how the answer was sorted.
                None => [Sort::None, Sort::Rows, Sort::Values]
                    .into_iter()
                    .any(|sort| hash(rows, sort) == *md5),
            }
        }
        QueryExpected::Lines(lines) => {
            let in_order = match query.sort {
                Some(Sort::Rows | Sort::Values) => false,
                Some(Sort::None) | None => order != RowOrder::Any && sorts_its_rows(&query.sql),
            };
            if query.sort == Some(Sort::Values) {
                return same_values(rows, lines, style);
            }
            let actual: Vec<Vec<&Cell>> = rows.iter().map(|row| row.iter().collect()).collect();
            let turns = if order == RowOrder::Turned {
                actual.len().max(1)
            } else {
                1
            };
            forms(query, rows, lines).any(|expected| {
                let mut turned = actual.clone();
                (0..turns).any(|turn| {
                    turned.rotate_left(turn.min(1));
                    same_rows(&turned, &expected, in_order, style)
                })
            }) || style.numbered_lines && same_numbered(rows, lines, in_order)
        }
    }
}

/// MD5 of the values, each followed by a line break.
fn hash(rows: &[Vec<Cell>], sort: Sort) -> String {
    let mut sorted: Vec<Vec<&str>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
        .collect();
    match sort {
        Sort::None => {}
        Sort::Rows => sorted.sort_unstable(),
        Sort::Values => {
            let mut values: Vec<&str> = sorted.concat();
            values.sort_unstable();
            sorted = vec![values];
        }
    }
    let mut md5 = Md5::new();
    for value in sorted.iter().flatten() {
        md5.update(value.as_bytes());
        md5.update(b"\n");
    }
    let mut text = String::with_capacity(32);
    for byte in md5.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A row of a script: its values, or the whole line where their borders are not known.
enum Row<'a> {
    Values(Vec<&'a str>),
    Line(&'a str),
}

/// The ways in which `lines` can be meant: one row on a line, or one value on a line.
fn forms<'a>(query: &'a Query, rows: &[Vec<Cell>], lines: &'a [String]) -> impl Iterator<Item = Vec<Row<'a>>> {
    let columns = rows.first().map_or(query.letters.len(), Vec::len).max(1);
    let by_value = (lines.len() == rows.len() * columns).then(|| {
        lines
            .chunks(columns)
            .map(|chunk| Row::Values(chunk.iter().map(String::as_str).collect()))
            .collect()
    });
    let by_row = (lines.len() == rows.len() && !(query.one_value_a_line && columns > 1)).then(|| {
        let row = |line: &'a String| {
            let values: Vec<&str> = line.split('\t').collect();
            if values.len() == columns {
                Row::Values(values)
            } else {
                Row::Line(line)
            }
        };
        lines.iter().map(row).collect()
    });
    by_row.into_iter().chain(by_value)
}

fn same_rows(actual: &[Vec<&Cell>], expected: &[Row<'_>], in_order: bool, style: Style) -> bool {
    if actual.len() != expected.len() {
        return false;
    }
    if actual
        .iter()
        .zip(expected)
        .all(|(row, wanted)| same_row(row, wanted, style))
    {
        return true;
    }
    if in_order {
        return false;
    }
    let mut expected: Vec<&Row<'_>> = expected.iter().collect();
    expected.sort_by_cached_key(|row| match row {
        Row::Values(values) => squeezed(&values.join(" ")).into_owned(),
        Row::Line(line) => squeezed(line).into_owned(),
    });
    let same = |as_digits: bool| {
        let mut actual: Vec<&Vec<&Cell>> = actual.iter().collect();
        actual.sort_by_cached_key(|row| {
            let row = if as_digits { digits(row) } else { joined(row) };
            squeezed(&row).into_owned()
        });
        let mut pairs = actual.iter().zip(&expected);
        pairs.all(|(row, wanted)| same_row(row, wanted, style))
    };
    // Booleans that the script has as digits stand in another order.
    same(false) || actual.iter().flatten().any(|cell| cell.boolean) && same(true)
}

/// A row with its booleans as digits.
fn digits(row: &[&Cell]) -> String {
    let digit = |cell: &&Cell| match (cell.boolean, cell.text.as_str()) {
        (true, "true" | "t") => "1".to_owned(),
        (true, "false" | "f") => "0".to_owned(),
        (_, text) => text.to_owned(),
    };
    row.iter().map(digit).collect::<Vec<_>>().join(" ")
}

fn same_row(row: &[&Cell], wanted: &Row<'_>, style: Style) -> bool {
    match wanted {
        Row::Values(values) => {
            row.len() == values.len()
                && row
                    .iter()
                    .zip(values)
                    .all(|(cell, wanted)| same_cell(cell, wanted, style))
        }
        Row::Line(line) => {
            let line_of_row = joined(row);
            let (actual, wanted) = (squeezed(&line_of_row), squeezed(line));
            actual == wanted || same_words(&actual, &wanted, style.closeness) || matches_with_gaps(&actual, &wanted)
        }
    }
}

fn joined(row: &[&Cell]) -> String {
    row.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Blanks in a row count as one, those at the ends as none.
fn squeezed(text: &str) -> Cow<'_, str> {
    let clean = !text.starts_with(char::is_whitespace)
        && !text.ends_with(char::is_whitespace)
        && !text.contains("  ")
        && !text.contains(['\t', '\n']);
    if clean {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

fn same_words(actual: &str, wanted: &str, closeness: Closeness) -> bool {
    let (mut actual, mut wanted) = (actual.split(' '), wanted.split(' '));
    loop {
        match (actual.next(), wanted.next()) {
            (None, None) => return true,
            (Some(one), Some(other))
                if one == other || close(one, other, closeness) || same_parts(one, other, closeness) => {}
            _ => return false,
        }
    }
}

fn same_cell(cell: &Cell, wanted: &str, style: Style) -> bool {
    if cell.text == wanted
        || close(&cell.text, wanted, style.closeness)
        || same_parts(&cell.text, wanted, style.closeness)
    {
        return true;
    }
    if cell.boolean {
        let truth = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => Some(true),
            "false" | "f" | "0" => Some(false),
            _ => None,
        };
        return truth(&cell.text).is_some() && truth(&cell.text) == truth(wanted);
    }
    if let Some(pattern) = wanted.strip_prefix("<REGEX>:") {
        return regex::Regex::new(&format!("^(?s:{pattern})$")).is_ok_and(|regex| regex.is_match(&cell.text));
    }
    if let Some(pattern) = wanted.strip_prefix("<!REGEX>:") {
        return regex::Regex::new(&format!("^(?s:{pattern})$")).is_ok_and(|regex| !regex.is_match(&cell.text));
    }
    squeezed(&cell.text) == squeezed(wanted) || matches_with_gaps(&cell.text, wanted)
}

/// Arrays and structs whose parts are the same or close.
fn same_parts(value: &str, wanted: &str, closeness: Closeness) -> bool {
    let is_whole = |text: &str| text.starts_with(['{', '[', '(']);
    if !(is_whole(value) && is_whole(wanted)) {
        return false;
    }
    let is_border = |c: char| "{}[](),:".contains(c);
    let borders = |text: &str| text.chars().filter(|c| is_border(*c)).collect::<String>();
    let same = |(one, other): (&str, &str)| one.trim() == other.trim() || close(one.trim(), other.trim(), closeness);
    borders(value) == borders(wanted) && value.split(is_border).zip(wanted.split(is_border)).all(same)
}

/// Numbers of which one has a fraction, and that lie close enough.
fn close(value: &str, wanted: &str, closeness: Closeness) -> bool {
    // Whole numbers are never just close: every spelling that is none holds one of these letters.
    let fraction = |text: &str| text.contains(['.', 'e', 'E', 'n', 'N']);
    if closeness == Closeness::Exact || !(fraction(value) || fraction(wanted)) {
        return false;
    }
    let (Ok(value), Ok(wanted)) = (value.parse::<f64>(), wanted.parse::<f64>()) else {
        return false;
    };
    if value.total_cmp(&wanted).is_eq() || value.is_nan() && wanted.is_nan() {
        // Infinities and no numbers, which every engine spells in its own way.
        return true;
    }
    let distance = (value - wanted).abs();
    match closeness {
        Closeness::Exact => false,
        Closeness::Relative => distance <= 2e-6 * wanted.abs() || distance < 1e-12,
        Closeness::Cent => distance <= 0.01,
    }
}

/// `wanted` with any text where it says `<slt:ignore>`.
fn matches_with_gaps(actual: &str, wanted: &str) -> bool {
    if !wanted.contains(IGNORED) {
        return false;
    }
    let mut rest = actual;
    let mut pieces = wanted.split(IGNORED).map(str::trim).peekable();
    let first = pieces.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else {
        return false;
    };
    rest = after;
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    true
}

fn same_values(rows: &[Vec<Cell>], lines: &[String], style: Style) -> bool {
    let mut actual: Vec<&Cell> = rows.iter().flatten().collect();
    actual.sort_unstable_by(|one, other| one.text.cmp(&other.text));
    let mut wanted: Vec<&str> = lines.iter().map(String::as_str).collect();
    if wanted.len() != actual.len() {
        wanted = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    }
    wanted.sort_unstable();
    actual.len() == wanted.len()
        && actual
            .iter()
            .zip(wanted)
            .all(|(cell, wanted)| same_cell(cell, wanted, style))
}

/// DataFusion's form of a last value with several lines: they follow their row, numbered, with `-` for leading blanks.
fn same_numbered(rows: &[Vec<Cell>], lines: &[String], in_order: bool) -> bool {
    let mut actual = Vec::new();
    for row in rows {
        let Some((last, before)) = row.split_last() else {
            continue;
        };
        if !last.text.contains('\n') {
            actual.push(squeezed(&joined(&row.iter().collect::<Vec<_>>())).into_owned());
            continue;
        }
        actual.push(squeezed(&joined(&before.iter().collect::<Vec<_>>())).into_owned());
        for (line, number) in last.text.trim_end().lines().zip(1..) {
            let bare = line.trim_start();
            actual.push(format!("{number:02}){}{bare}", "-".repeat(line.len() - bare.len())));
        }
    }
    let mut wanted: Vec<String> = lines.iter().map(|line| squeezed(line).into_owned()).collect();
    if !in_order {
        actual.sort_unstable();
        wanted.sort_unstable();
    }
    actual.len() == wanted.len()
        && actual
            .iter()
            .zip(&wanted)
            .all(|(line, wanted)| line == wanted || matches_with_gaps(line, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rows: &[&[&str]]) -> Vec<Vec<Cell>> {
        let cell = |text: &&str| Cell {
            text: (*text).to_owned(),
            boolean: *text == "true",
        };
        rows.iter().map(|row| row.iter().map(cell).collect()).collect()
    }

    fn query(sql: &str, sort: Option<Sort>, lines: &[&str]) -> Query {
        Query {
            sql: sql.to_owned(),
            letters: "II".to_owned(),
            sort,
            one_value_a_line: false,
            expected: QueryExpected::Lines(lines.iter().map(|line| (*line).to_owned()).collect()),
        }
    }

    fn relative() -> Style {
        Style {
            closeness: Closeness::Relative,
            ..Style::default()
        }
    }

    #[test]
    fn rows_stand_on_lines_or_values_do() {
        let rows = cells(&[&["1", "a b"], &["2", "true"]]);
        for lines in [
            &["1\ta b", "2\t1"][..],
            &["1 a  b", "2 true"],
            &["1", "a b", "2", "true"],
        ] {
            assert!(
                is_right(&query("SELECT", None, lines), &rows, relative(), RowOrder::AsSaid),
                "{lines:?}"
            );
        }
        assert!(!is_right(
            &query("SELECT", None, &["1 a b"]),
            &rows,
            relative(),
            RowOrder::AsSaid
        ));
        assert!(!is_right(
            &query("SELECT", None, &["1 a b", "3 true"]),
            &rows,
            relative(),
            RowOrder::AsSaid
        ));
    }

    #[test]
    fn order_counts_where_the_query_sorts() {
        let rows = cells(&[&["1", "x"], &["2", "y"]]);
        let lines = &["2 y", "1 x"];
        assert!(is_right(
            &query("SELECT a FROM t", None, lines),
            &rows,
            relative(),
            RowOrder::AsSaid
        ));
        let sorted = "SELECT a FROM t ORDER BY a";
        assert!(!is_right(
            &query(sorted, None, lines),
            &rows,
            relative(),
            RowOrder::AsSaid
        ));
        assert!(is_right(&query(sorted, None, lines), &rows, relative(), RowOrder::Any));
        assert!(is_right(
            &query(sorted, Some(Sort::Rows), lines),
            &rows,
            relative(),
            RowOrder::AsSaid
        ));
    }

    #[test]
    fn booleans_may_be_digits_in_another_order() {
        let rows = cells(&[&["NULL", "1"], &["true", "2"]]);
        let lines = &["1\t2", "NULL\t1"];
        assert!(is_right(
            &query("SELECT a FROM t", Some(Sort::Rows), lines),
            &rows,
            relative(),
            RowOrder::AsSaid
        ));
    }

    #[test]
    fn hashes_cover_each_value_and_a_line_break() {
        // printf '1\n2\n3\n4\n' | md5sum
        let expected = QueryExpected::Hash {
            count: 4,
            md5: "302c28003d487124d97c242de94da856".to_owned(),
        };
        let query = Query {
            expected,
            ..query("SELECT", Some(Sort::Values), &[])
        };
        assert!(is_right(
            &query,
            &cells(&[&["3", "4"], &["1", "2"]]),
            Style::default(),
            RowOrder::AsSaid
        ));
        assert!(!is_right(
            &query,
            &cells(&[&["3", "4"], &["1", "5"]]),
            Style::default(),
            RowOrder::AsSaid
        ));
    }

    #[test]
    fn numbers_and_gaps() {
        assert!(close("0.33333334", "0.333333333", Closeness::Relative));
        assert!(!close("1", "2", Closeness::Relative));
        assert!(close("-Infinity", "-inf", Closeness::Relative) && close("NaN", "nan", Closeness::Relative));
        assert!(!close("NULL", "nan", Closeness::Relative));
        assert!(!close("0.3", "0.30", Closeness::Exact));
        assert!(matches_with_gaps("a 17 b 4 c", "a <slt:ignore> b <slt:ignore> c"));
        assert!(!matches_with_gaps("a 17 d", "a <slt:ignore> b"));
    }

    #[test]
    fn values_of_several_lines_are_numbered() {
        let rows = cells(&[&["plan", "A\n  B"]]);
        assert!(same_numbered(
            &rows,
            &["plan".to_owned(), "01)A".to_owned(), "02)--B".to_owned()],
            true
        ));
    }
}
