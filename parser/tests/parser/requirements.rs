//! The rows of the requirements that text alone decides. The names say which row; the right answer is the row's.

use std::time::Duration;

use candor_parser::{AnsweredBy, Body, ParseError, SpanValue, Statement, ast, parse_script};
use candor_proto::ErrorCode;

fn one(text: &str) -> Statement {
    let mut script = parse_script(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(script.statements.len(), 1, "{text}");
    script.statements.remove(0)
}

fn refused(text: &str) -> ParseError {
    parse_script(text).expect_err(text)
}

fn bound(text: &str) -> Option<Duration> {
    match one(text).tails.staleness?.value {
        SpanValue::Span(span) => Some(span),
        SpanValue::Parameter(_) => None,
    }
}

/// The bytes an error points at.
fn pointed_at<'a>(text: &'a str, error: &ParseError) -> &'a str {
    let span = error.span().expect("a span");
    &text[span.start..span.start + span.length]
}

#[test]
fn s01_define_collection_is_a_statement() {
    assert!(matches!(one("DEFINE COLLECTION orders;").body, Body::Define(_)));
}

#[test]
fn s02_staleness_parses_with_its_span() {
    for (text, seconds) in [
        ("30s", 30.0),
        ("5m", 300.0),
        ("250ms", 0.25),
        ("1h", 3600.0),
        ("1d", 86400.0),
        ("1m30s", 90.0),
    ] {
        let script = format!("SELECT * FROM orders STALENESS {text}");
        assert_eq!(bound(&script), Some(Duration::from_secs_f64(seconds)), "{text}");
        let tail = one(&script).tails.staleness.expect("a bound");
        assert_eq!(
            &script[tail.span.start..][..tail.span.length],
            format!("STALENESS {text}")
        );
    }
}

#[test]
fn s03_staleness_may_follow_where() {
    let statement = one("SELECT * FROM events WHERE at > 0 STALENESS 5m;");
    assert_eq!(
        statement.tails.staleness.map(|t| t.value),
        Some(SpanValue::Span(Duration::from_mins(5)))
    );
    let Body::Query(query) = statement.body else {
        panic!("a query")
    };
    assert_eq!(query.to_string(), "SELECT * FROM events WHERE at > 0");
}

#[test]
fn s08_staleness_zero_is_refused_where_it_is_read() {
    for text in [
        "SELECT * FROM orders STALENESS 0s",
        "SELECT * FROM orders STALENESS '0 ms'",
        "EXPLAIN SELECT * FROM orders STALENESS 0s",
        "EXPLAIN (ROUTE) SELECT * FROM orders STALENESS 0m",
        "BEGIN READ ONLY STALENESS 0s",
        "COPY (SELECT 1) TO 'x.csv' STALENESS 0s",
    ] {
        let error = refused(text);
        assert!(matches!(error, ParseError::StalenessZero { .. }), "{text}: {error:?}");
        assert_eq!(error.code(), ErrorCode::BadClause);
    }
    assert_eq!(
        pointed_at("SELECT 1 STALENESS 0s", &refused("SELECT 1 STALENESS 0s")),
        "0s"
    );
}

#[test]
fn s09_a_negative_span_is_refused_where_it_is_read() {
    for text in [
        "SELECT * FROM orders STALENESS -5s",
        "SELECT * FROM orders o STALENESS -5s",
        "SELECT * FROM events WHERE at > 0 STALENESS - 5 m",
        "SELECT * FROM orders STALENESS '-5s'",
        "SELECT * FROM orders STALENESS -5s ANSWERED BY LEADER",
        "SELECT 1 LIMIT 5 STALENESS -5s",
        "BEGIN READ ONLY STALENESS -5s",
        "TABLE orders STALENESS -1ms",
        "RETURN 1 STALENESS -1ms",
    ] {
        let error = refused(text);
        assert!(
            matches!(error, ParseError::StalenessNegative { .. }),
            "{text}: {error:?}"
        );
    }
}

#[test]
fn s10_staleness_with_version_is_refused_in_both_orders() {
    for text in [
        "SELECT * FROM orders STALENESS 30s VERSION 7",
        "SELECT * FROM orders VERSION 7 STALENESS 30s",
    ] {
        let error = refused(text);
        assert!(matches!(error, ParseError::Combination { .. }), "{text}: {error:?}");
        // It points at the second of the two.
        assert!(text.ends_with(pointed_at(text, &error)), "{text}");
    }
}

#[test]
fn s11_staleness_is_not_reserved() {
    for text in [
        "SELECT staleness FROM readings",
        "SELECT staleness FROM readings WHERE staleness > 5 ORDER BY staleness DESC",
        "SELECT a AS staleness, b staleness FROM readings",
        "SELECT staleness.a FROM readings staleness",
        "SELECT * FROM staleness",
        "SELECT * FROM staleness s",
        "SELECT staleness - 5 s FROM readings",
        "SELECT a FROM readings ORDER BY staleness - 5",
        "SELECT version, answered, leader, collection, replica, node, info FROM version",
        "CREATE TABLE staleness (staleness INT, version INT, answered INT, collection INT, replica INT, node INT, info INT)",
        "INSERT INTO readings (staleness, version) VALUES (1, 2)",
        "UPDATE readings SET staleness = 5, version = 3",
        "DEFINE COLLECTION collection",
    ] {
        assert!(one(text).tails.is_empty(), "{text}");
    }
    assert_eq!(
        bound("SELECT staleness FROM readings staleness STALENESS 5m"),
        Some(Duration::from_mins(5))
    );
    assert_eq!(
        bound("SELECT * FROM staleness STALENESS 5m"),
        Some(Duration::from_mins(5))
    );
    assert_eq!(
        bound("SELECT a FROM r ORDER BY staleness STALENESS 5m"),
        Some(Duration::from_mins(5))
    );
}

#[test]
fn s12_answered_by_any_is_the_same_as_nothing() {
    let said = one("SELECT * FROM prices ANSWERED BY ANY")
        .tails
        .resolve(&[])
        .expect("tails");
    let silent = one("SELECT * FROM prices").tails.resolve(&[]).expect("tails");
    assert_eq!(said, silent);
}

#[test]
fn s14_any_other_word_is_refused_and_echoed() {
    for word in [
        "MASTER",
        "FOLLOWER",
        "leaderr",
        "Primary",
        "\"leader\"",
        "'leader'",
        "7",
        "$1",
        "(",
        "ANYONE",
        "leader_1",
    ] {
        let text = format!("SELECT * FROM accounts ANSWERED BY {word}");
        let error = refused(&text);
        assert!(error.to_string().contains(word), "{text}: {error}");
        assert_eq!(pointed_at(&text, &error), word);
    }
    for word in ["MASTER", "PRIMARY", "leaderr", "LEEDER", "laeder"] {
        let help = refused(&format!("SELECT 1 ANSWERED BY {word}")).help().expect("help");
        assert!(help.contains("LEADER") && !help.contains("ANY"), "{word}: {help}");
    }
}

#[test]
fn s16_both_clauses_compose_in_either_order() {
    for text in [
        "SELECT * FROM accounts WHERE id = 1 STALENESS 30s ANSWERED BY LEADER;",
        "SELECT * FROM accounts WHERE id = 1 ANSWERED BY LEADER STALENESS 30s;",
    ] {
        let tails = one(text).tails;
        assert_eq!(
            tails.staleness.map(|t| t.value),
            Some(SpanValue::Span(Duration::from_secs(30))),
            "{text}"
        );
        assert_eq!(tails.answered_by.map(|t| t.value), Some(AnsweredBy::Leader), "{text}");
    }
}

#[test]
fn s23_answered_is_not_reserved_and_opens_only_before_by() {
    for text in [
        "SELECT answered FROM tickets",
        "SELECT answered AS by FROM tickets",
        "SELECT * FROM answered",
        "SELECT * FROM tickets answered",
        "SELECT a FROM tickets ORDER BY answered",
    ] {
        assert!(one(text).tails.is_empty(), "{text}");
    }
    let tails = one("SELECT answered FROM tickets ORDER BY answered ANSWERED BY LEADER").tails;
    assert_eq!(tails.answered_by.map(|t| t.value), Some(AnsweredBy::Leader));
}

#[test]
fn context_is_a_function_and_other_double_colons_are_casts() {
    let expression = |text: &str| {
        let Body::Query(query) = one(text).body else {
            panic!("a query")
        };
        let ast::Statement::Query(query) = *query else {
            panic!("a query")
        };
        let ast::SetExpr::Select(select) = *query.body else {
            panic!("a select")
        };
        match select.projection.into_iter().next() {
            Some(ast::SelectItem::UnnamedExpr(expr)) => expr,
            other => panic!("{other:?}"),
        }
    };
    for text in ["RETURN session::context()", "SELECT Session :: CONTEXT ( )"] {
        assert!(
            matches!(expression(text), ast::Expr::Function(f) if f.name.to_string() == "session.context"),
            "{text}"
        );
    }
    for text in [
        "SELECT x::text",
        "SELECT session::text",
        "SELECT session::varchar(10)",
        "SELECT context::int FROM session",
    ] {
        assert!(matches!(expression(text), ast::Expr::Cast { .. }), "{text}");
    }
}
