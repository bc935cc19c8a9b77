//! Whether the order of a query's rows means anything.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_counts_only_where_it_was_asked_for() {
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
