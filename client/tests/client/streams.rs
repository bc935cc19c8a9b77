//! Answers that are not held in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use candor_client::{Client, ClientError, Config, Format};
use candor_proto::ErrorCode;
use serde_json::{Value, json};

use crate::stub::{Cluster, NodeScript};

async fn asked_once(says: Value) -> Client {
    let node: NodeScript = serde_json::from_value(json!({ "says": [says] })).expect("script");
    let cluster = Cluster::start(BTreeMap::from([("n2".to_owned(), node)])).await;
    let config = Config {
        deadline: Duration::from_secs(10),
        ..Config::default()
    };
    Client::connect(&cluster.addresses["n2"], config).expect("address")
}

async fn rows_of(client: &Client, sql: &str) -> Result<Vec<Vec<Value>>, ClientError> {
    let mut stream = client.stream(sql, &[]).await?;
    let mut rows = Vec::new();
    while let Some(row) = stream.next().await? {
        rows.push(row);
    }
    Ok(rows)
}

const HEAD: &str = r#"{"columns":[{"name":"a","type":"BIGINT"}],"receipt":{"node":"n2","role":"follower","range":"main","epoch":3,"version":7,"copy_age_ms":12}}"#;

#[tokio::test]
async fn rows_arrive_one_at_a_time_with_their_receipt() {
    let text = format!("{HEAD}\n[1]\n[\"9007199254740993\"]\n{{\"end\":true,\"rows\":2}}\n");
    let client = asked_once(json!({ "text": text })).await;
    let mut stream = client.stream("SELECT a FROM t", &[]).await.expect("answered");
    assert_eq!(stream.columns[0].name, "a");
    assert_eq!(stream.receipt.as_ref().expect("receipt").version.0, 7);
    assert_eq!(stream.next().await.expect("row"), Some(vec![json!(1)]));
    assert_eq!(stream.next().await.expect("row"), Some(vec![json!("9007199254740993")]));
    assert_eq!(stream.next().await.expect("end"), None);
    assert_eq!(stream.next().await.expect("still the end"), None);
    assert!(!stream.next_result().await.expect("no more"));
}

#[tokio::test]
async fn every_statement_of_a_script_has_its_rows() {
    let text = format!("{HEAD}\n[1]\n{{\"end\":true}}\n{HEAD}\n[2]\n{{\"end\":true}}\n");
    let client = asked_once(json!({ "text": text })).await;
    let mut stream = client.stream("SELECT 1; SELECT 2", &[]).await.expect("answered");
    assert!(stream.next_result().await.expect("the second"));
    assert_eq!(stream.next().await.expect("row"), Some(vec![json!(2)]));
    assert!(!stream.next_result().await.expect("no third"));
}

#[tokio::test]
async fn an_error_on_the_way_is_never_taken_for_the_end() {
    let body = json!({"error": "division by zero", "code": "arithmetic", "sqlstate": "22012", "retryable": false});
    for last in [body.clone(), json!({ "error": body })] {
        let client = asked_once(json!({ "text": format!("{HEAD}\n[1]\n{last}\n") })).await;
        let error = rows_of(&client, "SELECT a FROM t").await.expect_err("fails on the way");
        assert_eq!(error.code(), ErrorCode::Arithmetic);
        assert_eq!(error.to_string(), "division by zero");
    }
}

#[tokio::test]
async fn a_stream_that_stops_is_never_taken_for_a_whole_one() {
    let client = asked_once(json!({ "text": format!("{HEAD}\n[1]\n") })).await;
    let error = rows_of(&client, "SELECT a FROM t").await.expect_err("no last line");
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");

    let client = asked_once(json!({ "text": format!("{HEAD}\n[1]\n"), "breaks": true })).await;
    let error = rows_of(&client, "SELECT a FROM t").await.expect_err("broken");
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");

    let client = asked_once(json!({ "text": format!("{HEAD}\n[1]\n"), "breaks": true })).await;
    let error = rows_of(&client, "INSERT INTO t VALUES (1) RETURNING a")
        .await
        .expect_err("broken");
    assert!(matches!(error, ClientError::OutcomeUnknown { .. }), "{error:?}");
}

#[tokio::test]
async fn a_raw_answer_is_the_body_in_the_format_asked_for() {
    let client = asked_once(json!({ "text": "a\n1\n" })).await;
    let answer = client
        .execute_raw("SELECT a FROM t", &[], Format::Csv)
        .await
        .expect("answered");
    assert_eq!(answer.node.as_ref().map(candor_proto::NodeName::as_str), Some("n2"));
    assert_eq!(answer.bytes().await.expect("whole"), "a\n1\n");

    let client = asked_once(json!({ "text": "a\n1\n", "breaks": true })).await;
    let mut answer = client
        .execute_raw("SELECT a FROM t", &[], Format::Csv)
        .await
        .expect("answered");
    assert_eq!(
        answer.chunk().await.expect("piece").as_deref(),
        Some("a\n1\n".as_bytes())
    );
    assert!(
        answer.chunk().await.is_err(),
        "a CSV that failed on the way ends without its end"
    );

    let client = asked_once(json!({ "rows": [1] })).await;
    let error = client
        .execute_raw("SELECT 1", &[], Format::Arrow)
        .await
        .expect_err("another format");
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let client =
        Client::connect(&listener.local_addr().expect("bound").to_string(), Config::default()).expect("address");
    let call = tokio::spawn(async move { client.execute("SELECT 1", &[]).await });
    let (mut stream, _) = listener.accept().await.expect("dialled");
    let mut byte = [0; 1];
    assert_eq!(stream.read(&mut byte).await.expect("the request arrives"), 1);
    call.abort();
    let mut rest = Vec::new();
    stream
        .read_to_end(&mut rest)
        .await
        .expect("closed, not reset with data unread");
}
