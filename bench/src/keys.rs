//! Reads by key inside one process and on one thread: what the engine takes for them, without a network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use candor_engine::{Engine, EngineConfig, Evaluated, Param, StatementContext, StatementMemo};
use candor_parser::{Body, Statement, parse_script};
use candor_proto::{Epoch, RangeId, RangeName};
use candor_storage::{Outcome, RangeStore, Record, Transaction};

use crate::samples::Samples;

const ROWS: i64 = 1_000_000;

const READ: &str = "SELECT owner, balance FROM account WHERE id = $1";

/// Prints how many reads a second one thread answers, with the statement read once and with it read each time.
pub(crate) fn measure(runtime: &tokio::runtime::Runtime, duration: Duration) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut base = Base::new(folder.path())?;
    runtime.block_on(base.fill())?;
    println!("\nkeys: {ROWS} rows, one thread, {} s each", duration.as_secs());
    let read = statement(READ)?;
    runtime.block_on(base.reads("statement read once", duration, || Ok(read.clone())))?;
    let each_time = || statement(READ);
    runtime.block_on(base.reads("statement read each time", duration, each_time))
}

fn statement(sql: &str) -> Result<Arc<Statement>> {
    let script = parse_script(sql).map_err(|error| anyhow::anyhow!("{error}"))?;
    script
        .statements
        .into_iter()
        .next()
        .map(Arc::new)
        .context("no statement")
}

/// One range and one engine.
struct Base {
    store: Arc<RangeStore>,
    engine: Engine,
}

impl Base {
    fn new(folder: &std::path::Path) -> Result<Self> {
        let store = RangeStore::create(&folder.join("main"), &RangeName::from("main"), RangeId(7))?;
        let base = Self {
            store,
            engine: Engine::new(&EngineConfig::default())?,
        };
        base.append(&Record::LeaderElected { node: "n1".into() })?;
        Ok(base)
    }

    fn append(&self, record: &Record) -> Result<()> {
        self.store.append(Epoch(1), &[record.encode()?])?;
        let last = self.store.last().0.index;
        match self.store.apply_to(last)?.pop() {
            Some((_, Outcome::Refused(refusal))) => bail!("{refusal}"),
            _ => Ok(()),
        }
    }

    async fn fill(&mut self) -> Result<()> {
        let rows = format!("SELECT value, 'owner ' || value, value * 7 FROM generate_series(1, {ROWS}) AS n(value)");
        for sql in [
            "DEFINE DATABASE main",
            "CREATE TABLE account (id BIGINT PRIMARY KEY, owner TEXT, balance BIGINT)",
            &format!("INSERT INTO account {rows}"),
        ] {
            let read = statement(sql)?;
            let snapshot = self.store.snapshot(None)?;
            let ctx = self.context(&[])?;
            let evaluated: Evaluated = match &read.body {
                Body::Define(define) => self.engine.define(ctx, define).await?,
                Body::CreateTable(create) => self.engine.create_table(ctx, create).await?,
                Body::Write(write) => self.engine.write(ctx, write).await?,
                other => bail!("{other:?} does not fill"),
            };
            self.append(&Record::Transaction(Transaction {
                snapshot: snapshot.version(),
                schema: evaluated.schema,
                changes: evaluated.changes,
                ..Transaction::default()
            }))?;
        }
        Ok(())
    }

    fn context(&self, params: &[Param]) -> Result<StatementContext> {
        let mut ctx = StatementContext::new("n1".into(), 0);
        ctx.namespace = Some("main".to_owned());
        ctx.database = Some("main".to_owned());
        ctx.snapshot = Some(self.store.snapshot(None)?);
        ctx.params = params.to_vec();
        Ok(ctx)
    }

    async fn reads(&self, what: &str, duration: Duration, read: impl Fn() -> Result<Arc<Statement>>) -> Result<()> {
        // As a server keeps it with the text.
        let memo = Arc::new(StatementMemo::default());
        let started = Instant::now();
        let (mut latencies, mut id) = (Vec::new(), 1_i64);
        while started.elapsed() < duration {
            id = (id * 7_919 + 1) % ROWS;
            let before = Instant::now();
            let statement = read()?;
            let Body::Query(query) = &statement.body else {
                bail!("{READ} is no query");
            };
            let mut ctx = self.context(&[Param::Int(id + 1)])?;
            ctx.memo = Arc::clone(&memo);
            let batches = self.engine.query(ctx, query).await?.collect().await?;
            let rows = batches.iter().fold(0, |rows, batch| rows + batch.num_rows());
            anyhow::ensure!(rows == 1, "{rows} rows, and one is there");
            latencies.push(before.elapsed());
        }
        let per_second = latencies.len() as f64 / started.elapsed().as_secs_f64();
        println!("  {what:<26} {per_second:>9.0} /s  {}", Samples::new(latencies));
        Ok(())
    }
}
