//! One connection of a suite: where each statement goes, and what comes back.
//!
//! At a follower the connection has two ends. The writer follows redirects and ends up at the leader; the reader stays
//! at the follower. Before each read the reader asks for the version of the last write, which waits until the follower
//! has applied it: a suite reads its own writes in both modes, and the read itself is sent as it is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use candor_client::{Answer, Client, ClientError, StatementResult};
use candor_proto::{LogIndex, Role};
use sqllogictest::{AsyncDB, DBOutput};

use crate::column::Kind;
use crate::render::render;

/// How long a follower may take to hear of a new namespace or to apply what was written.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// The name under which `skipif` and `onlyif` know the engine.
pub(crate) const ENGINE: &str = "candor";

/// Between two asks of a follower that does not know the namespace yet.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(20);

/// A statement that failed, or could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The node's error object.
    #[error("{text}")]
    Refused { text: String, sqlstate: String },
    /// No answer, or one that the client refuses.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// A follower did not get there in time.
    #[error("the follower did not reach version {version} of {range} in {} s: {cause}", CATCH_UP_MAX.as_secs())]
    Behind {
        range: String,
        version: LogIndex,
        cause: String,
    },
}

/// What the connections of one file share.
pub(crate) struct Shared {
    /// The newest version written to each namespace.
    written: Mutex<BTreeMap<String, LogIndex>>,
    /// The record is a `query`: a write answers with one row, the number of rows it touched.
    pub(crate) count_as_row: AtomicBool,
    pub(crate) read_at_follower: AtomicUsize,
    pub(crate) read_at_leader: AtomicUsize,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            written: Mutex::default(),
            count_as_row: AtomicBool::new(false),
            read_at_follower: AtomicUsize::new(0),
            read_at_leader: AtomicUsize::new(0),
        }
    }

    /// The newest version written to `namespace`.
    pub(crate) fn version(&self, namespace: &str) -> LogIndex {
        self.written.lock().map_or(LogIndex::ZERO, |written| {
            written.get(namespace).copied().unwrap_or_default()
        })
    }

    /// Takes note of what an answer of the leader says it wrote.
    pub(crate) fn note_writes(&self, answer: &Answer) {
        let Ok(mut written) = self.written.lock() else { return };
        for receipt in answer.results.iter().filter_map(|result| result.receipt.as_ref()) {
            if let Some(range) = &receipt.range {
                let newest = written.entry(range.to_string()).or_default();
                *newest = receipt.version.max(*newest);
            }
        }
    }
}

/// Which end takes a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It reads.
    Reader,
    /// It writes, or stands in a transaction.
    Writer,
    /// It changes the session: both ends keep step.
    Both,
}

/// One connection of a suite.
pub(crate) struct Session {
    writer: Client,
    /// The follower's end; `None` against a single node.
    reader: Option<Client>,
    namespace: String,
    in_transaction: bool,
    shared: Arc<Shared>,
}

impl Session {
    pub(crate) fn new(writer: Client, reader: Option<Client>, namespace: &str, shared: Arc<Shared>) -> Self {
        Self {
            writer,
            reader,
            namespace: namespace.to_owned(),
            in_transaction: false,
            shared,
        }
    }

    /// Which end takes `sql`, and what it does to the session.
    fn route(&mut self, sql: &str) -> End {
        let words = sql.split(|c: char| !c.is_ascii_alphabetic());
        let mut words = words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase);
        let word = words.next().unwrap_or_default();
        let goes_back_only = word == "rollback" && words.any(|word| word == "to");
        let was_in_transaction = self.in_transaction;
        match word.as_str() {
            "begin" | "start" => self.in_transaction = true,
            "commit" | "rollback" | "end" | "abort" if !goes_back_only => self.in_transaction = false,
            _ => {}
        }
        match word.as_str() {
            _ if was_in_transaction || self.in_transaction => End::Writer,
            "use" | "set" | "reset" => End::Both,
            "select" | "values" | "table" | "explain" | "return" | "info" | "show" if is_one_statement(sql) => {
                End::Reader
            }
            "with" if is_one_statement(sql) && !writes(sql) => End::Reader,
            _ => End::Writer,
        }
    }

    async fn execute(&mut self, sql: &str) -> Result<Answer, SessionError> {
        match (self.route(sql), self.reader.clone()) {
            (_, None) | (End::Writer, _) => self.write(sql).await,
            (End::Reader, Some(reader)) => {
                catch_up(&reader, &self.namespace, self.shared.version(&self.namespace)).await?;
                let answer = reader.execute(sql, &[]).await.map_err(|error| refused(error, sql))?;
                self.count_reads(&answer);
                Ok(answer)
            }
            (End::Both, Some(reader)) => {
                let answer = self.write(sql).await?;
                eventually(|| reader.execute(sql, &[]))
                    .await
                    .map_err(|error| refused(error, sql))?;
                Ok(answer)
            }
        }
    }

    async fn write(&mut self, sql: &str) -> Result<Answer, SessionError> {
        let answer = self
            .writer
            .execute(sql, &[])
            .await
            .map_err(|error| refused(error, sql))?;
        self.shared.note_writes(&answer);
        if let Some(namespace) = answer.session.as_ref().and_then(|session| session.namespace.clone()) {
            self.namespace = namespace;
        }
        Ok(answer)
    }

    fn count_reads(&self, answer: &Answer) {
        for receipt in answer.results.iter().filter_map(|result| result.receipt.as_ref()) {
            let counter = match receipt.role {
                Some(Role::Follower) => &self.shared.read_at_follower,
                Some(Role::Leader) => &self.shared.read_at_leader,
                None => continue,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn output(&self, result: &StatementResult) -> DBOutput<Kind> {
        if result.columns.is_empty() {
            let count = result.rows_affected.unwrap_or(0);
            return if self.shared.count_as_row.load(Ordering::Relaxed) {
                DBOutput::Rows {
                    types: vec![Kind::Integer],
                    rows: vec![vec![count.to_string()]],
                }
            } else {
                DBOutput::StatementComplete(count)
            };
        }
        let types: Vec<Kind> = result.columns.iter().map(|column| Kind::of(&column.r#type)).collect();
        let row = |row: &Vec<serde_json::Value>| {
            let values = row.iter().zip(&types);
            values.map(|(value, kind)| render(value, *kind)).collect()
        };
        DBOutput::Rows {
            rows: result.rows.iter().map(row).collect(),
            types,
        }
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = SessionError;
    type ColumnType = Kind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Kind>, SessionError> {
        let answer = self.execute(sql).await?;
        Ok(answer
            .results
            .last()
            .map_or(DBOutput::StatementComplete(0), |result| self.output(result)))
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        ENGINE
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &SessionError) -> Option<String> {
        match error {
            SessionError::Refused { sqlstate, .. } => Some(sqlstate.clone()),
            SessionError::Client(_) | SessionError::Behind { .. } => None,
        }
    }
}

/// Whether `sql` holds one statement. A semicolon inside a string counts too: such a script goes to the leader, which
/// gives the same answer.
fn is_one_statement(sql: &str) -> bool {
    !sql.trim().trim_end_matches(';').contains(';')
}

/// Whether a statement that starts with WITH writes.
fn writes(sql: &str) -> bool {
    sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| {
        ["insert", "update", "delete", "merge"]
            .iter()
            .any(|verb| word.eq_ignore_ascii_case(verb))
    })
}

/// Waits until the node behind `reader` has applied `version` of `namespace` itself.
///
/// It may not have heard of a new namespace yet: then it refuses, or sends the caller on to the leader, which does not
/// count. Every refusal that lasts is reported when the time is up.
pub(crate) async fn catch_up(reader: &Client, namespace: &str, version: LogIndex) -> Result<(), SessionError> {
    if version == LogIndex::ZERO {
        return Ok(());
    }
    let ask = format!("SELECT 1 AT LEAST VERSION {version} WAIT 5s");
    let until = Instant::now() + CATCH_UP_MAX;
    loop {
        let cause = match reader.execute(&ask, &[]).await {
            Ok(answer) if answer.hops.is_empty() => return Ok(()),
            Ok(_) => "it sends the read on to another node".to_owned(),
            Err(error) => refused(error, &ask).to_string(),
        };
        if Instant::now() >= until {
            return Err(SessionError::Behind {
                range: namespace.to_owned(),
                version,
                cause,
            });
        }
        tokio::time::sleep(CATCH_UP_PAUSE).await;
    }
}

/// Asks again until it succeeds or [`CATCH_UP_MAX`] is over; then the last error.
async fn eventually<T, F>(mut ask: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let until = Instant::now() + CATCH_UP_MAX;
    loop {
        match ask().await {
            Err(_) if Instant::now() < until => tokio::time::sleep(CATCH_UP_PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// The error as suites see it: ``code: message (help) [at `clause`]``, so that they can check where it points.
fn refused(error: ClientError, sql: &str) -> SessionError {
    let ClientError::Server(body) = &error else {
        return SessionError::Client(error);
    };
    let mut text = format!("{}: {}", body.code, body.error);
    if let Some(help) = &body.help {
        text.extend([" (", help, ")"]);
    }
    if let Some(clause) = body.span.and_then(|span| sql.get(span.start..span.start + span.length)) {
        text.extend([" [at `", clause, "`]"]);
    }
    SessionError::Refused {
        text,
        sqlstate: body.sqlstate.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_write_are_told_from_those_that_read() {
        assert!(writes("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"));
        assert!(!writes("WITH inserted AS (SELECT 1) SELECT * FROM inserted"));
        assert!(is_one_statement("SELECT 1;"));
        assert!(!is_one_statement("SELECT 1; SELECT 2"));
    }
}
