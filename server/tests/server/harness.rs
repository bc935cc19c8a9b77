//! Nodes on free ports, and requests to them that follow nothing by themselves.

use std::path::Path;
use std::time::{Duration, Instant};

use candor_cluster::certs;
use candor_proto::{NodeName, RangeName};
use candor_server::{Server, ServerConfig};
use serde_json::Value;
use tempfile::TempDir;

/// The awareness interval of test clusters: short, so that tests are, and long beside a scheduler's hiccup.
pub(crate) const AWARENESS: Duration = Duration::from_millis(250);

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `condition` gives a value.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut condition: impl FnMut() -> F) -> T {
    let end = Instant::now() + PATIENCE;
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < end, "{what} did not come within {PATIENCE:?}");
        looks.tick().await;
    }
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// The rows of statement `index`.
    pub(crate) fn rows(&self, index: usize) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        &self.body["results"][index]["rows"]
    }

    pub(crate) fn receipt(&self, index: usize) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        &self.body["results"][index]["receipt"]
    }

    /// What an error's span points at in `sql`.
    pub(crate) fn pointed_at<'a>(&self, sql: &'a str) -> &'a str {
        let span = &self.body["span"];
        let number = |key: &str| usize::try_from(span[key].as_u64().unwrap_or_default()).expect("small");
        &sql[number("start")..number("start") + number("length")]
    }
}

/// A client that follows no redirect.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client")
}

/// One request with namespace and database `main`.
pub(crate) async fn ask(url: &str, sql: &str) -> Answer {
    ask_with(url, sql, &[("candor-namespace", "main"), ("candor-database", "main")]).await
}

/// One request with these headers only.
pub(crate) async fn ask_with(url: &str, sql: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = client().post(format!("{url}/sql")).body(sql.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("a body");
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, headers, body }
}

/// A node that runs alone.
pub(crate) struct Single {
    pub(crate) server: Option<Server>,
    config: ServerConfig,
    _dir: TempDir,
}

impl Single {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = config(&NodeName::new("n1"), dir.path());
        change(&mut config);
        let server = Server::start(config.clone()).await.expect("a node");
        Self {
            server: Some(server),
            config,
            _dir: dir,
        }
    }

    pub(crate) fn url(&self) -> String {
        url(self.server.as_ref().expect("running"))
    }

    pub(crate) async fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown().await;
        }
        self.server = Some(Server::start(self.config.clone()).await.expect("a node"));
    }

    pub(crate) async fn ask(&self, sql: &str) -> Answer {
        ask(&self.url(), sql).await
    }
}

fn config(name: &NodeName, dir: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(name.clone(), dir.join(name.as_str()));
    config.http = ([127, 0, 0, 1], 0).into();
    config.link = ([127, 0, 0, 1], 0).into();
    config.awareness = AWARENESS;
    config
}

fn url(server: &Server) -> String {
    format!("http://{}", server.http_addr())
}

/// Nodes n1 … that know each other; n1 leads namespace `main`, the others follow.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Option<Server>>,
    pub(crate) configs: Vec<ServerConfig>,
    _dir: TempDir,
}

impl Cluster {
    /// Starts `count` nodes, declares each to each, and waits until all hold namespace `main`.
    pub(crate) async fn start(count: usize) -> Self {
        let cluster = Self::start_undefined(count).await;
        let made = cluster
            .ask_plain(0, "DEFINE NAMESPACE main; USE NAMESPACE main; DEFINE DATABASE main")
            .await;
        assert_eq!(made.status, 200, "{made:?}");
        for node in 1..count {
            cluster.wait_level(node).await;
        }
        cluster
    }

    /// The same without any namespace.
    pub(crate) async fn start_undefined(count: usize) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let names: Vec<NodeName> = (1..=count).map(|number| NodeName::new(format!("n{number}"))).collect();
        let certs = dir.path().join("ca");
        let hosts = vec!["127.0.0.1".to_owned()];
        certs::init(&certs, &names[0], &hosts).expect("an authority");
        for name in &names[1..] {
            certs::issue(&certs, name, &hosts, &certs).expect("a certificate");
        }
        let mut configs = Vec::new();
        let mut servers = Vec::new();
        for name in &names {
            let mut config = config(name, dir.path());
            config.certs_dir = Some(certs.clone());
            let server = Server::start(config.clone()).await.expect("a node");
            // The same ports after a restart.
            config.http = server.http_addr();
            config.link = server.link_addr().expect("links");
            configs.push(config);
            servers.push(Some(server));
        }
        let cluster = Self {
            servers,
            configs,
            _dir: dir,
        };
        for node in 0..count {
            for peer in (0..count).filter(|peer| *peer != node) {
                cluster.declare(node, peer).await;
            }
        }
        cluster
    }

    async fn declare(&self, node: usize, peer: usize) {
        let role = if peer == 0 { "writable" } else { "readable" };
        let config = &self.configs[peer];
        let sql = format!(
            "DEFINE REPLICA {} AT '{}' HTTP AT '{}' ROLES {role}",
            config.node, config.link, config.http
        );
        let answer = self.ask_plain(node, &sql).await;
        assert_eq!(answer.status, 200, "{sql}: {answer:?}");
    }

    pub(crate) fn server(&self, node: usize) -> &Server {
        self.servers[node].as_ref().expect("running")
    }

    pub(crate) fn url(&self, node: usize) -> String {
        format!("http://{}", self.configs[node].http)
    }

    pub(crate) async fn ask(&self, node: usize, sql: &str) -> Answer {
        ask(&self.url(node), sql).await
    }

    /// Without any selection.
    pub(crate) async fn ask_plain(&self, node: usize, sql: &str) -> Answer {
        ask_with(&self.url(node), sql, &[]).await
    }

    /// Runs a script on the leader and gives its newest version.
    pub(crate) async fn write(&self, sql: &str) -> u64 {
        let answer = self.ask(0, sql).await;
        assert_eq!(answer.status, 200, "{sql}: {answer:?}");
        let results = answer.body["results"].as_array().expect("results");
        results
            .iter()
            .filter_map(|result| result["receipt"]["version"].as_u64())
            .max()
            .unwrap_or_default()
    }

    /// Waits until `node` holds what the leader has committed and knows the age of its copy.
    pub(crate) async fn wait_level(&self, node: usize) {
        let range = RangeName::new("main");
        eventually("a level follower", || async {
            let tail = self.server(0).node().view(&range).own.copy?.position;
            let copy = self.server(node).node().view(&range).own.copy?;
            (copy.position >= tail && copy.copy_age.is_some()).then_some(())
        })
        .await;
    }

    /// Waits until every node has heard from every running peer.
    pub(crate) async fn wait_greeted(&self) {
        for server in self.servers.iter().flatten() {
            eventually("greetings", || async {
                server
                    .node()
                    .peers()
                    .iter()
                    .all(|peer| peer.state.is_some())
                    .then_some(())
            })
            .await;
        }
    }

    pub(crate) async fn stop(&mut self, node: usize) {
        if let Some(server) = self.servers[node].take() {
            server.shutdown().await;
        }
    }

    pub(crate) async fn start_again(&mut self, node: usize) {
        let server = Server::start(self.configs[node].clone()).await.expect("a node");
        self.servers[node] = Some(server);
    }

    /// INFO FOR NODE as a document.
    pub(crate) async fn info(&self, node: usize) -> Value {
        let answer = self.ask_plain(node, "INFO FOR NODE").await;
        let text = answer.rows(0)[0][0].as_str().expect("a document").to_owned();
        serde_json::from_str(&text).expect("JSON")
    }
}
