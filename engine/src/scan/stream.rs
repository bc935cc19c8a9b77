//! A partition of a scan while it runs.
//!
//! One step reads one block. A step that leaves no row gives the thread back before the next one, so that a scan that
//! finds nothing can be stopped. Survivors of selective conditions are gathered into batches of the usual size.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::Stream;

use super::exec::Source;
use super::predicate::{Judge, Predicate};
use super::table::CollectionTable;
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

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// The rows of one partition.
pub(super) struct Reading {
    schema: SchemaRef,
    /// Batches of the columns that come out, and behind them those that only the condition looks at.
    batches: Batches,
    judging: Option<Judging>,
    /// Rows that may still come out.
    left: usize,
    metrics: BaselineMetrics,
}

/// A condition, and the survivors that wait for more of them.
struct Judging {
    judge: Judge,
    /// How many columns of a batch come out.
    width: Vec<usize>,
    survivors: BatchCoalescer,
    ended: bool,
}

impl Reading {
    pub(super) fn new(job: Job, metrics: &ExecutionPlanMetricsSet, schema: SchemaRef) -> Result<Self> {
        let metrics = BaselineMetrics::new(metrics, job.partition);
        let mut read = job.projection.to_vec();
        let judging = match &job.predicate {
            None => None,
            Some(predicate) => {
                let unread = predicate
                    .columns()
                    .into_iter()
                    .filter(|column| !job.projection.contains(column));
                read.extend(unread);
                Some(Judging {
                    judge: predicate.judge(&read)?,
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
            batches: batches(job, read.into()),
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
            return Poll::Ready(self.batches.next().map(|batch| Ok(batch?)));
        };
        if let Some(batch) = judging.survivors.next_completed_batch() {
            return Poll::Ready(Some(Ok(batch)));
        }
        if judging.ended {
            return Poll::Ready(None);
        }
        let step = if let Some(batch) = self.batches.next() {
            batch
                .map_err(DataFusionError::from)
                .and_then(|batch| judging.take(&batch))
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
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let keep: BooleanArray = self.judge.keep(batch)?;
        let kept = keep.true_count();
        if kept == 0 {
            return Ok(());
        }
        let batch = batch.project(&self.width)?;
        if kept == batch.num_rows() {
            self.survivors.push_batch(batch)?;
        } else {
            self.survivors.push_batch_with_filter(batch, &keep)?;
        }
        Ok(())
    }
}

/// The batches of one partition, read one by one as they are asked for.
fn batches(job: Job, read: Arc<[usize]>) -> Batches {
    let Job {
        table,
        source,
        partition,
        ..
    } = job;
    match source {
        Source::Keys(keys) => match table.lookup(&keys, &read) {
            Ok(found) => Box::new(found.into_iter().map(Ok)),
            Err(error) => Box::new(std::iter::once(Err(error))),
        },
        Source::Blocks(partitions) => {
            let blocks = partitions.get(partition).map_or(0, Vec::len);
            let pending = match partition {
                0 => table.pending_rows(&read),
                _ => Ok(Vec::new()),
            };
            let pending = match pending {
                Ok(batches) => batches.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            let part = move |at: usize| match table.read_part(&partitions[partition][at], &read) {
                Ok(rows) => Box::new(rows) as Batches,
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
            let stored = (0..blocks).flat_map(part);
            Box::new(stored.chain(pending))
        }
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
