//! One error object, one table of codes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a caller may do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request fails again.
    Never,
    /// The same request may succeed at once.
    Same,
    /// The same request may succeed after this time.
    After(Duration),
    /// Whether a write took effect is not known: read before writing again.
    OutcomeUnknown,
}

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $sqlstate:literal, $retry:expr; )*) => {
        /// Every error a machine may act on, with its HTTP status, SQLSTATE and retry rule in one table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( $(#[$doc])* $variant, )*
        }

        impl ErrorCode {
            /// All codes, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code as it stands in answers.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The HTTP status of an answer that carries the code.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The five-character SQLSTATE.
            pub const fn sqlstate(self) -> &'static str {
                match self { $(Self::$variant => $sqlstate,)* }
            }

            /// What a caller may do.
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => $retry,)* }
            }
        }
    };
}

const SOON: Retry = Retry::After(Duration::from_secs(1));

codes! {
    /// The text is not a statement.
    Syntax = "syntax", 400, "42601", Retry::Never;
    /// A clause that the dialect refuses where it is read.
    BadClause = "bad-clause", 400, "42601", Retry::Never;
    /// A staleness bound below the floor.
    BelowFloor = "below-floor", 400, "22023", Retry::Never;
    /// A name that does not exist: table, column, function.
    UnknownName = "unknown-name", 400, "42703", Retry::Never;
    /// A collection that does not exist.
    UnknownCollection = "unknown-collection", 400, "42P01", Retry::Never;
    /// A namespace or database that does not exist.
    UnknownNamespace = "unknown-namespace", 400, "3D000", Retry::Never;
    /// The name is taken.
    AlreadyExists = "already-exists", 400, "42P07", Retry::Never;
    /// A value that does not fit its column, or a cast that fails.
    BadValue = "bad-value", 400, "22000", Retry::Never;
    /// A parameter that is missing or of the wrong kind.
    BadParameter = "bad-parameter", 400, "22023", Retry::Never;
    /// Arithmetic that left its type, or a division by zero.
    Arithmetic = "arithmetic", 400, "22003", Retry::Never;
    /// A row that a NOT NULL, CHECK, PRIMARY KEY or UNIQUE constraint does not allow.
    Constraint = "constraint", 400, "23000", Retry::Never;
    /// A unique or primary key that exists already.
    Unique = "unique", 409, "23505", Retry::Never;
    /// SQL that Candor does not run.
    Unsupported = "unsupported", 400, "0A000", Retry::Never;
    /// A statement that is not allowed in the state of the transaction.
    TransactionState = "transaction-state", 400, "25000", Retry::Never;
    /// A write in a transaction that said it only reads.
    ReadOnly = "read-only", 400, "25006", Retry::Never;
    /// The version asked for is not there yet.
    VersionAhead = "version-ahead", 409, "72003", Retry::Never;
    /// The version asked for is gone.
    VersionGone = "version-gone", 410, "72004", Retry::Never;
    /// The body of a request is empty where a script is required.
    EmptyBody = "empty-body", 400, "08P01", Retry::Never;
    /// A request that is not of the documented form.
    BadRequest = "bad-request", 400, "08P01", Retry::Never;
    /// Nothing is served at this path.
    NotFound = "not-found", 404, "08P01", Retry::Never;
    /// The path does not take this method.
    MethodNotAllowed = "method-not-allowed", 405, "08P01", Retry::Never;
    /// None of the media types the request accepts can be given.
    NotAcceptable = "not-acceptable", 406, "08P01", Retry::Never;
    /// No node admits the read under its staleness bound.
    StalenessUnmet = "staleness-unmet", 412, "72001", SOON;
    /// This node does not lead, and knows of no node that does.
    NoLeader = "no-leader", 503, "72002", SOON;
    /// This node does not lead; the answer names the node that does, but nothing can carry the caller there.
    NotLeader = "not-leader", 409, "25006", Retry::Never;
    /// A redirect decided under an older epoch than this node knows.
    EpochStale = "epoch-stale", 409, "72005", Retry::Same;
    /// Another write to the same rows was first.
    Conflict = "conflict", 409, "40001", Retry::Same;
    /// The server-side session or transaction is gone.
    SessionDead = "session-dead", 410, "25P03", Retry::Never;
    /// The body is larger than this node ever reads.
    TooLarge = "too-large", 413, "54000", Retry::Never;
    /// The request was meant for another node.
    WrongNode = "wrong-node", 421, "72006", Retry::Never;
    /// Too many requests in flight, or memory is short.
    Overloaded = "overloaded", 503, "53300", SOON;
    /// The node is not ready yet.
    Starting = "starting", 503, "57P03", SOON;
    /// The node is stopping.
    Stopping = "stopping", 503, "57P01", SOON;
    /// The other node could not be reached, or the connection to it broke.
    HopFailed = "hop-failed", 502, "08006", Retry::Same;
    /// The statement ran longer than its deadline.
    Deadline = "deadline", 504, "57014", Retry::Never;
    /// The caller went away or asked to stop.
    Canceled = "canceled", 499, "57014", Retry::Never;
    /// More redirects than a client follows.
    RedirectLoop = "redirect-loop", 508, "72007", Retry::Never;
    /// Whether the write took effect is not known.
    OutcomeUnknown = "outcome-unknown", 504, "40003", Retry::OutcomeUnknown;
    /// An impossible state inside the node; the log has the details.
    Internal = "internal", 500, "XX000", Retry::Never;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        // A newer node may know more codes: its status and words still say what to do.
        Ok(Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .unwrap_or(Self::Internal))
    }
}

/// A stretch of the request's text in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpan {
    /// Offset of the first byte.
    pub start: usize,
    /// Length in bytes; 0 points between two characters.
    pub length: usize,
}

/// The one error object: `{"error": "plain English", "code", "retryable", …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong, in plain English.
    pub error: String,
    /// The code a machine may act on.
    pub code: ErrorCode,
    /// SQLSTATE: the code's, or a finer one of the same class.
    pub sqlstate: String,
    /// Whether the same request may succeed.
    pub retryable: bool,
    /// When to try again, if it helps to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Where in the script the cause stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<SourceSpan>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Which statement of the script failed, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<usize>,
    /// Facts of this code: `bound_ms`, `floor_ms`, `best_age_ms`, `leader`, `newest` …
    #[serde(default, flatten, skip_serializing_if = "serde_json::Map::is_empty")]
    pub facts: serde_json::Map<String, serde_json::Value>,
}

impl ErrorBody {
    /// An error with the table's SQLSTATE and retry rule for `code`.
    ///
    /// ```
    /// use candor_proto::{ErrorBody, ErrorCode};
    /// let body = ErrorBody::new(ErrorCode::Conflict, "another write to the same rows was first");
    /// assert!(body.retryable);
    /// assert_eq!(body.sqlstate, "40001");
    /// ```
    pub fn new(code: ErrorCode, error: impl Into<String>) -> Self {
        let (retryable, retry_after_ms) = match code.retry() {
            Retry::Never | Retry::OutcomeUnknown => (false, None),
            Retry::Same => (true, None),
            Retry::After(wait) => (true, Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))),
        };
        Self {
            error: error.into(),
            code,
            sqlstate: code.sqlstate().to_owned(),
            retryable,
            retry_after_ms,
            span: None,
            help: None,
            statement: None,
            facts: serde_json::Map::new(),
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Points at the cause.
    #[must_use]
    pub fn with_span(mut self, span: SourceSpan) -> Self {
        self.span = Some(span);
        self
    }

    /// Adds one fact.
    #[must_use]
    pub fn with_fact(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.facts.insert(key.to_owned(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_have_well_formed_sqlstates() {
        let mut seen = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.as_str()), "{code} stands twice");
            assert_eq!(code.sqlstate().len(), 5, "{code}");
            assert!((400..600).contains(&code.http_status()), "{code}");
        }
    }

    #[test]
    fn an_unknown_code_of_a_newer_node_is_read_as_internal() {
        let body: ErrorBody =
            serde_json::from_str(r#"{"error":"x","code":"from-the-future","sqlstate":"XX000","retryable":true}"#)
                .expect("json");
        assert_eq!(body.code, ErrorCode::Internal);
        assert!(body.retryable);
    }
}
