//! Running a script: its statements in order, until one stops it.
//!
//! A redirect is given only while nothing has been committed: a client follows one by sending the whole script to the
//! other node. After a commit it becomes an error that says what stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::Schema;
use candor_engine::ScriptText;
use candor_parser::Body;
use candor_proto::{ErrorBody, ErrorCode, Receipt, Redirect};

use crate::failure::Stop;
use crate::http::{result_text, stopped_after_commit};
use crate::parsed::ParsedScript;
use crate::rows::{Output, deadline_passed};
use crate::server::Shared;
use crate::session::Session;
use crate::statement::{Effect, Run, run_statement};

/// A request's script as text, and its parameters as tails and the engine read them.
pub(crate) struct Params {
    /// The caller's own name for the request, under which its progress can be asked for.
    pub(crate) request_id: Option<String>,
    pub(crate) text: ScriptText,
    pub(crate) tails: Vec<candor_parser::Param>,
    pub(crate) engine: Vec<candor_engine::Param>,
}

impl Params {
    /// Takes JSON values: `$1` is the first.
    pub(crate) fn new(script: &str, values: &[serde_json::Value], request_id: Option<String>) -> Self {
        Self {
            request_id,
            text: ScriptText::new(script),
            tails: values.iter().map(tail_param).collect(),
            engine: values.iter().map(engine_param).collect(),
        }
    }
}

fn tail_param(value: &serde_json::Value) -> candor_parser::Param {
    use candor_parser::Param;
    use serde_json::Value;
    match value {
        Value::String(text) => Param::Text(text.clone()),
        Value::Number(number) => match number.to_string().parse::<i128>() {
            Ok(integer) => Param::Integer(integer),
            Err(_) => Param::Other("a number with a fraction"),
        },
        Value::Null => Param::Other("NULL"),
        Value::Bool(_) => Param::Other("a boolean"),
        Value::Array(_) => Param::Other("a list"),
        Value::Object(_) => Param::Other("an object"),
    }
}

fn engine_param(value: &serde_json::Value) -> candor_engine::Param {
    use candor_engine::Param;
    use serde_json::Value;
    match value {
        Value::Null => Param::Null,
        Value::Bool(value) => Param::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Param::Int(integer),
            (None, Some(float)) if number.is_f64() => Param::Float(float),
            _ => Param::Number(number.to_string()),
        },
        Value::String(text) => Param::Text(text.clone()),
        // Documents and lists go in as their JSON text.
        Value::Array(_) | Value::Object(_) => Param::Text(value.to_string()),
    }
}

/// How a script may run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The caller's own deadline of each statement.
    pub(crate) timeout: Option<Duration>,
    /// The last statement's rows are not collected.
    pub(crate) stream_last: bool,
    /// The session outlives the script, so a transaction may stay open.
    pub(crate) kept: bool,
}

/// A statement's answer that is complete.
#[derive(Debug)]
pub(crate) struct Collected {
    /// Its element of `results`.
    pub(crate) text: String,
    receipt: Receipt,
    rows_affected: Option<u64>,
}

impl Collected {
    async fn of(output: Output) -> Result<Self, Stop> {
        let Output {
            rows,
            rows_affected,
            receipt,
        } = output;
        let text = match rows {
            Some(rows) => {
                let (schema, batches) = rows.collect().await?;
                result_text(&schema, &batches, rows_affected, &receipt)?
            }
            None => result_text(&Schema::empty(), &[], rows_affected, &receipt)?,
        };
        Ok(Self {
            text,
            receipt,
            rows_affected,
        })
    }

    /// The answer without its rows: for formats that stream, of statements that gave none.
    pub(crate) fn into_output(self) -> Output {
        Output {
            rows: None,
            rows_affected: self.rows_affected,
            receipt: self.receipt,
        }
    }
}

/// How a script ended.
pub(crate) enum Ended {
    /// Every statement was answered; `last` is the last one's answer when it is streamed.
    Done {
        outputs: Vec<Collected>,
        last: Option<Output>,
    },
    /// Another node answers the whole script. Nothing was committed.
    Redirect(Box<Redirect>),
    /// A statement failed; `done` are the answers before it.
    Failed { body: Box<ErrorBody>, done: Vec<Collected> },
}

/// Runs `script` in `session`.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    session: &mut Session,
    script: &ParsedScript,
    params: &Params,
    limits: Limits,
) -> Ended {
    let text = &params.text;
    let watched = shared.running.start(params.request_id.as_deref());
    let mut done = Vec::with_capacity(script.statements().len());
    let mut live = None;
    let mut committed = false;
    let last = script.statements().len().saturating_sub(1);
    for (index, (statement, known)) in script.statements().enumerate() {
        let deadline = Instant::now() + statement_time(shared, session, limits);
        let mut run = Run {
            shared,
            session,
            params,
            text,
            known,
            deadline,
            progress: watched.progress(),
            effect: Effect::None,
        };
        let answered = tokio::time::timeout_at(deadline.into(), run_statement(&mut run, statement)).await;
        committed |= run.effect != Effect::None;
        let answered = match answered.unwrap_or_else(|_| Err(out_of_time(run.effect))) {
            Ok(output) if limits.stream_last && index == last => {
                live = Some(output);
                continue;
            }
            Ok(output) => Collected::of(output).await,
            Err(stop) => Err(stop),
        };
        match answered {
            Ok(output) => done.push(output),
            Err(stop) => {
                let was_open = session.transaction.is_some();
                return stopped(
                    session,
                    stop,
                    &StoppedAt {
                        index,
                        body: &statement.body,
                        committed,
                        was_open,
                    },
                    done,
                    limits,
                );
            }
        }
    }
    if !limits.kept
        && let Some(transaction) = session.transaction.take()
        && !transaction.pending.is_empty()
    {
        let body = ErrorBody::new(
            ErrorCode::TransactionState,
            "the script ended inside a transaction: it was rolled back, and nothing of it was kept",
        )
        .with_help("end it with COMMIT, or keep a session with `Candor-Session: new`");
        return Ended::Failed {
            body: Box::new(body),
            done,
        };
    }
    Ended::Done {
        outputs: done,
        last: live,
    }
}

/// The error of a statement that was stopped at its deadline. A write that was on its way may still be committed.
fn out_of_time(effect: Effect) -> Stop {
    if effect == Effect::None {
        return deadline_passed();
    }
    ErrorBody::new(
        ErrorCode::OutcomeUnknown,
        "the deadline passed while the write was being committed: whether it took effect is not known",
    )
    .with_help("read before writing again")
    .into()
}

/// The time one statement has: the shortest of the node's, the session's and the caller's.
fn statement_time(shared: &Shared, session: &Session, limits: Limits) -> Duration {
    let own = shared.config.statement_deadline;
    [session.settings.statement_timeout, limits.timeout]
        .into_iter()
        .flatten()
        .fold(own, Duration::min)
}

struct StoppedAt<'a> {
    index: usize,
    body: &'a Body,
    committed: bool,
    was_open: bool,
}

fn stopped(session: &mut Session, stop: Stop, at: &StoppedAt<'_>, done: Vec<Collected>, limits: Limits) -> Ended {
    match stop {
        Stop::Redirect(redirect) if !at.committed => {
            // The whole transaction goes to the other node, so nothing of it may stay here.
            session.transaction = None;
            Ended::Redirect(redirect)
        }
        stop => {
            let mut body = stopped_after_commit(stop);
            body.statement = Some(at.index);
            if at.was_open && limits.kept && !matches!(at.body, Body::Commit | Body::Rollback) {
                if let Some(transaction) = &mut session.transaction {
                    transaction.failed = true;
                }
            } else {
                session.transaction = None;
            }
            Ended::Failed { body, done }
        }
    }
}
