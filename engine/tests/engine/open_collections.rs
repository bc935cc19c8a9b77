//! Open collections: columns come with the rows.

use crate::db::Db;
use crate::rows;

#[test]
fn the_example_reads_answer_on_an_empty_node() {
    let mut db = Db::new();
    for name in ["orders", "events", "accounts", "prices", "readings", "tickets"] {
        db.run(&format!("DEFINE COLLECTION {name}"));
    }
    for script in [
        "SELECT * FROM orders",
        "SELECT * FROM events WHERE at > 0",
        "SELECT * FROM accounts WHERE id = 1",
        "SELECT * FROM prices",
        "SELECT staleness FROM readings",
        "SELECT answered FROM tickets",
    ] {
        assert_eq!(db.run(script), rows![], "{script}");
    }
}

#[test]
fn columns_grow_with_rows_and_the_first_value_sets_the_type() {
    let mut db = Db::new();
    db.run("DEFINE COLLECTION orders");
    db.run("INSERT INTO orders (id, at, note) VALUES (1, 100, 'first'), (2, NULL, NULL)");
    db.run("INSERT INTO orders (id, total, paid, never) VALUES (3, 9.5, true, NULL)");
    let answer = db.run_with("SELECT * FROM orders ORDER BY id", &[]).expect("reads");
    assert_eq!(answer.columns(), ["id", "at", "note", "total", "paid"]);
    assert_eq!(
        answer.rows,
        rows![
            [1, 100, "first", "NULL", "NULL"],
            [2, "NULL", "NULL", "NULL", "NULL"],
            [3, "NULL", "NULL", 9.5, true]
        ]
    );
    for (script, message) in [
        (
            "INSERT INTO orders (id, at) VALUES (4, 5), (5, 'soon')",
            "row 2, column `at`: `soon` is not a value of type BIGINT",
        ),
        (
            "INSERT INTO orders (id, at) VALUES (4, 1.5)",
            "row 1, column `at`: 1.5 does not fit BIGINT without loss",
        ),
        (
            "INSERT INTO orders (id, paid) VALUES (4, 1)",
            "row 1, column `paid`: a number is not a BOOLEAN",
        ),
        (
            "INSERT INTO orders (id) VALUES ('x')",
            "row 1, column `id`: `x` is not a value of type BIGINT",
        ),
        (
            "INSERT INTO orders (at) VALUES (1)",
            "row 1: column `id` of `orders` must have a value, and NULL is none",
        ),
    ] {
        assert_eq!(db.fail(script).to_string(), message, "{script}");
    }
    db.run("INSERT INTO orders (id, at, due) SELECT 7, 8, DATE '2024-01-01'");
    assert_eq!(
        db.run("SELECT at, due FROM orders WHERE id = 7"),
        rows![[8, "2024-01-01"]]
    );
    db.run("UPDATE orders SET seen = true WHERE at = 8");
    assert_eq!(db.run("SELECT id FROM orders WHERE seen"), rows![[7]]);
    db.run("UPDATE orders SET ghost = 1 WHERE id = 99");
    let columns = db.run_with("SELECT * FROM orders", &[]).expect("reads").columns();
    assert!(!columns.contains(&"ghost".to_owned()), "{columns:?}");
}

#[test]
fn the_first_row_says_what_the_key_holds() {
    let mut db = Db::new();
    db.run("DEFINE COLLECTION a; INSERT INTO a (id) VALUES ('x'), ('10'); DEFINE COLLECTION b; INSERT INTO b (id) VALUES (9), (10)");
    assert_eq!(db.run("SELECT id FROM a ORDER BY id"), rows![["10"], ["x"]]);
    assert_eq!(db.run("SELECT id FROM b ORDER BY id"), rows![[9], [10]]);
    assert_eq!(db.run("SELECT id FROM b WHERE id = 10"), rows![[10]]);
    let error = db.fail("INSERT INTO b (id) VALUES (9)");
    assert_eq!(error.code().as_str(), "unique");
}

#[test]
fn unknown_columns_read_as_null_wherever_they_stand() {
    let mut db = Db::new();
    db.run("DEFINE COLLECTION o; INSERT INTO o (id, n) VALUES (1, 10), (2, 20); CREATE TABLE c (k INT, w TEXT); INSERT INTO c VALUES (1, 'one')");
    for (script, rows) in [
        ("SELECT ghost FROM o ORDER BY id", rows![["NULL"], ["NULL"]]),
        (
            "SELECT x.ghost, n FROM o AS x WHERE x.ghost IS NULL ORDER BY n",
            rows![["NULL", 10], ["NULL", 20]],
        ),
        ("SELECT id FROM o WHERE ghost = 'paid'", rows![]),
        ("SELECT id FROM o WHERE ghost > 5 OR n = 20", rows![[2]]),
        ("SELECT ghost, count(*) FROM o GROUP BY ghost", rows![["NULL", 2]]),
        ("SELECT count(ghost), max(n) FROM o", rows![[0, 20]]),
        (
            "SELECT coalesce(ghost, 'none') AS g FROM o WHERE id = 1",
            rows![["none"]],
        ),
        ("SELECT id FROM o ORDER BY ghost, id DESC", rows![[2], [1]]),
        (
            "SELECT o.id, c.w FROM o JOIN c ON c.k = o.id WHERE o.ghost IS NULL",
            rows![[1, "one"]],
        ),
        (
            "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.k = o.id AND o.ghost IS NULL)",
            rows![[1]],
        ),
        ("SELECT id FROM o WHERE id IN (SELECT ghost FROM o AS i)", rows![]),
    ] {
        assert_eq!(db.run(script), rows, "{script}");
    }
    let answer = db.run_with("SELECT ghost, x.other FROM o AS x", &[]).expect("reads");
    assert_eq!(answer.columns(), ["ghost", "other"]);
    for script in [
        "SELECT ghost FROM c",
        "SELECT c.ghost FROM o, c",
        "SELECT y.ghost FROM o AS x",
    ] {
        assert_eq!(db.fail(script).code().as_str(), "unknown-name", "{script}");
    }
    assert_eq!(
        db.run_with("DELETE FROM o WHERE ghost = 1", &[])
            .expect("runs")
            .rows_affected,
        0
    );
}

#[test]
fn sums_over_a_column_nobody_wrote_are_null() {
    let mut db = Db::new();
    db.run("DEFINE COLLECTION o; INSERT INTO o (id) VALUES (1)");
    assert_eq!(db.run("SELECT sum(total) FROM o"), rows![["NULL"]]);
    assert_eq!(db.run("SELECT total * 2 AS t FROM o"), rows![["NULL"]]);
}
