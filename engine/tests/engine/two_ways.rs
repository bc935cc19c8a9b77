//! Writes that are evaluated without a plan do what the same writes do with one: two databases run the same
//! statements, in one of them with a condition that needs a plan, and are the same after each.

use candor_engine::Param;

use crate::db::Db;

const TABLES: &str = "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, s VARCHAR(5), f DOUBLE PRECISION, d NUMERIC(8, 2),
        b BOOLEAN, day DATE, at TIMESTAMP, u TEXT UNIQUE, CHECK (n < 1000));
    INSERT INTO t VALUES (1, 1, 'a', 1.5, 1.25, true, '2024-02-29', '2024-02-29 10:00:00', 'one'),
        (2, 2, 'b', 2.5, 2.25, false, NULL, NULL, 'two'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CREATE TABLE pair (a BIGINT, b TEXT, n BIGINT NOT NULL, PRIMARY KEY (a, b));
    INSERT INTO pair VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3)";

/// What a statement did: the error, or the rows it returned, and all that is there afterwards.
fn run(db: &mut Db, sql: &str, params: &[Param]) -> String {
    let done = match db.run_with(sql, params) {
        Ok(answer) => format!("{:?}", answer.rows),
        Err(error) => format!("{:?}: {error}", error.code()),
    };
    let all = db.run("SELECT * FROM t ORDER BY id");
    let pairs = db.run("SELECT * FROM pair ORDER BY a, b");
    format!("{done}\n{all:?}\n{pairs:?}")
}

/// Runs `direct` in one database and `planned` in the other.
fn same(statements: &[(String, String)], params: &[Param]) {
    let (mut left, mut right) = (Db::new(), Db::new());
    left.run(TABLES);
    right.run(TABLES);
    for (direct, planned) in statements {
        let (one, other) = (run(&mut left, direct, params), run(&mut right, planned, params));
        assert_eq!(one, other, "{direct}\n{planned}");
    }
}

const SETS: [&str; 34] = [
    "n = 5",
    "n = n + 1",
    "n = n * 1000000000",
    "n = n / 0",
    "n = 2147483648",
    "n = 1000",
    "n = NULL",
    "n = '7'",
    "n = 'seven'",
    "n = 1.5",
    "n = DEFAULT",
    "n = -n, s = s || 'x'",
    "s = 'longer than five'",
    "s = upper(s)",
    "s = n",
    "f = f / 2",
    "f = n / 2",
    "f = 'NaN'",
    "d = d + 0.01",
    "d = d * 3 / 7",
    "d = 1234567.891",
    "b = NOT b",
    "b = n > 1",
    "b = 1",
    "day = day + INTERVAL '1 day'",
    "day = '2024-13-01'",
    "at = at + INTERVAL '90 minutes', day = at",
    "at = now()",
    "u = 'two'",
    "u = 'new', n = CASE WHEN n > 1 THEN 0 ELSE n END",
    "(n, s) = (9, 'nine')",
    "n = nothing",
    "n = t.n + id",
    "n = sum(n)",
];

#[test]
fn an_update_by_key_is_the_update_that_is_planned() {
    let mut statements = Vec::new();
    for set in SETS {
        for key in ["1", "3", "77", "-1"] {
            let update = format!("UPDATE t SET {set} WHERE id = {key}");
            statements.push((update.clone(), format!("{update} AND (SELECT true)")));
        }
    }
    for (table, condition) in [
        ("t AS x", "x.id = 1"),
        ("main.t", "1 = id"),
        ("t", "(id = 2)"),
        ("t", "id = 1 AND id = 2"),
        ("t", "id = 1.0"),
        ("t", "id = '1'"),
        ("t", "id = NULL"),
        ("t", "id = 1 AND n = 5"),
    ] {
        let update = format!("UPDATE {table} SET n = n + 2, id = id + 100 WHERE {condition}");
        statements.push((update.clone(), format!("{update} AND (SELECT true)")));
    }
    for (set, condition) in [
        ("n = n + 1", "a = 1 AND b = 'x'"),
        ("n = n + 1", "b = 'y' AND a = 1"),
        ("b = 'y'", "a = 1 AND b = 'x'"),
        ("b = 'y'", "a = 2 AND b = 'x'"),
        ("n = NULL", "a = 2 AND b = 'y'"),
        ("n = n + 1", "a = 1"),
    ] {
        let update = format!("UPDATE pair SET {set} WHERE {condition}");
        statements.push((update.clone(), format!("{update} AND (SELECT true)")));
    }
    same(&statements, &[]);
}

#[test]
fn a_delete_by_key_is_the_delete_that_is_planned() {
    let deletes = [
        "DELETE FROM t WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "DELETE FROM t AS x WHERE x.id = 1",
        "DELETE FROM t WHERE id = 99",
        "DELETE FROM t WHERE nothing = 1",
        "DELETE FROM pair WHERE a = 1 AND b = 'y'",
        "DELETE FROM pair WHERE a = 1",
    ];
    let planned = deletes.map(|delete| (delete.to_owned(), format!("{delete} AND (SELECT true)")));
    same(&planned, &[]);
}

#[test]
fn parameters_are_the_literals_that_stand_for_them() {
    let update = "UPDATE t SET n = $1, s = $2, d = $3 WHERE id = $4";
    let rows = [
        [Param::Int(4), Param::Text("p".into()), Param::Float(0.5), Param::Int(1)],
        [Param::Null, Param::Null, Param::Null, Param::Int(2)],
        [
            Param::Text("12".into()),
            Param::Int(3),
            Param::Text("1.5".into()),
            Param::Text("1".into()),
        ],
        [Param::Bool(true), Param::Text("p".into()), Param::Int(1), Param::Int(1)],
    ];
    for params in rows {
        same(&[(update.to_owned(), format!("{update} AND (SELECT true)"))], &params);
    }
}

#[test]
fn an_upsert_is_the_upsert_that_is_planned() {
    let mut statements = Vec::new();
    let rows = "(1, 8, 'q', 0.5, 0.25, NULL, '2024-01-01', NULL, 'eins'), (3, 7, 'r', 1, 2, true, NULL, NULL, NULL),
        (50, 6, 's', 1, 2, true, NULL, NULL, NULL)";
    for set in [
        "n = excluded.n",
        "n = t.n + excluded.n",
        "n = t.n / (excluded.n - 8)",
        "s = t.s || excluded.s, d = excluded.d",
        "u = 'two'",
        "n = n + 1",
        "id = t.id + 1000",
        "n = 5000",
        "b = NOT excluded.b, day = excluded.day, at = excluded.day",
        "n = DEFAULT, (s, f) = (excluded.s, t.f * 2)",
        "n = max(t.n)",
    ] {
        for condition in ["true", "excluded.n > 7", "t.n IS NULL", "t.n / 0 = 1"] {
            for returning in ["*", "id, n"] {
                let insert = format!("INSERT INTO t VALUES {rows} ON CONFLICT (id) DO UPDATE SET {set}");
                let listed = returning.replace("id", "(id)").replace('*', "t.*");
                statements.push((
                    format!("{insert} WHERE {condition} RETURNING {returning}"),
                    format!("{insert} WHERE {condition} AND (SELECT true) RETURNING {listed}"),
                ));
            }
        }
    }
    same(&statements, &[]);
}
