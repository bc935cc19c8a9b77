//! What the text alone is refused for, pointing at the offending word.
//!
//! Every variant carries the bytes of the script it is about and, where there is one, the way out. The wording is
//! ours also where sqlparser found the fault: its messages speak of tokens, ours of what to write.

use candor_proto::{ErrorBody, ErrorCode, Retry, SourceSpan, limits};

use crate::span::SpanError;
use crate::statement::Clause;

/// A script that is refused before anything of it runs. Never retryable: the same text is refused again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ParseError {
    /// More bytes than a script may have.
    #[error("the script has {bytes} bytes, and the most that is read is {max}")]
    #[diagnostic(help("load bulk data with COPY, or send the script in parts"))]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },

    /// Nesting or an operator chain beyond the bound.
    #[error("the statement is nested too deeply: {what}")]
    TooDeep {
        /// Which bound, with its number.
        what: String,
        /// The way out.
        #[help]
        help: String,
        /// The word at which the bound was reached.
        #[label("here")]
        at: miette::SourceSpan,
    },

    /// The text is no statement.
    #[error("{message}")]
    Syntax {
        /// What is wrong.
        message: String,
        /// What to write.
        #[help]
        help: Option<String>,
        /// The offending word.
        #[label("here")]
        at: miette::SourceSpan,
    },

    /// `STALENESS 0s`: no node can ever be admitted.
    #[error("STALENESS {written} admits no node at all, not even the one being asked")]
    #[diagnostic(help(
        "name a bound of at least twice the awareness interval (STALENESS 30s), or ask for the leader: ANSWERED BY LEADER"
    ))]
    StalenessZero {
        /// The span as written.
        written: String,
        /// The span.
        #[label("zero can only ever refuse")]
        at: miette::SourceSpan,
    },

    /// `STALENESS -5s`: no node can ever be admitted.
    #[error("STALENESS {written} is negative: it admits no node at all, not even the one being asked")]
    #[diagnostic(help("a bound says how old the answering copy may be: STALENESS 30s"))]
    StalenessNegative {
        /// The span as written.
        written: String,
        /// The span.
        #[label("an answer cannot come from the future")]
        at: miette::SourceSpan,
    },

    /// A span that cannot be read.
    #[error("{clause} takes a span of time, and {problem}")]
    Span {
        /// The clause it stands in.
        clause: Clause,
        /// What is wrong with it.
        problem: SpanError,
        /// The way out.
        #[help]
        help: String,
        /// The offending part.
        #[label("here")]
        at: miette::SourceSpan,
    },

    /// A version that is no number or does not fit.
    #[error("{clause} takes a version number, and `{written}` is not one: {why}")]
    #[diagnostic(help(
        "a version is a whole number from 0 to 18446744073709551615, as receipts show it, or a parameter: VERSION $1"
    ))]
    Number {
        /// The clause it stands in.
        clause: Clause,
        /// The number as written.
        written: String,
        /// What is wrong with it.
        why: &'static str,
        /// The number.
        #[label("here")]
        at: miette::SourceSpan,
    },

    /// Two clauses that answer the same question.
    #[error("{second} cannot be combined with {first}: {why}")]
    Combination {
        /// The clause that stands first.
        first: Clause,
        /// The clause that stands second.
        second: Clause,
        /// Why the two exclude each other.
        why: &'static str,
        /// Which one to keep.
        #[help]
        help: &'static str,
        /// The first clause.
        #[label("this answers the question")]
        first_at: miette::SourceSpan,
        /// The second clause.
        #[label(primary, "and this answers it again")]
        at: miette::SourceSpan,
    },

    /// `ANSWERED BY` with a word that is neither ANY nor LEADER.
    #[error("ANSWERED BY takes ANY or LEADER, not {word}")]
    AnsweredBy {
        /// The word as written.
        word: String,
        /// What was probably meant, or both words.
        #[help]
        help: String,
        /// The word.
        #[label("neither ANY nor LEADER")]
        at: miette::SourceSpan,
    },

    /// A clause that stands twice.
    #[error("{clause} stands twice in one statement")]
    #[diagnostic(help("keep one of them"))]
    Twice {
        /// The clause.
        clause: Clause,
        /// Where it stands first.
        #[label("first here")]
        first_at: miette::SourceSpan,
        /// Where it stands again.
        #[label(primary, "again here")]
        at: miette::SourceSpan,
    },

    /// A clause that does not stand at the end of the statement.
    #[error("{clause} ends the whole statement, and here {place}")]
    Misplaced {
        /// The clause.
        clause: Clause,
        /// Where it was found.
        place: &'static str,
        /// What to do.
        #[help]
        help: String,
        /// The clause.
        #[label("move this to the end of the statement")]
        at: miette::SourceSpan,
    },

    /// A tail on something that is not a read.
    #[error("{clause} belongs to reads, and {statement} is not one: {why}")]
    NotARead {
        /// The clause.
        clause: Clause,
        /// The statement's first words.
        statement: String,
        /// Who decides instead.
        why: &'static str,
        /// What to do.
        #[help]
        help: String,
        /// The clause.
        #[label("this asks which node may answer a read")]
        at: miette::SourceSpan,
    },

    /// A tail on a statement inside a transaction block.
    #[error(
        "{clause} cannot stand on a statement inside BEGIN … COMMIT: a transaction reads one version, chosen when it begins"
    )]
    #[diagnostic(help("put it on BEGIN: BEGIN READ ONLY {written}"))]
    InTransaction {
        /// The clause.
        clause: Clause,
        /// The tails of the statement as written.
        written: String,
        /// The first of them.
        #[label("this would choose again")]
        at: miette::SourceSpan,
    },

    /// SQL that is understood and not run.
    #[error("{what} is not supported")]
    Unsupported {
        /// What it is.
        what: String,
        /// The way out, or why not.
        #[help]
        help: Option<String>,
        /// Where it stands.
        #[label("here")]
        at: miette::SourceSpan,
    },

    /// A name that cannot be given.
    #[error("{message}")]
    Name {
        /// What is wrong with it.
        message: String,
        /// What a name looks like.
        #[help]
        help: Option<String>,
        /// The name.
        #[label("this name")]
        at: miette::SourceSpan,
    },

    /// A parameter that is missing or of the wrong kind.
    #[error("parameter ${index} {problem}")]
    Parameter {
        /// Its number, from 1.
        index: u32,
        /// What is wrong with it.
        problem: String,
        /// What to pass.
        #[help]
        help: String,
        /// The placeholder's clause.
        #[label("used here")]
        at: miette::SourceSpan,
    },
}

impl ParseError {
    /// The code of the one error table.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::TooDeep { .. } | Self::Syntax { .. } | Self::Name { .. } => ErrorCode::Syntax,
            Self::StalenessZero { .. }
            | Self::StalenessNegative { .. }
            | Self::Span { .. }
            | Self::Number { .. }
            | Self::Combination { .. }
            | Self::AnsweredBy { .. }
            | Self::Twice { .. }
            | Self::Misplaced { .. }
            | Self::NotARead { .. }
            | Self::InTransaction { .. } => ErrorCode::BadClause,
            Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::Parameter { .. } => ErrorCode::BadParameter,
        }
    }

    /// Never: the text has to change.
    pub fn retry(&self) -> Retry {
        Retry::Never
    }

    /// The offending bytes of the script; `None` when it is about the whole script.
    pub fn span(&self) -> Option<SourceSpan> {
        let at = match self {
            Self::TooLarge { .. } => return None,
            Self::TooDeep { at, .. }
            | Self::Syntax { at, .. }
            | Self::StalenessZero { at, .. }
            | Self::StalenessNegative { at, .. }
            | Self::Span { at, .. }
            | Self::Number { at, .. }
            | Self::Combination { at, .. }
            | Self::AnsweredBy { at, .. }
            | Self::Twice { at, .. }
            | Self::Misplaced { at, .. }
            | Self::NotARead { at, .. }
            | Self::InTransaction { at, .. }
            | Self::Unsupported { at, .. }
            | Self::Name { at, .. }
            | Self::Parameter { at, .. } => at,
        };
        Some(SourceSpan {
            start: at.offset(),
            length: at.len(),
        })
    }

    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        miette::Diagnostic::help(self).map(|help| help.to_string())
    }

    /// The error object as answers carry it.
    ///
    /// ```
    /// let error = candor_parser::parse_script("SELECT 1 ANSWERED BY MASTER").unwrap_err();
    /// let body = error.to_body();
    /// assert_eq!(body.error, "ANSWERED BY takes ANY or LEADER, not MASTER");
    /// assert_eq!(body.code, candor_proto::ErrorCode::BadClause);
    /// assert_eq!(body.span.map(|s| s.start), Some(21));
    /// ```
    pub fn to_body(&self) -> ErrorBody {
        let mut body = ErrorBody::new(self.code(), self.to_string());
        body.span = self.span();
        body.help = self.help();
        body
    }

    pub(crate) fn syntax(message: impl Into<String>, at: SourceSpan) -> Self {
        Self::Syntax {
            message: message.into(),
            help: None,
            at: place(at),
        }
    }

    pub(crate) fn syntax_help(message: impl Into<String>, help: impl Into<String>, at: SourceSpan) -> Self {
        Self::Syntax {
            message: message.into(),
            help: Some(help.into()),
            at: place(at),
        }
    }

    pub(crate) fn unsupported(what: impl Into<String>, help: impl Into<String>, at: SourceSpan) -> Self {
        Self::Unsupported {
            what: what.into(),
            help: Some(help.into()),
            at: place(at),
        }
    }

    pub(crate) fn name(message: impl Into<String>, at: SourceSpan) -> Self {
        Self::Name {
            message: message.into(),
            help: Some(format!("a name has 1 to {} bytes", limits::NAME_BYTES_MAX)),
            at: place(at),
        }
    }
}

/// A span of the wire as miette's labels take it.
pub(crate) fn place(span: SourceSpan) -> miette::SourceSpan {
    miette::SourceSpan::new(span.start.into(), span.length)
}
