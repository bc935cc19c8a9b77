//! For every text: no panic, and spans that lie inside the text on the edges of characters.

use candor_parser::{Body, Param, parse_script, span::parse_span};
use proptest::prelude::*;

/// Pieces that together reach most of the grammar.
const PIECES: &[&str] = &[
    "SELECT",
    "FROM",
    "orders",
    "STALENESS",
    "30s",
    "30",
    "s",
    "5m",
    "'30 s'",
    "$1",
    "$0",
    "-5s",
    "-",
    "ANSWERED",
    "BY",
    "LEADER",
    "ANY",
    "MASTER",
    "VERSION",
    "7",
    "AT LEAST VERSION",
    "WAIT",
    "2s",
    ";",
    "(",
    ")",
    "*",
    ",",
    "WHERE",
    "a = 1",
    "WITH x AS (",
    "UNION",
    "ORDER BY",
    "LIMIT",
    "EXPLAIN",
    "(ROUTE)",
    "ANALYZE",
    "DEFINE",
    "COLLECTION",
    "REPLICA",
    "NAMESPACE",
    "DATABASE",
    "IF NOT EXISTS",
    "OVERWRITE",
    "REMOVE",
    "USE",
    "INFO FOR",
    "NODE",
    "RETURN",
    "session::context()",
    "x::text",
    "INSERT INTO",
    "VALUES (1)",
    "UPDATE",
    "SET",
    "DELETE",
    "CREATE TABLE",
    "VIEW",
    "AS",
    "COPY",
    "TO",
    "'a.csv'",
    "STDOUT",
    "BEGIN",
    "READ ONLY",
    "COMMIT",
    "ROLLBACK",
    "SHOW",
    "RESET",
    "ALL",
    "FETCH FIRST",
    "ROWS ONLY",
    "FOR UPDATE",
    "JOIN",
    "ON",
    "--c\n",
    "/* c */",
    "'",
    "\"",
    "$$",
    "ä€😀",
    "\"ä\"",
    "\n",
    "\r\n",
    "\u{2028}",
    "::",
    "[",
    "]",
    "{",
    "}",
    "NOT",
    "CASE",
    "WHEN",
    "END",
    "INTERVAL",
    "1e3",
    "0x1",
    "TABLE",
    "AT 'h:1'",
    "ROLES",
    "E'\\n'",
];

fn check(text: &str) {
    let inside = |start: usize, length: usize| {
        assert!(
            text.is_char_boundary(start) && text.is_char_boundary(start + length),
            "{start}+{length} in {text:?}"
        );
    };
    match parse_script(text) {
        Ok(script) => {
            let mut end = 0;
            for statement in &script.statements {
                inside(statement.span.start, statement.span.length);
                assert!(statement.span.start >= end, "statements overlap in {text:?}");
                end = statement.span.start + statement.span.length;
                assert_eq!(statement.text, text[statement.span.start..end]);
                if let Some((_, tail)) = statement.tails.first() {
                    assert!(tail.start >= statement.span.start && tail.start + tail.length <= end);
                    inside(tail.start, tail.length);
                }
                let params = vec![Param::Text("30s".to_owned()); statement.parameters];
                let _ = statement.tails.resolve(&params);
                let _ = statement.check_in_transaction();
                if let Body::Set { value_span, .. } = statement.body {
                    inside(value_span.start, value_span.length);
                }
            }
        }
        Err(error) => {
            if let Some(span) = error.span() {
                inside(span.start, span.length);
            }
            assert!(!error.to_string().is_empty());
            let _ = error.to_body();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_sequence_of_words_is_read_or_refused(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        check(&pieces.join(" "));
        check(&pieces.concat());
    }

    #[test]
    fn a_cut_script_is_read_or_refused(cut in 0_usize..400) {
        let script = "WITH a AS (SELECT 1 AS ä) SELECT $1, 'x', \"ö\" FROM a WHERE b IN (SELECT 2) ORDER BY 1 LIMIT 3 STALENESS 1m30s ANSWERED BY LEADER; \
            DEFINE REPLICA n2 AT '10.0.0.2:7501' ROLES writable, readable REGION 'eu'; COPY (SELECT 1) TO 'x.csv' (FORMAT csv, HEADER)";
        if let Some(text) = script.get(..cut.min(script.len())) {
            check(text);
        }
    }

    #[test]
    fn any_span_is_read_or_refused(text in "[-+0-9a-z .]{0,12}") {
        if let Err(error) = parse_span(&text) && let Some(at) = error.at() {
            prop_assert!(text.get(at).is_some());
        }
    }
}

/// Trees as deep as the bounds allow are read and dropped on a small stack, and deeper ones are refused.
#[test]
fn the_deepest_trees_fit_into_a_small_stack() {
    assert!(on_a_stack_of(512, drop) > 50);
}

/// Copying takes more: the 4 MB that README.md asks of threads that do it.
#[test]
fn the_deepest_trees_are_copied_on_a_larger_stack() {
    on_a_stack_of(4096, |script| assert_eq!(script.clone(), script));
}

/// Reads deep texts on a thread with a stack of so many KiB, and says how many were accepted.
fn on_a_stack_of(kibibytes: usize, f: fn(candor_parser::Script)) -> usize {
    let read = move || {
        let counts = [
            candor_parser::QUERIES_MAX - 1,
            candor_parser::NESTING_MAX - 1,
            candor_parser::OPERATORS_MAX / 2,
            candor_parser::OPERATORS_MAX - 1,
            10_000,
        ];
        let texts = counts.into_iter().flat_map(deep_texts);
        texts.filter_map(|text| parse_script(&text).ok()).map(f).count()
    };
    std::thread::Builder::new()
        .stack_size(kibibytes << 10)
        .spawn(read)
        .expect("a thread")
        .join()
        .expect("no panic")
}

/// Every way to make a tree deep, `times` levels each.
fn deep_texts(times: usize) -> Vec<String> {
    let nested = |before: &str, open: &str, inner: &str, close: &str| {
        format!("{before} {}{inner}{}", open.repeat(times), close.repeat(times))
    };
    vec![
        nested("SELECT", "(", "1", ")"),
        nested("SELECT", "f(", "1", ")"),
        nested("SELECT", "(SELECT ", "1", ")"),
        nested("SELECT", "CASE WHEN ", "1", " THEN 1 END"),
        nested("SELECT", "NOT ", "a", ""),
        nested("SELECT", "- ", "1", ""),
        nested("SELECT", "INTERVAL ", "'1'", ""),
        nested("SELECT", "ARRAY[", "1", "]"),
        nested("SELECT", "CAST(", "1", " AS int)"),
        nested("SELECT 1", "", "", "+1"),
        nested("SELECT 1", "", "", " OR a"),
        nested("SELECT 1", "", "", " OR a = 1"),
        nested("SELECT 1", "", "", " IS NULL"),
        nested("SELECT 1", "", "", "::int"),
        nested("SELECT 1", "", "", "!"),
        nested("SELECT 1", "", "", " AT TIME ZONE 'UTC'"),
        nested("SELECT 1", "", "", " COLLATE \"C\""),
        nested("SELECT 1::int", "", "", "[]"),
        nested("SELECT a", "", "", "[1]"),
        nested("SELECT a", "", "", ".a"),
        nested("SELECT 1", "", "", " BETWEEN 1 AND 2"),
        nested("SELECT 1", "", "", " UNION SELECT 1"),
        nested("SELECT 1 FROM a", "", "", " CROSS JOIN b"),
        nested("SELECT 1 FROM a", "", "", " JOIN b ON true"),
        nested("SELECT 1 FROM a", "", "", " PIVOT (sum(a) FOR b IN (1))"),
        nested("SELECT 1 FROM", "(", "a", ")"),
        nested("SELECT 1 FROM", "(", "a", " JOIN b ON true)"),
        nested("SELECT 1 FROM", "(SELECT 1 FROM ", "a", ") x"),
        nested("SELECT 1 WHERE", " EXISTS (SELECT 1 WHERE ", "a", ")"),
        nested("SELECT 1 WHERE 1", " IN (SELECT 1 WHERE 1", "", ")"),
        nested("WITH", "a AS (WITH ", "b AS (SELECT 1) SELECT 1", ") SELECT 1"),
        nested("SELECT 1::", "ARRAY<", "int", ">"),
        nested("INSERT INTO t VALUES", "(", "1", ")"),
        nested("CREATE TABLE t (a INT DEFAULT", "(", "1", "))"),
        nested("CREATE TABLE t AS SELECT 1", "", "", " UNION SELECT 1"),
        "EXPLAIN ".repeat(times),
    ]
}

/// No text makes the parser try one thing after another without end.
#[test]
fn brackets_that_lead_nowhere_are_left_quickly() {
    let started = std::time::Instant::now();
    for open in [
        "(",
        "f(",
        "(SELECT ",
        "FROM (",
        "CASE WHEN (",
        "NOT (",
        "x IN (",
        "((SELECT 1) + (",
    ] {
        for prefix in [
            "SELECT ",
            "SELECT * FROM ",
            "",
            "INSERT INTO t ",
            "DELETE FROM t WHERE ",
        ] {
            check(&format!("{prefix}{}", open.repeat(candor_parser::NESTING_MAX)));
            check(&format!("{prefix}{} 1 2", open.repeat(candor_parser::NESTING_MAX / 2)));
        }
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
