//! The engine: DataFusion on threads of its own, one call per kind of statement.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use candor_parser::{Body, Copy, Define, Remove};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt as _};
use sqlparser::ast;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::context::StatementContext;
use crate::copy::{self, Copied, CopyInput, CopyOutput, Progress, RowSink};
use crate::env::Env;
use crate::error::EngineError;
use crate::names::column_names;
use crate::sequences::Sequences;
use crate::write::{self, Evaluated};
use crate::{define, point, session};

/// Batches that wait between a query and whoever reads its answer.
const BATCHES_WAITING_MAX: usize = 4;

/// What the engine may use.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Threads that run statements.
    pub threads: usize,
    /// Memory for sorts, joins and aggregates of all statements together, bytes; `None` = no bound.
    pub memory_bytes: Option<usize>,
    /// Where sorts and aggregates go that outgrow the memory; `None` = the system's folder for temporary files.
    pub spill_dir: Option<PathBuf>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            memory_bytes: None,
            spill_dir: None,
        }
    }
}

/// Plans and runs statements. Cheap to clone; the last clone stops the threads.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    template: Arc<SessionState>,
    /// Taken when the engine goes.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last clone may go inside another runtime, where waiting for threads is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// A query that is about to run: its surroundings, its plan, and the names of its columns where they are not the plan's.
type Planned = (Env, Arc<dyn ExecutionPlan>, Option<Vec<String>>);

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    /// When threads or the folder for spilling cannot be had.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let template = session::template(config).map_err(|error| EngineError::internal(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .thread_name("candor-engine")
            .thread_stack_size(candor_proto::limits::THREAD_STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| EngineError::internal(format!("the engine's threads cannot start: {error}")))?;
        Ok(Self(Arc::new(Inner {
            template: Arc::new(template),
            runtime: Some(runtime),
        })))
    }

    /// Starts a query. Its answer is computed as it is read, and stops when the stream is dropped.
    ///
    /// # Errors
    /// What planning refuses; errors of running come through the stream.
    pub async fn query(&self, ctx: StatementContext, statement: &ast::Statement) -> Result<RowStream, EngineError> {
        if let Some(answer) = point::answer(&ctx, statement)? {
            return Ok(RowStream::ready(answer.schema(), vec![answer]));
        }
        let engine = Arc::clone(&self.0);
        let statement = statement.clone();
        self.stream(Box::pin(async move {
            let env = Env::new(&engine.template, ctx);
            let plan = env.query(&statement).await?;
            Ok((env, plan, column_names(&statement)))
        }))
        .await
    }

    /// Explains a query, or the query that a write is planned as; with `analyze` the query is run.
    ///
    /// # Errors
    /// As [`Engine::query`]; `EXPLAIN ANALYZE` of a write is refused, because it would not write.
    pub async fn explain(
        &self,
        ctx: StatementContext,
        analyze: bool,
        verbose: bool,
        inner: &Body,
    ) -> Result<RowStream, EngineError> {
        let engine = Arc::clone(&self.0);
        let inner = inner.clone();
        self.stream(Box::pin(async move {
            let env = Env::new(&engine.template, ctx);
            let (env, plan) = match &inner {
                Body::Query(statement) => {
                    let plan = env.plan(statement).await?;
                    (env, plan)
                }
                Body::Write(_) if analyze => {
                    return Err(EngineError::unsupported_try(
                        "EXPLAIN ANALYZE of a write",
                        "EXPLAIN without ANALYZE shows the query it is planned as",
                    ));
                }
                Body::Write(statement) => write::plan_of(env, statement).await?,
                _ => {
                    return Err(EngineError::unsupported(
                        "EXPLAIN of a statement that is neither a query nor a write",
                    ));
                }
            };
            let explained = LogicalPlanBuilder::from(plan).explain(verbose, analyze);
            let plan = explained
                .and_then(LogicalPlanBuilder::build)
                .map_err(|error| env.error(error))?;
            let plan = env.physical(&plan).await?;
            Ok((env, plan, None))
        }))
        .await
    }

    /// Evaluates INSERT, UPDATE, DELETE, MERGE or TRUNCATE, with the WITH in front of them, at the context's snapshot. Nothing is written: the caller
    /// proposes what comes back, or keeps it in [`crate::PendingWrites`].
    ///
    /// # Errors
    /// What planning, running, column types and constraints refuse.
    pub async fn write(&self, ctx: StatementContext, statement: &ast::Statement) -> Result<Evaluated, EngineError> {
        let env = Env::new(&self.0.template, ctx);
        // The caller's thread never waits for the log.
        env.ctx.sequences.allow(false);
        let at_once = match statement {
            ast::Statement::Insert(insert) => write::small_insert(&env, insert),
            _ => write::by_key(&env, statement).map(Ok),
        };
        if let Some(evaluated) = at_once
            && !env.ctx.sequences.has_to_wait()
        {
            return Ok(with_moves(evaluated?, &env.ctx.sequences));
        }
        let statement = statement.clone();
        self.run(Box::pin(async move {
            env.ctx.sequences.allow(true);
            let evaluated = Box::pin(write::evaluate(&env, &statement)).await?;
            Ok(with_moves(write::carry_out(&env, evaluated)?, &env.ctx.sequences))
        }))
        .await
    }

    /// Evaluates `DEFINE DATABASE` and `DEFINE COLLECTION`.
    ///
    /// # Errors
    /// A name that is taken, a type or constraint that is not enforced.
    pub async fn define(&self, ctx: StatementContext, define: &Define) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let define = define.clone();
        self.run(Box::pin(async move {
            define::define(&Env::new(&engine.template, ctx), &define)
        }))
        .await
    }

    /// Evaluates `CREATE TABLE`, with AS also its rows.
    ///
    /// # Errors
    /// As [`Engine::define`].
    pub async fn create_table(
        &self,
        ctx: StatementContext,
        create: &ast::CreateTable,
    ) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let create = create.clone();
        let sequences = Arc::clone(&ctx.sequences);
        sequences.allow(true);
        self.run(Box::pin(async move {
            let evaluated = define::create_table(&Env::new(&engine.template, ctx), &create).await?;
            Ok(with_moves(evaluated, &sequences))
        }))
        .await
    }

    /// Evaluates `CREATE VIEW`; its query is planned once, so that a view that cannot work is refused.
    ///
    /// # Errors
    /// A name that is taken, a query that cannot be planned.
    pub async fn create_view(&self, ctx: StatementContext, create: &ast::CreateView) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let create = create.clone();
        self.run(Box::pin(async move {
            define::create_view(&Env::new(&engine.template, ctx), &create).await
        }))
        .await
    }

    /// Evaluates `CREATE TYPE … AS ENUM`, `ALTER TYPE` and `DROP TYPE`.
    ///
    /// # Errors
    /// A name that is taken or not there, a type that a column has.
    pub async fn define_type(
        &self,
        ctx: StatementContext,
        statement: &ast::Statement,
    ) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let statement = statement.clone();
        self.run(Box::pin(async move {
            define::define_type(&Env::new(&engine.template, ctx), &statement)
        }))
        .await
    }

    /// Evaluates `CREATE SEQUENCE` and `DROP SEQUENCE`.
    ///
    /// # Errors
    /// A name that is taken or not there, a sequence without values, a column that needs it.
    pub async fn define_sequence(
        &self,
        ctx: StatementContext,
        statement: &ast::Statement,
    ) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let statement = statement.clone();
        self.run(Box::pin(async move {
            define::define_sequence(&Env::new(&engine.template, ctx), &statement)
        }))
        .await
    }

    /// Evaluates `ALTER TABLE`; where the rows have to be written anew, they come back too.
    ///
    /// # Errors
    /// What the operations refuse, rows that do not fit, things that depend on what goes.
    pub async fn alter_table(&self, ctx: StatementContext, alter: &ast::AlterTable) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let alter = alter.clone();
        let sequences = Arc::clone(&ctx.sequences);
        sequences.allow(true);
        self.run(Box::pin(async move {
            let evaluated = Box::pin(define::alter_table(&Env::new(&engine.template, ctx), &alter)).await?;
            Ok(with_moves(evaluated, &sequences))
        }))
        .await
    }

    /// Evaluates `CREATE INDEX`.
    ///
    /// # Errors
    /// A name that is taken, a column that is not there.
    pub async fn create_index(
        &self,
        ctx: StatementContext,
        index: &ast::CreateIndex,
    ) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let index = index.clone();
        self.run(Box::pin(async move {
            Box::pin(define::create_index(&Env::new(&engine.template, ctx), &index)).await
        }))
        .await
    }

    /// Evaluates `REMOVE` and `DROP` of databases, collections and views.
    ///
    /// # Errors
    /// A name that is not there, unless `IF EXISTS` was said.
    pub async fn remove(&self, ctx: StatementContext, remove: &Remove) -> Result<Evaluated, EngineError> {
        let engine = Arc::clone(&self.0);
        let remove = remove.clone();
        self.run(Box::pin(async move {
            define::remove(&Env::new(&engine.template, ctx), &remove)
        }))
        .await
    }

    /// Reads a file or bytes into a collection: the rows come back to be proposed. Those that are too many to be kept go
    /// to `sink` while the file is read, on a thread of this call's own, where it may wait.
    ///
    /// # Errors
    /// The first value that does not fit, by row and column; a file that cannot be read; a sink that takes no more.
    pub async fn copy_from(
        &self,
        ctx: StatementContext,
        copy: &Copy,
        input: CopyInput,
        progress: Progress,
        sink: Option<RowSink>,
    ) -> Result<Copied, EngineError> {
        let engine = Arc::clone(&self.0);
        let copy = copy.clone();
        let (answer, read) = tokio::sync::oneshot::channel();
        let gone = Arc::new(AtomicBool::new(false));
        let _stop = SetOnDrop(Arc::clone(&gone));
        let work = move || {
            let env = Env::new(&engine.template, ctx);
            env.ctx.sequences.allow(true);
            let copied = copy::copy_from(&env, &copy, input, &progress, sink, &gone);
            let _ = answer.send(copied.map(|copied| Copied {
                evaluated: with_moves(copied.evaluated, &env.ctx.sequences),
                ..copied
            }));
        };
        std::thread::Builder::new()
            .name("candor-copy".to_owned())
            .stack_size(candor_proto::limits::THREAD_STACK_BYTES)
            .spawn(work)
            .map_err(|error| EngineError::internal(format!("a thread cannot start: {error}")))?;
        read.await.unwrap_or_else(|_| {
            tracing::error!("a COPY panicked");
            Err(EngineError::internal(
                "the COPY failed in a way it should not; the node's log says more",
            ))
        })
    }

    /// Writes a collection or the answer of a query to a file or a writer. Returns how many rows were written.
    ///
    /// # Errors
    /// What the query refuses; a file that cannot be written.
    pub async fn copy_to(
        &self,
        ctx: StatementContext,
        copy: &Copy,
        output: CopyOutput,
        progress: Progress,
    ) -> Result<u64, EngineError> {
        let engine = Arc::clone(&self.0);
        let copy = copy.clone();
        self.run(Box::pin(async move {
            copy::copy_to(&Env::new(&engine.template, ctx), &copy, output, &progress).await
        }))
        .await
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<T>, EngineError> {
        let runtime = self.0.runtime.as_ref();
        Ok(runtime
            .ok_or_else(|| EngineError::internal("the engine is stopped"))?
            .spawn(work))
    }

    /// Runs to the end on the engine's threads; stops when the caller goes away. Futures of planning take many kilobytes:
    /// they come in a box, so that those of statements that need none stay small enough to be moved about.
    async fn run<T: Send + 'static>(&self, work: BoxFuture<'static, Result<T, EngineError>>) -> Result<T, EngineError> {
        let task = self.spawn(work)?;
        let _stop = StopOnDrop(task.abort_handle());
        task.await.unwrap_or_else(|error| Err(lost(&error)))
    }

    /// Plans on the engine's threads and hands the rows over as they come.
    async fn stream(&self, plan: BoxFuture<'static, Result<Planned, EngineError>>) -> Result<RowStream, EngineError> {
        let (schema_sender, schema) = tokio::sync::oneshot::channel();
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let task = self.spawn(async move {
            let started = async {
                let (env, plan, names) = plan.await?;
                let stream = env.answer(plan, names)?;
                Ok((env, stream))
            };
            let (env, mut stream) = match started.await {
                Ok((env, stream)) => (env, stream),
                Err(error) => {
                    let _ = schema_sender.send(Err(error));
                    return;
                }
            };
            if schema_sender.send(Ok(Arc::clone(stream.schema()))).is_err() {
                return;
            }
            while let Some(batch) = stream.next().await {
                let batch = batch.map_err(|error| env.error(error));
                let failed = batch.is_err();
                if sender.send(batch).await.is_err() || failed {
                    return;
                }
            }
        })?;
        let stop = StopOnDrop(task.abort_handle());
        let schema = schema
            .await
            .unwrap_or(Err(EngineError::internal("a query ended before it began")))?;
        Ok(RowStream {
            schema,
            source: Source::Running {
                batches,
                task: Some(task),
                _stop: stop,
            },
        })
    }
}

/// A write, and how far it moved sequences.
fn with_moves(mut evaluated: Evaluated, sequences: &Sequences) -> Evaluated {
    evaluated.schema.extend(sequences.moves());
    evaluated
}

/// A task that panicked or was stopped.
fn lost(error: &tokio::task::JoinError) -> EngineError {
    if error.is_cancelled() {
        return EngineError::Canceled;
    }
    tracing::error!(%error, "a statement panicked");
    EngineError::internal("the statement failed in a way it should not; the node's log says more")
}

/// Tells a thread that nobody waits for it any more.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct StopOnDrop(AbortHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The rows of an answer, batch by batch. Dropping it stops the query.
pub struct RowStream {
    schema: SchemaRef,
    source: Source,
}

enum Source {
    Ready(std::vec::IntoIter<RecordBatch>),
    Running {
        batches: mpsc::Receiver<Result<RecordBatch, EngineError>>,
        task: Option<tokio::task::JoinHandle<()>>,
        _stop: StopOnDrop,
    },
}

impl RowStream {
    /// An answer that is there already.
    pub fn ready(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self {
            schema,
            source: Source::Ready(batches.into_iter()),
        }
    }

    /// All rows, if they are there already; the stream otherwise.
    ///
    /// # Errors
    /// The stream, which is not an error.
    pub fn into_ready(self) -> Result<Vec<RecordBatch>, Self> {
        match self.source {
            Source::Ready(batches) => Ok(batches.collect()),
            Source::Running { .. } => Err(self),
        }
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the answer to its end.
    ///
    /// # Errors
    /// The error that ended it early.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>, EngineError> {
        let mut all = Vec::new();
        while let Some(batch) = self.next().await {
            all.push(batch?);
        }
        Ok(all)
    }
}

impl std::fmt::Debug for RowStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowStream")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.source {
            Source::Ready(batches) => Poll::Ready(batches.next().map(Ok)),
            Source::Running { batches, task, .. } => match batches.poll_recv(cx) {
                Poll::Ready(None) => poll_end(task, cx),
                other => other,
            },
        }
    }
}

/// The end of an answer is only an end when its task ended well.
fn poll_end(
    task: &mut Option<tokio::task::JoinHandle<()>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<RecordBatch, EngineError>>> {
    let Some(handle) = task else {
        return Poll::Ready(None);
    };
    let ended = std::task::ready!(Pin::new(handle).poll(cx));
    *task = None;
    Poll::Ready(ended.err().map(|error| Err(lost(&error))))
}
