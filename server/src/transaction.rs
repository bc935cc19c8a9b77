//! BEGIN … COMMIT: one snapshot, private writes, one proposal. A savepoint is what was written by then.

use std::sync::Arc;
use std::time::Duration;

use candor_engine::PendingWrites;
use candor_proto::{ErrorBody, ErrorCode, RangeName};
use candor_storage::Outcome;

use crate::failure::Stop;
use crate::relations::Relations;
use crate::route::{Asked, Grounds};
use crate::rows::Output;
use crate::statement::Run;
use crate::write::transaction_refused;

/// Savepoints of one transaction; one more is refused. What was written before each is kept.
const SAVEPOINTS_MAX: usize = 1000;

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
    /// A statement of it failed: only ROLLBACK is left, whole or to a savepoint.
    pub(crate) failed: bool,
    /// The savepoints, oldest first; names may stand several times.
    pub(crate) savepoints: Vec<Savepoint>,
}

/// What a transaction had written when SAVEPOINT was said.
pub(crate) struct Savepoint {
    name: String,
    pending: Arc<PendingWrites>,
    read_only: bool,
}

impl OpenTransaction {
    /// Refuses statements after a failed one, and ranges other than the transaction's.
    pub(crate) fn check(&self, range: Option<&RangeName>) -> Result<(), Stop> {
        if self.failed {
            return Err(state(
                "25P02",
                "an earlier statement of this transaction failed, so nothing of it will be kept",
                "ROLLBACK, then begin again; or ROLLBACK TO a savepoint",
            ));
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

/// An error of the transaction's state, with its own SQLSTATE.
fn state(sqlstate: &str, error: impl Into<String>, help: &str) -> Stop {
    let mut body = ErrorBody::new(ErrorCode::TransactionState, error).with_help(help);
    sqlstate.clone_into(&mut body.sqlstate);
    body.into()
}

fn no_transaction() -> Stop {
    state("25P01", "no transaction is open", "BEGIN opens one")
}

fn no_savepoint(name: &str) -> Stop {
    state(
        "3B001",
        format!("there is no savepoint `{name}` in this transaction"),
        "SAVEPOINT name makes one",
    )
}

impl Run<'_> {
    pub(crate) async fn begin(&mut self, asked: &Asked<'_>, read_only: bool) -> Result<Output, Stop> {
        if self.session.transaction.is_some() {
            return Err(state(
                "25001",
                "a transaction is open already",
                "COMMIT or ROLLBACK it first; SAVEPOINT name marks a point inside it",
            ));
        }
        let range = self.session.range();
        if !read_only {
            self.shared.ensure_default_range(&range).await?;
        }
        let grounds = self.grounds(asked, &Relations::default()).await?;
        let pending = grounds.snapshot.as_ref().map(PendingWrites::new).unwrap_or_default();
        let receipt = grounds.receipt.clone();
        self.session.transaction = Some(OpenTransaction {
            range,
            grounds,
            read_only,
            pending: Arc::new(pending),
            failed: false,
            savepoints: Vec::new(),
        });
        Ok(Output {
            rows: None,
            rows_affected: None,
            receipt,
        })
    }

    pub(crate) async fn commit(&mut self) -> Result<Output, Stop> {
        let transaction = self.session.transaction.take().ok_or_else(no_transaction)?;
        transaction.check(None)?;
        let receipt = transaction.grounds.receipt.clone();
        let (range, Some(snapshot), false) = (
            transaction.range,
            transaction.grounds.snapshot,
            transaction.pending.is_empty(),
        ) else {
            return Ok(Output {
                rows: None,
                rows_affected: None,
                receipt,
            });
        };
        self.shared.admit_write(&range)?;
        drop(transaction.savepoints);
        let pending = Arc::unwrap_or_clone(transaction.pending);
        let upserts = pending.upserts().clone();
        let transaction = pending.into_transaction(snapshot.version())?;
        let pass = self.shared.turns.of(&range).wait(0, Duration::ZERO).await;
        let committed = self.propose(&range, transaction).await?;
        drop(pass);
        if let Outcome::Refused(refusal) = &committed.outcome {
            return Err(transaction_refused(refusal, |collection| upserts.contains(collection)));
        }
        let receipt = self.shared.write_receipt(&range, committed.position);
        Ok(Output {
            rows: None,
            rows_affected: None,
            receipt,
        })
    }

    pub(crate) fn rollback(&mut self) -> Result<Output, Stop> {
        self.session.transaction.take().ok_or_else(no_transaction)?;
        Ok(self.done(None))
    }

    pub(crate) fn savepoint(&mut self, name: &str) -> Result<Output, Stop> {
        let transaction = self.session.transaction.as_mut().ok_or_else(no_transaction)?;
        if transaction.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Stop::new(
                ErrorCode::TransactionState,
                format!("this transaction has {SAVEPOINTS_MAX} savepoints, and takes no more"),
            ));
        }
        transaction.savepoints.push(Savepoint {
            name: name.to_owned(),
            pending: Arc::clone(&transaction.pending),
            read_only: transaction.read_only,
        });
        Ok(self.done(None))
    }

    /// Back to what was written when the newest savepoint of this name was made; it stays, those after it go.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<Output, Stop> {
        let transaction = self.session.transaction.as_mut().ok_or_else(no_transaction)?;
        let at = transaction.newest(name)?;
        transaction.savepoints.truncate(at + 1);
        if let Some(savepoint) = transaction.savepoints.last() {
            transaction.pending = Arc::clone(&savepoint.pending);
            transaction.read_only = savepoint.read_only;
        }
        transaction.failed = false;
        Ok(self.done(None))
    }

    /// Forgets the newest savepoint of this name and those after it; what was written since stays.
    pub(crate) fn release(&mut self, name: &str) -> Result<Output, Stop> {
        let transaction = self.session.transaction.as_mut().ok_or_else(no_transaction)?;
        let at = transaction.newest(name)?;
        transaction.savepoints.truncate(at);
        Ok(self.done(None))
    }

    /// Changes what the open transaction may do, before it has done anything that would stand against it.
    pub(crate) fn set_transaction(&mut self, read_only: Option<bool>) -> Result<Output, Stop> {
        let transaction = self.session.transaction.as_mut().ok_or_else(no_transaction)?;
        match read_only {
            Some(false) if transaction.read_only => {
                return Err(state(
                    "25001",
                    "a transaction that began READ ONLY does not become one that writes",
                    "ROLLBACK, then BEGIN",
                ));
            }
            Some(true) => transaction.read_only = true,
            _ => {}
        }
        Ok(self.done(None))
    }
}

impl OpenTransaction {
    /// Where the newest savepoint of this name stands.
    fn newest(&self, name: &str) -> Result<usize, Stop> {
        let found = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        found.ok_or_else(|| no_savepoint(name))
    }
}
