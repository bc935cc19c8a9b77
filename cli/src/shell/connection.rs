//! The shell's side of a conversation: one client, what its session has selected, and where it is pinned.
//!
//! A client moves with a settled redirect. A person who looks at one node does not want that, so the shell can be
//! pinned: each statement then starts at the pinned node, whatever was redirected before. An open transaction is not
//! torn away from the node that holds it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use candor_client::{Answer, Client, ClientError, Config, SessionInfo};
use candor_proto::{ErrorCode, RedirectKind};
use serde_json::Value;

use super::format::text_of;
use super::output::Spinner;

/// How to connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionOptions {
    pub(crate) namespace: Option<String>,
    pub(crate) database: Option<String>,
    /// For one statement with all its redirects.
    pub(crate) timeout: Option<Duration>,
}

/// A conversation.
pub(crate) struct Connection {
    client: Client,
    timeout: Option<Duration>,
    /// Where the client was pointed at; redirects may have moved it since.
    url: String,
    moved: bool,
    node: Option<String>,
    session: SessionInfo,
    /// Node and URL that every statement starts at.
    pinned: Option<(String, String)>,
    /// URLs by node, from the demo or from the nodes themselves.
    known: BTreeMap<String, String>,
}

impl Connection {
    /// Reaches the node at `url` and learns which one it is.
    ///
    /// # Errors
    /// When nobody answers there, or not as a node does.
    pub(crate) async fn open(url: &str, options: ConnectionOptions) -> Result<Self, ClientError> {
        let session = SessionInfo {
            namespace: options.namespace,
            database: options.database,
            ..SessionInfo::default()
        };
        let client = connect(url, options.timeout, &session)?;
        let mut connection = Self {
            client,
            timeout: options.timeout,
            url: url.to_owned(),
            moved: false,
            node: None,
            session,
            pinned: None,
            known: BTreeMap::new(),
        };
        connection.send(WHERE).await?;
        Ok(connection)
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// What the node answered, or why there is no answer.
    pub(crate) async fn execute(&mut self, statement: &str) -> Result<Answer, ClientError> {
        self.go_home().await?;
        match self.send(statement).await {
            // Idle for too long: nothing ran, nothing was open, so a new session starts where the old one ended.
            Err(ClientError::Server(body)) if body.code == ErrorCode::SessionDead && !self.session.transaction => {
                self.send(statement).await
            }
            answered => answered,
        }
    }

    async fn send(&mut self, statement: &str) -> Result<Answer, ClientError> {
        let answer = self.client.execute(statement, &[]).await?;
        self.moved |= answer.hops.iter().any(|hop| hop.kind == RedirectKind::Settled);
        let stayed = answer.hops.iter().all(|hop| hop.kind == RedirectKind::Settled);
        if let (true, Some(node)) = (stayed, &answer.node) {
            self.node = Some(node.to_string());
        }
        for hop in &answer.hops {
            self.known.insert(hop.node.to_string(), hop.url.clone());
        }
        if let Some(session) = &answer.session {
            self.session = session.clone();
        }
        Ok(answer)
    }

    /// Back to the pinned node, with the same namespace, database and settings.
    async fn go_home(&mut self) -> Result<(), ClientError> {
        let Some((node, url)) = self.pinned.clone() else {
            return Ok(());
        };
        if self.session.transaction || (!self.moved && self.node.as_deref() == Some(node.as_str())) {
            return Ok(());
        }
        let away = std::mem::replace(&mut self.client, connect(&url, self.timeout, &self.session)?);
        away.close().await;
        self.url = url;
        self.moved = false;
        self.node = Some(node);
        Ok(())
    }

    /// The rows of one query, for the shell's own use.
    pub(crate) async fn rows(&mut self, query: &str) -> Result<Vec<Vec<Value>>, ClientError> {
        let answer = self.execute(query).await?;
        Ok(answer
            .results
            .into_iter()
            .next_back()
            .map(|result| result.rows)
            .unwrap_or_default())
    }

    /// One of a node's documents.
    pub(crate) async fn document(&mut self, query: &str) -> Result<Value, ClientError> {
        let rows = self.rows(query).await?;
        Ok(rows.first().and_then(|row| row.first()).map(parsed).unwrap_or_default())
    }

    /// The databases of a namespace, which need not be the one in use.
    pub(crate) async fn databases(&mut self, namespace: &str) -> Result<Vec<String>, ClientError> {
        let session = SessionInfo {
            namespace: Some(namespace.to_owned()),
            ..SessionInfo::default()
        };
        let client = connect(&self.client.url(), self.timeout, &session)?;
        let answer = client.execute("INFO FOR NAMESPACE", &[]).await;
        client.close().await;
        let document = answer?
            .last()
            .and_then(|result| result.scalar())
            .map(parsed)
            .unwrap_or_default();
        let names = document["databases"].as_array().into_iter().flatten();
        Ok(names.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// The leader of the range in use, as this node knows it, and its answer to a query of its own tables.
    pub(crate) async fn leader_answer(&mut self, query: &str) -> Result<Option<(String, Answer)>, ClientError> {
        let Some(namespace) = self.session.namespace.clone() else {
            return Ok(None);
        };
        let ranges = self.rows("SELECT range, leader FROM system.ranges").await?;
        let text = |row: &[Value], index: usize| row.get(index).and_then(text_of);
        let leader = ranges
            .iter()
            .find(|row| text(row, 0).as_deref() == Some(&namespace))
            .and_then(|row| text(row, 1));
        let Some(leader) = leader else { return Ok(None) };
        if self.node.as_ref() == Some(&leader) {
            return Ok(Some((leader, self.execute(query).await?)));
        }
        let Some(url) = self.url_of(&leader).await? else {
            return Ok(None);
        };
        let client = connect(&url, self.timeout, &self.session)?;
        let answer = client.execute(query, &[]).await?;
        client.close().await;
        Ok(Some((leader, answer)))
    }

    /// Where a node is reached, if anybody has said so.
    async fn url_of(&mut self, node: &str) -> Result<Option<String>, ClientError> {
        if let Some(url) = self.known.get(node) {
            return Ok(Some(url.clone()));
        }
        for row in self
            .rows("SELECT name, http_at FROM system.peers WHERE http_at IS NOT NULL")
            .await?
        {
            if let [Some(name), Some(http)] = [0, 1].map(|index| row.get(index).and_then(text_of)) {
                self.known.insert(name, format!("http://{http}"));
            }
        }
        Ok(self.known.get(node).cloned())
    }

    /// Adds what somebody else knows of where nodes are.
    pub(crate) fn know(&mut self, urls: impl Iterator<Item = (String, String)>) {
        self.known.extend(urls);
    }

    /// Pins to a node whose URL is known.
    ///
    /// # Errors
    /// When it is not, or the node is not there.
    pub(crate) async fn pin_to(&mut self, node: &str) -> Result<bool, ClientError> {
        let url = if self.node.as_deref() == Some(node) && !self.moved {
            Some(self.url.clone())
        } else {
            self.url_of(node).await?
        };
        let Some(url) = url else { return Ok(false) };
        let before = self.pinned.replace((node.to_owned(), url));
        if let Err(error) = self.go_home().await {
            self.pinned = before;
            return Err(error);
        }
        Ok(true)
    }

    /// Lets redirects move the shell.
    pub(crate) fn unpin(&mut self) {
        self.pinned = None;
    }

    /// The node that every statement starts at.
    pub(crate) fn pinned(&self) -> Option<&str> {
        self.pinned.as_ref().map(|(node, _)| node.as_str())
    }

    /// The node that the next statement goes to.
    pub(crate) fn node(&self) -> Option<&str> {
        if self.session.transaction { None } else { self.pinned() }.or(self.node.as_deref())
    }

    /// The database in use.
    pub(crate) fn database(&self) -> Option<&str> {
        self.session.database.as_deref()
    }

    /// `n2 main/main`, and `*` in a transaction.
    pub(crate) fn prompt(&self) -> String {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        format!(
            "{} {}/{}{}",
            self.node().unwrap_or("?"),
            name(&self.session.namespace),
            name(&self.session.database),
            if self.session.transaction { "*" } else { "" }
        )
    }

    /// What asks about a statement that is about to run.
    pub(crate) fn ask(&self) -> Ask {
        let mut urls = vec![self.client.url()];
        urls.extend(self.known.values().cloned());
        Ask {
            client: self.client.clone(),
            urls,
        }
    }

    /// Who is talked to, about what.
    pub(crate) fn describe(&self) -> String {
        let or_none = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        let node = self.node().unwrap_or("unknown");
        let url = self.known.get(node).unwrap_or(&self.url);
        let mut lines = vec![
            format!("node         {node} at {url}"),
            format!("namespace    {}", or_none(&self.session.namespace)),
            format!("database     {}", or_none(&self.session.database)),
            format!(
                "transaction  {}",
                if self.session.transaction { "open" } else { "none" }
            ),
            format!("pinned       {}", self.pinned().unwrap_or("no")),
        ];
        let settings = self
            .session
            .settings
            .iter()
            .filter_map(|(name, value)| Some((name, text_of(value)?)));
        lines.extend(settings.map(|(name, value)| format!("setting      {name} = {value}")));
        lines.join("\n")
    }

    /// Ends the server's session, so that it holds nothing for a shell that has left.
    pub(crate) async fn close(&self) {
        self.client.close().await;
    }
}

/// A document, whether it came as text or as what it says.
fn parsed(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    }
}

/// Asks how far a COPY has got.
pub(crate) struct Ask {
    client: Client,
    /// Where it may run: a COPY that was redirected runs at another node than the shell is on.
    urls: Vec<String>,
}

/// A task that ends with whoever holds it.
pub(crate) struct Asking(tokio::task::AbortHandle);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ask {
    /// Asks again and again, and shows each answer.
    pub(crate) fn spawn(self, spinner: Spinner) -> Asking {
        let task = tokio::spawn(async move {
            loop {
                for url in &self.urls {
                    if let Some(progress) = self.client.copy_progress(url).await {
                        spinner.advance(progress);
                        break;
                    }
                }
                tokio::time::sleep(ASK_INTERVAL).await;
            }
        });
        Asking(task.abort_handle())
    }
}

/// How often a COPY is asked how far it has got.
const ASK_INTERVAL: Duration = Duration::from_millis(250);

/// A statement that any session may run and that reads no range.
const WHERE: &str = "RETURN session::context()";

/// A name that no other request of this moment has.
fn request_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("shell-{}-{}", std::process::id(), now.as_nanos())
}

fn connect(url: &str, timeout: Option<Duration>, session: &SessionInfo) -> Result<Client, ClientError> {
    let mut config = Config {
        namespace: session.namespace.clone(),
        database: session.database.clone(),
        session: true,
        request_id: Some(request_id()),
        settings: session
            .settings
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), text_of(value)?)))
            .collect(),
        ..Config::default()
    };
    if let Some(timeout) = timeout {
        config.deadline = timeout;
    }
    Client::connect(url, config)
}
