//! Scripts, transactions and sessions.

use serde_json::json;

use crate::harness::{Single, ask_with, client};

#[tokio::test(flavor = "multi_thread")]
async fn s52_context_is_null_where_nothing_is_selected() {
    let node = Single::start().await;
    let plain = ask_with(&node.url(), "RETURN session::context()", &[]).await;
    assert_eq!(
        plain.rows(0),
        &json!([[{"node": "n1", "namespace": null, "database": null}]])
    );
    node.ask("CREATE TABLE t (id INT)").await;
    let selected = ask_with(
        &node.url(),
        "USE NAMESPACE main DATABASE main; RETURN session::context()",
        &[],
    )
    .await;
    assert_eq!(
        selected.rows(1),
        &json!([[{"node": "n1", "namespace": "main", "database": "main"}]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_selection_statements_read_and_write_main() {
    let node = Single::start().await;
    let script = "CREATE TABLE orders (id BIGINT PRIMARY KEY, note TEXT); INSERT INTO orders VALUES (7, 'tea');
        SELECT * FROM orders STALENESS 30s; RETURN session::context()";
    let plain = ask_with(&node.url(), script, &[]).await;
    assert_eq!(plain.rows(2), &json!([[7, "tea"]]));
    assert_eq!(plain.receipt(2)["range"], "main");
    assert_eq!(
        plain.rows(3),
        &json!([[{"node": "n1", "namespace": null, "database": null}]])
    );
    assert_eq!(
        node.ask("SELECT note FROM main.orders WHERE id = 7").await.rows(0),
        &json!([["tea"]])
    );
    let other = ask_with(&node.url(), "SELECT * FROM shop.main.orders", &[]).await;
    assert!(
        other.body["help"]
            .as_str()
            .is_some_and(|help| help.contains("USE NAMESPACE shop")),
        "{other:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s21_s22_reads_agree_inside_one_transaction_only() {
    let node = Single::start().await;
    node.ask("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let url = node.url();
    let select = [("candor-namespace", "main"), ("candor-database", "main")];
    let begun = ask_with(
        &url,
        "BEGIN READ ONLY; SELECT count(*) FROM t",
        &[select[0], select[1], ("candor-session", "new")],
    )
    .await;
    assert_eq!(begun.rows(1), &json!([[0]]));
    let session = begun.header("candor-session").expect("a session").to_owned();
    node.ask("INSERT INTO t VALUES (1)").await;
    let inside = ask_with(&url, "SELECT count(*) FROM t", &[("candor-session", &session)]).await;
    assert_eq!(inside.rows(0), &json!([[0]]), "one point in history");
    assert_eq!(inside.body["session"]["transaction"], true);
    let leader = "SELECT count(*) FROM t ANSWERED BY LEADER";
    assert_eq!(node.ask(leader).await.rows(0), &json!([[1]]));
    node.ask("INSERT INTO t VALUES (2)").await;
    assert_eq!(
        node.ask(leader).await.rows(0),
        &json!([[2]]),
        "two leader reads may differ, and neither is wrong"
    );
    let write = ask_with(&url, "INSERT INTO t VALUES (3)", &[("candor-session", &session)]).await;
    assert_eq!(write.code(), "read-only", "{write:?}");
    let ended = ask_with(
        &url,
        "ROLLBACK; SELECT count(*) FROM t",
        &[("candor-session", &session)],
    )
    .await;
    assert_eq!(ended.rows(1), &json!([[2]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_all_or_nothing() {
    let node = Single::start().await;
    node.ask("CREATE TABLE t (id INT PRIMARY KEY, v INT CHECK (v > 0)); INSERT INTO t VALUES (1, 10)")
        .await;
    let done = node
        .ask("BEGIN; UPDATE t SET v = v + 1; INSERT INTO t VALUES (2, 5); SELECT sum(v) FROM t; COMMIT")
        .await;
    assert_eq!(done.rows(3), &json!([[16]]), "a transaction sees its own writes");
    let failed = node
        .ask("BEGIN; UPDATE t SET v = 1000; INSERT INTO t VALUES (3, -1); COMMIT")
        .await;
    assert_eq!(
        (failed.code(), &failed.body["statement"]),
        ("constraint", &json!(2)),
        "{failed:?}"
    );
    let open = node.ask("BEGIN; UPDATE t SET v = 1000").await;
    assert_eq!(open.code(), "transaction-state", "{open:?}");
    assert_eq!(node.ask("SELECT sum(v) FROM t").await.rows(0), &json!([[16]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_committer_wins() {
    let node = Single::start().await;
    node.ask("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)")
        .await;
    let url = node.url();
    let begin = "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1";
    let headers = [
        ("candor-namespace", "main"),
        ("candor-database", "main"),
        ("candor-session", "new"),
    ];
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let begun = ask_with(&url, begin, &headers).await;
        assert_eq!(begun.status, 200, "{begun:?}");
        sessions.push(begun.header("candor-session").expect("a session").to_owned());
    }
    let first = ask_with(&url, "COMMIT", &[("candor-session", &sessions[0])]).await;
    assert_eq!(first.status, 200, "{first:?}");
    let second = ask_with(&url, "COMMIT", &[("candor-session", &sessions[1])]).await;
    assert_eq!(
        (second.status, second.code(), &second.body["retryable"]),
        (409, "conflict", &json!(true)),
        "{second:?}"
    );
    assert_eq!(node.ask("SELECT v FROM t").await.rows(0), &json!([[11]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_autocommit_updates_lose_nothing() {
    let node = Single::start().await;
    node.ask("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0)")
        .await;
    let url = node.url();
    let add = |_| {
        let url = url.clone();
        tokio::spawn(async move {
            let mut done = 0;
            for _ in 0..25 {
                let answer = crate::harness::ask(&url, "UPDATE t SET v = v + 1 WHERE id = 1").await;
                match answer.status {
                    200 => done += 1,
                    _ => assert_eq!(answer.code(), "conflict", "{answer:?}"),
                }
            }
            done
        })
    };
    let mut total = 0;
    for task in (0..8).map(add).collect::<Vec<_>>() {
        total += task.await.expect("a client");
    }
    assert!(total > 0);
    assert_eq!(node.ask("SELECT v FROM t").await.rows(0), &json!([[total]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_survive_a_restart_and_the_epoch_grows() {
    let mut node = Single::start().await;
    let before = node
        .ask("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP DEFAULT now()); INSERT INTO t (id) VALUES (1), (2)")
        .await;
    node.restart().await;
    let after = node
        .ask("SELECT id FROM t WHERE at IS NOT NULL ORDER BY id ANSWERED BY LEADER")
        .await;
    assert_eq!(after.rows(0), &json!([[1], [2]]));
    assert_eq!(
        after.receipt(0)["epoch"].as_u64(),
        before.receipt(1)["epoch"].as_u64().map(|epoch| epoch + 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_dead_and_a_closed_one_too() {
    let node = Single::start().await;
    let unknown = ask_with(&node.url(), "SELECT 1", &[("candor-session", "0123")]).await;
    assert_eq!((unknown.status, unknown.code()), (410, "session-dead"));
    let opened = ask_with(&node.url(), "SET staleness = '5m'", &[("candor-session", "new")]).await;
    let id = opened.header("candor-session").expect("a session").to_owned();
    assert_eq!(opened.body["session"]["settings"], json!({"staleness": "5m"}));
    let closed = client()
        .delete(format!("{}/session", node.url()))
        .header("candor-session", &id)
        .send()
        .await
        .expect("an answer");
    assert_eq!(closed.status().as_u16(), 204);
    assert_eq!(
        ask_with(&node.url(), "SELECT 1", &[("candor-session", &id)])
            .await
            .status,
        410
    );
}
