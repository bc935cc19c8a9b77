//! Requests that follow nothing by themselves, and answers as they came.

use std::time::Duration;

use serde_json::Value;

/// Longer than any pause in these tests: a request to a paused node waits for its end.
const REQUEST_TIME_MAX: Duration = Duration::from_mins(10);

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// The rows of statement `index`.
    pub(crate) fn rows(&self, index: usize) -> &[Value] {
        self.result(index)["rows"].as_array().expect("rows")
    }

    pub(crate) fn receipt(&self, index: usize) -> &Value {
        &self.result(index)["receipt"]
    }

    fn result(&self, index: usize) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        &self.body["results"][index]
    }
}

/// A node's HTTP door as a client sees it; cheap to clone, for tasks.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    client: reqwest::Client,
    url: String,
    headers: Vec<(String, String)>,
}

impl Door {
    /// With database `main` of namespace `main` selected.
    pub(crate) fn new(client: reqwest::Client, url: String) -> Self {
        Self {
            client,
            url,
            headers: Vec::new(),
        }
        .selecting("main", "main")
    }

    /// The client that all doors of a cluster share.
    pub(crate) fn client() -> reqwest::Client {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIME_MAX);
        builder.build().expect("a client")
    }

    /// The same door with this selection in every request.
    pub(crate) fn selecting(mut self, namespace: &str, database: &str) -> Self {
        self.headers.retain(|(name, _)| !name.starts_with("candor-"));
        self.headers.push(("candor-namespace".to_owned(), namespace.to_owned()));
        self.headers.push(("candor-database".to_owned(), database.to_owned()));
        self
    }

    /// The same door with nothing selected.
    pub(crate) fn plain(mut self) -> Self {
        self.headers.clear();
        self
    }

    /// `http://host:port`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// One request, which must be answered.
    pub(crate) async fn ask(&self, sql: &str) -> Answer {
        match self.try_ask(sql).await {
            Ok(answer) => answer,
            Err(error) => panic!("{} does not answer `{}`: {error:?}", self.url, shortened(sql)),
        }
    }

    /// One request, which must succeed; gives its newest version.
    pub(crate) async fn run(&self, sql: &str) -> u64 {
        let answer = self.ask(sql).await;
        assert_eq!(answer.status, 200, "{}: {answer:?}", shortened(sql));
        let results = answer.body["results"].as_array().expect("results");
        results
            .iter()
            .filter_map(|result| result["receipt"]["version"].as_u64())
            .max()
            .unwrap_or_default()
    }

    /// One request to a node that may be gone.
    pub(crate) async fn try_ask(&self, sql: &str) -> reqwest::Result<Answer> {
        self.read(self.client.post(format!("{}/sql", self.url)).body(sql.to_owned()))
            .await
    }

    /// The same door in a kept session of its own; `None` while the node gives none.
    pub(crate) async fn session(&self) -> Option<Self> {
        let mut request = self.client.post(format!("{}/sql", self.url)).body("SELECT 1");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = request.header("candor-session", "new").send().await.ok()?;
        let id = response.headers().get("candor-session")?.to_str().ok()?.to_owned();
        let mut door = self.clone();
        door.headers.push(("candor-session".to_owned(), id));
        Some(door)
    }

    /// `GET path`.
    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<Answer> {
        self.read(self.client.get(format!("{}{path}", self.url))).await
    }

    async fn read(&self, mut request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, body })
    }
}

fn shortened(sql: &str) -> String {
    sql.chars().take(200).collect()
}
