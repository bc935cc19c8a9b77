//! Definitions hold, or are refused by name.

use crate::db::Db;
use crate::rows;

#[test]
fn constraints_hold() {
    let mut db = Db::new();
    db.run(
        "CREATE TABLE c (id INT PRIMARY KEY, email TEXT UNIQUE, age SMALLINT NOT NULL CHECK (age >= 0), low INT, high INT,
         code VARCHAR(3), CONSTRAINT ordered CHECK (low < high))",
    );
    db.run("INSERT INTO c VALUES (1, 'a@x', 5, 1, 2, 'abc'), (2, NULL, 0, NULL, 2, 'é')");
    for (script, message) in [
        (
            "INSERT INTO c (id) VALUES (3)",
            "row 1: column `age` of `c` must have a value, and NULL is none",
        ),
        (
            "INSERT INTO c (age) VALUES (3)",
            "row 1: column `id` of `c` must have a value, and NULL is none",
        ),
        (
            "INSERT INTO c (id, age) VALUES (3, 1), (4, -1)",
            "row 2: the row does not hold to the check `c_age_check` of `c`",
        ),
        (
            "UPDATE c SET low = 9 WHERE id = 1",
            "row 1: the row does not hold to the check `ordered` of `c`",
        ),
        (
            "UPDATE c SET age = NULL",
            "row 1: column `age` of `c` must have a value, and NULL is none",
        ),
        (
            "INSERT INTO c (id, age, code) VALUES (3, 1, 'abcd')",
            "row 1, column `code`: a text of 4 characters is too long for VARCHAR(3)",
        ),
        (
            "UPDATE c SET code = code || 'd' WHERE id = 1",
            "row 1, column `code`: a text of 4 characters is too long for VARCHAR(3)",
        ),
        (
            "INSERT INTO c (id, age) VALUES (3, 40000)",
            "row 1, column `age`: 40000 is out of range for SMALLINT",
        ),
        (
            "INSERT INTO c (id, age) SELECT 3, 1.5",
            "row 1, column `age`: 1.5 does not fit without loss into SMALLINT",
        ),
        (
            "INSERT INTO c (id, age) VALUES (3, '12x')",
            "row 1, column `age`: `12x` is not a value of type SMALLINT",
        ),
        (
            "INSERT INTO c (id, age) VALUES (3, true)",
            "row 1, column `age`: a BOOLEAN is not a value of type SMALLINT",
        ),
    ] {
        assert_eq!(db.fail(script).to_string(), message, "{script}");
    }
    let error = db.fail("INSERT INTO c (id, age, email) VALUES (3, 1, 'a@x')");
    assert!(error.to_string().contains("(email)"), "{error}");
    assert_eq!(db.run("SELECT count(*) FROM c"), rows![[2]]);
}

#[test]
fn what_is_not_enforced_is_refused_by_name() {
    let mut db = Db::new();
    db.run("CREATE TABLE parent (id INT PRIMARY KEY)");
    for (definition, word) in [
        ("a INT REFERENCES parent (b)", "`b`"),
        ("a TEXT REFERENCES parent (id)", "types that compare"),
        ("a INT, b INT, FOREIGN KEY (a, b) REFERENCES parent (id)", "points to 1"),
        ("a INT, b INT REFERENCES x (a)", "has exactly these columns"),
        ("a INT REFERENCES nowhere (id)", "nowhere"),
        (
            "a INT CONSTRAINT c UNIQUE, b INT CONSTRAINT c UNIQUE",
            "`c` already exists",
        ),
        ("a TEXT GENERATED ALWAYS AS IDENTITY", "BIGINT"),
        (
            "a INT, b INT GENERATED ALWAYS AS (random()) STORED",
            "not always the same",
        ),
        ("a SERIAL DEFAULT 5", "two defaults"),
        ("a INET", "INET"),
        ("a TEXT COLLATE \"C\"", "COLLATE"),
        ("a INT CHECK (a > (SELECT 1))", "subquery"),
        ("a INT DEFAULT (SELECT 1)", "subquery"),
        ("a INT CHECK (a + 1)", "not a condition"),
        ("a INT CHECK (b > 1)", "`b`"),
        ("a INT DEFAULT nonsense(1)", "nonsense"),
        ("a INT, a TEXT", "twice"),
        ("a INT PRIMARY KEY, b INT PRIMARY KEY", "two primary keys"),
        ("a INT, PRIMARY KEY (b)", "`b`"),
        ("a INT UNIQUE DEFERRABLE", "DEFERRABLE"),
        ("_row INT", "_row"),
    ] {
        let script = format!("CREATE TABLE x ({definition})");
        let Ok(_) = candor_parser::parse_script(&script) else {
            continue;
        };
        let error = db.fail(&script);
        assert!(error.to_string().contains(word), "{definition}: {error}");
    }
}

#[test]
fn names_are_taken_once_and_given_back() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (a INT); CREATE TABLE IF NOT EXISTS t (b TEXT); CREATE VIEW v AS SELECT 1 AS one");
    for script in [
        "CREATE TABLE t (a INT)",
        "CREATE TABLE v (a INT)",
        "CREATE VIEW t AS SELECT 1",
        "DEFINE COLLECTION T",
        "DEFINE DATABASE main",
    ] {
        assert_eq!(db.fail(script).code().as_str(), "already-exists", "{script}");
    }
    db.run("INSERT INTO t VALUES (1); DEFINE COLLECTION OVERWRITE t (c TEXT)");
    assert_eq!(db.run_with("SELECT * FROM t", &[]).expect("reads").columns(), ["c"]);
    db.run("DROP VIEW v; DROP TABLE t; DROP TABLE IF EXISTS t; REMOVE COLLECTION IF EXISTS t");
    assert_eq!(db.fail("DROP TABLE t").code().as_str(), "unknown-collection");
    db.run("CREATE TABLE \"T t\" (\"A b\" INT)");
    db.run("INSERT INTO \"T t\" VALUES (3)");
    assert_eq!(db.run("SELECT \"A b\" FROM main.\"T t\""), rows![[3]]);
    db.run("DEFINE DATABASE other; CREATE TABLE other.t (a INT); INSERT INTO other.t VALUES (5)");
    assert_eq!(db.run("SELECT a FROM other.t"), rows![[5]]);
    db.run("REMOVE DATABASE other");
    assert_eq!(
        db.fail("SELECT a FROM other.t").to_string(),
        "there is no database `other`"
    );
}

#[test]
fn create_table_as_keeps_types_and_rows() {
    let mut db = Db::new();
    db.run("CREATE TABLE s AS SELECT 1 AS a, 'x' AS b, 1.5 AS c, DATE '2024-01-01' AS d, CAST(2 AS NUMERIC(5,1)) AS e, NULL AS f, count(*) AS n FROM (VALUES (1)) AS t(v)");
    assert_eq!(
        db.run("SELECT * FROM s"),
        rows![[1, "x", 1.5, "2024-01-01", "2.0", "NULL", 1]]
    );
    db.run("INSERT INTO s (f) VALUES ('text')");
    assert_eq!(db.run("SELECT count(f) FROM s"), rows![[1]]);
    db.run("CREATE TABLE l AS SELECT ARRAY[1, 2] AS list");
    assert_eq!(db.run("SELECT list[2], cardinality(list) FROM l"), rows![[2, 2]]);
}

#[test]
fn defaults_are_evaluated_per_row_and_now_is_one_instant() {
    let mut db = Db::new();
    db.run("CREATE TABLE d (id INT PRIMARY KEY, r DOUBLE PRECISION DEFAULT random(), at TIMESTAMPTZ DEFAULT now(), on_day DATE DEFAULT current_date)");
    db.run("INSERT INTO d (id) VALUES (1), (2), (3)");
    assert_eq!(
        db.run("SELECT count(DISTINCT r), count(DISTINCT at) FROM d"),
        rows![[3, 1]]
    );
    assert_eq!(
        db.run("SELECT at, on_day FROM d WHERE id = 1"),
        rows![["2024-05-06T07:08:09Z", "2024-05-06"]]
    );
}

#[test]
fn rows_are_found_by_indexes() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT UNIQUE); CREATE INDEX ON t (a)");
    db.run("INSERT INTO t SELECT v, v % 10, 'b' || v FROM generate_series(1, 1000) AS g(v)");
    db.run("UPDATE t SET a = 3 WHERE id = 4; DELETE FROM t WHERE id = 13");
    for (condition, count) in [
        ("a = 3", 100),
        ("b = 'b7'", 1),
        ("a IN (3, 4)", 199),
        ("a = 3 AND b = 'b4'", 1),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(db.run(&query), rows![[count]], "{condition}");
        let plan = format!("{:?}", db.run(&format!("EXPLAIN {query}")));
        assert!(plan.contains("IndexLookup"), "{condition}: {plan}");
    }
    // Through an open transaction, which has ended rows and begun others.
    db.run("BEGIN; DELETE FROM t WHERE id = 23; INSERT INTO t VALUES (2000, 3, 'x')");
    assert_eq!(db.run("SELECT count(*) FROM t WHERE a = 3"), rows![[100]]);
    assert_eq!(db.run("SELECT id FROM t WHERE b = 'x'"), rows![[2000]]);
    db.run("ROLLBACK; DROP INDEX t_a_idx");
    let plan = format!("{:?}", db.run("EXPLAIN SELECT * FROM t WHERE a = 3"));
    assert!(!plan.contains("IndexLookup"), "{plan}");
}
