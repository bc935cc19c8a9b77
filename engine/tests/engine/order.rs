//! Rows that stand in segments come in the order of the key, and grouping by it relies on that: answers are those of an
//! expression on the key that nothing is known of.

use crate::db::{Db, Rows};

/// Each query twice: by the key, and by what is no column.
fn both_ways(db: &mut Db, query: &str) -> Rows {
    let by_key = db.run(&query.replace("{k}", "k"));
    let by_value = db.run(&query.replace("{k}", "(k + 0)"));
    assert_eq!(by_key, by_value, "{query}");
    by_key
}

fn answers(db: &mut Db) -> Vec<Rows> {
    let queries = [
        "SELECT count(*), sum(c), sum(c * c), sum(s) FROM (SELECT {k}, count(*) c, sum(v) s FROM t GROUP BY {k}) x",
        "SELECT count(*), sum(c) FROM (SELECT {k}, n, count(*) c FROM t WHERE v % 3 = 0 GROUP BY {k}, n) x",
        "SELECT sum(r * n) FROM (SELECT n, row_number() OVER (PARTITION BY {k} ORDER BY n DESC) r FROM t) x",
        "SELECT count(*) FROM (SELECT {k} AS x, n FROM t) a JOIN (SELECT {k} AS x, n FROM t) b ON a.x = b.x AND a.n < b.n",
        "SELECT count(*), sum(x) FROM (SELECT DISTINCT {k} AS x FROM t) y",
        "SELECT {k}, n FROM t ORDER BY {k} DESC, n LIMIT 5",
        "SELECT {k}, n FROM t ORDER BY {k}, n DESC LIMIT 5 OFFSET 70000",
    ];
    queries.iter().map(|query| both_ways(db, query)).collect()
}

#[test]
fn grouping_by_the_key_of_segments_is_grouping() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (k BIGINT, n INT, v BIGINT, PRIMARY KEY (k, n))");
    db.run(
        "INSERT INTO t SELECT k, n, k * 7 + n FROM generate_series(1, 60000) AS a(k), generate_series(1, 5) AS b(n)
         WHERE (k * 31 + n) % 4 > 0",
    );
    let in_memory = answers(&mut db);
    db.checkpoint();
    let plan = db.run("EXPLAIN SELECT k, count(*) FROM t GROUP BY k");
    assert!(
        plan.concat().concat().contains("ordering_mode=Sorted"),
        "the order is used: {plan:?}"
    );
    assert_eq!(answers(&mut db), in_memory);
    // Rows in memory, and segments that overlap.
    db.run("INSERT INTO t SELECT k, 9, k FROM generate_series(1, 70000, 3) AS a(k); DELETE FROM t WHERE k % 11 = 0");
    let changed = answers(&mut db);
    assert_ne!(changed, in_memory);
    db.checkpoint();
    assert_eq!(answers(&mut db), changed);
}
