//! How a call ends without an answer.

use std::time::Duration;

use candor_planner::follow::FollowError;
use candor_proto::{Epoch, ErrorBody, ErrorCode, NodeName, RangeName, Retry};
use serde_json::Value;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address is not one that this client can dial.
    #[error("{url:?} is not the address of a node: {why}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The request cannot be built: a name or setting that does not fit into a header.
    #[error("{what} cannot be sent: {why}")]
    BadRequest {
        /// Which part.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// No connection, or one that broke before a write can have taken effect.
    #[error("{address} could not be reached: {reason}")]
    Connect {
        /// Where.
        address: String,
        /// What the system said.
        reason: String,
        /// The cause.
        #[source]
        source: Option<Box<reqwest::Error>>,
    },
    /// The node answered with an error.
    #[error("{}", .0.error)]
    Server(Box<ErrorBody>),
    /// More redirects than are followed.
    #[error("followed {hops} redirects and was sent on again: the nodes disagree about who may answer")]
    RedirectLoop {
        /// How many were followed.
        hops: u8,
    },
    /// A redirect from an earlier leadership than one already followed.
    #[error("a redirect names epoch {named} of range {range}, and one under epoch {followed} was followed before")]
    BackInTime {
        /// The range of the call.
        range: RangeName,
        /// The epoch that the redirect names.
        named: Epoch,
        /// The newest epoch that was followed.
        followed: Epoch,
    },
    /// Another node than the named one is at the address; the script was not sent to it.
    #[error("the redirect names node {expected}, and {here} is at that address: nothing was sent to it")]
    WrongNode {
        /// The node that the redirect named.
        expected: NodeName,
        /// The node that is there.
        here: NodeName,
    },
    /// A name that is never put into a statement or a header of another node.
    #[error("{name:?} is not a plain identifier, so it is not taken to another node")]
    UnsafeName {
        /// The name.
        name: String,
    },
    /// The node that can answer has no HTTP address.
    #[error("node {node} can answer, and its declaration names no HTTP address (`DEFINE REPLICA … HTTP AT …`)")]
    NoAddress {
        /// The node that can answer.
        node: NodeName,
    },
    /// The time was up before an answer came, and nothing can have been written.
    #[error("no answer came within {limit:?}")]
    Deadline {
        /// The deadline of the call.
        limit: Duration,
    },
    /// Bytes of a write may have arrived, and no answer came: read before writing again.
    #[error("no answer came from {address}: whether the write took effect is not known")]
    OutcomeUnknown {
        /// Where the write was sent.
        address: String,
    },
    /// An open transaction was sent to another node, and what it has read so far is different there. It was rolled back.
    #[error("the transaction was sent on to another node, where its earlier answers differ: it was rolled back")]
    TransactionMoved,
    /// An open transaction was sent to another node, and cannot be run again there from its start.
    #[error("the transaction was sent on to another node and cannot be run again there: {why}")]
    NotReplayable {
        /// What stands against it.
        why: String,
    },
    /// The answer is not of the documented form.
    #[error("the answer of {address} is not understood: {why}")]
    Protocol {
        /// Who answered.
        address: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ClientError {
    /// The code a machine may act on.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::BadUrl { .. } | Self::BadRequest { .. } | Self::UnsafeName { .. } => ErrorCode::BadRequest,
            Self::Connect { .. } => ErrorCode::HopFailed,
            Self::Server(body) => body.code,
            Self::RedirectLoop { .. } => ErrorCode::RedirectLoop,
            Self::BackInTime { .. } => ErrorCode::EpochStale,
            Self::WrongNode { .. } => ErrorCode::WrongNode,
            Self::NoAddress { .. } => ErrorCode::NotLeader,
            Self::Deadline { .. } => ErrorCode::Deadline,
            Self::OutcomeUnknown { .. } => ErrorCode::OutcomeUnknown,
            Self::TransactionMoved => ErrorCode::Conflict,
            Self::NotReplayable { .. } => ErrorCode::TransactionState,
            Self::Protocol { .. } => ErrorCode::Internal,
        }
    }

    /// What the caller may do.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Server(body) if body.retryable => body
                .retry_after_ms
                .map_or(Retry::Same, |wait| Retry::After(Duration::from_millis(wait))),
            _ => self.code().retry(),
        }
    }

    /// The node's own error object, if it gave one.
    pub fn body(&self) -> Option<&ErrorBody> {
        match self {
            Self::Server(body) => Some(body),
            _ => None,
        }
    }

    /// The answers of the statements before the one that failed, as the node sent them.
    pub fn earlier_results(&self) -> Vec<crate::StatementResult> {
        let results = self
            .body()
            .and_then(|body| body.facts.get("results"))
            .cloned()
            .unwrap_or(Value::Null);
        serde_json::from_value(results).unwrap_or_default()
    }

    pub(crate) fn protocol(address: &str, why: impl Into<String>) -> Self {
        Self::Protocol {
            address: address.to_owned(),
            why: why.into(),
        }
    }

    /// The words of the followed call, with the cause that the driver saw.
    pub(crate) fn from_follow(error: FollowError, cause: Option<reqwest::Error>, limit: Duration) -> Self {
        match error {
            FollowError::RedirectLoop { hops } => Self::RedirectLoop { hops },
            FollowError::BackInTime { range, named, followed } => Self::BackInTime { range, named, followed },
            FollowError::UnsafeName { name } => Self::UnsafeName { name },
            FollowError::WrongNode { expected, here } => Self::WrongNode { expected, here },
            FollowError::NoAddress { node } => Self::NoAddress { node },
            FollowError::Deadline => Self::Deadline { limit },
            FollowError::OutcomeUnknown { place } => Self::OutcomeUnknown { address: place.address },
            FollowError::Unreachable { place } => Self::Connect {
                address: place.address,
                reason: cause
                    .as_ref()
                    .map_or_else(|| "the connection broke".to_owned(), root_cause),
                source: cause.map(Box::new),
            },
            other => Self::protocol("the node", other.to_string()),
        }
    }
}

/// The innermost cause: "connection refused" says more than "error sending request".
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
