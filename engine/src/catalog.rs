//! The names one statement can see, as DataFusion asks for them.
//!
//! Built for one statement at one version: a namespace is a catalog, a database is a schema in it. Next to the
//! databases stand `system` (tables the server hands in) and `information_schema`. A schema that no
//! statement can spell holds the rows that the engine itself passes from one step of a write to the next.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use candor_storage::{Catalog, CollectionDef, Snapshot, ViewDef};
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::ViewTable;
use datafusion::execution::FunctionRegistry as _;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::TableType;
use datafusion::sql::parser::Statement;

use crate::context::StatementContext;
use crate::error::EngineError;
use crate::functions::SessionValues;
use crate::information::InformationSchema;
use crate::memo::{Definitions, Memo};
use crate::parse::parse_query;
use crate::pending::PendingWrites;
use crate::pg::enums;
use crate::prepare::prepared_view;
use crate::scan::CollectionTable;
use crate::sequences::{self, Sequences};
use crate::types::OwnTypePlanner;

/// The schema of the tables that the server hands in.
pub(crate) const SYSTEM_SCHEMA: &str = "system";

/// The schema of definitions.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// The schema of rows in passing. No statement can name it: the parser has no way to write a NUL.
pub(crate) const PASSING_SCHEMA: &str = "\0passing";

/// How the names of rows in passing begin that are rows of an open collection.
pub(crate) const OPEN_ROWS: &str = "open";

/// The catalog's name where no namespace is selected.
const NO_NAMESPACE: &str = "candor";

/// Views inside views, counted from the statement.
const VIEW_DEPTH_MAX: usize = 32;

/// Everything that has a name in one statement.
pub(crate) struct Names {
    namespace: String,
    database: Option<String>,
    catalog: Arc<Catalog>,
    snapshot: Option<Snapshot>,
    pending: Option<Arc<PendingWrites>>,
    system: Vec<(String, RecordBatch)>,
    passing: HashMap<String, Arc<dyn TableProvider>>,
    /// What every session starts from; knows no names itself.
    template: Arc<SessionState>,
    /// What the functions of the session answer with.
    functions: SessionValues,
    sequences: Arc<Sequences>,
    view_depth: usize,
}

impl Names {
    pub(crate) fn new(ctx: &StatementContext, template: &Arc<SessionState>) -> Self {
        Self {
            namespace: ctx.namespace.clone().unwrap_or_else(|| NO_NAMESPACE.to_owned()),
            database: ctx.name_database().cloned(),
            catalog: ctx.catalog(),
            snapshot: ctx.snapshot.clone(),
            pending: ctx.pending.clone(),
            system: ctx.system_tables.clone(),
            passing: HashMap::new(),
            template: Arc::clone(template),
            functions: SessionValues::of(ctx),
            sequences: Arc::clone(&ctx.sequences),
            view_depth: 0,
        }
    }

    /// The same names and some more rows in passing.
    pub(crate) fn with_passing(&self, more: HashMap<String, Arc<dyn TableProvider>>) -> Self {
        let mut names = self.clone_shallow();
        names.passing.extend(more);
        names
    }

    /// The same names as if `database` were selected.
    pub(crate) fn in_database(&self, database: &str) -> Self {
        Self {
            database: Some(database.to_owned()),
            ..self.clone_shallow()
        }
    }

    fn clone_shallow(&self) -> Self {
        Self {
            namespace: self.namespace.clone(),
            database: self.database.clone(),
            catalog: Arc::clone(&self.catalog),
            snapshot: self.snapshot.clone(),
            pending: self.pending.clone(),
            system: self.system.clone(),
            passing: self.passing.clone(),
            template: Arc::clone(&self.template),
            functions: self.functions.clone(),
            sequences: Arc::clone(&self.sequences),
            view_depth: self.view_depth,
        }
    }

    pub(crate) fn template(&self) -> &Arc<SessionState> {
        &self.template
    }

    pub(crate) fn definitions(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// What names of types mean here, and the expressions that are known under that.
    pub(crate) fn memo(&self) -> Option<(Arc<Memo>, Definitions)> {
        let definitions = Definitions {
            catalog: Arc::clone(&self.catalog),
            database: self.database.clone(),
        };
        Some((self.template.config().get_extension::<Memo>()?, definitions))
    }

    /// Threads that a statement may use.
    pub(crate) fn threads(&self) -> usize {
        self.template.config().target_partitions().max(1)
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The collection as a table: its rows at the statement's version, seen through the open transaction.
    pub(crate) fn table(&self, def: &Arc<CollectionDef>) -> CollectionTable {
        let snapshot = self.snapshot.as_ref();
        let pending = self.pending.as_ref().and_then(|pending| pending.table(def.id)).cloned();
        let stands = pending.as_ref().is_none_or(|pending| !pending.is_rewritten());
        let base = snapshot
            .filter(|_| stands)
            .and_then(|snapshot| snapshot.table_in(&self.catalog, def.id));
        let schema = self.catalog.schema_of(def.id).map_or_else(|| def.schema(), Arc::clone);
        let schema = enums::labelled_schema(schema, &self.catalog);
        CollectionTable::new(Arc::clone(def), schema, base, pending)
    }

    /// Whether `schema` is a database or one of the schemas that are always there.
    pub(crate) fn has_schema(&self, schema: &str) -> bool {
        schema == SYSTEM_SCHEMA
            || schema == INFORMATION_SCHEMA
            || schema == PASSING_SCHEMA
            || self.catalog.has_database(schema)
    }

    /// Names of tables and views in `schema`.
    pub(crate) fn table_names(&self, schema: &str) -> Vec<String> {
        match schema {
            SYSTEM_SCHEMA => self.system.iter().map(|(name, _)| name.clone()).collect(),
            PASSING_SCHEMA => Vec::new(),
            database => {
                let collections = self.catalog.collections(database).map(|def| def.name.clone());
                collections
                    .chain(self.catalog.views(database).map(|view| view.name.clone()))
                    .collect()
            }
        }
    }

    pub(crate) fn has_table(&self, schema: &str, name: &str) -> bool {
        match schema {
            SYSTEM_SCHEMA => self.system.iter().any(|(table, _)| table == name),
            PASSING_SCHEMA => self.passing.contains_key(name),
            database => {
                self.catalog.collection(database, name).is_some() || self.catalog.view(database, name).is_some()
            }
        }
    }

    /// Whether this is an open collection; without a schema, of the selected database.
    pub(crate) fn is_open(&self, schema: Option<&str>, name: &str) -> bool {
        // A write reads its target through the passing schema.
        if schema == Some(PASSING_SCHEMA) {
            return self.passing.get(name).is_some_and(|table| {
                name.starts_with(OPEN_ROWS)
                    || table
                        .downcast_ref::<CollectionTable>()
                        .is_some_and(|table| table.def().open)
            });
        }
        let database = schema.or(self.database.as_deref());
        database
            .and_then(|database| self.catalog.collection(database, name))
            .is_some_and(|def| def.open)
    }

    /// An upper bound on the rows of a collection in passing.
    pub(crate) fn passing_rows_max(&self, name: &str) -> usize {
        let table = self
            .passing
            .get(name)
            .and_then(|table| table.downcast_ref::<CollectionTable>());
        table.map_or(0, CollectionTable::row_count_max)
    }

    /// Names of the databases, and of `system` where it holds tables.
    pub(crate) fn schema_names(&self) -> Vec<String> {
        let databases = self.catalog.databases().map(str::to_owned);
        databases
            .chain((!self.system.is_empty()).then(|| SYSTEM_SCHEMA.to_owned()))
            .collect()
    }

    pub(crate) async fn provider(self: &Arc<Self>, schema: &str, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match schema {
            SYSTEM_SCHEMA => match self.system.iter().find(|(table, _)| table == name) {
                Some((_, batch)) => Ok(Some(Arc::new(MemTable::try_new(
                    batch.schema(),
                    vec![vec![batch.clone()]],
                )?))),
                None => Ok(None),
            },
            PASSING_SCHEMA => Ok(self.passing.get(name).cloned()),
            database => match (
                self.catalog.collection(database, name),
                self.catalog.view(database, name),
            ) {
                (Some(def), _) => Ok(Some(Arc::new(self.table(def)))),
                (None, Some(view)) => Ok(Some(Arc::new(self.view(view).await?))),
                (None, None) => Ok(None),
            },
        }
    }

    /// A view is planned as if its query stood in its own database.
    async fn view(self: &Arc<Self>, view: &ViewDef) -> Result<ViewTable> {
        if self.view_depth >= VIEW_DEPTH_MAX {
            return exec_err!("view `{}` stands more than {VIEW_DEPTH_MAX} views deep", view.name);
        }
        let inner = Arc::new(Self {
            database: Some(view.database.clone()),
            passing: HashMap::new(),
            view_depth: self.view_depth + 1,
            ..self.clone_shallow()
        });
        let statement = prepared_view(parse_query(&view.sql)?, &inner)?;
        let state = inner.session();
        let planned = Box::pin(state.statement_to_plan(Statement::Statement(Box::new(statement)))).await;
        match planned {
            Ok(plan) => Ok(ViewTable::new(plan, Some(view.sql.clone()))),
            Err(error) => {
                // Its places are in the view's text, not in the statement's.
                let reason = EngineError::from_datafusion(error, &crate::spans::ScriptText::default());
                Err(EngineError::plan(format!("view `{}` cannot be read any more: {reason}", view.name)).into())
            }
        }
    }

    /// A session that sees these names.
    pub(crate) fn session(self: &Arc<Self>) -> SessionState {
        let mut state = SessionState::clone(&self.template);
        state.mark_start_execution();
        self.functions.fix_now(state.execution_props_mut());
        let database = self.database.as_deref();
        let of_sequences = sequences::functions(&self.sequences, &self.catalog, &self.namespace, database);
        for function in self.functions.functions().chain(of_sequences) {
            // Nothing registers a function but to refuse it by name, and there is nobody to do that here.
            let _ = state.register_udf(function);
        }
        if self.catalog.types().next().is_some() {
            let types = OwnTypePlanner {
                catalog: Arc::clone(&self.catalog),
                database: self.database.clone(),
            };
            state = SessionStateBuilder::new_from_existing(state)
                .with_type_planner(Arc::new(types))
                .build();
            state.mark_start_execution();
            self.functions.fix_now(state.execution_props_mut());
        }
        let options = state.config_mut().options_mut();
        options.catalog.default_catalog.clone_from(&self.namespace);
        options.catalog.default_schema = self.database.clone().unwrap_or_default();
        state.register_catalog_list(Arc::new(Tree(Arc::clone(self))));
        state
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("namespace", &self.namespace)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// The list of catalogs: one, the namespace.
#[derive(Debug)]
struct Tree(Arc<Names>);

impl CatalogProviderList for Tree {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![self.0.namespace.clone()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == self.0.namespace).then(|| Arc::new(Namespace(Arc::clone(&self.0))) as _)
    }
}

#[derive(Debug)]
struct Namespace(Arc<Names>);

impl CatalogProvider for Namespace {
    fn schema_names(&self) -> Vec<String> {
        self.0.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == INFORMATION_SCHEMA {
            let tree = Arc::new(Tree(Arc::clone(&self.0)));
            return Some(Arc::new(InformationSchema::new(tree, Arc::clone(&self.0))));
        }
        self.0.has_schema(name).then(|| {
            Arc::new(Database {
                names: Arc::clone(&self.0),
                schema: name.to_owned(),
            }) as _
        })
    }
}

#[derive(Debug)]
struct Database {
    names: Arc<Names>,
    schema: String,
}

#[async_trait]
impl SchemaProvider for Database {
    fn table_names(&self) -> Vec<String> {
        self.names.table_names(&self.schema)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.names.provider(&self.schema, name).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if !self.names.has_table(&self.schema, name) {
            return Ok(None);
        }
        Ok(Some(match self.names.catalog.view(&self.schema, name) {
            Some(_) => TableType::View,
            None => TableType::Base,
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.names.has_table(&self.schema, name)
    }
}
