//! Why a statement gave no rows: a redirect, which is a typed answer, or the one error object.

use candor_cluster::ProposeError;
use candor_engine::EngineError;
use candor_parser::ParseError;
use candor_planner::Refusal;
use candor_proto::{ErrorBody, ErrorCode, Redirect};

/// A statement that was not answered here.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Another node answers it; nothing was executed.
    Redirect(Box<Redirect>),
    /// It is refused or failed.
    Error(Box<ErrorBody>),
}

impl Stop {
    /// An error without more to say than its words.
    pub(crate) fn new(code: ErrorCode, error: impl Into<String>) -> Self {
        ErrorBody::new(code, error).into()
    }
}

impl From<ErrorBody> for Stop {
    fn from(body: ErrorBody) -> Self {
        Self::Error(Box::new(body))
    }
}

impl From<ParseError> for Stop {
    fn from(error: ParseError) -> Self {
        error.to_body().into()
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        refusal.to_body().into()
    }
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        error.to_body().into()
    }
}

impl From<ProposeError> for Stop {
    fn from(error: ProposeError) -> Self {
        ErrorBody::new(error.code(), error.to_string()).into()
    }
}
