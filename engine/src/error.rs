//! Everything that can go wrong between a parsed statement and its answer.

use std::fmt;

use arrow::error::ArrowError;
use candor_proto::{ErrorBody, ErrorCode, Retry, SourceSpan};
use candor_storage::ReadError;
use datafusion::common::{DataFusionError, SchemaError};

use crate::names::is_one_of_several;
use crate::spans::ScriptText;

/// A statement that could not be planned, evaluated or written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A table, view or collection that is not there.
    #[error("there is no table `{name}`")]
    UnknownTable {
        /// The name as the statement resolves it.
        name: String,
        /// What may have been meant, or what to do first.
        help: Option<String>,
        /// Where the name stands.
        span: Option<SourceSpan>,
    },
    /// A column or function that is not there.
    #[error("there is no {what} `{name}`")]
    UnknownName {
        /// Which kind of thing.
        what: &'static str,
        /// The name.
        name: String,
        /// What may have been meant.
        help: Option<String>,
        /// Where the name stands.
        span: Option<SourceSpan>,
    },
    /// No database is selected, or the one named is not there.
    #[error("{message}")]
    NoDatabase {
        /// What is missing.
        message: String,
        /// Where the name stands.
        span: Option<SourceSpan>,
    },
    /// The name is taken.
    #[error("{what} `{name}` already exists")]
    AlreadyExists {
        /// Which kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// SQL that Candor does not run.
    #[error("{what} is not supported")]
    Unsupported {
        /// The construct by its name.
        what: String,
        /// What to write instead.
        help: Option<String>,
        /// Where it stands.
        span: Option<SourceSpan>,
    },
    /// A statement that cannot be planned: types that do not fit, a column outside GROUP BY …
    #[error("{message}")]
    Plan {
        /// What does not fit.
        message: String,
        /// Where it stands.
        span: Option<SourceSpan>,
    },
    /// A definition that does not fit what is there.
    #[error("{message}")]
    Definition {
        /// What does not fit.
        message: String,
        /// The finer SQLSTATE.
        sqlstate: &'static str,
        /// What to do.
        help: Option<String>,
    },
    /// A value that does not fit its column, or a cast that fails.
    #[error("{}{message}", Place(*row, column.as_deref()))]
    BadValue {
        /// What is wrong with the value.
        message: String,
        /// The row of the statement or file, from 1.
        row: Option<u64>,
        /// The column.
        column: Option<String>,
    },
    /// A parameter that is missing or of the wrong kind.
    #[error("{message}")]
    BadParameter {
        /// What is wrong with the parameter.
        message: String,
    },
    /// Arithmetic that left its type.
    #[error("{message}")]
    Overflow {
        /// Which operation.
        message: String,
    },
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A row that NOT NULL or CHECK does not allow.
    #[error("{}{message}", Place(*row, None))]
    Constraint {
        /// Which constraint and why.
        message: String,
        /// The finer SQLSTATE: 23502 or 23514.
        sqlstate: &'static str,
        /// The row of the statement or file, from 1.
        row: Option<u64>,
    },
    /// A key that exists already.
    #[error("{}a row with the key {key} already exists in `{collection}`", Place(*row, None))]
    Unique {
        /// The collection.
        collection: String,
        /// The key as text.
        key: String,
        /// The row of the statement or file, from 1.
        row: Option<u64>,
    },
    /// A subquery used as a value gave several rows.
    #[error("a subquery used as a value returned more than one row")]
    Cardinality,
    /// The memory for queries is used up.
    #[error("the statement needs more memory than this node gives to queries: {message}")]
    Memory {
        /// Which part asked for how much.
        message: String,
    },
    /// A file that COPY cannot read or write.
    #[error("cannot {action} `{path}`: {source}")]
    File {
        /// "read" or "write".
        action: &'static str,
        /// The path as written.
        path: String,
        /// Why.
        source: std::sync::Arc<std::io::Error>,
    },
    /// The store could not give the rows.
    #[error("the rows cannot be read: {0}")]
    Read(#[source] ReadError),
    /// The statement was stopped before it ended.
    #[error("the statement was canceled")]
    Canceled,
    /// An impossible state; the log has the details.
    #[error("internal error: {message}")]
    Internal {
        /// What was impossible.
        message: String,
    },
}

/// `row 3, column "at": ` or nothing.
struct Place<'a>(Option<u64>, Option<&'a str>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(row), Some(column)) => write!(f, "row {row}, column `{column}`: "),
            (Some(row), None) => write!(f, "row {row}: "),
            (None, Some(column)) => write!(f, "column `{column}`: "),
            (None, None) => Ok(()),
        }
    }
}

impl EngineError {
    /// The same error, its rows counted from further in front: `before` rows come before the first one that was counted.
    pub(crate) fn in_rows_from(mut self, before: u64) -> Self {
        if let Self::BadValue { row: Some(row), .. } = &mut self {
            *row += before;
        }
        self
    }

    /// The code a machine may act on.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownTable { .. } => ErrorCode::UnknownCollection,
            Self::UnknownName { .. } => ErrorCode::UnknownName,
            Self::NoDatabase { .. } => ErrorCode::UnknownNamespace,
            Self::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::Plan { .. } | Self::Definition { .. } => ErrorCode::Syntax,
            Self::BadValue { .. } | Self::Cardinality => ErrorCode::BadValue,
            Self::BadParameter { .. } => ErrorCode::BadParameter,
            Self::Overflow { .. } | Self::DivisionByZero => ErrorCode::Arithmetic,
            Self::Constraint { .. } => ErrorCode::Constraint,
            Self::Unique { .. } => ErrorCode::Unique,
            Self::Memory { .. } => ErrorCode::Overloaded,
            Self::File { .. } => ErrorCode::BadRequest,
            Self::Canceled => ErrorCode::Canceled,
            Self::Read(error) => error.code(),
            Self::Internal { .. } => ErrorCode::Internal,
        }
    }

    /// What a caller may do about it.
    pub fn retry(&self) -> Retry {
        self.code().retry()
    }

    /// The stretch of the script that caused it, where one is known.
    pub fn span(&self) -> Option<SourceSpan> {
        match self {
            Self::UnknownTable { span, .. }
            | Self::UnknownName { span, .. }
            | Self::NoDatabase { span, .. }
            | Self::Unsupported { span, .. }
            | Self::Plan { span, .. } => *span,
            _ => None,
        }
    }

    /// The one error object.
    pub fn to_body(&self) -> ErrorBody {
        let mut body = ErrorBody::new(self.code(), self.to_string());
        body.span = self.span();
        match self {
            Self::UnknownTable { help, .. } | Self::UnknownName { help, .. } | Self::Unsupported { help, .. } => {
                body.help.clone_from(help);
            }
            Self::Definition { sqlstate, help, .. } => {
                (*sqlstate).clone_into(&mut body.sqlstate);
                body.help.clone_from(help);
            }
            Self::Constraint { sqlstate, row, .. } => {
                (*sqlstate).clone_into(&mut body.sqlstate);
                if let Some(row) = row {
                    body = body.with_fact("row", *row);
                }
            }
            Self::BadValue { row, column, .. } => {
                "22P02".clone_into(&mut body.sqlstate);
                if let Some(row) = row {
                    body = body.with_fact("row", *row);
                }
                if let Some(column) = column {
                    body = body.with_fact("column", column.as_str());
                }
            }
            Self::DivisionByZero => "22012".clone_into(&mut body.sqlstate),
            Self::Cardinality => "21000".clone_into(&mut body.sqlstate),
            _ => {}
        }
        body
    }

    /// Names a construct that is not run.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            help: None,
            span: None,
        }
    }

    /// Names a construct that is not run, and what to write instead.
    pub(crate) fn unsupported_try(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            help: Some(help.into()),
            span: None,
        }
    }

    /// A statement that makes no sense as written.
    pub(crate) fn plan(message: impl Into<String>) -> Self {
        Self::Plan {
            message: message.into(),
            span: None,
        }
    }

    /// A definition that does not fit what is there.
    pub(crate) fn definition(message: impl Into<String>, sqlstate: &'static str) -> Self {
        Self::Definition {
            message: message.into(),
            sqlstate,
            help: None,
        }
    }

    /// A bad value without a place yet.
    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::BadValue {
            message: message.into(),
            row: None,
            column: None,
        }
    }

    /// An impossible state.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::Internal {
            message: message.into(),
        }
    }

    /// Translates what DataFusion says, pointing into `text` where DataFusion knows the place.
    pub(crate) fn from_datafusion(error: DataFusionError, text: &ScriptText) -> Self {
        let diagnostic = error.diagnostic().cloned();
        let span = diagnostic
            .as_ref()
            .and_then(|d| d.span)
            .and_then(|s| text.datafusion_bytes(s));
        let help = diagnostic
            .as_ref()
            .and_then(|d| d.helps.first())
            .map(|h| h.message.clone());
        match unwrap(error) {
            Root::Ours(ours) => *ours,
            Root::Theirs(root) => Self::from_root(&root, span, help),
        }
    }

    fn from_root(root: &DataFusionError, span: Option<SourceSpan>, help: Option<String>) -> Self {
        match root {
            DataFusionError::SchemaError(schema, _) => from_schema(schema, span, help),
            DataFusionError::ArrowError(arrow, _) => from_arrow(arrow),
            DataFusionError::NotImplemented(what) => Self::Unsupported {
                what: first_line(what),
                help,
                span,
            },
            DataFusionError::Plan(message) => from_plan(message, span, help),
            DataFusionError::SQL(parser, _) => Self::Plan {
                message: parser.to_string(),
                span,
            },
            DataFusionError::ResourcesExhausted(message) => Self::Memory {
                message: first_line(message),
            },
            DataFusionError::Execution(message) => from_execution(message),
            DataFusionError::ExecutionJoin(join) if join.is_cancelled() => Self::Canceled,
            DataFusionError::Configuration(message) => Self::Plan {
                message: first_line(message),
                span,
            },
            other => Self::Internal {
                message: first_line(&other.strip_backtrace()),
            },
        }
    }
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<ArrowError> for EngineError {
    fn from(error: ArrowError) -> Self {
        from_arrow(&error)
    }
}

impl From<EngineError> for DataFusionError {
    fn from(error: EngineError) -> Self {
        Self::External(Box::new(error))
    }
}

enum Root {
    Ours(Box<EngineError>),
    Theirs(DataFusionError),
}

/// Peels wrappers off, down to one of our own errors or DataFusion's first cause.
fn unwrap(error: DataFusionError) -> Root {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => unwrap(*inner),
        DataFusionError::Collection(mut errors) if !errors.is_empty() => unwrap(errors.remove(0)),
        DataFusionError::External(inner) => match inner.downcast::<EngineError>() {
            Ok(ours) => Root::Ours(ours),
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(theirs) => unwrap(*theirs),
                Err(inner) => match inner.downcast::<regex::Error>() {
                    Ok(regex) => Root::Ours(Box::new(EngineError::bad_value(regex.to_string()))),
                    Err(inner) => Root::Theirs(DataFusionError::External(inner)),
                },
            },
        },
        DataFusionError::ArrowError(arrow, backtrace) => match *arrow {
            ArrowError::ExternalError(inner) => unwrap(DataFusionError::External(inner)),
            other => Root::Theirs(DataFusionError::ArrowError(Box::new(other), backtrace)),
        },
        // An error that several threads have met cannot be taken apart.
        DataFusionError::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
            Ok(inner) => unwrap(inner),
            Err(shared) => Root::Ours(Box::new(from_shared(&shared))),
        },
        other => Root::Theirs(other),
    }
}

fn from_shared(error: &DataFusionError) -> EngineError {
    let root = error.find_root();
    let cause = match root {
        DataFusionError::External(cause) => Some(cause),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::ExternalError(cause) => Some(cause),
            _ => None,
        },
        _ => None,
    };
    match cause.and_then(|cause| cause.downcast_ref::<EngineError>()) {
        Some(ours) => ours.clone(),
        None => EngineError::from_root(root, None, None),
    }
}

fn from_schema(error: &SchemaError, span: Option<SourceSpan>, help: Option<String>) -> EngineError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields }
            if valid_fields
                .iter()
                .any(|known| is_one_of_several(&known.name, &field.name)) =>
        {
            EngineError::Plan {
                message: format!(
                    "column `{}` is ambiguous: several columns are called so",
                    field.flat_name()
                ),
                span,
            }
        }
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names = valid_fields.iter().map(|column| column.name.as_str());
            EngineError::UnknownName {
                what: "column",
                name: field.flat_name(),
                help: crate::spans::closest(&field.name, names)
                    .map(|name| format!("did you mean `{name}`?"))
                    .or(help),
                span,
            }
        }
        SchemaError::AmbiguousReference { field } => EngineError::Plan {
            message: format!("column `{}` is ambiguous: say which table's", field.flat_name()),
            span,
        },
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            EngineError::Plan {
                message: format!("column `{name}` stands twice where names must differ: give one an alias"),
                span,
            }
        }
    }
}

fn from_arrow(error: &ArrowError) -> EngineError {
    match error {
        ArrowError::DivideByZero => EngineError::DivisionByZero,
        ArrowError::ArithmeticOverflow(message) => EngineError::Overflow {
            message: format!("the result is out of range: {}", first_line(message)),
        },
        // A number that is too large for the type it is cast to.
        ArrowError::CastError(message) if message.starts_with("Can't cast value") => EngineError::Overflow {
            message: first_line(message),
        },
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::InvalidArgumentError(message)
        | ArrowError::ComputeError(message) => EngineError::bad_value(first_line(message)),
        other => EngineError::internal(first_line(&other.to_string())),
    }
}

fn from_plan(message: &str, span: Option<SourceSpan>, help: Option<String>) -> EngineError {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    if let Some(name) = first
        .strip_prefix("Invalid function '")
        .and_then(|rest| rest.split('\'').next())
    {
        return EngineError::UnknownName {
            what: "function",
            name: name.to_owned(),
            help: lines
                .next()
                .map(|line| line.replace("Did you mean", "did you mean"))
                .or(help),
            span,
        };
    }
    EngineError::Plan {
        message: first.to_owned(),
        span,
    }
}

fn from_execution(message: &str) -> EngineError {
    let first = first_line(message);
    if first.contains("returned more than one row") || first.contains("more than one row returned") {
        return EngineError::Cardinality;
    }
    if first.to_lowercase().contains("overflow") {
        return EngineError::Overflow { message: first };
    }
    EngineError::bad_value(first)
}

/// DataFusion adds backtraces and remarks in further lines.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim().to_owned()
}
