//! Statements of a transaction see what earlier ones wrote; nobody else does, until COMMIT.

use crate::db::Db;
use crate::rows;

#[test]
fn later_statements_see_earlier_ones() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)");
    let before = db.version();
    db.run(
        "BEGIN; INSERT INTO t VALUES (4, 40); UPDATE t SET n = n + 1 WHERE id IN (1, 4); DELETE FROM t WHERE id = 2",
    );
    assert_eq!(db.run("SELECT * FROM t ORDER BY id"), rows![[1, 11], [3, 30], [4, 41]]);
    assert_eq!(db.run("SELECT n FROM t WHERE id = 4"), rows![[41]]);
    assert_eq!(db.run("SELECT n FROM t WHERE id = 2"), rows![]);
    assert_eq!(
        db.run("SELECT count(*), sum(n) FROM t WHERE id = 1 OR id = 2"),
        rows![[1, 11]]
    );
    db.run("INSERT INTO t VALUES (2, 22); UPDATE t SET n = n * 2 WHERE n > 20; DELETE FROM t WHERE id = 4");
    assert_eq!(db.run("SELECT * FROM t ORDER BY id"), rows![[1, 11], [2, 44], [3, 60]]);
    assert_eq!(db.fail("INSERT INTO t VALUES (3, 0)").code().as_str(), "unique");
    assert_eq!(db.version(), before, "nothing is written before COMMIT");
    db.run("COMMIT");
    assert_eq!(db.run("SELECT * FROM t ORDER BY id"), rows![[1, 11], [2, 44], [3, 60]]);
    assert_eq!(db.version().0, before.0 + 1, "a transaction is one entry");
    assert_eq!(db.run_at("SELECT sum(n) FROM t AS old", before), rows![[60]]);
}

#[test]
fn rollback_leaves_nothing() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)");
    db.run("BEGIN; DELETE FROM t; CREATE TABLE u (a INT); INSERT INTO u VALUES (1); ROLLBACK");
    assert_eq!(db.run("SELECT * FROM t"), rows![[1]]);
    assert_eq!(db.fail("SELECT * FROM u").code().as_str(), "unknown-collection");
}

#[test]
fn definitions_and_keyless_rows_are_seen_too() {
    let mut db = Db::new();
    db.run("CREATE TABLE log (x INT); INSERT INTO log VALUES (1), (1)");
    db.run("BEGIN; INSERT INTO log VALUES (1), (2); UPDATE log SET x = x + 10 WHERE x = 1");
    assert_eq!(
        db.run("SELECT x, count(*) FROM log GROUP BY x ORDER BY x"),
        rows![[2, 1], [11, 3]]
    );
    db.run("DELETE FROM log WHERE x = 11; CREATE TABLE fresh (id INT PRIMARY KEY); INSERT INTO fresh VALUES (7)");
    db.run("CREATE VIEW seen AS SELECT id FROM fresh");
    assert_eq!(db.run("SELECT (SELECT count(*) FROM log), id FROM seen"), rows![[1, 7]]);
    db.run("DEFINE COLLECTION o; INSERT INTO o (id, a) VALUES (1, 'x'); INSERT INTO o (id, b) VALUES (2, 3)");
    assert_eq!(
        db.run("SELECT * FROM o ORDER BY id"),
        rows![[1, "x", "NULL"], [2, "NULL", 3]]
    );
    db.run("COMMIT");
    assert_eq!(
        db.run("SELECT * FROM o ORDER BY id"),
        rows![[1, "x", "NULL"], [2, "NULL", 3]]
    );
    assert_eq!(db.run("SELECT * FROM log"), rows![[2]]);
    assert_eq!(db.run("SELECT * FROM seen"), rows![[7]]);
}

#[test]
fn a_row_that_comes_and_goes_inside_leaves_no_trace() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE k (x INT)");
    db.run("BEGIN; INSERT INTO t VALUES (1), (2); DELETE FROM t; INSERT INTO t VALUES (2); INSERT INTO k VALUES (1); DELETE FROM k; COMMIT");
    assert_eq!(db.run("SELECT * FROM t"), rows![[2]]);
    assert_eq!(db.run("SELECT count(*) FROM k"), rows![[0]]);
}
