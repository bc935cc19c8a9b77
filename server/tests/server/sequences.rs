//! Sequences: no value comes twice, whoever asks and whatever becomes of the node.

use std::collections::BTreeSet;

use crate::harness::{Single, ask_with};

/// The first column of an answer.
fn values(answer: &crate::harness::Answer, statement: usize) -> Vec<i64> {
    let rows = answer.rows(statement).as_array().expect("rows");
    rows.iter().map(|row| row[0].as_i64().expect("a number")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_comes_twice_to_many_clients_and_after_restarts() {
    let mut node = Single::start().await;
    node.ask("CREATE SEQUENCE s; CREATE TABLE t (id BIGSERIAL PRIMARY KEY, v INT)")
        .await;
    let mut seen = BTreeSet::new();
    let mut given = 0;
    for _ in 0..3 {
        let url = node.url();
        let clients = (0..6_i64).map(|client| {
            let url = url.clone();
            tokio::spawn(async move {
                let mut drawn = Vec::new();
                for round in 0..10 {
                    let script = format!(
                        "SELECT nextval('s'); BEGIN; SELECT nextval('s') FROM generate_series(1, {}); ROLLBACK; \
                         INSERT INTO t (v) VALUES ({client}), ({round})",
                        client + 1
                    );
                    let answer = ask_with(&url, &script, &[]).await;
                    assert_eq!(answer.status, 200, "{:?}", answer.body);
                    drawn.extend(values(&answer, 0));
                    drawn.extend(values(&answer, 2));
                }
                drawn
            })
        });
        for client in clients.collect::<Vec<_>>() {
            let drawn = client.await.expect("a client");
            given += drawn.len();
            seen.extend(drawn);
        }
        assert_eq!(seen.len(), given, "a value came twice");
        node.restart().await;
    }
    // Each round of a client wrote two rows, which the primary key tells apart.
    let rows = node.ask("SELECT count(*) FROM t ANSWERED BY LEADER").await;
    assert_eq!(values(&rows, 0), [3 * 6 * 10 * 2]);
}
