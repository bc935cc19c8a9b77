//! How rows are compared with what a script expects.

use sqllogictest::{Normalizer, Validator, default_validator};

use crate::origin::Closeness;

/// The comparison that suits a record: with or without the order of its rows, to the letter or to the cent.
pub(crate) fn validator(in_order: bool, closeness: Closeness) -> Validator {
    match (in_order, closeness) {
        (true, Closeness::Exact) => default_validator,
        (false, Closeness::Exact) => in_any_order,
        (true, Closeness::Cent) => within_a_cent,
        (false, Closeness::Cent) => within_a_cent_in_any_order,
    }
}

/// Whether the whole query says in which order its rows come; an ORDER BY inside brackets says nothing about that.
pub(crate) fn sorts_its_rows(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    let after_brackets = lower.rfind(')').map_or(lower.as_str(), |at| &lower[at..]);
    let last = lower.rfind("order by").map_or("", |at| &lower[at..]);
    after_brackets.contains("order by") || balanced(last)
}

/// Brackets that open here close here: `order by (a)`, and not `order by a) …`.
fn balanced(text: &str) -> bool {
    let depth = text.chars().try_fold(0_i32, |depth, c| match c {
        '(' => Some(depth + 1),
        ')' if depth == 0 => None,
        ')' => Some(depth - 1),
        _ => Some(depth),
    });
    !text.is_empty() && depth == Some(0)
}

fn in_any_order(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    default_validator(normalizer, actual, expected)
        || sorted(lines(normalizer, actual)) == sorted(wanted(normalizer, expected))
}

fn within_a_cent(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    default_validator(normalizer, actual, expected)
        || all_close(&lines(normalizer, actual), &wanted(normalizer, expected))
}

fn within_a_cent_in_any_order(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    within_a_cent(normalizer, actual, expected)
        || all_close(
            &sorted(lines(normalizer, actual)),
            &sorted(wanted(normalizer, expected)),
        )
}

fn lines(normalizer: Normalizer, rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().map(|row| normalizer(&row.join(" "))).collect()
}

fn wanted(normalizer: Normalizer, expected: &[String]) -> Vec<String> {
    expected.iter().map(normalizer).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

fn all_close(actual: &[String], expected: &[String]) -> bool {
    actual.len() == expected.len()
        && actual.iter().zip(expected).all(|(line, wanted)| {
            let (line, wanted): (Vec<_>, Vec<_>) = (line.split(' ').collect(), wanted.split(' ').collect());
            line.len() == wanted.len() && line.iter().zip(&wanted).all(|(value, wanted)| close(value, wanted))
        })
}

/// Equal, or numbers of which one has a fraction and that differ by a cent at most.
fn close(value: &str, wanted: &str) -> bool {
    if value == wanted {
        return true;
    }
    let fraction = value.contains('.') || wanted.contains('.');
    match (value.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(value), Ok(wanted)) => fraction && (value - wanted).abs() <= 0.01,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use sqllogictest::default_normalizer;

    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter()
            .map(|row| row.iter().map(|value| (*value).to_owned()).collect())
            .collect()
    }

    fn expected(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn only_fractions_may_differ_by_a_cent() {
        assert!(close("1.005", "1"));
        assert!(!close("1.5", "1"));
        assert!(!close("2", "1"));
        assert!(!close("a", "b"));
        let rows = rows(&[&["x y", "2.001"]]);
        assert!(within_a_cent(default_normalizer, &rows, &expected(&["x  y 2"])));
        assert!(!within_a_cent(default_normalizer, &rows, &expected(&["x z 2"])));
        assert!(!within_a_cent(default_normalizer, &rows, &[]));
    }

    #[test]
    fn order_counts_only_where_it_was_asked_for() {
        let rows = rows(&[&["1", "-10"], &["1", "10"]]);
        let other = expected(&["1 10", "1 -10"]);
        assert!(in_any_order(default_normalizer, &rows, &other));
        assert!(!default_validator(default_normalizer, &rows, &other));
        for (sql, sorts) in [
            ("SELECT a FROM t ORDER BY a", true),
            ("SELECT a FROM (SELECT a FROM t ORDER BY a) x", false),
            ("SELECT a FROM (SELECT 1) x ORDER BY a LIMIT 2", true),
            ("SELECT a FROM t ORDER BY abs(a) DESC", true),
            ("SELECT sum(a) OVER (ORDER BY a) FROM t", false),
            ("SELECT a FROM t", false),
        ] {
            assert_eq!(sorts_its_rows(sql), sorts, "{sql}");
        }
    }
}
