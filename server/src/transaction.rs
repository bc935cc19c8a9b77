//! BEGIN … COMMIT: one snapshot, private writes, one proposal.

use std::sync::Arc;

use candor_engine::PendingWrites;
use candor_proto::{ErrorBody, ErrorCode, RangeName};

use crate::failure::Stop;
use crate::route::Grounds;

/// A transaction between its BEGIN and its COMMIT. It holds nothing but memory: dropping it is ROLLBACK.
pub(crate) struct OpenTransaction {
    /// The one range it reads and writes.
    pub(crate) range: RangeName,
    /// The point of history that all its reads see.
    pub(crate) grounds: Grounds,
    /// It refuses writes.
    pub(crate) read_only: bool,
    /// What it wrote so far.
    pub(crate) pending: Arc<PendingWrites>,
    /// A statement of it failed: only ROLLBACK is left.
    pub(crate) failed: bool,
}

impl OpenTransaction {
    /// Refuses statements after a failed one, and ranges other than the transaction's.
    pub(crate) fn check(&self, range: Option<&RangeName>) -> Result<(), Stop> {
        if self.failed {
            return Err(ErrorBody::new(
                ErrorCode::TransactionState,
                "an earlier statement of this transaction failed, so nothing of it will be kept",
            )
            .with_help("ROLLBACK, then begin again")
            .into());
        }
        match (range, &self.range) {
            (Some(range), own) if range != own => Err(ErrorBody::new(
                ErrorCode::TransactionState,
                format!(
                    "one transaction stays in one namespace: this one is in {own}, and the statement names {range}"
                ),
            )
            .with_help("COMMIT or ROLLBACK first")
            .into()),
            _ => Ok(()),
        }
    }
}
