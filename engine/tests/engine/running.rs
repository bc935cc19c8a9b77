//! How statements run: they stop when nobody waits, and they keep within the memory they are given.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use candor_engine::{Engine, EngineConfig, StatementContext};
use candor_parser::{Body, ast, parse_script};

use crate::db::NOW_MICROS;

fn query(text: &str) -> Box<ast::Statement> {
    match parse_script(text).expect("parses").statements.remove(0).body {
        Body::Query(statement) => statement,
        other => panic!("{other:?} is not a query"),
    }
}

fn context() -> StatementContext {
    StatementContext::new("n1".into(), NOW_MICROS)
}

#[tokio::test]
async fn a_dropped_stream_gives_its_thread_back() {
    let engine = Engine::new(&EngineConfig {
        threads: 1,
        ..EngineConfig::default()
    })
    .expect("an engine");
    let endless = query("SELECT count(*) FROM generate_series(1, 9000000000000000000) AS a(v) WHERE v % 3 = 5");
    for _ in 0..3 {
        let stream = engine.query(context(), &endless).await.expect("starts");
        drop(stream);
    }
    // The only thread would never come to this one if any of the others still ran.
    let rows = engine
        .query(context(), &query("SELECT 1"))
        .await
        .expect("starts")
        .collect()
        .await
        .expect("runs");
    assert_eq!(rows.len(), 1);
}

#[tokio::test]
async fn memory_is_bounded_and_its_end_is_an_error() {
    let engine = Engine::new(&EngineConfig {
        threads: 1,
        memory_bytes: Some(16 << 20),
        spill_dir: None,
    })
    .expect("an engine");
    let join = query(
        "SELECT count(*) FROM generate_series(1, 3000000) AS a(v) JOIN generate_series(1, 3000000) AS b(v) ON a.v = b.v",
    );
    let stream = engine.query(context(), &join).await.expect("starts");
    let error = stream
        .collect()
        .await
        .expect_err("a hash table of millions of rows does not fit");
    assert_eq!(error.code().as_str(), "overloaded", "{error}");
}

#[tokio::test]
async fn without_a_namespace_there_is_still_arithmetic() {
    let engine = Engine::new(&EngineConfig::default()).expect("an engine");
    let rows = engine
        .query(context(), &query("SELECT 6 * 7"))
        .await
        .expect("starts")
        .collect()
        .await
        .expect("runs");
    assert_eq!(rows[0].num_rows(), 1);
    let error = engine
        .query(context(), &query("SELECT * FROM t"))
        .await
        .expect_err("nothing is selected");
    assert_eq!(error.code().as_str(), "unknown-namespace");
    let mut ctx = context();
    let nodes: ArrayRef = Arc::new(StringArray::from(vec!["n1", "n2"]));
    let peers = RecordBatch::try_from_iter([("node", nodes)]).expect("a batch");
    ctx.system_tables = vec![("peers".to_owned(), peers)];
    let rows = engine
        .query(ctx, &query("SELECT * FROM system.peers WHERE node = 'n2'"))
        .await
        .expect("starts");
    assert_eq!(rows.collect().await.expect("runs")[0].num_rows(), 1);
}
