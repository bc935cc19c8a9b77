//! Nodes that say what a script tells them to say, and note what they were asked.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{delete, get, post};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// One scripted answer to `POST /sql`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Says {
    /// Defaults to 200, or to 307 for a redirect.
    status: Option<u16>,
    /// The whole JSON body.
    json: Option<Value>,
    /// Shorthand for one result with these rows, each of one column.
    rows: Option<Vec<Value>>,
    /// Shorthand for `"session"` next to the results.
    session: Option<Value>,
    /// A redirect; `"to"` names the stub whose address it gives, if any.
    redirect: Option<Value>,
    /// An error code, with a plain sentence.
    error: Option<String>,
    /// A body of another type.
    text: Option<String>,
    /// The connection breaks after `text`.
    #[serde(default)]
    breaks: bool,
    /// No answer ever comes.
    #[serde(default)]
    hangs: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// What a stub is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeScript {
    /// The name it gives itself, if not its own.
    calls_itself: Option<String>,
    /// Closes every connection once a request has begun to arrive.
    #[serde(default)]
    closes: bool,
    /// Nothing listens at its address.
    #[serde(default)]
    refuses: bool,
    #[serde(default)]
    says: VecDeque<Says>,
}

/// One request that a stub received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) node: String,
    /// The script, or `None` for the question which node this is.
    pub(crate) sql: Option<String>,
    pub(crate) headers: HeaderMap,
}

/// Stub nodes on free ports of the loopback interface.
pub(crate) struct Cluster {
    pub(crate) addresses: BTreeMap<String, String>,
    asked: Arc<Mutex<Vec<Asked>>>,
    left: Vec<Arc<Node>>,
}

struct Node {
    name: String,
    calls_itself: String,
    says: Mutex<VecDeque<Says>>,
    addresses: BTreeMap<String, String>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Cluster {
    pub(crate) async fn start(scripts: BTreeMap<String, NodeScript>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (mut addresses, mut listeners) = (BTreeMap::new(), Vec::new());
        for (name, script) in scripts {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("bound").to_string();
            addresses.insert(name.clone(), address);
            if !script.refuses {
                listeners.push((name, script, listener));
            }
        }
        let mut left = Vec::new();
        for (name, script, listener) in listeners {
            if script.closes {
                tokio::spawn(close_all(listener));
                continue;
            }
            let node = Arc::new(Node {
                calls_itself: script.calls_itself.unwrap_or_else(|| name.clone()),
                name,
                says: Mutex::new(script.says),
                addresses: addresses.clone(),
                asked: asked.clone(),
            });
            left.push(node.clone());
            let router = Router::new()
                .route("/sql", post(answer))
                .route(
                    "/health/live",
                    get(|State(node): State<Arc<Node>>| async move { node.name_itself() }),
                )
                // Ending a session that was left is a courtesy that runs beside the call: not noted.
                .route("/session", delete(|| async { StatusCode::NO_CONTENT }))
                .with_state(node);
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        Self { addresses, asked, left }
    }

    /// What the stubs were asked, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("whole").clone()
    }

    /// Answers that nobody asked for, by node.
    pub(crate) fn unsaid(&self) -> Vec<String> {
        let unsaid = |node: &&Arc<Node>| !node.says.lock().expect("whole").is_empty();
        self.left.iter().filter(unsaid).map(|node| node.name.clone()).collect()
    }
}

/// Reads the beginning of a request and closes: its bytes have arrived, and no answer comes.
async fn close_all(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut start = [0; 1024];
        let _ = stream.read(&mut start).await;
    }
}

impl Node {
    fn note(&self, sql: Option<String>, headers: HeaderMap) {
        let node = self.name.clone();
        self.asked.lock().expect("whole").push(Asked { node, sql, headers });
    }

    fn name_itself(&self) -> Response {
        self.note(None, HeaderMap::new());
        self.response(StatusCode::OK, "application/json", Body::from("{}"), &BTreeMap::new())
    }

    fn response(&self, status: StatusCode, media: &str, body: Body, headers: &BTreeMap<String, String>) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let value = |text: &str| HeaderValue::from_str(text).expect("header value");
        response.headers_mut().insert("content-type", value(media));
        response.headers_mut().insert("candor-node", value(&self.calls_itself));
        for (name, text) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("header name");
            response.headers_mut().insert(name, value(text));
        }
        response
    }

    /// The redirect with what every one of them has, at the address of the stub it goes to.
    fn redirect(&self, short: &Value) -> Value {
        let node = short["node"].as_str().expect("a redirect names a node");
        let at = short.get("to").and_then(Value::as_str).unwrap_or(node);
        let http = self.addresses.get(at);
        let redirect = json!({
            "kind": short.get("kind").unwrap_or(&json!("settled")),
            "range": short.get("range").unwrap_or(&json!("main")),
            "node": node,
            "address": "127.0.0.1:1",
            "http": http,
            "epoch": short.get("epoch").unwrap_or(&json!(1)),
            "reason": "write",
        });
        json!({ "redirect": redirect, "error": "another node answers this", "retry_with": "curl …" })
    }
}

/// The text, and then its end, or a break once the text is on its way.
fn pieces(text: String, breaks: bool) -> impl futures::Stream<Item = std::io::Result<Bytes>> {
    let text = futures::stream::iter([Ok(Bytes::from(text))]);
    text.chain(futures::stream::iter(breaks.then_some(())).then(|()| async {
        // One turn for the server to send what it has.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("the script breaks here"))
    }))
}

async fn answer(State(node): State<Arc<Node>>, headers: HeaderMap, body: Bytes) -> Response {
    let text = String::from_utf8(body.to_vec()).expect("text");
    node.note(Some(text), headers.clone());
    let says = node.says.lock().expect("whole").pop_front();
    let Some(says) = says else {
        let error = json!({"error": "the script has no answer to this", "code": "internal", "sqlstate": "XX000",
            "retryable": false});
        return node.response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "application/json",
            error.to_string().into(),
            &BTreeMap::new(),
        );
    };
    if says.hangs {
        std::future::pending::<()>().await;
    }
    if let Some(text) = says.text {
        let media = headers
            .get("accept")
            .and_then(|accept| accept.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = Body::from_stream(pieces(text, says.breaks));
        return node.response(StatusCode::OK, &media, body, &says.headers);
    }
    let (status, body) = if let Some(redirect) = &says.redirect {
        let body = node.redirect(redirect);
        let status = if body["redirect"]["http"].is_null() { 409 } else { 307 };
        (status, body)
    } else if let Some(code) = &says.error {
        let status = if code == "session-dead" { 410 } else { 409 };
        let mut body =
            json!({"error": format!("refused: {code}"), "code": code, "sqlstate": "XX000", "retryable": false});
        if let Some(session) = &says.session {
            body["session"] = session.clone();
        }
        (status, body)
    } else if let Some(json) = &says.json {
        (200, json.clone())
    } else {
        let rows: Vec<Value> = says
            .rows
            .unwrap_or_default()
            .into_iter()
            .map(|value| json!([value]))
            .collect();
        let result = json!({"columns": [{"name": "v", "type": "TEXT"}], "rows": rows, "rows_affected": null});
        (200, json!({"results": [result], "session": says.session}))
    };
    let status = StatusCode::from_u16(says.status.unwrap_or(status)).expect("status");
    node.response(status, "application/json", body.to_string().into(), &says.headers)
}
