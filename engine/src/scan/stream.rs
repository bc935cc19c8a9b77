//! A partition of a scan while it runs.
//!
//! One step reads one block. A step that leaves no row gives the thread back before the next one, so that a scan that
//! finds nothing can be stopped. Survivors of selective conditions are gathered into batches of the usual size.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use candor_storage::RowFilter;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::Stream;

use super::deal::Dealt;
use super::exec::Source;
use super::judge::Judge;
use super::predicate::{Predicate, Pruner};
use super::table::{CollectionTable, FOUND_ROWS_MAX};
use crate::error::EngineError;

/// What a partition reads.
pub(super) struct Job {
    pub(super) table: CollectionTable,
    pub(super) projection: Arc<[usize]>,
    pub(super) predicate: Option<Predicate>,
    pub(super) source: Source,
    pub(super) limit: Option<usize>,
    pub(super) partition: usize,
    pub(super) batch_rows: usize,
}

/// Rows that were read, and whether the store has judged them.
struct Piece {
    rows: RecordBatch,
    is_judged: bool,
}

type Pieces = Box<dyn Iterator<Item = Result<Piece, EngineError>> + Send>;

/// The rows of one partition.
pub(super) struct Reading {
    schema: SchemaRef,
    /// Rows with the columns that come out, and behind them those that only the condition looks at.
    pieces: Pieces,
    judging: Option<Judging>,
    /// Rows that may still come out.
    left: usize,
    metrics: BaselineMetrics,
}

/// A condition, and the survivors that wait for more of them.
struct Judging {
    judge: Judge,
    /// The condition as the store knows it.
    below: Arc<Judge>,
    /// Places of the columns that come out.
    width: Vec<usize>,
    survivors: BatchCoalescer,
    ended: bool,
}

impl Reading {
    pub(super) fn new(job: Job, metrics: &ExecutionPlanMetricsSet, schema: SchemaRef) -> Result<Self> {
        let metrics = BaselineMetrics::new(metrics, job.partition);
        let mut read = job.projection.to_vec();
        let mut below = None;
        let judging = match &job.predicate {
            None => None,
            Some(predicate) => {
                let unread = predicate
                    .columns()
                    .into_iter()
                    .filter(|column| !job.projection.contains(column));
                read.extend(unread);
                let table_schema = job.table.row_schema();
                let store = Arc::new(predicate.judge(&predicate.columns(), table_schema)?);
                below = Some((Arc::clone(&store), Pruner::new(predicate, table_schema)));
                Some(Judging {
                    judge: predicate.judge(&read, table_schema)?,
                    below: store,
                    width: (0..job.projection.len()).collect(),
                    survivors: BatchCoalescer::new(Arc::clone(&schema), job.batch_rows)
                        .with_biggest_coalesce_batch_size(Some(job.batch_rows / 2)),
                    ended: false,
                })
            }
        };
        Ok(Self {
            schema,
            left: job.limit.unwrap_or(usize::MAX),
            pieces: pieces(job, read.into(), below),
            judging,
            metrics,
        })
    }

    /// Reads one block. `Ready(None)` at the end; pending when there was no row to hand out.
    fn step(&mut self) -> Poll<Option<Result<RecordBatch>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let Some(judging) = &mut self.judging else {
            return Poll::Ready(self.pieces.next().map(|piece| Ok(piece?.rows)));
        };
        if let Some(batch) = judging.survivors.next_completed_batch() {
            return Poll::Ready(Some(Ok(batch)));
        }
        if judging.ended {
            return Poll::Ready(None);
        }
        let step = if let Some(piece) = self.pieces.next() {
            piece
                .map_err(DataFusionError::from)
                .and_then(|piece| judging.take(&piece))
        } else {
            judging.ended = true;
            judging.survivors.finish_buffered_batch().map_err(DataFusionError::from)
        };
        match (step, judging.survivors.next_completed_batch()) {
            (Err(error), _) => Poll::Ready(Some(Err(error))),
            (Ok(()), Some(batch)) => Poll::Ready(Some(Ok(batch))),
            (Ok(()), None) if judging.ended => Poll::Ready(None),
            (Ok(()), None) => Poll::Pending,
        }
    }
}

impl Judging {
    fn take(&mut self, piece: &Piece) -> Result<()> {
        let rows = piece.rows.project(&self.width)?;
        if piece.is_judged && !self.below.is_unsure() {
            self.survivors.push_batch(rows)?;
            return Ok(());
        }
        let keep = self.judge.keep(&piece.rows)?;
        match keep.true_count() {
            0 => {}
            kept if kept == rows.num_rows() => self.survivors.push_batch(rows)?,
            _ => self.survivors.push_batch_with_filter(rows, &keep)?,
        }
        Ok(())
    }
}

/// The rows of one partition, read piece by piece as they are asked for.
fn pieces(job: Job, read: Arc<[usize]>, below: Option<(Arc<Judge>, Pruner)>) -> Pieces {
    let Job {
        table,
        source,
        partition,
        ..
    } = job;
    let unjudged = |rows| Piece { rows, is_judged: false };
    match source {
        Source::Keys(keys) => match table.lookup(&keys, &read) {
            Ok(found) => Box::new(found.into_iter().map(move |rows| Ok(unjudged(rows)))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        },
        Source::Rows(rows) => {
            let pending = pending(&table, 0, &read);
            let chunks = rows.len().div_ceil(FOUND_ROWS_MAX);
            let stored = (0..chunks).map(move |at| {
                let from = at * FOUND_ROWS_MAX;
                table.read_found(&rows[from..rows.len().min(from + FOUND_ROWS_MAX)], &read)
            });
            Box::new(stored.map(move |rows| Ok(unjudged(rows?))).chain(pending))
        }
        Source::Blocks(Dealt { partitions, .. }) => {
            let parts = partitions.get(partition).map_or(0, Vec::len);
            let pending = pending(&table, partition, &read);
            let (judge, mut pruner) = below.unzip();
            let judge = judge.filter(|judge| table.store_judges(judge.columns()));
            let part = move |at: usize| -> Pieces {
                let part = &partitions[partition][at];
                if pruner.as_mut().is_some_and(|pruner| !pruner.may_stay(part)) {
                    return Box::new(std::iter::empty());
                }
                let is_judged = judge.is_some();
                let filter = judge.clone().map(|judge| judge as Arc<dyn RowFilter>);
                match table.read_part(part, &read, filter) {
                    Ok(rows) => Box::new(rows.map(move |rows| Ok(Piece { rows: rows?, is_judged }))),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            };
            Box::new((0..parts).flat_map(part).chain(pending))
        }
    }
}

/// The pending rows, which the first partition hands out: batches, or the error that stands for them.
fn pending(table: &CollectionTable, partition: usize, read: &[usize]) -> Vec<Result<Piece, EngineError>> {
    let rows = match partition {
        0 => table.pending_rows(read),
        _ => Ok(Vec::new()),
    };
    match rows {
        Ok(batches) => batches
            .into_iter()
            .map(|rows| Ok(Piece { rows, is_judged: false }))
            .collect(),
        Err(error) => vec![Err(error)],
    }
}

impl Stream for Reading {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let timer = self.metrics.elapsed_compute().clone();
        let timer = timer.timer();
        let step = self.step();
        timer.done();
        match &step {
            Poll::Ready(Some(Ok(batch))) => {
                self.left = self.left.saturating_sub(batch.num_rows());
            }
            Poll::Ready(_) => {}
            Poll::Pending => cx.waker().wake_by_ref(),
        }
        self.metrics.record_poll(step)
    }
}

impl RecordBatchStream for Reading {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
