//! The HTTP door: formats, limits, health.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Cluster, Single, ask_with, client, eventually};

async fn raw(url: &str, sql: &str, accept: &str) -> (u16, String, String) {
    let response = client()
        .post(format!("{url}/sql"))
        .header("candor-namespace", "main")
        .header("candor-database", "main")
        .header("accept", accept)
        .body(sql.to_owned())
        .send()
        .await
        .expect("an answer");
    let status = response.status().as_u16();
    let media = response.headers()["content-type"].to_str().expect("text").to_owned();
    (status, media, response.text().await.expect("a whole body"))
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_keep_their_digits_in_every_format() {
    let node = Single::start().await;
    let sql = "SELECT 9223372036854775807 AS big, CAST(0.10 AS DECIMAL(10,2)) AS money, 'a,\"b\"' AS t, NULL AS n";
    let (_, media, text) = raw(&node.url(), sql, "application/json").await;
    assert_eq!(media, "application/json");
    let doc: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        doc["results"][0]["rows"],
        json!([["9223372036854775807", "0.10", "a,\"b\"", null]])
    );
    assert_eq!(
        doc["results"][0]["columns"][0],
        json!({"name": "big", "type": "BIGINT"})
    );
    assert_eq!(doc["results"][0]["columns"][1]["type"], "NUMERIC(10,2)");
    let (_, media, text) = raw(&node.url(), sql, "text/csv").await;
    assert_eq!(media, "text/csv");
    assert_eq!(text, "big,money,t,n\n9223372036854775807,0.10,\"a,\"\"b\"\"\",\n");
    let (_, _, text) = raw(&node.url(), sql, "application/x-ndjson").await;
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["columns"][0]["name"], "big");
    assert_eq!(lines[0]["receipt"]["node"], "n1");
    assert_eq!(lines[1][0], "9223372036854775807");
    assert_eq!(lines[2], json!({"end": true, "rows": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn arrow_answers_are_ipc_streams_with_their_receipt() {
    let node = Single::start().await;
    let response = client()
        .post(format!("{}/sql", node.url()))
        .header("accept", "application/vnd.apache.arrow.stream")
        .body("SELECT 1 AS one, 'x' AS t")
        .send()
        .await
        .expect("an answer");
    let bytes = response.bytes().await.expect("a whole body");
    let reader = arrow::ipc::reader::StreamReader::try_new(bytes.as_ref(), None).expect("IPC");
    let receipt: Value = serde_json::from_str(&reader.schema().metadata()["candor.receipt"]).expect("JSON");
    assert_eq!(receipt["node"], "n1");
    let rows: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_mid_stream_cannot_be_taken_for_an_end() {
    let node = Single::start().await;
    node.ask("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let values: Vec<String> = (0..50_000).map(|id| format!("({id})")).collect();
    node.ask(&format!("INSERT INTO t VALUES {}", values.join(","))).await;
    let sql = "SELECT 10 / (id - 49999) FROM t";
    let (_, _, text) = raw(&node.url(), sql, "application/x-ndjson").await;
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["code"], "arithmetic", "{last}");
    let response = client()
        .post(format!("{}/sql", node.url()))
        .header("candor-namespace", "main")
        .header("candor-database", "main")
        .header("accept", "text/csv")
        .body(sql)
        .send()
        .await;
    if let Ok(response) = response
        && response.status().is_success()
    {
        assert!(response.text().await.is_err(), "a broken-off body");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_requests_have_limits() {
    let node = Single::start_with(|config| {
        config.body_bytes_max = 1000;
        config.requests_in_flight_max = 1;
        config.statement_deadline = Duration::from_millis(700);
    })
    .await;
    let large = node.ask(&format!("SELECT '{}'", "x".repeat(2000))).await;
    assert_eq!((large.status, large.code()), (413, "too-large"));
    assert_eq!(ask_with(&node.url(), "  ", &[]).await.code(), "empty-body");
    assert_eq!(ask_with(&node.url(), "-- nothing", &[]).await.code(), "empty-body");
    // One slow request fills the node; it ends at its deadline.
    let slow = "SELECT count(*) FROM generate_series(1, 100000000) AS a(x), generate_series(1, 1000000) AS b(y) WHERE x % 7 = y % 11";
    let url = node.url();
    let running = tokio::spawn(async move {
        loop {
            // The question below may hold the one place at this moment.
            let answer = crate::harness::ask(&url, slow).await;
            if answer.status != 503 {
                return answer;
            }
        }
    });
    let full = eventually("a full node", || async {
        let answer = node.ask("SELECT 1").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!((full.code(), full.header("retry-after")), ("overloaded", Some("1")));
    let ended = running.await.expect("an answer");
    assert_eq!((ended.status, ended.code()), (504, "deadline"), "{ended:?}");
    assert_eq!(node.ask("SELECT 1").await.status, 200, "its place is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_methods_that_are_not_there_say_so() {
    let node = Single::start().await;
    for (method, path, status) in [
        (reqwest::Method::GET, "/sql", 405),
        (reqwest::Method::GET, "/nothing", 404),
        (reqwest::Method::POST, "/metrics", 405),
    ] {
        let response = client()
            .request(method, format!("{}{path}", node.url()))
            .send()
            .await
            .expect("an answer");
        assert_eq!(response.status().as_u16(), status, "{path}");
        assert_eq!(response.headers()["candor-node"], "n1");
        assert!(response.headers().contains_key("candor-boot-id"));
        let body: Value = response.json().await.expect("the one error object");
        assert!(body["error"].is_string() && body["code"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_load_balancers_how_fresh_a_copy_is() {
    let mut cluster = Cluster::start(2).await;
    cluster.wait_level(1).await;
    let status = |path: &'static str| {
        let url = format!("{}{path}", cluster.url(1));
        async move { client().get(url).send().await.expect("an answer").status().as_u16() }
    };
    assert_eq!(status("/health/live").await, 200);
    eventually("a ready follower", || async {
        (status("/health/ready").await == 200).then_some(())
    })
    .await;
    assert_eq!(status("/health/replica?max_staleness=30s").await, 200);
    assert_eq!(status("/health/replica?max_staleness=soon").await, 400);
    assert_eq!(status("/health/replica?max_stalenes=30s").await, 400);
    let url = format!("{}/metrics", cluster.url(1));
    let page = client()
        .get(url)
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("text");
    for name in [
        "candor_replica_staleness_seconds",
        "candor_range_position",
        "candor_node_info",
    ] {
        assert!(page.contains(name), "{name} is missing in\n{page}");
    }
    cluster.stop(0).await;
    let url = format!("{}/health/replica?max_staleness=1s", cluster.url(1));
    eventually("an aged copy", || async {
        let status = client().get(&url).send().await.expect("an answer").status().as_u16();
        (status == 503).then_some(())
    })
    .await;
}
