//! A database for tests: one engine over one store in a temporary folder, applying what it evaluates.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::Array as _;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use candor_engine::{
    CopyInput, CopyOutput, Engine, EngineConfig, EngineError, Evaluated, Param, PendingWrites, ScriptText,
    StatementContext, StatementMemo,
};
use candor_parser::{Body, CopyDirection, CopyTarget, parse_script};
use candor_proto::{Epoch, LogIndex, RangeId, RangeName};
use candor_storage::{Outcome, RangeStore, Record, Transaction};

/// Rows as texts; NULL is `NULL`.
pub(crate) type Rows = Vec<Vec<String>>;

/// 2024-05-06 07:08:09 UTC.
pub(crate) const NOW_MICROS: i64 = 1_714_979_289_000_000;

pub(crate) struct Db {
    engine: Engine,
    store: Arc<RangeStore>,
    runtime: tokio::runtime::Runtime,
    pending: Option<PendingWrites>,
    snapshot: Option<candor_storage::Snapshot>,
    /// What the engine keeps of each statement, by its script and its place there, as a server has it.
    memos: HashMap<(String, usize), Arc<StatementMemo>>,
    pub(crate) now_micros: i64,
    pub(crate) database: String,
    folder: tempfile::TempDir,
}

impl Db {
    /// An empty database `main` in the namespace `main`.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store =
            RangeStore::create(&folder.path().join("main"), &RangeName::from("main"), RangeId(7)).expect("a store");
        let config = EngineConfig {
            threads: 2,
            ..EngineConfig::default()
        };
        let mut db = Self {
            engine: Engine::new(&config).expect("an engine"),
            store,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            pending: None,
            snapshot: None,
            memos: HashMap::new(),
            now_micros: NOW_MICROS,
            database: "main".to_owned(),
            folder,
        };
        db.append(&Record::LeaderElected { node: "n1".into() });
        db.run("DEFINE DATABASE main");
        db
    }

    /// A path in the database's own temporary folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a text").to_owned()
    }

    /// Writes all rows to segments.
    pub(crate) fn checkpoint(&self) {
        self.store.checkpoint().expect("a checkpoint");
    }

    fn append(&self, record: &Record) -> Outcome {
        self.store
            .append(Epoch(1), &[record.encode().expect("encodes")])
            .expect("appends");
        let last = self.store.last().0.index;
        let outcomes = self.store.apply_to(last).expect("applies");
        outcomes.into_iter().last().expect("an outcome").1
    }

    pub(crate) fn version(&self) -> LogIndex {
        self.store.applied().0.index
    }

    fn context(&self, script: &str, params: &[Param], at: Option<LogIndex>) -> StatementContext {
        let mut ctx = StatementContext::new("n1".into(), self.now_micros);
        ctx.namespace = Some("main".to_owned());
        ctx.database = Some(self.database.clone());
        let snapshot = || self.store.snapshot(at).expect("a version that is there");
        ctx.snapshot = Some(self.snapshot.clone().unwrap_or_else(snapshot));
        ctx.pending = self.pending.clone().map(Arc::new);
        ctx.params = params.to_vec();
        ctx.text = ScriptText::new(script);
        ctx
    }

    /// Runs a script and returns the rows of its last statement.
    pub(crate) fn run(&mut self, script: &str) -> Rows {
        match self.try_run(script) {
            Ok(rows) => rows,
            Err(error) => panic!("{script}\n{error:?}\n{error}"),
        }
    }

    /// Runs a script that must fail, and returns its error.
    pub(crate) fn fail(&mut self, script: &str) -> EngineError {
        match self.try_run(script) {
            Ok(rows) => panic!("{script}\ngave {rows:?} where an error was due"),
            Err(error) => error,
        }
    }

    pub(crate) fn try_run(&mut self, script: &str) -> Result<Rows, EngineError> {
        self.run_with(script, &[]).map(|answer| answer.rows)
    }

    /// The rows of one query at an older version.
    pub(crate) fn run_at(&mut self, script: &str, version: LogIndex) -> Rows {
        let ctx = self.context(script, &[], Some(version));
        let statement = parse_script(script).expect("parses").statements.remove(0);
        self.execute(ctx, &statement.body).expect("runs").rows
    }

    pub(crate) fn run_with(&mut self, script: &str, params: &[Param]) -> Result<Answer, EngineError> {
        let statements = match parse_script(script) {
            Ok(parsed) => parsed.statements,
            Err(error) => panic!("{script}\n{error}"),
        };
        let mut last = Answer::default();
        for (place, statement) in statements.into_iter().enumerate() {
            let mut ctx = self.context(script, params, None);
            ctx.memo = Arc::clone(self.memos.entry((script.to_owned(), place)).or_default());
            last = self.execute(ctx, &statement.body)?;
        }
        Ok(last)
    }

    fn execute(&mut self, ctx: StatementContext, body: &Body) -> Result<Answer, EngineError> {
        let progress: candor_engine::Progress = Arc::new(|_| {});
        let evaluated = match body {
            Body::Query(statement) => {
                let stream = self.runtime.block_on(self.engine.query(ctx, statement))?;
                return self.read(stream);
            }
            Body::Explain {
                analyze,
                verbose,
                inner,
                ..
            } => {
                let stream = self
                    .runtime
                    .block_on(self.engine.explain(ctx, *analyze, *verbose, inner))?;
                return self.read(stream);
            }
            Body::Begin { .. } => {
                let snapshot = self.store.snapshot(None).expect("now");
                self.pending = Some(PendingWrites::new(&snapshot));
                self.snapshot = Some(snapshot);
                return Ok(Answer::default());
            }
            Body::Rollback => {
                self.pending = None;
                self.snapshot = None;
                return Ok(Answer::default());
            }
            Body::Commit => return self.commit(),
            Body::Copy(copy) if copy.direction == CopyDirection::To => {
                let CopyTarget::Path(path) = &copy.target else {
                    panic!("tests copy to files")
                };
                let output = CopyOutput::Path(path.into());
                let rows = self
                    .runtime
                    .block_on(self.engine.copy_to(ctx, copy, output, progress))?;
                return Ok(Answer {
                    rows_affected: rows,
                    ..Answer::default()
                });
            }
            Body::Copy(copy) => {
                let CopyTarget::Path(path) = &copy.target else {
                    panic!("tests copy from files")
                };
                let input = CopyInput::Path(path.into());
                let copied = self
                    .runtime
                    .block_on(self.engine.copy_from(ctx, copy, input, progress, None));
                copied.map(|copied| copied.evaluated)
            }
            Body::Write(statement) => self.runtime.block_on(self.engine.write(ctx, statement)),
            Body::Define(define) => self.runtime.block_on(self.engine.define(ctx, define)),
            Body::CreateTable(create) => self.runtime.block_on(self.engine.create_table(ctx, create)),
            Body::CreateView(create) => self.runtime.block_on(self.engine.create_view(ctx, create)),
            Body::AlterTable(alter) => self.runtime.block_on(self.engine.alter_table(ctx, alter)),
            Body::CreateIndex(index) => self.runtime.block_on(self.engine.create_index(ctx, index)),
            Body::Remove(remove) => self.runtime.block_on(self.engine.remove(ctx, remove)),
            other => panic!("tests do not run {other:?}"),
        }?;
        self.apply(evaluated)
    }

    fn read(&self, stream: candor_engine::RowStream) -> Result<Answer, EngineError> {
        let schema = Arc::clone(stream.schema());
        let batches = self.runtime.block_on(stream.collect())?;
        Ok(Answer {
            rows: texts(&batches),
            schema: Some(schema),
            rows_affected: 0,
        })
    }

    /// Keeps what was evaluated for the open transaction, or applies it at once.
    fn apply(&mut self, evaluated: Evaluated) -> Result<Answer, EngineError> {
        let answer = Answer {
            rows: evaluated
                .returning
                .as_ref()
                .map(|(_, batches)| texts(batches))
                .unwrap_or_default(),
            schema: evaluated.returning.as_ref().map(|(schema, _)| Arc::clone(schema)),
            rows_affected: evaluated.rows_affected,
        };
        match &mut self.pending {
            Some(pending) => pending.absorb(&evaluated)?,
            None if evaluated.is_empty() => {}
            None => {
                let snapshot = self.version();
                self.propose(Transaction {
                    snapshot,
                    schema: evaluated.schema,
                    changes: evaluated.changes,
                    ..Transaction::default()
                })?;
            }
        }
        Ok(answer)
    }

    fn commit(&mut self) -> Result<Answer, EngineError> {
        let pending = self.pending.take().expect("a transaction");
        let snapshot = self.snapshot.take().expect("a transaction").version();
        let transaction = pending.into_transaction(snapshot)?;
        self.propose(transaction).map(|()| Answer::default())
    }

    /// A refusal at apply is reported as an internal error here: what it is called is the server's business.
    fn propose(&self, transaction: Transaction) -> Result<(), EngineError> {
        match self.append(&Record::Transaction(transaction)) {
            Outcome::Refused(refusal) => Err(EngineError::BadParameter {
                message: format!("refused: {refusal}"),
            }),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Rows,
    pub(crate) schema: Option<SchemaRef>,
    pub(crate) rows_affected: u64,
}

impl Answer {
    /// Names of the columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        let schema = self.schema.as_ref().expect("an answer with columns");
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}

fn texts(batches: &[RecordBatch]) -> Rows {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("shows"))
            .collect();
        for row in 0..batch.num_rows() {
            let text = |(at, column): (usize, &ArrayFormatter<'_>)| {
                if batch.column(at).is_null(row) {
                    "NULL".to_owned()
                } else {
                    column.value(row).to_string()
                }
            };
            rows.push(columns.iter().enumerate().map(text).collect());
        }
    }
    rows
}

/// Rows written short: `rows![[1, "a"], [2, "b"]]`.
#[macro_export]
macro_rules! rows {
    ($([$($value:expr),* $(,)?]),* $(,)?) => {
        vec![$(vec![$($value.to_string()),*]),*] as $crate::db::Rows
    };
}
