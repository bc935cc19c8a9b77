//! What a script says: statements with their tails, each with its place in the text.
//!
//! Bodies of queries, writes and definitions keep sqlparser's tree, because `engine` plans it; everything Candor adds
//! has a type of its own here. Names in own types are folded as PostgreSQL folds them: lower case unless quoted.

use std::fmt;
use std::time::Duration;

use candor_proto::{NodeName, PeerRole, SourceSpan, limits};
use sqlparser::ast;

use crate::error::{ParseError, place};
use crate::span::{SpanError, parse_span, parse_staleness};

/// The statements of one request, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// In the order they run; empty statements (`;;`) leave nothing here.
    pub statements: Vec<Statement>,
}

/// One statement with its place in the script.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Its bytes in the script, from the first word to the last, without the `;`.
    pub span: SourceSpan,
    /// Those bytes.
    pub text: String,
    /// What it does.
    pub body: Body,
    /// Which node may answer, from how old a copy, at which version.
    pub tails: Tails,
    /// The highest parameter number (`$n`) in it, tails included; 0 without parameters.
    pub parameters: usize,
}

impl Statement {
    /// Refuses a statement with tails that stands inside a transaction block begun in an earlier request; within one
    /// script [`crate::parse_script`] has refused it already.
    ///
    /// # Errors
    /// [`ParseError::InTransaction`], pointing at the first tail.
    pub fn check_in_transaction(&self) -> Result<(), ParseError> {
        if matches!(self.body, Body::Begin { .. }) {
            return Ok(());
        }
        let Some((clause, span)) = self.tails.first() else {
            return Ok(());
        };
        // Tails end the statement, so everything from the first one on belongs on BEGIN.
        let start = span.start - self.span.start;
        Err(ParseError::InTransaction {
            clause,
            written: self.text[start..].to_owned(),
            at: place(span),
        })
    }
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// SELECT, VALUES, WITH, TABLE; also `RETURN e`, which is `SELECT e`. Always `ast::Statement::Query`.
    Query(Box<ast::Statement>),
    /// EXPLAIN of a query or a write.
    Explain {
        /// Runs it and shows what happened.
        analyze: bool,
        /// Shows every detail of the plan.
        verbose: bool,
        /// Shows which node would answer; never runs it. Excludes `analyze`.
        route: bool,
        /// [`Body::Query`] or [`Body::Write`].
        inner: Box<Body>,
    },
    /// INSERT, UPDATE, DELETE, TRUNCATE, MERGE; `ast::Statement::Query` when a WITH stands before it or has writes in
    /// it.
    Write(Box<ast::Statement>),
    /// COPY … FROM / TO.
    Copy(Copy),
    /// DEFINE NAMESPACE / DATABASE / COLLECTION / REPLICA, CREATE DATABASE, CREATE SCHEMA.
    Define(Define),
    /// CREATE TABLE: a closed collection, with AS also its rows.
    CreateTable(Box<ast::CreateTable>),
    /// CREATE VIEW.
    CreateView(Box<ast::CreateView>),
    /// CREATE TYPE … AS ENUM, ALTER TYPE, DROP TYPE.
    Type(Box<ast::Statement>),
    /// CREATE SEQUENCE, DROP SEQUENCE.
    Sequence(Box<ast::Statement>),
    /// CREATE INDEX.
    CreateIndex(Box<ast::CreateIndex>),
    /// ALTER TABLE.
    AlterTable(Box<ast::AlterTable>),
    /// REMOVE …, DROP ….
    Remove(Remove),
    /// USE NAMESPACE / DATABASE; at least one is named.
    Use {
        /// The namespace to select.
        namespace: Option<String>,
        /// The database to select.
        database: Option<String>,
    },
    /// INFO FOR ….
    InfoFor(InfoFor),
    /// BEGIN, START TRANSACTION.
    Begin {
        /// Refuses writes, and may carry tails.
        read_only: bool,
    },
    /// COMMIT, END.
    Commit,
    /// ROLLBACK, ABORT.
    Rollback,
    /// SAVEPOINT name.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT name.
    RollbackTo(String),
    /// RELEASE SAVEPOINT name.
    Release(String),
    /// SET TRANSACTION …, of the open one.
    SetTransaction {
        /// READ ONLY or READ WRITE, if said.
        read_only: Option<bool>,
    },
    /// SET name = value. Whether there is such a setting is the server's to say.
    Set {
        /// The setting, lower case; dots kept.
        name: String,
        /// The value as written, without the quotes of a string.
        value: String,
        /// Where the value stands.
        value_span: SourceSpan,
    },
    /// RESET name, RESET ALL, SET name TO DEFAULT.
    Reset(Setting),
    /// SHOW name, SHOW ALL.
    Show(Setting),
}

impl Body {
    /// Whether it may change data, definitions or the cluster: decided by a leader, or by the node asked.
    pub fn writes(&self) -> bool {
        match self {
            Self::Write(_)
            | Self::Define(_)
            | Self::CreateTable(_)
            | Self::CreateView(_)
            | Self::Type(_)
            | Self::Sequence(_)
            | Self::CreateIndex(_)
            | Self::AlterTable(_)
            | Self::Remove(_) => true,
            Self::Copy(copy) => copy.direction == CopyDirection::From,
            Self::Explain { analyze, inner, .. } => *analyze && inner.writes(),
            Self::Query(_)
            | Self::Use { .. }
            | Self::InfoFor(_)
            | Self::Begin { .. }
            | Self::Commit
            | Self::Rollback
            | Self::Savepoint(_)
            | Self::RollbackTo(_)
            | Self::Release(_)
            | Self::SetTransaction { .. }
            | Self::Set { .. }
            | Self::Reset(_)
            | Self::Show(_) => false,
        }
    }
}

/// Which setting SHOW and RESET speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// One, by its lower-case name.
    Name(String),
    /// All of them.
    All,
}

/// A collection, view or table by name: `[[namespace.]database.]name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// The namespace, if named.
    pub namespace: Option<String>,
    /// The database, if named.
    pub database: Option<String>,
    /// The name itself.
    pub name: String,
    /// Where it stands.
    pub span: SourceSpan,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.namespace, &self.database].into_iter().flatten() {
            write!(f, "{part}.")?;
        }
        f.write_str(&self.name)
    }
}

/// A definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Define {
    /// Says nothing when it exists already.
    pub if_not_exists: bool,
    /// What is defined.
    pub what: DefineWhat,
    /// Where the name stands.
    pub name_span: SourceSpan,
}

/// What a DEFINE defines.
#[derive(Clone, Debug, PartialEq)]
pub enum DefineWhat {
    /// A namespace, which is a range led by this node.
    Namespace(String),
    /// A database in the selected namespace, or in a named one.
    Database {
        /// The namespace, if named.
        namespace: Option<String>,
        /// The database.
        name: String,
    },
    /// A collection.
    Collection(DefineCollection),
    /// A peer of this node.
    Replica(DefineReplica),
}

/// `DEFINE COLLECTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefineCollection {
    /// Its name.
    pub name: QualifiedName,
    /// Replaces one of the same name.
    pub overwrite: bool,
    /// Without a column list: it grows columns as rows arrive.
    pub open: bool,
    /// The same definition as CREATE TABLE has it; no columns when open.
    pub table: Box<ast::CreateTable>,
}

/// `DEFINE REPLICA`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefineReplica {
    /// The peer's name.
    pub name: NodeName,
    /// `host:port` of its links.
    pub at: String,
    /// `host:port` for native clients.
    pub clients_at: Option<String>,
    /// `host:port` for HTTP.
    pub http_at: Option<String>,
    /// What it may do, each role once, in the order of [`PeerRole`]; `readable` when none is named.
    pub roles: Vec<PeerRole>,
    /// Where it stands.
    pub region: Option<String>,
}

/// REMOVE and DROP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remove {
    /// What kind of thing.
    pub kind: RemoveKind,
    /// Which ones; more than one only with DROP. Namespaces, databases and replicas use the last parts of the name.
    pub names: Vec<QualifiedName>,
    /// Says nothing when it does not exist.
    pub if_exists: bool,
    /// Takes along what depends on it; only with DROP TABLE, DROP VIEW and DROP SCHEMA.
    pub cascade: bool,
}

/// What REMOVE and DROP take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveKind {
    /// A namespace with everything in it.
    Namespace,
    /// A database with everything in it.
    Database,
    /// A collection with its rows; also DROP TABLE.
    Collection,
    /// A view.
    View,
    /// An index; only with DROP.
    Index,
    /// The declaration of a peer.
    Replica,
}

/// What INFO is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InfoFor {
    /// This node: peers, followers, ranges.
    Node,
    /// The namespaces.
    Root,
    /// The selected namespace.
    Namespace,
    /// The selected database.
    Database,
    /// One collection.
    Collection(QualifiedName),
}

/// COPY.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Into the collection or out of it.
    pub direction: CopyDirection,
    /// What is copied.
    pub source: CopySource,
    /// The other end.
    pub target: CopyTarget,
    /// Where the other end stands in the script.
    pub target_span: SourceSpan,
    /// How the bytes are laid out.
    pub options: CopyOptions,
}

/// Which way COPY goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// From a file into a collection: a write.
    From,
    /// From a collection or a query to a file: a read.
    To,
}

/// The inner end of a COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// A collection.
    Table {
        /// Its name.
        name: QualifiedName,
        /// The columns; empty means all.
        columns: Vec<String>,
    },
    /// A query; only with `TO`. Always `ast::Statement::Query`.
    Query(Box<ast::Statement>),
}

/// The outer end of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTarget {
    /// A file on the node, or on the client where the client copies.
    Path(String),
    /// What the client sends.
    Stdin,
    /// What the client gets.
    Stdout,
}

/// The options of a COPY; `None` = not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format; otherwise the file's ending decides.
    pub format: Option<CopyFormat>,
    /// Whether the first line names the columns (CSV only).
    pub header: Option<bool>,
    /// Between two fields (CSV only): one ASCII character.
    pub delimiter: Option<char>,
    /// What NULL is written as (CSV only).
    pub null: Option<String>,
}

/// The formats COPY reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Comma-separated values.
    Csv,
    /// One JSON object per line; `JSON` is accepted as a name for it.
    Ndjson,
    /// Apache Parquet.
    Parquet,
}

/// The tail clauses a statement can end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `STALENESS span`.
    Staleness,
    /// `ANSWERED BY ANY | LEADER`.
    AnsweredBy,
    /// `VERSION n`.
    Version,
    /// `AT LEAST VERSION n [WAIT span]`.
    AtLeastVersion,
    /// The `WAIT span` of `AT LEAST VERSION`.
    Wait,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Staleness => "STALENESS",
            Self::AnsweredBy => "ANSWERED BY",
            Self::Version => "VERSION",
            Self::AtLeastVersion => "AT LEAST VERSION",
            Self::Wait => "WAIT",
        })
    }
}

/// The tails of one statement, each at most once.
///
/// ```
/// use std::time::Duration;
/// let script = candor_parser::parse_script("SELECT * FROM orders STALENESS 30s ANSWERED BY LEADER").unwrap();
/// let tails = script.statements[0].tails.resolve(&[]).unwrap();
/// assert_eq!(tails.staleness, Some(Duration::from_secs(30)));
/// assert!(tails.answered_by_leader);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tails {
    /// How old the answering copy may be.
    pub staleness: Option<Tail<SpanValue>>,
    /// Which node may answer.
    pub answered_by: Option<Tail<AnsweredBy>>,
    /// The exact version to read.
    pub version: Option<Tail<NumberValue>>,
    /// The oldest version to read.
    pub at_least: Option<Tail<AtLeast>>,
}

impl Tails {
    /// No tails.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// The tail that stands first in the text.
    pub fn first(&self) -> Option<(Clause, SourceSpan)> {
        [
            self.staleness.as_ref().map(|t| (Clause::Staleness, t.span)),
            self.answered_by.as_ref().map(|t| (Clause::AnsweredBy, t.span)),
            self.version.as_ref().map(|t| (Clause::Version, t.span)),
            self.at_least.as_ref().map(|t| (Clause::AtLeastVersion, t.span)),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(_, span)| span.start)
    }

    /// The tails with their parameters filled in.
    ///
    /// # Errors
    /// The refusals of the text, for a parameter: missing, of another kind, zero, negative, too large.
    pub fn resolve(&self, params: &[Param]) -> Result<ResolvedTails, ParseError> {
        let staleness = self.staleness.as_ref().map(|t| t.resolve(params)).transpose()?;
        let version = self
            .version
            .as_ref()
            .map(|t| t.value.resolve(Clause::Version, t.span, params))
            .transpose()?;
        let at_least = self.at_least.as_ref().map(|t| t.resolve(params)).transpose()?;
        Ok(ResolvedTails {
            staleness,
            answered_by_leader: self.answered_by.as_ref().is_some_and(|t| t.value == AnsweredBy::Leader),
            version,
            at_least,
        })
    }
}

/// Tails without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolvedTails {
    /// How old the answering copy may be; never zero.
    pub staleness: Option<Duration>,
    /// `ANSWERED BY LEADER` was said. `ANSWERED BY ANY` is the same as saying nothing.
    pub answered_by_leader: bool,
    /// The exact version to read.
    pub version: Option<u64>,
    /// The oldest version to read, and how long to wait for it ([`limits::AT_LEAST_WAIT`] unless said).
    pub at_least: Option<(u64, Duration)>,
}

/// A clause's value and its place in the script, from its first word to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail<T> {
    /// What it says.
    pub value: T,
    /// Where the whole clause stands.
    pub span: SourceSpan,
}

impl Tail<SpanValue> {
    /// The staleness bound with its parameter filled in.
    ///
    /// # Errors
    /// See [`Tails::resolve`].
    pub fn resolve(&self, params: &[Param]) -> Result<Duration, ParseError> {
        self.value.resolve(Clause::Staleness, self.span, params)
    }
}

impl Tail<AtLeast> {
    /// The version and the wait with their parameters filled in.
    ///
    /// # Errors
    /// See [`Tails::resolve`].
    pub fn resolve(&self, params: &[Param]) -> Result<(u64, Duration), ParseError> {
        let version = self.value.version.resolve(Clause::AtLeastVersion, self.span, params)?;
        let wait = match &self.value.wait {
            Some(wait) => wait.resolve(Clause::Wait, self.span, params)?,
            None => limits::AT_LEAST_WAIT,
        };
        Ok((version, wait))
    }
}

/// A span as written, or a parameter that will hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// Written out.
    Span(Duration),
    /// `$n`, from 1: a text such as `30s`.
    Parameter(u32),
}

impl SpanValue {
    /// The span, with the refusals that its clause makes of a written one.
    ///
    /// # Errors
    /// See [`Tails::resolve`].
    pub fn resolve(&self, clause: Clause, at: SourceSpan, params: &[Param]) -> Result<Duration, ParseError> {
        let index = match self {
            Self::Span(span) => return Ok(*span),
            Self::Parameter(index) => *index,
        };
        let refuse = |problem: String| ParseError::Parameter {
            index,
            problem,
            help: format!("{clause} takes a span as text, such as '30s'"),
            at: place(at),
        };
        match parameter(index, params) {
            None => Err(refuse("is missing".to_owned())),
            Some(Param::Text(text)) => {
                let read = if clause == Clause::Staleness {
                    parse_staleness
                } else {
                    parse_span
                };
                read(text).map_err(|problem| match problem {
                    SpanError::Zero => ParseError::StalenessZero {
                        written: text.clone(),
                        at: place(at),
                    },
                    SpanError::Negative if clause == Clause::Staleness => ParseError::StalenessNegative {
                        written: text.clone(),
                        at: place(at),
                    },
                    other => refuse(format!("is '{text}', and {other}")),
                })
            }
            Some(Param::Integer(number)) => Err(refuse(format!("is the number {number}, which has no unit"))),
            Some(Param::Other(kind)) => Err(refuse(format!("is {kind}"))),
        }
    }
}

/// A version as written, or a parameter that will hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberValue {
    /// Written out.
    Number(u64),
    /// `$n`, from 1.
    Parameter(u32),
}

impl NumberValue {
    /// The number.
    ///
    /// # Errors
    /// See [`Tails::resolve`].
    pub fn resolve(&self, clause: Clause, at: SourceSpan, params: &[Param]) -> Result<u64, ParseError> {
        let index = match self {
            Self::Number(number) => return Ok(*number),
            Self::Parameter(index) => *index,
        };
        let refuse = |problem: String| ParseError::Parameter {
            index,
            problem,
            help: format!("{clause} takes a version: a whole number from 0 to {}", u64::MAX),
            at: place(at),
        };
        match parameter(index, params) {
            None => Err(refuse("is missing".to_owned())),
            Some(Param::Integer(number)) => {
                u64::try_from(*number).map_err(|_| refuse(format!("is {number}, which is no version")))
            }
            // JSON callers pass numbers beyond 2^53 as text.
            Some(Param::Text(text)) => text
                .parse()
                .map_err(|_| refuse(format!("is '{text}', which is no version"))),
            Some(Param::Other(kind)) => Err(refuse(format!("is {kind}"))),
        }
    }
}

fn parameter(index: u32, params: &[Param]) -> Option<&Param> {
    params.get(usize::try_from(index).ok()?.checked_sub(1)?)
}

/// A parameter's value, as far as tails need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// A whole number.
    Integer(i128),
    /// A text.
    Text(String),
    /// Anything else, in words: `NULL`, `a boolean`, `a list`.
    Other(&'static str),
}

/// Who may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// Any node: what a read means that says nothing.
    Any,
    /// Only the node that decides writes for these records.
    Leader,
}

/// `AT LEAST VERSION n [WAIT span]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtLeast {
    /// The oldest version to read.
    pub version: NumberValue,
    /// How long to wait for it; `None` is [`limits::AT_LEAST_WAIT`].
    pub wait: Option<SpanValue>,
}
