//! The words every part of Candor shares: ids, positions, what nodes publish about themselves,
//! redirects, receipts, error codes and limits.
//!
//! Everything here is plain data with a serialised form. No clock, no randomness, no sockets, no
//! files: `server`, `edge` and `client` use the same types, so there is one shape of each thing.

mod error;
mod ids;
pub mod limits;
mod node;
mod receipt;
mod redirect;

pub use error::{ErrorBody, ErrorCode, Retry, SourceSpan};
pub use ids::{BootId, Chain, Epoch, LogIndex, NodeName, Position, RangeId, RangeName};
pub use node::{Mode, NodeState, PeerRole, RangeReport};
pub use receipt::{Receipt, Role};
pub use redirect::{Redirect, RedirectKind, RedirectReason, Redirected, RedirectedError};
