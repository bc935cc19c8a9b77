//! What a statement runs under: who asks, where, at which version, with which parameters.

use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use candor_proto::NodeName;
use candor_storage::{Catalog, Snapshot};
use sqlparser::ast;

use crate::error::EngineError;
use crate::pending::PendingWrites;
use crate::sequences::Sequences;
use crate::spans::ScriptText;
use crate::statement_memo::StatementMemo;

/// Everything a statement may see besides its own text.
#[derive(Clone)]
pub struct StatementContext {
    /// The node that runs it.
    pub node: NodeName,
    /// The namespace the session selected.
    pub namespace: Option<String>,
    /// The database the session selected.
    pub database: Option<String>,
    /// Where names are looked for while no database is selected.
    pub default_database: Option<String>,
    /// The rows and definitions of the namespace at one version; `None` where no namespace is selected.
    pub snapshot: Option<Snapshot>,
    /// What earlier statements of an open transaction wrote.
    pub pending: Option<Arc<PendingWrites>>,
    /// Values of `$1`, `$2` ….
    pub params: Vec<Param>,
    /// The instant of `now()`, microseconds since 1970 in UTC.
    pub now_micros: i64,
    /// Tables of the schema `system`, by name.
    pub system_tables: Vec<(String, RecordBatch)>,
    /// The script the statement's syntax tree was parsed from, so that errors can point into it; empty if unknown.
    pub text: ScriptText,
    /// Where the values of sequences come from.
    pub sequences: Arc<Sequences>,
    /// What is known of the statement from earlier runs.
    pub memo: Arc<StatementMemo>,
}

impl StatementContext {
    /// A context in which nothing is selected.
    pub fn new(node: NodeName, now_micros: i64) -> Self {
        Self {
            node,
            namespace: None,
            database: None,
            default_database: None,
            snapshot: None,
            pending: None,
            params: Vec::new(),
            now_micros,
            system_tables: Vec::new(),
            text: ScriptText::default(),
            sequences: Arc::default(),
            memo: Arc::default(),
        }
    }

    /// Where a name without a database is looked for.
    pub(crate) fn name_database(&self) -> Option<&String> {
        self.database.as_ref().or(self.default_database.as_ref())
    }

    /// The definitions this statement sees: those of the snapshot, changed by the open transaction.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        match (&self.pending, &self.snapshot) {
            (Some(pending), _) if pending.changes_schema() => Arc::clone(pending.catalog()),
            (_, Some(snapshot)) => Arc::clone(snapshot.catalog()),
            (_, None) => Arc::new(Catalog::default()),
        }
    }
}

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementContext")
            .field("node", &self.node)
            .field("namespace", &self.namespace)
            .field("database", &self.database)
            .field("version", &self.snapshot.as_ref().map(Snapshot::version))
            .finish_non_exhaustive()
    }
}

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Param {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double.
    Float(f64),
    /// A number as it was written, digit for digit.
    Number(String),
    /// A text; like a literal it fits any type it can be read as.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Param {
    /// The parameter as the literal that stands for it in the statement.
    pub(crate) fn literal(&self) -> Result<ast::Expr, EngineError> {
        let value = match self {
            Self::Null => ast::Value::Null,
            Self::Bool(value) => ast::Value::Boolean(*value),
            Self::Int(value) => return Ok(number(&value.to_string())),
            Self::Float(value) if value.is_finite() => return Ok(number(&format!("{value:?}"))),
            Self::Float(value) => {
                return Ok(cast(
                    ast::Value::SingleQuotedString(value.to_string()),
                    ast::DataType::DoublePrecision,
                ));
            }
            Self::Number(text) => match text.parse::<f64>() {
                Ok(_)
                    if text
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) =>
                {
                    return Ok(number(text));
                }
                _ => {
                    return Err(EngineError::BadParameter {
                        message: format!("the parameter `{text}` is not a number"),
                    });
                }
            },
            Self::Text(text) => ast::Value::SingleQuotedString(text.clone()),
            Self::Bytes(bytes) => ast::Value::HexStringLiteral(crate::text::hex(bytes)),
        };
        Ok(ast::Expr::Value(value.into()))
    }
}

fn cast(value: ast::Value, data_type: ast::DataType) -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(ast::Expr::Value(value.into())),
        data_type,
        format: None,
        array: false,
    }
}

/// A number literal; the sign is an operator, as the parser has it.
fn number(text: &str) -> ast::Expr {
    let literal = |digits: &str| ast::Expr::Value(ast::Value::Number(digits.to_owned(), false).into());
    match text.strip_prefix('-') {
        Some(digits) => ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: Box::new(literal(digits)),
        },
        None => literal(text.strip_prefix('+').unwrap_or(text)),
    }
}
