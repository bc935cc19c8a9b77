//! What a script consists of, whatever its origin wrote it in.

use std::sync::Arc;
use std::time::Duration;

/// One script: records that share a namespace and run in order.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Path below the origin's folder.
    pub(crate) path: String,
    /// In the order in which they run.
    pub(crate) records: Vec<Record>,
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// File below the origin's folder: another than the script's for an included one.
    pub(crate) file: Arc<str>,
    /// Line of the directive, from 1.
    pub(crate) line: u32,
    /// Name of the connection; `None` for the one that every script starts with.
    pub(crate) connection: Option<Arc<str>>,
    /// Why the file itself leaves the record out for this engine, as a condition on its label.
    pub(crate) label: Option<String>,
    /// Why another answer is expected than the file says.
    pub(crate) corrected: Option<String>,
    pub(crate) action: Action,
}

/// What a record does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Statement {
        sql: String,
        expected: StatementExpected,
    },
    Query(Query),
    /// Waits.
    Sleep(Duration),
    /// Something that cannot be sent to any server; says what.
    Foreign(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementExpected {
    Success,
    Error,
    Count(u64),
    /// Either is right.
    Any,
}

/// A record that expects rows.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) sql: String,
    /// One letter for each column.
    pub(crate) letters: String,
    pub(crate) sort: Option<Sort>,
    /// One value on a line, as the whole file says.
    pub(crate) one_value_a_line: bool,
    pub(crate) expected: QueryExpected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// As received.
    None,
    Rows,
    Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryExpected {
    Lines(Vec<String>),
    /// `count` values whose rendered forms hash to `md5` (32 hex digits).
    Hash {
        count: usize,
        md5: String,
    },
    Error,
    /// Success, whatever the rows.
    Any,
}

impl Record {
    /// The statement; empty for what is not sent.
    pub(crate) fn sql(&self) -> &str {
        match &self.action {
            Action::Statement { sql, .. } => sql,
            Action::Query(query) => &query.sql,
            Action::Sleep(_) | Action::Foreign(_) => "",
        }
    }

    /// Whether it counts among the queries; everything else counts among the statements.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self.action, Action::Query(_))
    }

    /// Whether an error is what the script wants.
    pub(crate) fn wants_error(&self) -> bool {
        match &self.action {
            Action::Statement { expected, .. } => *expected == StatementExpected::Error,
            Action::Query(query) => query.expected == QueryExpected::Error,
            Action::Sleep(_) | Action::Foreign(_) => false,
        }
    }
}
