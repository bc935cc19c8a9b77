//! Writes touch exactly the rows they should: each shape of condition by hand, and thousands of random ones against a
//! model that knows nothing of SQL.

use std::collections::BTreeMap;

use crate::db::Db;
use crate::rows;

fn five() -> Db {
    let mut db = Db::new();
    db.run("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s TEXT)");
    db.run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd'), (5, NULL, 'e')");
    db.run("CREATE TABLE u (k BIGINT, x BIGINT)");
    db.run("INSERT INTO u VALUES (2, 200), (4, 400), (4, 401), (9, 900)");
    db
}

fn ids(db: &mut Db) -> Vec<String> {
    db.run("SELECT id FROM t ORDER BY id").into_iter().flatten().collect()
}

#[test]
fn conditions_with_subqueries_lose_no_row_too_many() {
    for (condition, left) in [
        ("id IN (SELECT k FROM u)", "1 3 5"),
        ("id NOT IN (SELECT k FROM u)", "2 4"),
        ("EXISTS (SELECT 1 FROM u WHERE u.k = t.id)", "1 3 5"),
        ("NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.id AND u.x > 400)", "4"),
        ("n > (SELECT avg(n) FROM t)", "1 2 5"),
        ("n = (SELECT max(x) FROM u WHERE k = t.id) / 10", "1 3 5"),
        ("false", "1 2 3 4 5"),
        ("NULL", "1 2 3 4 5"),
        ("n IS NULL", "1 2 3 4"),
        ("n <> 10", "1 5"),
        ("id = 3", "1 2 4 5"),
        ("id IN (1, 3, 7)", "2 4 5"),
        ("id = 3 OR id = 4", "1 2 5"),
        ("id = 3 AND s = 'x'", "1 2 3 4 5"),
        ("true", ""),
    ] {
        let mut db = five();
        let answer = db
            .run_with(&format!("DELETE FROM t WHERE {condition}"), &[])
            .expect(condition);
        let left: Vec<&str> = left.split_whitespace().collect();
        assert_eq!(ids(&mut db), left, "DELETE … WHERE {condition}");
        assert_eq!(
            answer.rows_affected as usize,
            5 - left.len(),
            "DELETE … WHERE {condition}"
        );

        let mut db = five();
        db.run(&format!("UPDATE t SET s = 'hit' WHERE {condition}"));
        let hit = db.run("SELECT id FROM t WHERE s = 'hit' ORDER BY id");
        let missed: Vec<String> = ids(&mut db)
            .into_iter()
            .filter(|id| !hit.iter().any(|row| row[0] == *id))
            .collect();
        assert_eq!(missed, left, "UPDATE … WHERE {condition}");
    }
}

#[test]
fn a_join_that_matches_twice_writes_once() {
    let mut db = five();
    let answer = db
        .run_with("UPDATE t SET n = u.x FROM u WHERE u.k = t.id RETURNING id", &[])
        .expect("runs");
    assert_eq!(answer.rows_affected, 2);
    assert_eq!(answer.rows.len(), 2);
    let four = db.run("SELECT n FROM t WHERE id = 4");
    assert!(four == rows![[400]] || four == rows![[401]], "{four:?}");
    let answer = db
        .run_with("DELETE FROM t USING u WHERE u.k = t.id", &[])
        .expect("runs");
    assert_eq!(answer.rows_affected, 2);
    assert_eq!(ids(&mut db), ["1", "3", "5"]);
}

#[test]
fn returning_shows_new_rows_or_the_old_ones_of_a_delete() {
    let mut db = five();
    assert_eq!(
        db.run("INSERT INTO t (id, s) VALUES (6, 'f') RETURNING *, id * 2 AS twice"),
        rows![[6, "NULL", "f", 12]]
    );
    assert_eq!(
        db.run("UPDATE t AS x SET n = x.n + 1 WHERE x.id = 1 RETURNING x.n, s"),
        rows![[11, "a"]]
    );
    assert_eq!(db.run("DELETE FROM t WHERE id = 1 RETURNING t.n"), rows![[11]]);
    assert_eq!(db.run("DELETE FROM t WHERE id = 1 RETURNING n"), rows![]);
}

#[test]
fn keyless_collections_tell_equal_rows_apart() {
    let mut db = Db::new();
    db.run("CREATE TABLE log (x INT)");
    db.run("INSERT INTO log VALUES (1), (1), (2)");
    assert_eq!(
        db.run_with("UPDATE log SET x = x + 1 WHERE x = 1", &[])
            .expect("runs")
            .rows_affected,
        2
    );
    assert_eq!(db.run("SELECT x, count(*) FROM log GROUP BY x"), rows![[2, 3]]);
    assert_eq!(
        db.run_with("DELETE FROM log WHERE x = 2", &[])
            .expect("runs")
            .rows_affected,
        3
    );
    assert_eq!(db.run("SELECT count(*) FROM log"), rows![[0]]);
    let names = db.run_with("SELECT * FROM log", &[]).expect("runs").columns();
    assert_eq!(names, ["x"], "the row id stays hidden");
}

#[test]
fn a_key_is_never_visible_twice() {
    let mut db = five();
    let before = db.version();
    for round in 0..50 {
        db.run(&format!("UPDATE t SET n = {round}"));
        db.run("UPDATE t SET id = id + 100 WHERE id = 1");
        db.run("UPDATE t SET id = id - 100 WHERE id = 101");
        assert_eq!(db.run("SELECT count(*), count(DISTINCT id) FROM t"), rows![[5, 5]]);
        assert_eq!(
            db.run("SELECT a.id FROM t a JOIN t b ON a.id = b.id GROUP BY a.id HAVING count(*) > 1"),
            rows![]
        );
        assert_eq!(db.run("SELECT id, n FROM t WHERE id = 1"), rows![[1, round]]);
    }
    assert_eq!(db.run_at("SELECT n FROM t WHERE id = 2", before), rows![[20]]);
    assert_eq!(db.run_at("SELECT sum(n) FROM t AS older", before), rows![[100]]);
}

#[test]
fn keys_that_exist_are_refused_or_resolved() {
    let mut db = five();
    let error = db.fail("INSERT INTO t VALUES (7, 1, 'x'), (3, 1, 'x')");
    assert_eq!(error.to_string(), "row 2: a row with the key (3) already exists in `t`");
    let error = db.fail("INSERT INTO t SELECT 8, 1, 'x' FROM u");
    assert_eq!(error.code().as_str(), "unique");
    assert_eq!(ids(&mut db).len(), 5);

    let answer = db.run_with(
        "INSERT INTO t VALUES (3, 0, 'x'), (7, 0, 'y'), (7, 0, 'z') ON CONFLICT DO NOTHING",
        &[],
    );
    assert_eq!(answer.expect("runs").rows_affected, 1);
    assert_eq!(
        db.run("SELECT s FROM t WHERE id IN (3, 7) ORDER BY id"),
        rows![["c"], ["y"]]
    );

    let script = "INSERT INTO t VALUES (3, 1, 'new'), (8, 8, 'fresh')
                  ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n, s = excluded.s WHERE t.n < 100 RETURNING id, n, s";
    let mut rows = db.run(script);
    rows.sort();
    assert_eq!(rows, rows![[3, 31, "new"], [8, 8, "fresh"]]);
    let error = db.fail("INSERT INTO t VALUES (9, 1, 'x'), (9, 2, 'y') ON CONFLICT (id) DO UPDATE SET n = 1");
    assert!(error.to_string().contains("a second time"), "{error}");
}

#[test]
fn insert_takes_rows_from_anywhere() {
    let mut db = five();
    db.run("CREATE TABLE w (a INT DEFAULT 7, b TEXT DEFAULT 'x' || 'y', c NUMERIC(10,2), d DATE, PRIMARY KEY (a))");
    db.run("INSERT INTO w DEFAULT VALUES");
    db.run("INSERT INTO w (c, a) VALUES (0.10, 1), (12345678.91, 2)");
    db.run("INSERT INTO w VALUES (3, DEFAULT, 1, '2024-02-29'), (4, NULL, NULL, DATE '2024-03-01' - INTERVAL '1 day')");
    db.run("INSERT INTO w (a) SELECT id + 10 FROM t WHERE n > 20");
    assert_eq!(
        db.run("SELECT * FROM w ORDER BY a"),
        rows![
            [1, "xy", "0.10", "NULL"],
            [2, "xy", "12345678.91", "NULL"],
            [3, "xy", "1.00", "2024-02-29"],
            [4, "NULL", "NULL", "2024-02-29"],
            [7, "xy", "NULL", "NULL"],
            [13, "xy", "NULL", "NULL"],
            [14, "xy", "NULL", "NULL"],
        ]
    );
    assert_eq!(
        db.run("UPDATE w SET b = DEFAULT, c = c * 2 WHERE a = 1 RETURNING b, c"),
        rows![["xy", "0.20"]]
    );
}

#[test]
fn truncate_empties() {
    let mut db = five();
    assert_eq!(db.run_with("TRUNCATE t, u", &[]).expect("runs").rows_affected, 9);
    assert_eq!(
        db.run("SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u)"),
        rows![[0]]
    );
}

/// A small generator: the tests need variety, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Rows of `m (id, n)` and what each statement should make of them.
type Model = BTreeMap<i64, i64>;

fn step(random: &mut Random, model: &mut Model) -> String {
    let low = random.below(30) as i64;
    let high = low + random.below(8) as i64;
    match random.below(6) {
        0 => {
            let n = random.below(100) as i64;
            model.entry(low).and_modify(|old| *old += n).or_insert(n);
            format!("INSERT INTO m VALUES ({low}, {n}) ON CONFLICT (id) DO UPDATE SET n = m.n + excluded.n")
        }
        1 => {
            model
                .iter_mut()
                .filter(|(id, _)| (low..=high).contains(*id))
                .for_each(|(_, n)| *n += 1);
            format!("UPDATE m SET n = n + 1 WHERE id BETWEEN {low} AND {high}")
        }
        2 => {
            model.retain(|id, _| !(low..=high).contains(id));
            format!("DELETE FROM m WHERE id IN (SELECT o.id FROM m AS o WHERE o.id BETWEEN {low} AND {high})")
        }
        3 => {
            let most = model.values().copied().max();
            model.retain(|_, n| Some(*n) != most);
            "DELETE FROM m WHERE n = (SELECT max(n) FROM m)".to_owned()
        }
        4 => {
            let other: Model = model.clone();
            model
                .iter_mut()
                .filter(|(id, _)| other.contains_key(&(*id + 1)))
                .for_each(|(id, n)| *n = other[&(*id + 1)]);
            "UPDATE m SET n = o.n FROM m AS o WHERE o.id = m.id + 1".to_owned()
        }
        _ => {
            let fresh: Vec<i64> = (low..=high).filter(|id| !model.contains_key(id)).collect();
            model.extend(fresh.into_iter().map(|id| (id, id * 3)));
            format!(
                "INSERT INTO m SELECT value, value * 3 FROM generate_series({low}, {high}) AS g(value)
                 WHERE NOT EXISTS (SELECT 1 FROM m WHERE m.id = g.value)"
            )
        }
    }
}

#[test]
fn random_writes_agree_with_a_model() {
    for seed in 1..=3 {
        let mut db = Db::new();
        db.run("CREATE TABLE m (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)");
        let mut random = Random(seed);
        let mut model = Model::new();
        for _ in 0..60 {
            let script = step(&mut random, &mut model);
            db.run(&script);
            let expected: Vec<Vec<String>> = model
                .iter()
                .map(|(id, n)| vec![id.to_string(), n.to_string()])
                .collect();
            assert_eq!(db.run("SELECT * FROM m ORDER BY id"), expected, "seed {seed}: {script}");
        }
    }
}
