//! One statement's planning and running, from its prepared tree to its rows.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use candor_proto::SourceSpan;
use candor_storage::{CollectionDef, SchemaChange};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, TableReference};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, Spanned as _, Visit as _, Visitor};

use crate::arithmetic::check_expr;
use crate::catalog::{INFORMATION_SCHEMA, Names, PASSING_SCHEMA, SYSTEM_SCHEMA};
use crate::context::StatementContext;
use crate::error::EngineError;
use crate::limits;
use crate::names::column_names;
use crate::open::read_as_null;
use crate::pending::PendingWrites;
use crate::prepare::{folded, folded_parts, prepared_query};
use crate::scan::rows_scanned;
use crate::shown::Shown;
use crate::spans::closest;
use crate::statement_memo::{is_lasting, with_tables};
use crate::write::Evaluated;

/// Below this many rows in all of its tables, a statement runs on one thread: dealing rows out costs more than it
/// gains.
const PARALLEL_ROWS_MIN: usize = 64 * 1024;

/// Whole numbers that a join compares are looked up in an array instead of a hash table where they span at most as many
/// values as the plan scans rows, and at most this many: 32 MiB.
const KEY_SPAN_MAX: usize = 8 * 1024 * 1024;

/// Of the memory of all statements, one such array takes at most one part in this many.
const KEY_SPAN_SHARE: usize = 16;

/// What one statement is planned and run with.
pub(crate) struct Env {
    pub(crate) ctx: StatementContext,
    pub(crate) names: Arc<Names>,
    /// What the statement's WITH defines, for all the queries that a write consists of.
    with: Option<Arc<ast::With>>,
    /// Made when it is first needed: an INSERT of literals never does.
    state: OnceLock<SessionState>,
}

impl Env {
    pub(crate) fn new(template: &Arc<SessionState>, ctx: StatementContext) -> Self {
        Self::of(Names::new(&ctx, template), ctx, None)
    }

    fn of(names: Names, ctx: StatementContext, with: Option<Arc<ast::With>>) -> Self {
        Self {
            names: Arc::new(names),
            with,
            state: OnceLock::new(),
            ctx,
        }
    }

    /// The same with rows in passing, each set by a name.
    pub(crate) fn with_passing(&self, tables: Vec<(&str, Arc<dyn TableProvider>)>) -> Self {
        let tables: HashMap<_, _> = tables
            .into_iter()
            .map(|(name, table)| (name.to_owned(), table))
            .collect();
        Self::of(self.names.with_passing(tables), self.ctx.clone(), self.with.clone())
    }

    /// The same as if `database` were selected.
    pub(crate) fn in_database(&self, database: &str) -> Self {
        Self::of(self.names.in_database(database), self.ctx.clone(), self.with.clone())
    }

    /// The same with the queries that a WITH defines.
    pub(crate) fn with_queries(&self, with: ast::With) -> Self {
        Self::of(
            self.names.with_passing(HashMap::new()),
            self.ctx.clone(),
            Some(Arc::new(with)),
        )
    }

    /// The same as if definitions had changed already.
    pub(crate) fn after(&self, schema: &[SchemaChange]) -> Result<Self, EngineError> {
        self.with_written(&Evaluated::schema(schema.to_vec()))
    }

    /// The same as if a statement had been written already.
    pub(crate) fn with_written(&self, evaluated: &Evaluated) -> Result<Self, EngineError> {
        let mut ctx = self.ctx.clone();
        let mut pending = match (&ctx.pending, &ctx.snapshot) {
            (Some(pending), _) => PendingWrites::clone(pending),
            (None, Some(snapshot)) => PendingWrites::new(snapshot),
            (None, None) => PendingWrites::default(),
        };
        pending.absorb(evaluated)?;
        ctx.pending = Some(Arc::new(pending));
        Ok(Self::new(self.names.template(), ctx))
    }

    /// Whether the open transaction has written to the collection.
    pub(crate) fn writes_pending(&self, def: &CollectionDef) -> bool {
        let pending = self.ctx.pending.as_ref();
        pending.is_some_and(|pending| pending.table(def.id).is_some_and(|table| !table.is_empty()))
    }

    fn state(&self) -> &SessionState {
        self.state.get_or_init(|| self.names.session())
    }

    /// Rows in passing as a table.
    pub(crate) fn rows_table(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<Arc<dyn TableProvider>, EngineError> {
        let table = MemTable::try_new(schema, vec![batches]);
        Ok(Arc::new(
            table.map_err(|error| EngineError::internal(error.to_string()))?,
        ))
    }

    pub(crate) fn error(&self, error: DataFusionError) -> EngineError {
        EngineError::from_datafusion(error, &self.ctx.text)
    }

    /// Prepares and plans a query.
    pub(crate) async fn plan(&self, statement: &ast::Statement) -> Result<LogicalPlan, EngineError> {
        let statement = match &self.with {
            Some(with) => inside(with, statement),
            None => statement.clone(),
        };
        let statement = Box::pin(limits::computed(statement, self)).await?;
        let mut statement = prepared_query(statement, &self.ctx.params, &self.names)?;
        self.check_tables(&statement)?;
        loop {
            let parsed = Statement::Statement(Box::new(statement.clone()));
            match Box::pin(self.state().statement_to_plan(parsed)).await {
                Ok(plan) => return Ok(plan),
                // Each round takes one unknown column away, so this ends.
                Err(error) if read_as_null(&mut statement, &error, &self.names) => {}
                Err(error) => return Err(self.pointed(self.error(error), &statement)),
            }
        }
    }

    /// DataFusion does not say where every unknown column stands: the first word of its name will be it.
    fn pointed(&self, mut error: EngineError, statement: &ast::Statement) -> EngineError {
        if let EngineError::UnknownName {
            what: "column",
            name,
            span,
            ..
        } = &mut error
            && span.is_none()
        {
            *span = column_place(statement, name).and_then(|place| self.ctx.text.bytes(place));
        }
        error
    }

    /// A query ready to run, with the optimized plan of its last run if that still holds.
    pub(crate) async fn query(&self, statement: &ast::Statement) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
        let (catalog, database, params) = (self.names.definitions(), self.ctx.name_database(), &self.ctx.params);
        let may_keep = self.ctx.snapshot.is_some() && self.ctx.pending.is_none() && self.with.is_none();
        if may_keep && let Some(kept) = self.ctx.memo.plan(catalog, database, params) {
            let plan = with_tables(kept, |table| self.names.table(table.def()));
            return self.operators(&plan.map_err(|error| self.error(error))?).await;
        }
        let plan = self.plan(statement).await?;
        let optimized = self.optimized(&plan)?;
        if may_keep
            && self.ctx.memo.comes_again(params)
            && is_lasting(&plan, self.names.template())
            && !limits::has_computed(statement)
        {
            let kept = self.ctx.memo.keep_plan(catalog, database, params, optimized.clone());
            kept.map_err(|error| self.error(error))?;
        }
        self.operators(&optimized).await
    }

    /// A plan ready to run.
    pub(crate) async fn physical(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
        self.operators(&self.optimized(plan)?).await
    }

    fn optimized(&self, plan: &LogicalPlan) -> Result<LogicalPlan, EngineError> {
        self.state().optimize(plan).map_err(|error| self.error(error))
    }

    /// The operators of an optimized plan, for as many threads as its tables are worth.
    async fn operators(&self, optimized: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
        let narrow;
        let state = if self.rows_max(optimized) < PARALLEL_ROWS_MIN {
            let mut state = self.state().clone();
            state.config_mut().options_mut().execution.target_partitions = 1;
            narrow = state;
            &narrow
        } else {
            self.state()
        };
        let planned = state.query_planner().create_physical_plan(optimized, state).await;
        planned.map_err(|error| self.error(error))
    }

    /// Starts a plan.
    pub(crate) fn start(&self, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream, EngineError> {
        let task = self.task(plan.as_ref());
        execute_stream(plan, task).map_err(|error| self.error(error))
    }

    /// What a plan runs with.
    fn task(&self, plan: &dyn ExecutionPlan) -> Arc<TaskContext> {
        let task = TaskContext::from(self.state());
        let span_max = match task.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => KEY_SPAN_MAX.min(bytes / KEY_SPAN_SHARE / size_of::<u32>()),
            _ => KEY_SPAN_MAX,
        };
        let span = rows_scanned(plan).min(span_max);
        let mut config = task.session_config().clone();
        if span <= config.options().execution.perfect_hash_join_small_build_threshold {
            return Arc::new(task);
        }
        config.options_mut().execution.perfect_hash_join_small_build_threshold = span;
        Arc::new(task.with_session_config(config))
    }

    /// Starts a plan whose rows leave the engine: see [`Shown`].
    pub(crate) fn answer(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        names: Option<Vec<String>>,
    ) -> Result<Shown, EngineError> {
        Ok(Shown::new(self.start(plan)?, names))
    }

    /// Plans and runs a query to its end.
    pub(crate) async fn collect(
        &self,
        statement: &ast::Statement,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        let plan = self.plan(statement).await?;
        self.collect_plan(&plan).await
    }

    /// Runs a plan to its end.
    pub(crate) async fn collect_plan(&self, plan: &LogicalPlan) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        let stream = self.start(self.physical(plan).await?)?;
        let schema = stream.schema();
        let batches = datafusion::physical_plan::common::collect(stream).await;
        Ok((schema, batches.map_err(|error| self.error(error))?))
    }

    /// Plans and runs a query whose rows leave the engine.
    pub(crate) async fn collect_answer(
        &self,
        statement: &ast::Statement,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        let plan = self.plan(statement).await?;
        self.answer_plan(&plan, statement).await
    }

    /// Runs the plan of `statement`, whose rows leave the engine, to its end.
    pub(crate) async fn answer_plan(
        &self,
        plan: &LogicalPlan,
        statement: &ast::Statement,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        let mut answer = self.answer(self.physical(plan).await?, column_names(statement))?;
        let mut batches = Vec::new();
        while let Some(batch) = answer.next().await {
            batches.push(batch.map_err(|error| self.error(error))?);
        }
        Ok((Arc::clone(answer.schema()), batches))
    }

    /// An expression over rows of `schema`, ready to be evaluated, with `now()` fixed.
    pub(crate) fn expression(&self, expr: ast::Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>, EngineError> {
        match self.names.memo() {
            Some((memo, definitions)) => memo.planned(&expr, schema, &definitions, || {
                self.planned_expression(expr.clone(), schema)
            }),
            None => self.planned_expression(expr, schema),
        }
    }

    fn planned_expression(&self, expr: ast::Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>, EngineError> {
        let with_alias = ast::ExprWithAlias { expr, alias: None };
        let planned = || -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
            let logical = self.state().create_logical_expr_from_sql_expr(with_alias, schema)?;
            let simplifier = self.simplifier(schema);
            let coerced: Expr = simplifier.coerce(logical, schema)?;
            let cast = crate::pg::casts::rewrite(coerced, schema)?.data;
            let checked = check_expr(cast, schema)?.data;
            let simple = simplifier.simplify(checked)?;
            self.state().create_physical_expr(simple, schema)
        };
        planned().map_err(|error| self.error(error))
    }

    fn simplifier(&self, schema: &DFSchema) -> datafusion::optimizer::simplify_expressions::ExprSimplifier {
        let context = datafusion::logical_expr::simplify::SimplifyContext::builder()
            .with_schema(Arc::new(schema.clone()))
            .with_config_options(Arc::clone(self.state().config_options()))
            .with_query_execution_start_time(self.state().execution_props().query_execution_start_time)
            .build();
        datafusion::optimizer::simplify_expressions::ExprSimplifier::new(context)
    }

    /// The collection that a write names.
    pub(crate) fn collection(&self, name: &ast::ObjectName) -> Result<Arc<CollectionDef>, EngineError> {
        let span = self.ctx.text.bytes(name.span());
        let parts =
            folded_parts(name).ok_or_else(|| EngineError::plan(format!("{name} is not the name of a table")))?;
        let (schema, table) = self.split(&parts, span)?;
        if let Some(def) = self.names.definitions().collection(&schema, &table) {
            return Ok(Arc::clone(def));
        }
        if self.names.has_table(&schema, &table) {
            return Err(EngineError::Unsupported {
                what: format!("writing to `{table}`, which is not a collection,"),
                help: None,
                span,
            });
        }
        Err(self.unknown_table(&schema, &table, span))
    }

    /// Database and name of a table.
    pub(crate) fn split(&self, parts: &[String], span: Option<SourceSpan>) -> Result<(String, String), EngineError> {
        match parts {
            [table] => match self.names.database() {
                Some(database) => {
                    self.check_schema(database, span)?;
                    Ok((database.to_owned(), table.clone()))
                }
                None => Err(EngineError::NoDatabase {
                    message: format!("no database is selected: write `database.{table}`, or USE DATABASE first"),
                    span,
                }),
            },
            [schema, table] => {
                self.check_schema(schema, span)?;
                Ok((schema.clone(), table.clone()))
            }
            [namespace, schema, table] if namespace == self.names.namespace() => {
                self.check_schema(schema, span)?;
                Ok((schema.clone(), table.clone()))
            }
            _ => Err(EngineError::NoDatabase {
                message: format!(
                    "a statement reads one namespace, and `{}` is not in the selected one: USE NAMESPACE first",
                    parts.join(".")
                ),
                span,
            }),
        }
    }

    fn check_schema(&self, schema: &str, span: Option<SourceSpan>) -> Result<(), EngineError> {
        if self.names.has_schema(schema) {
            return Ok(());
        }
        let known = self.names.definitions();
        let known = known.databases().chain([SYSTEM_SCHEMA, INFORMATION_SCHEMA]);
        let meant = closest(schema, known)
            .map(|name| format!(": did you mean `{name}`?"))
            .unwrap_or_default();
        Err(EngineError::NoDatabase {
            message: format!("there is no database `{schema}`{meant}"),
            span,
        })
    }

    pub(crate) fn unknown_table(&self, schema: &str, table: &str, span: Option<SourceSpan>) -> EngineError {
        let here = self.names.table_names(schema);
        let help = closest(table, here.iter().map(String::as_str)).map(|name| format!("did you mean `{name}`?"));
        let elsewhere = || {
            let mut databases = self.names.definitions().databases();
            let found = databases.find(|database| self.names.has_table(database, table))?;
            Some(format!(
                "there is one in the database `{found}`: write `{found}.{table}`"
            ))
        };
        EngineError::UnknownTable {
            name: if Some(schema) == self.names.database() {
                table.to_owned()
            } else {
                format!("{schema}.{table}")
            },
            help: help.or_else(elsewhere),
            span,
        }
    }

    /// Refuses tables that are not there, with the place of their name.
    fn check_tables(&self, statement: &ast::Statement) -> Result<(), EngineError> {
        let parsed = Statement::Statement(Box::new(statement.clone()));
        let references = self
            .state()
            .resolve_table_references(&parsed)
            .map_err(|error| self.error(error))?;
        for reference in references {
            let parts = reference_parts(&reference);
            if let [name] = parts.as_slice()
                && self.state().table_functions().contains_key(name)
            {
                continue;
            }
            let span = name_place(statement, &parts).and_then(|span| self.ctx.text.bytes(span));
            let (schema, table) = self.split(&parts, span)?;
            let in_schema = schema == INFORMATION_SCHEMA || self.names.has_table(&schema, &table);
            if !in_schema {
                return Err(self.unknown_table(&schema, &table, span));
            }
        }
        Ok(())
    }

    /// An upper bound on the rows that the tables of `plan` hold; no bound for tables that are not ours.
    fn rows_max(&self, plan: &LogicalPlan) -> usize {
        use datafusion::common::tree_node::TreeNodeRecursion;
        let mut rows = 0_usize;
        // Counting cannot fail.
        let _ = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                rows = rows.saturating_add(self.scan_rows_max(&scan.table_name));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        rows
    }

    fn scan_rows_max(&self, table: &TableReference) -> usize {
        let parts = reference_parts(table);
        let def = match parts.as_slice() {
            [.., schema, name] if schema == PASSING_SCHEMA => return self.names.passing_rows_max(name),
            [.., schema, name] => self.names.definitions().collection(schema, name),
            [name] => self
                .names
                .database()
                .and_then(|database| self.names.definitions().collection(database, name)),
            _ => None,
        };
        def.map_or(0, |def| self.names.table(def).row_count_max())
    }
}

/// A query that sees what `with` defines.
fn inside(with: &ast::With, statement: &ast::Statement) -> ast::Statement {
    let mut statement = statement.clone();
    if let ast::Statement::Query(query) = &mut statement {
        let own = query.with.take();
        let mut with = with.clone();
        if let Some(own) = own {
            with.recursive |= own.recursive;
            with.cte_tables.extend(own.cte_tables);
        }
        query.with = Some(with);
    }
    statement
}

fn reference_parts(reference: &TableReference) -> Vec<String> {
    [reference.catalog(), reference.schema(), Some(reference.table())]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
}

/// Where a table's name first stands in the statement.
fn name_place(statement: &ast::Statement, parts: &[String]) -> Option<sqlparser::tokenizer::Span> {
    struct Finder<'a>(&'a [String]);
    impl Visitor for Finder<'_> {
        type Break = sqlparser::tokenizer::Span;

        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<Self::Break> {
            if folded_parts(name).is_some_and(|parts| parts == self.0) {
                ControlFlow::Break(name.span())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    match statement.visit(&mut Finder(parts)) {
        ControlFlow::Break(span) => Some(span),
        ControlFlow::Continue(()) => None,
    }
}

/// Where a column is first spoken of.
fn column_place(statement: &ast::Statement, name: &str) -> Option<sqlparser::tokenizer::Span> {
    struct Finder<'a>(&'a str);
    impl Visitor for Finder<'_> {
        type Break = sqlparser::tokenizer::Span;

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
            let spoken = match expr {
                ast::Expr::Identifier(ident) => folded(ident),
                ast::Expr::CompoundIdentifier(idents) => idents.iter().map(folded).collect::<Vec<_>>().join("."),
                _ => return ControlFlow::Continue(()),
            };
            if spoken == self.0 {
                ControlFlow::Break(expr.span())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    statement.visit(&mut Finder(name)).break_value()
}
