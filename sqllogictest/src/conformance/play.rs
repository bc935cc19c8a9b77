//! Plays one script against a server, record by record.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use candor_client::{Client, ClientError, Config, StatementResult};
use candor_proto::ErrorCode;

use super::check;
use super::nulls::{NullOrder, RowOrder};
use super::origins::Origin;
use super::record::{Action, Query, QueryExpected, Record, Script, StatementExpected};
use super::server::{Address, Server};
use super::skips::Skips;
use super::tally::Verdict;
use super::values;

/// How long a `sleep` may take: nothing here becomes visible later.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Values of an answer that are shown of a wrong record.
const SHOWN_MAX: usize = 2000;

/// What plays scripts of one origin.
pub(crate) struct Player<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) skips: &'a Skips,
    pub(crate) server: &'a Server,
    /// How long a record may take.
    pub(crate) deadline: Duration,
}

/// How a script went.
pub(crate) enum Outcome {
    /// One verdict for each record.
    Done(Vec<Verdict>),
    /// The server ended under the record at this place, or under one of another script.
    Ended(Option<usize>),
}

/// Records that are not sent: the server ended under them.
pub(crate) const DIED: &str = "the server ended under this record";

impl Player<'_> {
    /// Plays `script` in the namespace `namespace`; `fatal` are places of records that are not sent.
    pub(crate) async fn play(
        &self,
        script: &Script,
        address: &Address,
        namespace: &str,
        fatal: &[usize],
        chosen: &[bool],
    ) -> Result<Outcome> {
        let setup = Client::connect(&address.url, Config::default())?;
        let database = self.origin.database;
        let define = format!("DEFINE NAMESPACE {namespace}; DEFINE DATABASE IF NOT EXISTS {namespace}.{database}");
        if let Err(error) = setup.execute(&define, &[]).await {
            if self.server.has_ended(address).await? {
                return Ok(Outcome::Ended(None));
            }
            return Err(error).with_context(|| define);
        }
        let mut session = Session {
            address,
            namespace,
            database,
            deadline: self.deadline,
            clients: BTreeMap::new(),
            folder: None,
        };
        let outcome = self.records(script, &mut session, fatal, chosen).await?;
        for client in session.clients.values() {
            client.close().await;
        }
        if matches!(outcome, Outcome::Done(_)) {
            // Without this a long run would carry the data of all scripts along.
            if let Err(error) = setup.execute(&format!("REMOVE NAMESPACE {namespace}"), &[]).await {
                eprintln!("{}: cannot drop its data: {error}", script.path);
            }
        }
        Ok(outcome)
    }

    async fn records(
        &self,
        script: &Script,
        session: &mut Session<'_>,
        fatal: &[usize],
        chosen: &[bool],
    ) -> Result<Outcome> {
        let mut skips = self.skips.of_script(&script.path);
        let mut nulls = NullOrder::new(self.origin.style.nulls);
        let mut verdicts = Vec::with_capacity(script.records.len());
        for (place, record) in script.records.iter().enumerate() {
            nulls.note(record.sql());
            let verdict = if let Some(reason) = skips.reason(record).or_else(|| nulls.reason(record)) {
                Verdict::Skipped(reason)
            } else if fatal.contains(&place) {
                Verdict::Wrong(DIED.to_owned())
            } else if !chosen[place] {
                Verdict::NotChosen
            } else {
                match self.record(record, session, &nulls).await? {
                    Some(verdict) => verdict,
                    None => return Ok(Outcome::Ended(Some(place))),
                }
            };
            verdicts.push(verdict);
        }
        Ok(Outcome::Done(verdicts))
    }

    /// The verdict on one record; `None` if the server ended.
    async fn record(&self, record: &Record, session: &mut Session<'_>, nulls: &NullOrder) -> Result<Option<Verdict>> {
        match &record.action {
            Action::Sleep(span) => {
                tokio::time::sleep((*span).min(SLEEP_MAX)).await;
                return Ok(Some(Verdict::Right));
            }
            Action::Foreign(what) => return Ok(Some(Verdict::Skipped((*what).to_owned()))),
            Action::Statement { .. } | Action::Query(_) => {}
        }
        let client = session.client(record.connection.as_ref())?;
        let sql = session.substituted(record.sql())?;
        let answer = match client.execute(&sql, &[]).await {
            Ok(answer) => Ok(answer.results.into_iter().next_back().unwrap_or_default()),
            Err(ClientError::Server(body)) => Err((body.code, format!("{}: {}", body.code, body.error))),
            Err(ClientError::Deadline { .. }) => {
                return Ok(Some(Verdict::Wrong("no answer within the deadline".to_owned())));
            }
            Err(ClientError::Connect { .. } | ClientError::OutcomeUnknown { .. })
                if self.server.has_ended(session.address).await? =>
            {
                return Ok(None);
            }
            Err(error) => return Ok(Some(Verdict::Wrong(error.to_string()))),
        };
        Ok(Some(self.judge(record, answer, nulls)))
    }

    fn judge(
        &self,
        record: &Record,
        answer: Result<StatementResult, (ErrorCode, String)>,
        nulls: &NullOrder,
    ) -> Verdict {
        let result = match answer {
            // A fault of the server is not the error that the script asks for.
            Err((ErrorCode::Internal | ErrorCode::Deadline, text)) => return Verdict::Wrong(text),
            Err(_) if record.wants_error() => return Verdict::Right,
            Err((_, text)) => {
                let any = matches!(
                    record.action,
                    Action::Statement {
                        expected: StatementExpected::Any,
                        ..
                    }
                );
                return if any { Verdict::Right } else { Verdict::Wrong(text) };
            }
            Ok(_) if record.wants_error() => return Verdict::Wrong("no error".to_owned()),
            Ok(result) => result,
        };
        match &record.action {
            Action::Statement {
                expected: StatementExpected::Count(count),
                ..
            } => {
                let touched = result.rows_affected.unwrap_or(result.rows.len() as u64);
                if touched == *count {
                    Verdict::Right
                } else {
                    Verdict::Wrong(format!("{touched} rows"))
                }
            }
            Action::Query(query) => self.rows(query, &result, nulls.row_order(query)),
            Action::Statement { .. } | Action::Sleep(_) | Action::Foreign(_) => Verdict::Right,
        }
    }

    fn rows(&self, query: &Query, result: &StatementResult, order: RowOrder) -> Verdict {
        if query.expected == QueryExpected::Any {
            return Verdict::Right;
        }
        let rows = values::rows(result, &query.letters, self.origin.style);
        if check::is_right(query, &rows, self.origin.style, order) {
            return Verdict::Right;
        }
        let mut shown = String::new();
        for row in &rows {
            let line: Vec<&str> = row.iter().map(|cell| cell.text.as_str()).collect();
            shown.push_str(&line.join("\t"));
            shown.push('\n');
            if shown.len() > SHOWN_MAX {
                shown.push('…');
                break;
            }
        }
        Verdict::Wrong(format!("{} rows:\n{}", rows.len(), shown.trim_end()))
    }
}

/// The connections of one script.
struct Session<'a> {
    address: &'a Address,
    namespace: &'a str,
    database: &'a str,
    deadline: Duration,
    clients: BTreeMap<Option<Arc<str>>, Client>,
    /// For files of the script, once it names one.
    folder: Option<tempfile::TempDir>,
}

/// The variable for a script's own folder, as `sqllogictest`'s runner knows it.
const TEST_FOLDER: &str = "${__TEST_DIR__}";

impl Session<'_> {
    /// `sql` with the script's own folder in place of the variable.
    fn substituted<'a>(&mut self, sql: &'a str) -> Result<Cow<'a, str>> {
        if !sql.contains(TEST_FOLDER) {
            return Ok(Cow::Borrowed(sql));
        }
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => tempfile::tempdir()?,
        };
        let sql = sql.replace(TEST_FOLDER, &folder.path().to_string_lossy());
        self.folder = Some(folder);
        Ok(Cow::Owned(sql))
    }

    fn client(&mut self, name: Option<&Arc<str>>) -> Result<Client, ClientError> {
        let key = name.cloned();
        if let Some(client) = self.clients.get(&key) {
            return Ok(client.clone());
        }
        let config = Config {
            namespace: Some(self.namespace.to_owned()),
            database: Some(self.database.to_owned()),
            deadline: self.deadline,
            session: true,
            ..Config::default()
        };
        let client = Client::connect(&self.address.url, config)?;
        self.clients.insert(key, client.clone());
        Ok(client)
    }
}
