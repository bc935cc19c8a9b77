//! Rows of several relations side by side, under the names that a statement calls them by.
//!
//! The second step of a write looks at rows that the first has put together: the row that is there and the one that was
//! to be inserted (ON CONFLICT), the row that was written and those it was joined with (RETURNING), target and source
//! (MERGE). The query of such a step names the relations in FROM, each empty, and is planned as it stands; then the
//! product of the empty relations is replaced by one relation that has the columns of all. So names, wildcards and
//! subqueries mean what they mean anywhere.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast;

use super::build;
use crate::catalog::OPEN_ROWS;
use crate::env::Env;
use crate::error::EngineError;
use crate::prepare::{folded, quoted};

/// The relation that has the columns of all.
const ALL: &str = "\0all";

/// The relation that numbers rows.
const NUMBERS: &str = "\0numbers";

/// Its column.
const NUMBER: &str = "\0n";

/// One relation of a statement.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// What the statement calls it.
    alias: ast::Ident,
    schema: SchemaRef,
    /// It may be asked for columns that it does not have.
    open: bool,
}

impl Side {
    pub(super) fn new(alias: ast::Ident, schema: &SchemaRef) -> Self {
        let fields = schema.fields().iter();
        let fields: Vec<Field> = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        Self {
            alias,
            schema: Arc::new(Schema::new(fields)),
            open: false,
        }
    }

    /// A collection, or rows of one.
    pub(super) fn collection(alias: &ast::Ident, def: &candor_storage::CollectionDef) -> Self {
        Self {
            open: def.open,
            ..Self::new(alias.clone(), &def.schema())
        }
    }

    pub(super) fn alias(&self) -> &ast::Ident {
        &self.alias
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn width(&self) -> usize {
        self.schema.fields().len()
    }

    /// Its columns, each by its qualified name.
    pub(super) fn columns(&self) -> impl Iterator<Item = ast::Expr> {
        let names = self.schema.fields().iter();
        names.map(|field| build::column(&self.alias, field.name()))
    }
}

/// Rows of several relations side by side.
pub(super) struct Sides {
    sides: Vec<Side>,
    rows: Vec<RecordBatch>,
}

impl Sides {
    /// Rows whose columns are those of `sides`, one after another.
    pub(super) fn new(sides: Vec<Side>, rows: Vec<RecordBatch>) -> Self {
        Self { sides, rows }
    }

    /// The relations and the rows.
    pub(super) fn parts(&self) -> (&[Side], &[RecordBatch]) {
        (&self.sides, &self.rows)
    }

    /// The same with a number for each row, from 0; [`number`] asks for it.
    pub(super) fn numbered(mut self) -> Result<Self, EngineError> {
        let field = Field::new(NUMBER, DataType::UInt64, true);
        self.sides
            .push(Side::new(quoted(NUMBERS), &Arc::new(Schema::new(vec![field.clone()]))));
        let mut next = 0;
        for batch in &mut self.rows {
            let end = next + batch.num_rows() as u64;
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..end));
            next = end;
            let mut fields: Vec<_> = batch.schema_ref().fields().iter().cloned().collect();
            fields.push(Arc::new(field.clone()));
            let mut columns = batch.columns().to_vec();
            columns.push(numbers);
            *batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        }
        Ok(self)
    }

    /// The rows of `SELECT projection FROM sides WHERE selection`, in no order.
    pub(super) async fn select(
        &self,
        env: &Env,
        projection: Vec<ast::SelectItem>,
        selection: Option<ast::Expr>,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        let (env, query) = self.query(env, projection, selection)?;
        env.collect_plan(&self.put_in(&env, env.plan(&query).await?)?).await
    }

    /// As [`Self::select`], for rows that leave the engine.
    pub(super) async fn answer(
        &self,
        env: &Env,
        projection: Vec<ast::SelectItem>,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        let (env, query) = self.query(env, projection, None)?;
        let plan = env.plan(&query).await?;
        if let Some(what) = over_several_rows(&plan) {
            return Err(EngineError::plan(format!(
                "RETURNING answers for each row by itself, and has no {what}"
            )));
        }
        let plan = self.put_in(&env, plan)?;
        env.answer_plan(&plan, &query).await
    }

    fn query(
        &self,
        env: &Env,
        projection: Vec<ast::SelectItem>,
        selection: Option<ast::Expr>,
    ) -> Result<(Env, ast::Statement), EngineError> {
        let mut tables = Vec::new();
        let mut from = Vec::new();
        for (at, side) in self.sides.iter().enumerate() {
            let name = side_name(at, side);
            from.push(build::passing(&name, side.alias.clone()));
            tables.push((name, Env::rows_table(Arc::clone(&side.schema), Vec::new())?));
        }
        let tables: Vec<(&str, Arc<dyn TableProvider>)> = tables
            .iter()
            .map(|(name, table)| (name.as_str(), Arc::clone(table)))
            .collect();
        Ok((env.with_passing(tables), build::select(projection, from, selection)))
    }

    /// Replaces the product of the empty relations by the rows.
    fn put_in(&self, env: &Env, plan: LogicalPlan) -> Result<LogicalPlan, EngineError> {
        let names: Vec<String> = self
            .sides
            .iter()
            .enumerate()
            .map(|(at, side)| side_name(at, side))
            .collect();
        let rows = self.all().map_err(|error| env.error(error))?;
        let mut found = false;
        let replaced = plan.transform_down(|node| {
            if found || scans(&node) != names || !is_product(&node) {
                return Ok(Transformed::no(node));
            }
            found = true;
            let rows = rows.clone();
            Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump))
        });
        let replaced = replaced.map_err(|error| env.error(error))?.data;
        if found {
            Ok(replaced)
        } else {
            Err(EngineError::internal("the rows of a write have no place in its query"))
        }
    }

    /// One relation with the columns of all, each under its own name.
    fn all(&self) -> Result<LogicalPlan, DataFusionError> {
        let columns = self.sides.iter().flat_map(|side| side.schema.fields().iter());
        let plain: Vec<Field> = columns
            .enumerate()
            .map(|(at, field)| Field::new(place_name(at), field.data_type().clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(plain));
        let batches = self.rows.iter().map(|batch| {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)
        });
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let table = datafusion::catalog::MemTable::try_new(Arc::clone(&schema), vec![batches])?;
        let named = self
            .sides
            .iter()
            .flat_map(|side| side.schema.fields().iter().map(move |field| (side, field)))
            .enumerate()
            .map(|(at, (side, field))| {
                let column = Expr::Column(Column::new(Some(ALL), place_name(at)));
                column.alias_qualified(Some(table_name(&side.alias)), field.name())
            });
        LogicalPlanBuilder::scan(ALL, provider_as_source(Arc::new(table)), None)?
            .project(named.collect::<Vec<_>>())?
            .build()
    }
}

/// The number of a row of [`Sides::numbered`].
pub(super) fn number() -> ast::SelectItem {
    build::named(build::column(&quoted(NUMBERS), NUMBER), NUMBER)
}

/// The rows of two batches next to each other.
pub(super) fn beside(left: &RecordBatch, right: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let fields = left
        .schema_ref()
        .fields()
        .iter()
        .chain(right.schema_ref().fields().iter());
    let columns = left.columns().iter().chain(right.columns()).cloned().collect();
    // Names may stand twice here: what counts is the place.
    let schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// Takes the [`number`] off the end of rows.
pub(super) fn split_number(batch: &RecordBatch) -> Result<(RecordBatch, &UInt64Array), EngineError> {
    let last = batch.num_columns().saturating_sub(1);
    let numbers = batch.columns().get(last).and_then(|column| column.as_primitive_opt());
    let numbers = numbers.ok_or_else(|| EngineError::internal("rows of a write have lost their numbers"))?;
    Ok((batch.project(&(0..last).collect::<Vec<_>>())?, numbers))
}

fn table_name(alias: &ast::Ident) -> datafusion::common::TableReference {
    datafusion::common::TableReference::bare(folded(alias))
}

fn place_name(at: usize) -> String {
    format!("\0{at}")
}

fn side_name(at: usize, side: &Side) -> String {
    format!("{}{at}", if side.open { OPEN_ROWS } else { "side" })
}

/// What a query computes from several of its rows, if it does.
fn over_several_rows(plan: &LogicalPlan) -> Option<&'static str> {
    let mut found = None;
    // Looking cannot fail.
    let _ = plan.apply(|node| {
        match node {
            LogicalPlan::Aggregate(_) => found = Some("aggregates"),
            LogicalPlan::Window(_) => found = Some("window functions"),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// The tables below a node that are scanned, in the order of the statement, as far as they are sides.
fn scans(node: &LogicalPlan) -> Vec<String> {
    let mut names = Vec::new();
    // Collecting cannot fail.
    let _ = node.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.push(scan.table_name.table().to_owned());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

/// Nothing but relations next to each other.
fn is_product(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Join(join) => {
            join.on.is_empty() && join.filter.is_none() && is_product(&join.left) && is_product(&join.right)
        }
        LogicalPlan::SubqueryAlias(alias) => is_product(&alias.input),
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}
