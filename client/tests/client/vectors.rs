//! Runs the conversations of `vectors/*.json`: servers say, the client must do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use candor_client::{Client, Config};
use serde::Deserialize;
use serde_json::Value;

use crate::stub::{Asked, Cluster, NodeScript};

/// A conversation; `vectors/README.md` describes the form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    shows: String,
    #[serde(default)]
    client: ClientScript,
    nodes: BTreeMap<String, NodeScript>,
    calls: Vec<CallScript>,
    asked: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientScript {
    namespace: Option<String>,
    database: Option<String>,
    #[serde(default)]
    session: bool,
    deadline_ms: Option<u64>,
    staleness_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallScript {
    sql: String,
    #[serde(default)]
    params: Vec<Value>,
    /// The first result's rows, one column each.
    rows: Option<Vec<Value>>,
    /// The error's code.
    error: Option<String>,
    /// Which nodes were followed to.
    #[serde(default)]
    hops: Vec<String>,
    /// Where the connection is afterwards.
    home: Option<String>,
}

/// S46 to S51 and what else the vectors say that they show.
#[tokio::test]
async fn s46_every_conversation_goes_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is part of the crate") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let vectors: Vec<Vector> =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for vector in vectors {
                count += 1;
                run(vector).await;
            }
        }
    }
    assert!(count > 0, "no vectors");
}

async fn run(vector: Vector) {
    let shows = vector.shows;
    let cluster = Cluster::start(vector.nodes).await;
    let config = Config {
        namespace: vector.client.namespace,
        database: vector.client.database,
        session: vector.client.session,
        deadline: Duration::from_millis(vector.client.deadline_ms.unwrap_or(10_000)),
        staleness: vector.client.staleness_ms.map(Duration::from_millis),
        ..Config::default()
    };
    let client = Client::connect(&cluster.addresses["n2"], config).expect("address");
    for call in vector.calls {
        let answer = client.execute(&call.sql, &call.params).await;
        let said = (format!("{shows}: {}", call.sql), &answer);
        match &answer {
            Ok(answer) => {
                assert_eq!(call.error, None, "{said:?}");
                let rows: Vec<Value> = answer.results[0].rows.iter().map(|row| row[0].clone()).collect();
                assert_eq!(Some(rows), call.rows, "{said:?}");
                let hops: Vec<&str> = answer.hops.iter().map(|hop| hop.node.as_str()).collect();
                assert_eq!(hops, call.hops, "{said:?}");
            }
            Err(error) => assert_eq!(Some(error.code().as_str()), call.error.as_deref(), "{said:?}"),
        }
        if let Some(home) = call.home {
            assert_eq!(client.url(), format!("http://{}", cluster.addresses[&home]), "{said:?}");
        }
    }
    let asked = cluster.asked();
    assert_eq!(asked.len(), vector.asked.len(), "{shows}: {asked:#?}");
    for (asked, expected) in asked.iter().zip(&vector.asked) {
        check_asked(&shows, asked, expected);
    }
    assert_eq!(cluster.unsaid(), Vec::<String>::new(), "{shows}");
}

/// `{"node", "sql" | "name": true, "headers": {name: text | null}}`: a header that is null must be absent.
fn check_asked(shows: &str, asked: &Asked, expected: &Value) {
    assert_eq!(
        Some(asked.node.as_str()),
        expected["node"].as_str(),
        "{shows}: {asked:?}"
    );
    assert_eq!(asked.sql.as_deref(), expected["sql"].as_str(), "{shows}: {asked:?}");
    for (name, text) in expected.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let sent = asked
            .headers
            .get(name.as_str())
            .map(|value| value.to_str().expect("text"));
        assert_eq!(sent, text.as_str(), "{shows}: header {name}: {asked:?}");
    }
}
