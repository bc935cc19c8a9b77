//! Errors say what is wrong, where, and what may have been meant.

use crate::db::Db;

/// The text an error points at.
fn pointed(script: &str, error: &candor_engine::EngineError) -> String {
    let span = error
        .span()
        .unwrap_or_else(|| panic!("{script}: {error} points nowhere"));
    script[span.start..span.start + span.length].to_owned()
}

#[test]
fn names_are_pointed_at_and_corrected() {
    let mut db = Db::new();
    db.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, total INT); DEFINE DATABASE shop; CREATE TABLE shop.carts (id INT)",
    );
    for (script, word, help) in [
        ("SELECT * FROM ordres", "ordres", "did you mean `orders`?"),
        (
            "SELECT 'é',\n  * FROM main.ordres",
            "main.ordres",
            "did you mean `orders`?",
        ),
        (
            "SELECT * FROM carts",
            "carts",
            "there is one in the database `shop`: write `shop.carts`",
        ),
        ("SELECT totl FROM orders", "totl", "did you mean `total`?"),
        (
            "SELECT id FROM orders;\nSELECT o.totl FROM orders AS o",
            "o.totl",
            "did you mean `total`?",
        ),
        ("SELECT id FROM orders ORDER BY totl", "totl", "did you mean `total`?"),
        (
            "SELECT count(*) FROM orders GROUP BY totl",
            "totl",
            "did you mean `total`?",
        ),
        ("DELETE FROM ordres", "ordres", "did you mean `orders`?"),
        ("UPDATE orders SET total = totl", "totl", "did you mean `total`?"),
    ] {
        let error = db.fail(script);
        assert_eq!(pointed(script, &error), word, "{script}: {error}");
        assert_eq!(error.to_body().help.as_deref(), Some(help), "{script}: {error}");
    }
    let error = db.fail("SELECT * FROM shpo.carts");
    assert_eq!(error.to_string(), "there is no database `shpo`: did you mean `shop`?");
    let error = db.fail("SELECT summ(total) FROM orders");
    assert_eq!(
        (error.code().as_str(), error.to_string().as_str()),
        ("unknown-name", "there is no function `summ`")
    );
    let error = db.fail("INSERT INTO orders (id, totl) VALUES (1, 2)");
    assert_eq!(error.to_string(), "there is no column `orders.totl`");
}

#[test]
fn statements_that_make_no_sense_say_why() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (a INT, b TEXT)");
    for (script, code) in [
        ("SELECT a, count(*) FROM t", "syntax"),
        ("SELECT t.a FROM t, t AS u WHERE b = 'x'", "syntax"),
        ("SELECT a FROM t UNION SELECT a, b FROM t", "syntax"),
        ("INSERT INTO t VALUES (1, 'x', 3)", "syntax"),
        ("INSERT INTO t (a, b) VALUES (1)", "syntax"),
        ("INSERT INTO t (a, a) VALUES (1, 2)", "syntax"),
        ("UPDATE t SET a = 1, a = 2", "syntax"),
        ("SELECT CAST('x' AS INT)", "bad-value"),
        ("SELECT (SELECT v FROM (VALUES (1), (2)) AS t(v))", "bad-value"),
        ("SELECT * FROM t FOR UPDATE", "unsupported"),
        (
            "MERGE INTO t USING t AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET nothing = 1",
            "unknown-name",
        ),
        ("INSERT INTO information_schema.tables VALUES (1)", "unknown-collection"),
    ] {
        // The parser may refuse it first, which is as good.
        if candor_parser::parse_script(script).is_ok() {
            let error = db.fail(script);
            assert_eq!(error.code().as_str(), code, "{script}: {error:?}");
        }
    }
    db.run("INSERT INTO t SELECT 1, 'x' FROM generate_series(1, 3)");
    let error = db.fail("SELECT (SELECT a FROM t), b FROM t");
    assert_eq!(error.to_body().sqlstate, "21000", "{error:?}");
}
