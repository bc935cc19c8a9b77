//! Writes: evaluated at the newest state of a range that this node leads, proposed, and run again when they lost.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candor_cluster::{Committed, ProposeError};
use candor_engine::Evaluated;
use candor_proto::{ErrorBody, ErrorCode, Position, RangeName, Receipt, limits};
use candor_storage::{ApplyRefusal, Outcome, Transaction};

use crate::failure::Stop;
use crate::relations::Relations;
use crate::rows::{Output, Rows};
use crate::statement::{Effect, Evaluate, Run};

/// What became of one try.
enum Tried {
    Done(Output),
    Lost { refusal: ApplyRefusal, took: Duration },
}

impl Run<'_> {
    /// A write: on this node only while it leads the range. An autocommit write that loses to another is evaluated
    /// again at the newer state, a bounded number of times.
    pub(crate) async fn write(
        &mut self,
        range: &RangeName,
        relations: &Relations,
        evaluate: Evaluate<'_>,
    ) -> Result<Output, Stop> {
        if self.session.transaction.is_some() {
            return self.write_in_transaction(range, relations, evaluate).await;
        }
        self.shared.ensure_default_range(range).await?;
        self.shared.admit_write(range)?;
        let turn = self.shared.turns.of(range);
        let (mut losses, mut took) = (0, Duration::ZERO);
        loop {
            let pass = turn.wait(losses, took).await;
            match self.try_write(range, relations, evaluate).await? {
                Tried::Done(output) => return Ok(output),
                Tried::Lost { refusal, .. } if losses == limits::WRITE_REPLAYS_MAX => return Err(lost(&refusal)),
                Tried::Lost { took: last, .. } => took = last,
            }
            drop(pass);
            losses += 1;
            self.shared.metrics.replay();
        }
    }

    async fn try_write(
        &mut self,
        range: &RangeName,
        relations: &Relations,
        evaluate: Evaluate<'_>,
    ) -> Result<Tried, Stop> {
        let newest = self.shared.write_grounds(range)?;
        let snapshot = newest.version();
        let mut ctx = self.context(Some(&newest), relations)?;
        ctx.sequences = self.sequences(range);
        let start = Instant::now();
        let mut evaluated = Box::pin(evaluate.run(&self.shared.engine, ctx, &self.progress)).await?;
        let took = start.elapsed();
        if evaluated.is_empty() {
            let position = Position::new(self.shared.epoch(range), snapshot);
            let receipt = self.shared.write_receipt(range, position);
            return Ok(Tried::Done(returning(evaluated, receipt)));
        }
        let transaction = Transaction {
            snapshot,
            schema: std::mem::take(&mut evaluated.schema),
            changes: std::mem::take(&mut evaluated.changes),
            parts: None,
            mutation: None,
        };
        let committed = self.propose(range, transaction).await?;
        match &committed.outcome {
            Outcome::Refused(refusal) if retries(refusal, evaluated.upsert.as_deref()) => Ok(Tried::Lost {
                refusal: refusal.clone(),
                took,
            }),
            _ => self.answer(range, &committed, evaluated).map(Tried::Done),
        }
    }

    /// The answer of a write whose end is known.
    pub(crate) fn answer(
        &self,
        range: &RangeName,
        committed: &Committed,
        evaluated: Evaluated,
    ) -> Result<Output, Stop> {
        if let Outcome::Refused(refusal) = &committed.outcome {
            return Err(refused(refusal));
        }
        let receipt = self.shared.write_receipt(range, committed.position);
        Ok(returning(evaluated, receipt))
    }

    async fn write_in_transaction(
        &mut self,
        range: &RangeName,
        relations: &Relations,
        evaluate: Evaluate<'_>,
    ) -> Result<Output, Stop> {
        let Some(transaction) = &self.session.transaction else {
            return Err(Stop::new(ErrorCode::Internal, "the transaction is gone"));
        };
        transaction.check(Some(range))?;
        if transaction.read_only {
            return Err(Stop::new(
                ErrorCode::ReadOnly,
                "this transaction said READ ONLY, and the statement writes",
            ));
        }
        // Refused for its leader, the transaction is rolled back and the whole script redirected.
        self.shared.admit_write(range)?;
        let grounds = transaction.grounds.clone();
        let mut ctx = self.context(grounds.snapshot.as_ref(), relations)?;
        ctx.sequences = self.sequences(range);
        let evaluated = Box::pin(evaluate.run(&self.shared.engine, ctx, &self.progress)).await?;
        if let Some(transaction) = &mut self.session.transaction {
            // Taken out, so that nobody else has it and nothing of it is copied; a savepoint may.
            let mut pending = Arc::unwrap_or_clone(std::mem::take(&mut transaction.pending));
            let absorbed = pending.absorb(&evaluated);
            transaction.pending = Arc::new(pending);
            absorbed?;
        }
        Ok(returning(evaluated, grounds.receipt))
    }

    /// Proposes a transaction, and keeps in mind how far that got.
    pub(crate) async fn propose(&mut self, range: &RangeName, transaction: Transaction) -> Result<Committed, Stop> {
        let shared = Arc::clone(self.shared);
        self.committing(shared.cluster.propose(range, transaction)).await
    }

    /// Waits for a proposal's end, and keeps in mind how far it got.
    pub(crate) async fn committing(
        &mut self,
        proposal: impl Future<Output = Result<Committed, ProposeError>>,
    ) -> Result<Committed, Stop> {
        let before = self.effect;
        self.effect = Effect::Undecided;
        let committed = proposal.await;
        self.effect = match &committed {
            Ok(Committed {
                outcome: Outcome::Refused(_),
                ..
            })
            | Err(_) => before,
            Ok(_) => Effect::Committed,
        };
        Ok(committed?)
    }
}

/// A conflict, or a definition that changed under the statement: running it again sees the newer state. So it is with a
/// key that appeared in `upsert` meanwhile, the collection in which the statement has an answer for keys that exist.
pub(crate) fn retries(refusal: &ApplyRefusal, upsert: Option<&str>) -> bool {
    match refusal {
        ApplyRefusal::Conflict { .. } | ApplyRefusal::Schema { .. } => true,
        ApplyRefusal::Unique { collection, .. } => upsert == Some(collection.as_str()),
        _ => false,
    }
}

/// A write that lost every time.
fn lost(refusal: &ApplyRefusal) -> Stop {
    ErrorBody::new(ErrorCode::Conflict, refusal.to_string())
        .with_help(format!(
            "the statement was run {} times and another write was first each time: send it again",
            limits::WRITE_REPLAYS_MAX + 1
        ))
        .into()
}

/// A transaction that does not take effect. A key that appeared while it was open, and for which it has an answer, is a
/// conflict: run again, it would find the row.
pub(crate) fn transaction_refused(refusal: &ApplyRefusal, upserts: impl Fn(&str) -> bool) -> Stop {
    match refusal {
        ApplyRefusal::Unique { collection, .. } if upserts(collection) => {
            ErrorBody::new(ErrorCode::Conflict, refusal.to_string())
                .with_help("run the transaction again: the row is there now")
                .into()
        }
        ApplyRefusal::Conflict { .. } => ErrorBody::new(refusal.code(), refusal.to_string())
            .with_help("run the transaction again from its BEGIN")
            .into(),
        _ => refused(refusal),
    }
}

pub(crate) fn refused(refusal: &ApplyRefusal) -> Stop {
    let mut body = ErrorBody::new(refusal.code(), refusal.to_string());
    if let Some(sqlstate) = refusal.sqlstate() {
        sqlstate.clone_into(&mut body.sqlstate);
    }
    if let Some(constraint) = refusal.constraint() {
        body = body.with_fact("constraint", constraint);
    }
    body.into()
}

fn returning(evaluated: Evaluated, receipt: Receipt) -> Output {
    let rows = evaluated.returning.map(|(schema, batches)| Rows::of(schema, batches));
    Output {
        rows,
        rows_affected: Some(evaluated.rows_affected),
        receipt,
    }
}
