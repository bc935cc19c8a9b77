//! How a followed call ends without an answer.

use candor_proto::{Epoch, ErrorCode, NodeName, RangeName, Retry};

use super::Place;

/// How far a request had got when the connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No byte of the request can have arrived: the connection was never made.
    NeverSent,
    /// Bytes may have arrived.
    MaybeSent,
}

/// Why a call could not be followed to an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// One redirect too many.
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
    /// A name that is never put into a statement or a header.
    #[error("{name:?} is not a plain identifier, so it is not taken to another node")]
    UnsafeName {
        /// The name.
        name: String,
    },
    /// Another node than the named one is at the address.
    #[error("the redirect names node {expected}, and {here} is at that address: nothing was sent to it")]
    WrongNode {
        /// The node that the redirect named.
        expected: NodeName,
        /// The node that is there.
        here: NodeName,
    },
    /// The redirect gives no address that this client can dial.
    #[error("node {node} can answer, but the redirect gives no address for this kind of client")]
    NoAddress {
        /// The node that can answer.
        node: NodeName,
    },
    /// The connection could not be made, or broke before a write can have taken effect.
    #[error("{} could not be reached, or the connection broke", place.address)]
    Unreachable {
        /// Where.
        place: Place,
    },
    /// The time was up before an answer came, and nothing can have been written.
    #[error("the deadline passed before an answer came")]
    Deadline,
    /// Bytes of a write may have arrived, and no answer came.
    #[error("no answer came from {}: whether the write took effect is not known", place.address)]
    OutcomeUnknown {
        /// Where the write was sent.
        place: Place,
    },
    /// The driver reported something that the last step did not ask for.
    #[error("the answer does not belong to the question")]
    OutOfOrder,
}

impl FollowError {
    /// The code a machine may act on.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::RedirectLoop { .. } => ErrorCode::RedirectLoop,
            Self::BackInTime { .. } => ErrorCode::EpochStale,
            Self::UnsafeName { .. } => ErrorCode::BadRequest,
            Self::WrongNode { .. } => ErrorCode::WrongNode,
            Self::NoAddress { .. } => ErrorCode::NotLeader,
            Self::Unreachable { .. } => ErrorCode::HopFailed,
            Self::Deadline => ErrorCode::Deadline,
            Self::OutcomeUnknown { .. } => ErrorCode::OutcomeUnknown,
            Self::OutOfOrder => ErrorCode::Internal,
        }
    }

    /// What the caller may do: the code's rule.
    pub fn retry(&self) -> Retry {
        self.code().retry()
    }
}
