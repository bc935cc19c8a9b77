//! COPY of files of any size: rows go into the log while the file is still read, and take effect at its end.

use std::sync::Arc;

use candor_cluster::{Bulk, Committed};
use candor_engine::{Copied, CopyInput, Evaluated, RowSink};
use candor_parser::Copy;
use candor_proto::{LogIndex, RangeName};
use candor_storage::{Outcome, TableChange, Transaction};
use tokio::sync::mpsc;

use crate::failure::Stop;
use crate::relations::Relations;
use crate::rows::Output;
use crate::statement::{Evaluate, Run};
use crate::write::retries;

/// Batches of rows between the reader of the file and the log.
const BATCHES_WAITING_MAX: usize = 8;

impl Run<'_> {
    /// COPY FROM a file on this node.
    pub(crate) async fn copy_in(&mut self, range: &RangeName, copy: &Copy, path: &str) -> Result<Output, Stop> {
        if self.session.transaction.is_some() {
            return self
                .write(range, &Relations::default(), Evaluate::CopyFrom(copy, path))
                .await;
        }
        self.shared.ensure_default_range(range).await?;
        self.shared.admit_write(range)?;
        let grounds = self.shared.write_grounds(range)?;
        let snapshot = grounds.version();
        let mut ctx = self.context(Some(&grounds), &Relations::default())?;
        ctx.sequences = self.sequences(range);
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        // The sink runs on the reader's own thread, which may wait.
        let sink: RowSink = Box::new(move |collection, rows| {
            let change = TableChange {
                collection,
                ended: None,
                begun: Some(rows),
            };
            sender.blocking_send(change).is_ok()
        });
        let engine = self.shared.engine.clone();
        let progress = Arc::clone(&self.progress);
        let reading = engine.copy_from(ctx, copy, CopyInput::Path(path.into()), progress, Some(sink));
        let writing = append(self.shared.cluster.begin_bulk(range, snapshot)?, batches);
        let (copied, bulk) = tokio::join!(reading, writing);
        // What stopped the writer is why the reader was stopped.
        let bulk = bulk?;
        let copied = copied?;
        if !copied.handed {
            return self
                .small(range, snapshot, copied, Evaluate::CopyFrom(copy, path))
                .await;
        }
        let mut evaluated = copied.evaluated;
        let committed = Box::pin(self.finish(bulk, snapshot, &mut evaluated)).await?;
        self.answer(range, &committed, evaluated)
    }

    /// A file whose rows all fit one proposal. It is read again when another write came between.
    async fn small(
        &mut self,
        range: &RangeName,
        snapshot: LogIndex,
        copied: Copied,
        again: Evaluate<'_>,
    ) -> Result<Output, Stop> {
        let mut evaluated = copied.evaluated;
        let transaction = Transaction {
            snapshot,
            schema: std::mem::take(&mut evaluated.schema),
            changes: std::mem::take(&mut evaluated.changes),
            ..Transaction::default()
        };
        let committed = self.propose(range, transaction).await?;
        match &committed.outcome {
            Outcome::Refused(refusal) if retries(refusal, None) => {
                self.write(range, &Relations::default(), again).await
            }
            _ => self.answer(range, &committed, evaluated),
        }
    }

    async fn finish(
        &mut self,
        mut bulk: Bulk,
        snapshot: LogIndex,
        evaluated: &mut Evaluated,
    ) -> Result<Committed, Stop> {
        for change in std::mem::take(&mut evaluated.changes) {
            bulk.push(change).await?;
        }
        let transaction = Transaction {
            snapshot,
            schema: std::mem::take(&mut evaluated.schema),
            ..Transaction::default()
        };
        self.committing(Box::pin(bulk.commit(transaction))).await
    }
}

/// Appends what the reader hands over, until it has no more.
async fn append(mut bulk: Bulk, mut batches: mpsc::Receiver<TableChange>) -> Result<Bulk, Stop> {
    while let Some(change) = batches.recv().await {
        bulk.push(change).await?;
    }
    Ok(bulk)
}
