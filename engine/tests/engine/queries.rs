//! Queries: answers PostgreSQL is known to give, and what is ours.

use candor_engine::Param;

use crate::db::{Answer, Db};
use crate::rows;

/// Runs queries and compares each with its one value.
fn check(pairs: &[(&str, &str)]) {
    let mut db = Db::new();
    for (expression, expected) in pairs {
        assert_eq!(
            db.run(&format!("SELECT {expression}")),
            rows![[expected]],
            "{expression}"
        );
    }
}

#[test]
fn expressions_answer_as_postgresql_does() {
    check(&[
        ("1 + 1", "2"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("2.5 * 2", "5.0"),
        ("1.5::int + CAST(2.4 AS BIGINT)", "4"),
        ("(-1.5)::int", "-2"),
        ("1.25::numeric(4,2)::int", "1"),
        ("mod(7, 3)", "1"),
        ("'a' || 'b' || NULL IS NULL", "true"),
        ("coalesce(NULL, 3)", "3"),
        ("nullif(1, 1) IS NULL", "true"),
        ("NULL = NULL IS NULL", "true"),
        ("1 IN (2, NULL) IS NULL", "true"),
        ("'5'::int + 1", "6"),
        ("CAST('1998-12-01' AS DATE) - INTERVAL '90' DAY", "1998-09-02T00:00:00"),
        ("date '2024-01-31' + interval '1 month'", "2024-02-29T00:00:00"),
        ("extract(year FROM date '2024-05-06')", "2024"),
        ("substring('hello' FROM 2 FOR 3)", "ell"),
        ("position('l' IN 'hello')", "3"),
        ("upper('straße')", "STRASSE"),
        ("length('é')", "1"),
        ("'abc' LIKE 'a%c'", "true"),
        ("'abc' ~ '^a.c$'", "true"),
        ("CASE WHEN 1 > 2 THEN 'x' ELSE 'y' END", "y"),
        ("(SELECT max(v) FROM (VALUES (1), (3)) AS t(v))", "3"),
        ("count(*) FROM (VALUES (1), (NULL)) AS t(v)", "2"),
        ("count(v) FROM (VALUES (1), (NULL)) AS t(v)", "1"),
        ("sum(v) IS NULL FROM (VALUES (1)) AS t(v) WHERE false", "true"),
        (
            "string_agg(v, ',' ORDER BY v DESC) FROM (VALUES ('a'), ('b')) AS t(v)",
            "b,a",
        ),
        ("\"Mixed\" FROM (SELECT 1 AS \"Mixed\") AS t", "1"),
        ("mixed FROM (SELECT 1 AS MIXED) AS t", "1"),
        ("now()", "2024-05-06T07:08:09Z"),
        ("current_date", "2024-05-06"),
        (
            "timestamp '2024-01-01 00:00:00' + interval '1 second'",
            "2024-01-01T00:00:01",
        ),
    ]);
}

#[test]
fn columns_may_share_a_name() {
    let mut db = Db::new();
    let answer = db
        .run_with(
            "SELECT v, v, v AS x, v + 1 AS x, NULL, NULL FROM (VALUES (1)) AS t(v)",
            &[],
        )
        .expect("runs");
    assert_eq!(answer.columns(), ["v", "v", "x", "x", "?column?", "?column?"]);
    assert_eq!(answer.rows, rows![[1, 1, 1, 2, "NULL", "NULL"]]);
    assert_eq!(db.run("SELECT 1::real, 1::float, 1"), rows![["1.0", "1.0", 1]]);
    let answer = db
        .run_with("SELECT *, v, t.v FROM (VALUES (1)) AS t(v) ORDER BY v", &[])
        .expect("runs");
    assert_eq!(
        (answer.columns(), answer.rows),
        (vec!["v".to_owned(); 3], rows![[1, 1, 1]])
    );
    db.run("CREATE TABLE two AS SELECT 1 AS a, 2 AS b; INSERT INTO two SELECT b, b FROM two");
    assert_eq!(db.run("SELECT * FROM two ORDER BY a"), rows![[1, 2], [2, 2]]);
}

#[test]
fn nulls_sort_last_unless_told() {
    let mut db = Db::new();
    let values = "(VALUES (2), (NULL), (1)) AS t(v)";
    assert_eq!(
        db.run(&format!("SELECT v FROM {values} ORDER BY v")),
        rows![[1], [2], ["NULL"]]
    );
    assert_eq!(
        db.run(&format!("SELECT v FROM {values} ORDER BY v DESC")),
        rows![["NULL"], [2], [1]]
    );
    assert_eq!(
        db.run(&format!("SELECT v FROM {values} ORDER BY v NULLS FIRST")),
        rows![["NULL"], [1], [2]]
    );
}

#[test]
fn integers_never_wrap_and_zero_never_divides() {
    let mut db = Db::new();
    db.run("CREATE TABLE i (s SMALLINT, i INT, b BIGINT, z INT, d NUMERIC(10,2), f DOUBLE PRECISION)");
    db.run("INSERT INTO i VALUES (32767, 2147483647, 9223372036854775807, 0, 0, 0)");
    for expression in [
        "i + i",
        "s * s * s",
        "b + 1",
        "b * 2",
        "-b - 2",
        "b - -1",
        "-(-b - 1)",
        "9223372036854775807 + 1",
        "sum(b) + 0 FROM (SELECT b FROM i UNION ALL SELECT b FROM i) AS t",
        "sum(b) FROM (SELECT 1 AS g, b FROM i UNION ALL SELECT 1, b FROM i) AS t GROUP BY g",
        "sum(DISTINCT v) FROM (VALUES (9223372036854775807), (1)) AS t(v)",
        "sum(v) OVER (ORDER BY v) FROM (VALUES (9223372036854775807), (1)) AS t(v)",
        "CAST(b AS INT)",
        "b::smallint",
    ] {
        let from = if expression.contains(" FROM ") { "" } else { " FROM i" };
        let error = db.fail(&format!("SELECT {expression}{from}"));
        let code = error.code().as_str();
        assert!(
            code == "arithmetic" || (expression.contains("AS INT") || expression.contains("::")) && code == "bad-value",
            "{expression}: {error:?}"
        );
    }
    for expression in [
        "1 / z",
        "b % z",
        "1 / 0",
        "1 % 0",
        "d / d",
        "1.0::numeric(4,2) / d",
        "sum(i) / sum(z)",
    ] {
        let error = db.fail(&format!("SELECT {expression} FROM i"));
        assert_eq!(error.to_string(), "division by zero", "{expression}");
        assert_eq!(error.to_body().sqlstate, "22012");
    }
    assert_eq!(db.run("SELECT 1 FROM i WHERE z <> 0 AND 1 / z > 0"), rows![]);
    assert_eq!(
        db.run("SELECT CASE WHEN z = 0 THEN 0 ELSE 1 / z END, i::bigint + i, -i, s + 1, sum(i) OVER () FROM i"),
        rows![[0, 4_294_967_294_i64, -2_147_483_647, 32_768, 2_147_483_647]]
    );
    assert_eq!(
        db.run_with("SELECT i - 1, -i FROM i", &[]).expect("runs").columns(),
        ["?column?", "?column?"]
    );
    assert_eq!(
        db.run("SELECT -9223372036854775808, -(5), - -5"),
        rows![["-9223372036854775808", -5, 5]]
    );
    assert_eq!(
        db.run("SELECT NULL::float / f, f / 2, 7.5 % 2 FROM i"),
        rows![["NULL", "0.0", "1.5"]]
    );
    // Checked operators are as nullable as the plain ones: aggregates compare schemas.
    db.run("CREATE TABLE whole (n INT NOT NULL, f DOUBLE PRECISION NOT NULL, d NUMERIC(6,2) NOT NULL)");
    db.run("INSERT INTO whole VALUES (1, 2.5, 2.5), (2, 0.5, 2.49)");
    let sums = "SELECT sum(n + 1), sum(-n), sum(f::int), sum(n / f), sum(CAST(d AS BIGINT) * n), count(*) FROM whole";
    assert_eq!(db.run(sums), rows![[5, -3, 2, 4.4, 7, 2]]);
    assert_eq!(
        db.run("SELECT n * 2 AS k, sum(n) FROM whole GROUP BY n * 2 ORDER BY n * 2 DESC"),
        rows![[4, 2], [2, 1]]
    );
    db.fail("UPDATE i SET i = i + 1");
    db.fail("UPDATE i SET s = s + 1");
    assert_eq!(db.run("SELECT s, i FROM i"), rows![[32_767, 2_147_483_647]]);
}

#[test]
fn session_functions_answer_and_casts_stay_casts() {
    let mut db = Db::new();
    assert_eq!(
        db.run("RETURN session::context()"),
        rows![["{node: n1, namespace: main, database: main}"]]
    );
    assert_eq!(
        db.run("SELECT SESSION::Context()"),
        rows![["{node: n1, namespace: main, database: main}"]]
    );
    assert_eq!(
        db.run("SELECT current_database(), 5::text || 'x', version() LIKE 'Candor %'"),
        rows![["main", "5x", "true"]]
    );
    assert_eq!(
        db.run("SELECT session::int FROM (SELECT '7' AS session) AS t"),
        rows![[7]]
    );
}

#[test]
fn parameters_stand_for_literals() {
    let mut db = Db::new();
    db.run("CREATE TABLE p (id BIGINT PRIMARY KEY, t TEXT, d DATE, n NUMERIC(20,4), f DOUBLE PRECISION, b BYTEA, y BOOLEAN)");
    let params = [
        Param::Int(-5),
        Param::Text("it's".to_owned()),
        Param::Text("2024-02-29".to_owned()),
        Param::Number("1234567890123456.7891".to_owned()),
        Param::Float(0.1),
        Param::Bytes(vec![0, 255]),
        Param::Bool(true),
        Param::Null,
    ];
    db.run_with(
        "INSERT INTO p (id, t, d, n, f, y) VALUES ($1, $2, $3, $4, $5, $7), (1, $8, $8, $8, $8, $8)",
        &params,
    )
    .expect("inserts");
    db.run_with("UPDATE p SET b = $6 WHERE id = $1", &params)
        .expect("updates");
    let answer = db
        .run_with("SELECT t, d, n, f, b, y FROM p WHERE id = $1", &params)
        .expect("reads");
    assert_eq!(
        answer.rows,
        rows![["it's", "2024-02-29", "1234567890123456.7891", 0.1, "00ff", true]]
    );
    let answer = db.run_with(
        "SELECT id FROM p WHERE d = $3 AND t = $2 AND y = $7 LIMIT $9",
        &[&params[..], &[Param::Int(3)]].concat(),
    );
    assert_eq!(answer.expect("reads").rows, rows![[-5]]);
    for script in ["SELECT $9", "SELECT * FROM p WHERE id = $9"] {
        let error = db.run_with(script, &params).expect_err(script);
        assert_eq!(error.code().as_str(), "bad-parameter", "{error}");
    }
}

#[test]
fn point_reads_answer_what_a_plan_answers() {
    let mut db = Db::new();
    db.run("CREATE TABLE p (a INT, b TEXT, c INT DEFAULT 1, PRIMARY KEY (b, a))");
    db.run("INSERT INTO p VALUES (1, 'x', 10), (2, 'x', 20), (1, 'y', 30)");
    for (short, long) in [
        (
            "SELECT * FROM p WHERE a = 1 AND b = 'x'",
            "SELECT * FROM p WHERE a + 0 = 1 AND b = 'x'",
        ),
        (
            "SELECT c AS z, b FROM main.p AS q WHERE q.b = 'y' AND (q.a = 1)",
            "SELECT c AS z, b FROM p AS q WHERE b = 'y' AND a < 2",
        ),
        ("SELECT c FROM p WHERE 'x' = b AND 3 = a", "SELECT c FROM p WHERE false"),
        (
            "SELECT c FROM p WHERE a = -1 AND b = 'x'",
            "SELECT c FROM p WHERE false",
        ),
        (
            "SELECT c, a, b FROM p WHERE b IN ('y', 'x', 'z', 'y') AND a IN (1, 2, 1)",
            "SELECT c, a, b FROM p WHERE a < 3 AND b > 'w'",
        ),
        (
            "SELECT c FROM p WHERE a IN (2) AND b = 'x'",
            "SELECT c FROM p WHERE c = 20",
        ),
        (
            "SELECT c FROM p WHERE a IN (1, NULL) AND b = 'x'",
            "SELECT c FROM p WHERE c = 10",
        ),
        (
            "SELECT c FROM p WHERE a NOT IN (1, 5) AND b = 'x'",
            "SELECT c FROM p WHERE c = 20",
        ),
        // Not of the form, so planned: the same answer all the same.
        (
            "SELECT c FROM p WHERE a = 1.5 AND b = 'x'",
            "SELECT c FROM p WHERE false",
        ),
        (
            "SELECT c FROM p WHERE a = '1' AND b = 'x'",
            "SELECT c FROM p WHERE c = 10",
        ),
        (
            "SELECT c FROM p WHERE a = 1 AND a = 2 AND b = 'x'",
            "SELECT c FROM p WHERE false",
        ),
        (
            "SELECT c FROM p WHERE a = 1 AND b = NULL",
            "SELECT c FROM p WHERE false",
        ),
        (
            "SELECT c FROM p WHERE a = 99999999999 AND b = 'x'",
            "SELECT c FROM p WHERE false",
        ),
    ] {
        let short = db
            .run_with(short, &[])
            .unwrap_or_else(|error| panic!("{short}: {error}"));
        let long = db.run_with(long, &[]).unwrap_or_else(|error| panic!("{long}: {error}"));
        let sorted = |answer: &Answer| {
            let mut rows = answer.rows.clone();
            rows.sort();
            rows
        };
        assert_eq!(sorted(&short), sorted(&long));
        assert_eq!(short.columns(), long.columns());
    }
    let plan = db.run("EXPLAIN SELECT c FROM p WHERE a IN (1, 2) AND b = 'x' AND c > 5");
    assert!(format!("{plan:?}").contains("KeyLookup: p, keys=2"), "{plan:?}");
    assert_eq!(
        db.run("SELECT c FROM p WHERE a IN (1, 2, 1) AND b = 'x' ORDER BY c"),
        rows![[10], [20]]
    );
    assert_eq!(db.run("SELECT c FROM p WHERE a = 1 AND b = 'x' AND c > 10"), rows![]);
}

/// The same text again is the same question about what is there now, whatever was kept of it.
#[test]
fn a_statement_that_is_asked_again_is_answered_anew() {
    let mut db = Db::new();
    db.run("CREATE TABLE a (id INT PRIMARY KEY, n INT)");
    db.run("CREATE VIEW v AS SELECT id, n FROM a WHERE n > 0");
    let (rows, view) = (
        "SELECT id, n * 2 FROM a WHERE n > 0 ORDER BY id",
        "SELECT count(*) FROM v",
    );
    let pairs = "SELECT x.id FROM a x WHERE EXISTS (SELECT 1 FROM a y WHERE y.n = x.n AND y.id <> x.id) ORDER BY 1";
    assert_eq!(
        (db.run(rows), db.run(view), db.run(pairs)),
        (rows![], rows![[0]], rows![])
    );
    db.run("INSERT INTO a VALUES (1, 5), (2, 5)");
    let two = (rows![[1, 10], [2, 10]], rows![[2]], rows![[1], [2]]);
    assert_eq!((db.run(rows), db.run(view), db.run(pairs)), two);
    assert_eq!((db.run(rows), db.run(view), db.run(pairs)), two);

    // Other rows under the same definitions.
    db.run("INSERT INTO a VALUES (3, 7)");
    let three = (rows![[1, 10], [2, 10], [3, 14]], rows![[3]], rows![[1], [2]]);
    assert_eq!((db.run(rows), db.run(view), db.run(pairs)), three);
    db.run("DELETE FROM a WHERE id = 3");
    assert_eq!((db.run(rows), db.run(view), db.run(pairs)), two);

    // What an open transaction wrote is seen by it, and by nobody afterwards.
    db.run("BEGIN");
    db.run("DELETE FROM a WHERE id = 1");
    assert_eq!(
        (db.run(rows), db.run(view), db.run(pairs)),
        (rows![[2, 10]], rows![[1]], rows![])
    );
    db.run("ROLLBACK");
    assert_eq!((db.run(rows), db.run(view), db.run(pairs)), two);

    // Other definitions, another database, other parameters.
    db.run("CREATE OR REPLACE VIEW v AS SELECT 1 AS one WHERE false");
    assert_eq!(db.run(view), rows![[0]]);
    db.run("ALTER TABLE a ALTER COLUMN n TYPE BIGINT");
    db.run("UPDATE a SET n = 5000000000 WHERE id = 2");
    assert_eq!(db.run(rows), rows![[1, 10], [2, 10_000_000_000_i64]]);
    db.run("DEFINE DATABASE other");
    db.run("CREATE TABLE other.a (id INT PRIMARY KEY, n INT)");
    db.database = "other".to_owned();
    assert_eq!(db.run(rows), rows![]);
    db.database = "main".to_owned();
    let above = "SELECT id FROM a WHERE n > $1 ORDER BY id";
    for (bound, expected) in [
        (0, rows![[1], [2]]),
        (5, rows![[2]]),
        (5, rows![[2]]),
        (0, rows![[1], [2]]),
    ] {
        let answer = db.run_with(above, &[Param::Int(bound)]).expect("runs");
        assert_eq!(answer.rows, expected, "above {bound}");
    }
    db.run("DROP TABLE a");
    assert_eq!(db.fail(rows).code().as_str(), "unknown-collection");
}

#[test]
fn what_asks_for_the_instant_or_for_chance_is_never_kept() {
    let mut db = Db::new();
    db.run("CREATE TABLE a (id INT PRIMARY KEY, t TIMESTAMP)");
    db.run("INSERT INTO a VALUES (1, '2024-05-06'), (2, '2030-01-01')");
    db.run("CREATE VIEW past AS SELECT id FROM a WHERE t < now()");
    let asked = [
        "SELECT id FROM a WHERE t < now() ORDER BY id",
        "SELECT id FROM a WHERE t::date <= current_date ORDER BY id",
        "SELECT id FROM past ORDER BY id",
    ];
    for query in asked.into_iter().chain(asked) {
        assert_eq!(db.run(query), rows![[1]], "{query}");
    }
    // Ten years later.
    db.now_micros += 3_652 * 86_400 * 1_000_000;
    for query in asked {
        assert_eq!(db.run(query), rows![[1], [2]], "{query}");
    }
    let random = "SELECT random() FROM a";
    assert_ne!(db.run(random), db.run(random));
    let limited = "SELECT id FROM a ORDER BY id LIMIT (SELECT count(*) FROM a WHERE id < 2)";
    assert_eq!((db.run(limited), db.run(limited)), (rows![[1]], rows![[1]]));
    db.run("DELETE FROM a WHERE id = 1");
    assert_eq!(db.run(limited), rows![]);
}

#[test]
fn older_versions_stay_readable() {
    let mut db = Db::new();
    db.run("CREATE TABLE v (id INT PRIMARY KEY, n INT)");
    db.run("INSERT INTO v VALUES (1, 1)");
    let first = db.version();
    db.run("UPDATE v SET n = 2");
    let second = db.version();
    db.run("DROP TABLE v");
    assert_eq!(db.run_at("SELECT n FROM v WHERE id = 1", first), rows![[1]]);
    assert_eq!(db.run_at("SELECT n FROM v", second), rows![[2]]);
    assert_eq!(db.fail("SELECT n FROM v").code().as_str(), "unknown-collection");
}

#[test]
fn views_information_schema_and_explain() {
    let mut db = Db::new();
    db.run("CREATE TABLE base (id INT PRIMARY KEY, v TEXT NOT NULL)");
    db.run("INSERT INTO base VALUES (1, 'a'), (2, 'b')");
    db.run("CREATE VIEW one AS SELECT id AS key, v FROM base WHERE id < 2");
    db.run("CREATE VIEW two (k, upper_v) AS SELECT key, upper(v) FROM one");
    assert_eq!(
        db.run("SELECT t.*, b.v FROM two t JOIN base b ON b.id = t.k"),
        rows![[1, "A", "a"]]
    );
    db.run("CREATE OR REPLACE VIEW one AS SELECT id AS key, v FROM base");
    assert_eq!(db.run("SELECT count(*) FROM two"), rows![[2]]);
    assert_eq!(
        db.run("SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1"),
        rows![["base", "BASE TABLE"], ["one", "VIEW"], ["two", "VIEW"]]
    );
    assert_eq!(
        db.run("SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 'base' ORDER BY 1"),
        rows![["id", "NO"], ["v", "NO"]]
    );
    let error = db.fail("DROP TABLE base");
    assert!(error.to_string().contains("because the view `one` needs it"), "{error}");
    db.run("DROP TABLE base CASCADE");
    assert_eq!(db.fail("SELECT * FROM two").code().as_str(), "unknown-collection");

    db.run("CREATE TABLE e (id INT PRIMARY KEY, v INT)");
    db.run("INSERT INTO e SELECT value, value FROM generate_series(1, 100) AS n(value)");
    let text = format!("{:?}", db.run("EXPLAIN ANALYZE SELECT v FROM e WHERE v > 50"));
    assert!(text.contains("Scan: e") && text.contains("output_rows=50"), "{text}");
    let text = format!("{:?}", db.run("EXPLAIN DELETE FROM e WHERE id = 3"));
    assert!(text.contains("KeyLookup: e, keys=1"), "{text}");
    assert_eq!(db.run("SELECT count(*) FROM e"), rows![[100]]);
}

#[test]
fn joins_windows_and_recursion_run() {
    let mut db = Db::new();
    db.run("CREATE TABLE a (id INT PRIMARY KEY, p INT)");
    db.run("INSERT INTO a VALUES (1, NULL), (2, 1), (3, 1), (4, 2)");
    let tree = "WITH RECURSIVE up AS (SELECT id, p, 0 AS depth FROM a WHERE p IS NULL
                UNION ALL SELECT a.id, a.p, up.depth + 1 FROM a JOIN up ON a.p = up.id) SELECT id, depth FROM up ORDER BY id";
    assert_eq!(db.run(tree), rows![[1, 0], [2, 1], [3, 1], [4, 2]]);
    let ranks = "SELECT id, rank() OVER (ORDER BY p NULLS FIRST), lag(id) OVER (ORDER BY id) FROM a ORDER BY id";
    assert_eq!(db.run(ranks), rows![[1, 1, "NULL"], [2, 2, 1], [3, 2, 2], [4, 4, 3]]);
    let outer = "SELECT a.id, b.id FROM a LEFT JOIN a AS b ON b.p = a.id AND b.id > 2 ORDER BY 1, 2";
    assert_eq!(db.run(outer), rows![[1, 3], [2, 4], [3, "NULL"], [4, "NULL"]]);
    assert_eq!(
        db.run("SELECT id FROM a EXCEPT SELECT p FROM a ORDER BY id"),
        rows![[3], [4]]
    );
    assert_eq!(
        db.run("SELECT id FROM a ORDER BY id OFFSET 1 FETCH FIRST 2 ROWS ONLY"),
        rows![[2], [3]]
    );
}

#[test]
fn large_tables_are_read_in_parallel_and_whole() {
    let mut db = Db::new();
    db.run("CREATE TABLE big (id BIGINT PRIMARY KEY, g INT)");
    for part in 0..10_i64 {
        let (first, last) = (part * 20_000, part * 20_000 + 19_999);
        db.run(&format!(
            "INSERT INTO big SELECT value, CAST(value % 7 AS INT) FROM generate_series({first}, {last}) AS s(value)"
        ));
    }
    let text = format!("{:?}", db.run("EXPLAIN SELECT g, count(*) FROM big GROUP BY g"));
    assert!(text.contains("partitions=2"), "{text}");
    assert_eq!(
        db.run("SELECT count(*), sum(id), min(id), max(id) FROM big"),
        rows![[200_000, 19_999_900_000_i64, 0, 199_999]]
    );
    assert_eq!(
        db.run("SELECT count(*) FROM (SELECT * FROM big LIMIT 12345) AS t"),
        rows![[12_345]]
    );
    assert_eq!(
        db.run("SELECT g, count(*) FROM big WHERE g < 2 GROUP BY g ORDER BY g"),
        rows![[0, 28_572], [1, 28_572]]
    );
    assert_eq!(
        db.run_with("DELETE FROM big WHERE g = 3", &[])
            .expect("runs")
            .rows_affected,
        28_571
    );
    assert_eq!(db.run("SELECT count(*) FROM big"), rows![[171_429]]);
}
