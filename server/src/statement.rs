//! One statement: which range it concerns, the verdict, and then the engine or this node's own answer.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use candor_engine::{
    CopyInput, CopyOutput, Engine, EngineError, Evaluated, Progress, RowStream, ScriptText, Sequences, StatementContext,
};
use candor_parser::{Body, Copy, CopyDirection, CopySource, CopyTarget, Define, Remove, Setting, Statement};
use candor_planner::{OwnCopy, Verdict, View, admit, explain};
use candor_proto::{ErrorBody, ErrorCode, LogIndex, Position, RangeName, Role};
use candor_storage::Snapshot;
use sqlparser::ast;

use crate::failure::Stop;
use crate::parsed::Known;
use crate::relations::Relations;
use crate::route::{Asked, Grounds};
use crate::rows::{Output, Rows};
use crate::script::Params;
use crate::server::Shared;
use crate::session::{DEFAULT_NAME, Session};
use crate::settings::Settings;

/// One statement's surroundings.
pub(crate) struct Run<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) session: &'a mut Session,
    pub(crate) params: &'a Params,
    pub(crate) text: &'a ScriptText,
    pub(crate) known: &'a Known,
    pub(crate) deadline: Instant,
    pub(crate) progress: Progress,
    /// What the statement has made durable so far.
    pub(crate) effect: Effect,
}

/// What a statement has made durable, also when it is stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// A proposal was sent and its outcome has not come back.
    Undecided,
    /// Something: from here on the script cannot be redirected.
    Committed,
}

/// Runs one statement. Dropping the future stops it; a proposal that was sent may still be committed.
pub(crate) async fn run_statement(run: &mut Run<'_>, statement: &Statement) -> Result<Output, Stop> {
    if let Some(transaction) = &run.session.transaction {
        statement.check_in_transaction()?;
        if !matches!(statement.body, Body::Commit | Body::Rollback | Body::RollbackTo(_)) {
            transaction.check(None)?;
        }
    }
    run.shared.metrics.statement(kind(&statement.body));
    let settings = run.session.settings.clone();
    let asked = Asked::new(&statement.tails, &run.params.tails, &settings)?;
    match &statement.body {
        Body::Query(query) => run.query(&asked, query).await,
        Body::Write(write) => {
            let relations = &run.known.relations;
            let range = run.range_of(relations)?;
            run.write(&range, relations, Evaluate::Write(write)).await
        }
        // Every request moves its future about: the rare ones do not make it larger.
        other => Box::pin(run_other(run, &asked, other)).await,
    }
}

/// All statements but reads and writes of rows.
async fn run_other(run: &mut Run<'_>, asked: &Asked<'_>, body: &Body) -> Result<Output, Stop> {
    match body {
        Body::Explain { route: true, inner, .. } => run.explain_route(asked, inner),
        Body::Explain {
            analyze,
            verbose,
            inner,
            ..
        } => run.explain(asked, inner, *analyze, *verbose).await,
        Body::Copy(copy) => run.copy(asked, copy).await,
        Body::CreateTable(table) => {
            let relations = Relations::in_tree(&**table);
            let range = run.range_of(&relations)?;
            run.write(&range, &relations, Evaluate::CreateTable(table)).await
        }
        Body::CreateView(view) => {
            let relations = Relations::in_tree(&**view);
            let range = run.range_of(&relations)?;
            run.write(&range, &relations, Evaluate::CreateView(view)).await
        }
        Body::Type(statement) => {
            let range = run.session.range();
            run.write(&range, &Relations::default(), Evaluate::Type(statement))
                .await
        }
        Body::Sequence(statement) => {
            let range = run.session.range();
            run.write(&range, &Relations::default(), Evaluate::Sequence(statement))
                .await
        }
        Body::AlterTable(alter) => {
            let relations = Relations::in_tree(&**alter);
            let range = run.range_of(&relations)?;
            run.write(&range, &relations, Evaluate::AlterTable(alter)).await
        }
        Body::CreateIndex(index) => {
            let relations = Relations::in_tree(&**index);
            let range = run.range_of(&relations)?;
            run.write(&range, &relations, Evaluate::CreateIndex(index)).await
        }
        Body::Define(define) => run.define(define).await,
        Body::Remove(remove) => run.remove(remove).await,
        Body::Use { namespace, database } => run.select(namespace.as_deref(), database.as_deref()),
        Body::InfoFor(info) => run.info(info),
        Body::Begin { read_only } => run.begin(asked, *read_only).await,
        Body::Commit => run.commit().await,
        Body::Rollback => run.rollback(),
        Body::Savepoint(name) => run.savepoint(name),
        Body::RollbackTo(name) => run.rollback_to(name),
        Body::Release(name) => run.release(name),
        Body::SetTransaction { read_only } => run.set_transaction(*read_only),
        Body::Set {
            name,
            value,
            value_span,
        } => {
            run.session
                .settings
                .set(name, value)
                .map_err(|body| Stop::from(body.with_span(*value_span)))?;
            Ok(run.done(None))
        }
        Body::Reset(Setting::All) => {
            run.session.settings = Settings::default();
            Ok(run.done(None))
        }
        Body::Reset(Setting::Name(name)) => {
            run.session.settings.reset(name)?;
            Ok(run.done(None))
        }
        Body::Show(Setting::All) => {
            let rows = run.session.settings.all();
            let rows: Vec<_> = rows
                .into_iter()
                .map(|(name, value)| vec![Some(name.to_owned()), Some(value)])
                .collect();
            Ok(run.local_rows(Rows::of_text(&["name", "setting"], &rows)?))
        }
        Body::Show(Setting::Name(name)) => {
            let value = run.session.settings.show(name)?;
            Ok(run.local_rows(Rows::of_text(&[name.as_str()], &[vec![Some(value)]])?))
        }
        other => Err(Stop::new(
            ErrorCode::Unsupported,
            format!("this node does not run {other:?} yet"),
        )),
    }
}

/// What the engine evaluates into changes.
#[derive(Clone, Copy)]
pub(crate) enum Evaluate<'a> {
    Write(&'a ast::Statement),
    CreateTable(&'a ast::CreateTable),
    CreateView(&'a ast::CreateView),
    Type(&'a ast::Statement),
    Sequence(&'a ast::Statement),
    AlterTable(&'a ast::AlterTable),
    CreateIndex(&'a ast::CreateIndex),
    Define(&'a Define),
    Remove(&'a Remove),
    CopyFrom(&'a Copy, &'a str),
}

impl Evaluate<'_> {
    pub(crate) async fn run(
        self,
        engine: &Engine,
        ctx: StatementContext,
        progress: &Progress,
    ) -> Result<Evaluated, EngineError> {
        match self {
            Self::Write(write) => engine.write(ctx, write).await,
            Self::CreateTable(table) => Box::pin(engine.create_table(ctx, table)).await,
            Self::CreateView(view) => Box::pin(engine.create_view(ctx, view)).await,
            Self::Type(statement) => Box::pin(engine.define_type(ctx, statement)).await,
            Self::Sequence(statement) => Box::pin(engine.define_sequence(ctx, statement)).await,
            Self::AlterTable(alter) => Box::pin(engine.alter_table(ctx, alter)).await,
            Self::CreateIndex(index) => Box::pin(engine.create_index(ctx, index)).await,
            Self::Define(define) => Box::pin(engine.define(ctx, define)).await,
            Self::Remove(remove) => Box::pin(engine.remove(ctx, remove)).await,
            Self::CopyFrom(copy, path) => {
                let input = CopyInput::Path(path.into());
                let copied = Box::pin(engine.copy_from(ctx, copy, input, Arc::clone(progress), None)).await?;
                Ok(copied.evaluated)
            }
        }
    }
}

impl Run<'_> {
    /// A read: the verdict, the snapshot, the engine.
    async fn query(&mut self, asked: &Asked<'_>, query: &ast::Statement) -> Result<Output, Stop> {
        let relations = &self.known.relations;
        let grounds = self.grounds(asked, relations).await?;
        let ctx = self.context(grounds.snapshot.as_ref(), relations)?;
        let rows = self.shared.engine.query(ctx, query).await;
        self.read_output(rows, grounds)
    }

    /// EXPLAIN reads what it explains, so it is admitted as the read would be.
    async fn explain(&mut self, asked: &Asked<'_>, inner: &Body, analyze: bool, verbose: bool) -> Result<Output, Stop> {
        let relations = match inner {
            Body::Query(tree) | Body::Write(tree) => Relations::in_tree(&**tree),
            _ => return Err(Stop::new(ErrorCode::Unsupported, "EXPLAIN takes a query or a write")),
        };
        let grounds = self.grounds(asked, &relations).await?;
        let ctx = self.context(grounds.snapshot.as_ref(), &relations)?;
        let rows = self.shared.engine.explain(ctx, analyze, verbose, inner).await;
        self.read_output(rows, grounds)
    }

    fn read_output(&self, rows: Result<RowStream, EngineError>, grounds: Grounds) -> Result<Output, Stop> {
        let rows = rows?;
        self.shared.metrics.read(grounds.receipt.role);
        Ok(Output {
            rows: Some(Rows::until(rows, self.deadline)),
            rows_affected: None,
            receipt: grounds.receipt,
        })
    }

    /// What a read may see: the transaction's state, or what the verdict admits.
    pub(crate) async fn grounds(&mut self, asked: &Asked<'_>, relations: &Relations) -> Result<Grounds, Stop> {
        let range = self.range_of(relations)?;
        if let Some(transaction) = &self.session.transaction {
            transaction.check(Some(&range))?;
            return Ok(transaction.grounds.clone());
        }
        let cluster = &self.shared.cluster;
        let local = match cluster.store(&range) {
            Some(_) => relations.system && relations.only_local(),
            // Nothing of a range is asked; or the default namespace, before the first write makes it: it is empty.
            None => relations.only_local() || self.shared.may_make_default(&range),
        };
        if local {
            self.admit_local(asked)
        } else {
            self.shared.admit_read(asked, &range).await
        }
    }

    /// A read of no range: this node is level with itself, so only the clauses themselves can be wrong.
    fn admit_local(&self, asked: &Asked<'_>) -> Result<Grounds, Stop> {
        let cluster = &self.shared.cluster;
        let mut view = View::alone(cluster.name().as_str(), cluster.awareness());
        view.own.copy = Some(OwnCopy {
            leads: true,
            position: Position::ZERO,
            horizon: LogIndex::ZERO,
            copy_age: None,
        });
        match admit(&asked.read(&RangeName::system()), &view).without_waiting() {
            Verdict::Here { .. } => Ok(Grounds {
                snapshot: None,
                receipt: self.shared.local_receipt(),
            }),
            Verdict::Refuse(refusal) => Err(asked.refuse(&refusal)),
            Verdict::Redirect(_) | Verdict::Wait { .. } => {
                Err(Stop::new(ErrorCode::Internal, "a node without peers named one"))
            }
        }
    }

    fn explain_route(&self, asked: &Asked<'_>, inner: &Body) -> Result<Output, Stop> {
        let (relations, write) = match inner {
            Body::Query(query) => (Relations::in_tree(&**query), false),
            Body::Write(write) => (Relations::in_tree(&**write), true),
            _ => {
                return Err(Stop::new(
                    ErrorCode::Unsupported,
                    "EXPLAIN (ROUTE) takes a query or a write",
                ));
            }
        };
        let range = self.range_of(&relations)?;
        let mut requirement = asked.read(&range);
        if write {
            requirement = candor_planner::Requirement::write(range.as_str());
        }
        let view = self.shared.cluster.view(&range);
        let millis = |age: Option<std::time::Duration>| age.map(|age| crate::route::millis_up(age).to_string());
        let role = |role: Role| if role == Role::Leader { "leader" } else { "follower" }.to_owned();
        let mut rows: Vec<Vec<Option<String>>> = explain(&requirement, &view)
            .into_iter()
            .map(|row| {
                vec![
                    Some(row.node.to_string()),
                    row.role.map(role),
                    row.epoch.map(|epoch| epoch.to_string()),
                    row.position.map(|position| position.to_string()),
                    millis(row.copy_age),
                    millis(row.heard_ago),
                    Some(if row.admitted { "yes" } else { "no" }.to_owned()),
                    Some(row.reason),
                    Some(if row.chosen { "*" } else { "" }.to_owned()),
                ]
            })
            .collect();
        let mut verdict = vec![None; 9];
        verdict[0] = Some("verdict".to_owned());
        verdict[7] = Some(admit(&requirement, &view).summary(self.shared.cluster.name()));
        rows.push(verdict);
        let columns = [
            "node",
            "role",
            "epoch",
            "position",
            "copy_age_ms",
            "heard_ms_ago",
            "admitted",
            "reason",
            "chosen",
        ];
        Ok(self.local_rows(Rows::of_text(&columns, &rows)?))
    }

    async fn copy(&mut self, asked: &Asked<'_>, copy: &Copy) -> Result<Output, Stop> {
        let relations = match &copy.source {
            CopySource::Table { name, .. } => Relations::of(name),
            CopySource::Query(query) => Relations::in_tree(&**query),
        };
        match (&copy.target, copy.direction) {
            (CopyTarget::Path(path), CopyDirection::From) => {
                let range = self.range_of(&relations)?;
                self.copy_in(&range, copy, path).await
            }
            (CopyTarget::Path(path), CopyDirection::To) => {
                let grounds = self.grounds(asked, &relations).await?;
                let ctx = self.context(grounds.snapshot.as_ref(), &relations)?;
                let output = CopyOutput::Path(path.into());
                let rows = self
                    .shared
                    .engine
                    .copy_to(ctx, copy, output, self.progress.clone())
                    .await?;
                Ok(Output {
                    rows: None,
                    rows_affected: Some(rows),
                    receipt: grounds.receipt,
                })
            }
            _ => Err(ErrorBody::new(
                ErrorCode::Unsupported,
                "COPY over the wire has no STDIN and STDOUT here",
            )
            .with_span(copy.target_span)
            .with_help("name a file on the node; over HTTP, send INSERT statements or ask for text/csv")
            .into()),
        }
    }

    /// The engine's surroundings for one statement.
    pub(crate) fn context(&self, snapshot: Option<&Snapshot>, relations: &Relations) -> Result<StatementContext, Stop> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut ctx = StatementContext::new(
            self.shared.cluster.name().clone(),
            i64::try_from(now.as_micros()).unwrap_or(i64::MAX),
        );
        ctx.namespace.clone_from(&self.session.namespace);
        ctx.database.clone_from(&self.session.database);
        ctx.default_database = Some(DEFAULT_NAME.to_owned());
        ctx.snapshot = snapshot.cloned();
        ctx.pending = self
            .session
            .transaction
            .as_ref()
            .map(|transaction| Arc::clone(&transaction.pending));
        ctx.params.clone_from(&self.params.engine);
        ctx.text = self.text.clone();
        ctx.sequences = Arc::new(Sequences::new(Arc::clone(&self.session.sequences), None));
        ctx.memo = Arc::clone(&self.known.memo);
        if relations.system {
            ctx.system_tables = self.shared.system_tables()?;
        }
        Ok(ctx)
    }

    /// The range that a statement concerns: the session's namespace, which its names may spell out.
    pub(crate) fn range_of(&self, relations: &Relations) -> Result<RangeName, Stop> {
        let selected = self.session.namespace();
        match relations.namespaces.iter().find(|name| *name != selected) {
            None => Ok(self.session.range()),
            Some(other) => Err(ErrorBody::new(
                ErrorCode::Unsupported,
                format!("a statement reads and writes one namespace, here {selected}, and this one names {other}"),
            )
            .with_help(format!(
                "USE NAMESPACE {other}; first. Namespaces have logs of their own, so two have no common point in history"
            ))
            .into()),
        }
    }

    /// An answer without rows, given by this node itself.
    pub(crate) fn done(&self, rows_affected: Option<u64>) -> Output {
        Output {
            rows: None,
            rows_affected,
            receipt: self.shared.local_receipt(),
        }
    }

    /// Rows that this node itself made.
    pub(crate) fn local_rows(&self, rows: Rows) -> Output {
        Output {
            rows: Some(rows),
            rows_affected: None,
            receipt: self.shared.local_receipt(),
        }
    }
}

fn kind(body: &Body) -> &'static str {
    match body {
        Body::Query(_) => "query",
        Body::Explain { .. } => "explain",
        Body::Write(_) => "write",
        Body::Copy(_) => "copy",
        Body::Begin { .. }
        | Body::Commit
        | Body::Rollback
        | Body::Savepoint(_)
        | Body::RollbackTo(_)
        | Body::Release(_)
        | Body::SetTransaction { .. } => "transaction",
        body if body.writes() => "definition",
        _ => "session",
    }
}
