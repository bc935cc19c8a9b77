//! UPDATE, DELETE and TRUNCATE: a SELECT of the rows that match.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use candor_storage::{CollectionDef, ROW_ID_COLUMN, TableChange};
use sqlparser::ast;

use super::insert::{default_of, incoming, is_default};
use super::{Evaluated, Grown, Incoming, RowCompleter, build, returning};
use crate::env::Env;
use crate::error::EngineError;
use crate::keys::{Key, KeyCoder, key_columns, key_schema, row_id_key};
use crate::pending::concat;
use crate::prepare::{folded, quoted};

/// The collection that a write changes, in passing.
const TARGET: &str = "target";

/// The collection that a write changes, and what the statement calls it.
pub(super) struct Target {
    pub(super) def: Arc<CollectionDef>,
    pub(super) alias: ast::Ident,
}

impl Target {
    fn of(env: &Env, table: &ast::TableWithJoins) -> Result<Self, EngineError> {
        let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = &table.relation
        else {
            return Err(EngineError::unsupported(
                "writing to something that is not a collection",
            ));
        };
        if !table.joins.is_empty() {
            return Err(EngineError::unsupported_try(
                "a join in the place of the table to write",
                "name other tables in FROM or USING",
            ));
        }
        let def = env.collection(name)?;
        let alias = match alias {
            Some(alias) if alias.columns.is_empty() => alias.name.clone(),
            Some(_) => return Err(EngineError::unsupported("column aliases on the table to write")),
            None => quoted(&def.name),
        };
        Ok(Self { def, alias })
    }

    /// An environment in which the target stands in passing, with row ids where it has no key.
    pub(super) fn pass(&self, env: &Env, more: Vec<(&str, Arc<dyn datafusion::catalog::TableProvider>)>) -> Env {
        let table = env.names.table(&self.def);
        let table = if self.def.key.is_empty() {
            table.with_row_id()
        } else {
            table
        };
        let mut tables: Vec<(&str, Arc<dyn datafusion::catalog::TableProvider>)> = vec![(TARGET, Arc::new(table))];
        tables.extend(more);
        env.with_passing(tables)
    }

    pub(super) fn from(&self) -> ast::TableWithJoins {
        build::passing(TARGET, self.alias.clone())
    }

    /// What tells the target's rows apart: its key, or the row id.
    fn identity(&self) -> Vec<&str> {
        if self.def.key.is_empty() {
            vec![ROW_ID_COLUMN]
        } else {
            key_columns(&self.def).map(|column| column.name.as_str()).collect()
        }
    }

    fn identity_schema(&self) -> SchemaRef {
        if self.def.key.is_empty() {
            Arc::new(Schema::new(vec![Field::new(ROW_ID_COLUMN, DataType::UInt64, false)]))
        } else {
            key_schema(&self.def)
        }
    }

    fn identity_items(&self) -> impl Iterator<Item = ast::SelectItem> {
        let item = |(at, name)| build::named(build::column(&self.alias, name), &format!("\0key{at}"));
        self.identity().into_iter().enumerate().map(item)
    }

    /// Splits the columns that [`Self::identity_items`] asked for off the end, and leaves out rows that a join has
    /// matched before: one row is written once.
    fn split(&self, batch: &RecordBatch, seen: &mut HashSet<Key>) -> Result<(RecordBatch, RecordBatch), EngineError> {
        let width = batch.num_columns() - self.identity().len();
        let identity = RecordBatch::try_new(self.identity_schema(), batch.columns()[width..].to_vec())?;
        let keys = if self.def.key.is_empty() {
            let ids = identity.column(0).as_any().downcast_ref::<UInt64Array>();
            let ids = ids.ok_or_else(|| EngineError::internal("row ids are not UInt64"))?;
            ids.values().iter().map(|id| row_id_key(*id)).collect()
        } else {
            KeyCoder::new(&self.def)?.encode(identity.columns())?
        };
        let first: BooleanArray = keys.into_iter().map(|key| Some(seen.insert(key))).collect();
        let values = batch.project(&(0..width).collect::<Vec<_>>())?;
        Ok((
            filter_record_batch(&values, &first)?,
            filter_record_batch(&identity, &first)?,
        ))
    }
}

/// Values assigned to columns, by name.
pub(super) type Assignments = BTreeMap<String, ast::Expr>;

/// Takes the SET list apart.
pub(super) fn assignments(target: &Target, list: &[ast::Assignment]) -> Result<Assignments, EngineError> {
    let mut assigned = Assignments::new();
    for assignment in list {
        let name = match &assignment.target {
            ast::AssignmentTarget::ColumnName(name) => column_name(name)?,
            ast::AssignmentTarget::Tuple(_) => {
                return Err(EngineError::unsupported_try(
                    "SET (a, b) = …",
                    "assign each column by itself",
                ));
            }
        };
        if !target.def.open && target.def.column(&name).is_none() {
            return Err(super::grow::unknown_column(&target.def, &name));
        }
        let value = if is_default(&assignment.value) {
            default_of(&target.def, &name)?
        } else {
            assignment.value.clone()
        };
        if assigned.insert(name.clone(), value).is_some() {
            return Err(EngineError::plan(format!("column `{name}` is assigned twice")));
        }
    }
    Ok(assigned)
}

fn column_name(name: &ast::ObjectName) -> Result<String, EngineError> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => Ok(folded(ident)),
        _ => Err(EngineError::plan(format!(
            "SET takes the bare name of a column, not `{name}`"
        ))),
    }
}

/// The names of the columns that an update gives values to, those of the definition first.
fn updated_columns(target: &Target, assigned: &Assignments) -> Vec<String> {
    let own = target.def.columns.iter().map(|column| column.name.clone());
    let new = assigned
        .keys()
        .filter(|name| target.def.column(name).is_none())
        .cloned();
    own.chain(new).collect()
}

/// The new rows and the keys of the old ones.
pub(super) fn new_rows_query(
    target: &Target,
    assigned: &Assignments,
    from: Vec<ast::TableWithJoins>,
    selection: Option<ast::Expr>,
) -> ast::Statement {
    let value = |name: &String| match assigned.get(name) {
        Some(expr) => expr.clone(),
        None => build::column(&target.alias, name),
    };
    let values = updated_columns(target, assigned)
        .into_iter()
        .enumerate()
        .map(|(at, name)| build::named(value(&name), &format!("\0new{at}")));
    let projection = values.chain(target.identity_items()).collect();
    let from = std::iter::once(target.from()).chain(from).collect();
    build::select(projection, from, selection)
}

/// An update, evaluated.
pub(super) struct Updated {
    pub(super) grown: Grown,
    pub(super) ended: Vec<RecordBatch>,
    pub(super) begun: Vec<RecordBatch>,
}

/// Runs a query of [`new_rows_query`] and completes its rows.
pub(super) async fn run_update(
    env: &Env,
    target: &Target,
    assigned: &Assignments,
    query: &ast::Statement,
) -> Result<Updated, EngineError> {
    let (schema, batches) = env.collect(query).await?;
    let names = updated_columns(target, assigned);
    let arrivals: Vec<Incoming> = names
        .iter()
        .zip(schema.fields())
        .filter(|(name, _)| target.def.column(name).is_none())
        .map(|(name, field)| incoming(&target.def, name, field.data_type()))
        .collect::<Result<_, _>>()?;
    let any_rows = batches.iter().any(|batch| batch.num_rows() > 0);
    let grown = Grown::of(env, &target.def, if any_rows { &arrivals } else { &[] })?;
    let mut completer = RowCompleter::new(env, &grown.def, &names)?;
    let mut updated = Updated {
        grown,
        ended: Vec::new(),
        begun: Vec::new(),
    };
    let mut seen = HashSet::new();
    for batch in &batches {
        let (values, identity) = target.split(batch, &mut seen)?;
        let columns: &[ArrayRef] = values.columns();
        updated.begun.push(completer.complete(columns, values.num_rows())?);
        updated.ended.push(identity);
    }
    Ok(updated)
}

fn refuse(refused: &[(bool, &str)]) -> Result<(), EngineError> {
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(EngineError::unsupported(*what)),
        None => Ok(()),
    }
}

fn update_parts(env: &Env, update: &ast::Update) -> Result<(Target, Assignments, ast::Statement), EngineError> {
    refuse(&[
        (update.or.is_some(), "UPDATE OR …"),
        (update.output.is_some(), "OUTPUT"),
        (!update.order_by.is_empty(), "UPDATE … ORDER BY"),
        (update.limit.is_some(), "UPDATE … LIMIT"),
    ])?;
    let target = Target::of(env, &update.table)?;
    let assigned = assignments(&target, &update.assignments)?;
    let from = match &update.from {
        None => Vec::new(),
        Some(ast::UpdateTableFromKind::AfterSet(from)) => from.clone(),
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => return Err(EngineError::unsupported("FROM before SET")),
    };
    let query = new_rows_query(&target, &assigned, from, update.selection.clone());
    Ok((target, assigned, query))
}

/// The query of an UPDATE, with the environment to plan it in.
pub(super) fn update_query(env: &Env, update: &ast::Update) -> Result<(Env, ast::Statement), EngineError> {
    let (target, _, query) = update_parts(env, update)?;
    Ok((target.pass(env, Vec::new()), query))
}

pub(super) async fn update(env: &Env, update: &ast::Update) -> Result<Evaluated, EngineError> {
    let (target, assigned, query) = update_parts(env, update)?;
    let updated = run_update(&target.pass(env, Vec::new()), &target, &assigned, &query).await?;
    let returning = returning::answer(
        env,
        &updated.grown.def,
        &target.alias,
        update.returning.as_ref(),
        &updated.begun,
    )
    .await?;
    let begun = concat(&updated.begun)?;
    let ended = concat(&updated.ended)?;
    let rows_affected = begun.as_ref().map_or(0, |rows| rows.num_rows() as u64);
    Ok(Evaluated {
        schema: updated.grown.schema,
        changes: change(&updated.grown.def, ended, begun),
        rows_affected,
        returning,
    })
}

fn delete_parts(env: &Env, delete: &ast::Delete) -> Result<(Target, ast::Statement), EngineError> {
    refuse(&[
        (!delete.tables.is_empty(), "DELETE from several tables"),
        (delete.output.is_some(), "OUTPUT"),
        (!delete.order_by.is_empty(), "DELETE … ORDER BY"),
        (delete.limit.is_some(), "DELETE … LIMIT"),
    ])?;
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
    let [table] = from.as_slice() else {
        return Err(EngineError::unsupported("DELETE from several tables"));
    };
    let target = Target::of(env, table)?;
    // RETURNING shows the old rows, so they are read whole.
    let mut projection = Vec::new();
    if delete.returning.is_some() {
        let own = target.def.columns.iter().enumerate();
        projection.extend(
            own.map(|(at, column)| build::named(build::column(&target.alias, &column.name), &format!("\0old{at}"))),
        );
    }
    projection.extend(target.identity_items());
    let using = delete.using.clone().unwrap_or_default();
    let from = std::iter::once(target.from()).chain(using).collect();
    let query = build::select(projection, from, delete.selection.clone());
    Ok((target, query))
}

/// The query of a DELETE, with the environment to plan it in.
pub(super) fn delete_query(env: &Env, delete: &ast::Delete) -> Result<(Env, ast::Statement), EngineError> {
    let (target, query) = delete_parts(env, delete)?;
    Ok((target.pass(env, Vec::new()), query))
}

pub(super) async fn delete(env: &Env, delete: &ast::Delete) -> Result<Evaluated, EngineError> {
    let (target, query) = delete_parts(env, delete)?;
    let (old, ended) = run_delete(env, &target, &query).await?;
    let returning = returning::answer(env, &target.def, &target.alias, delete.returning.as_ref(), &old).await?;
    let rows_affected = ended.as_ref().map_or(0, |rows| rows.num_rows() as u64);
    Ok(Evaluated {
        schema: Vec::new(),
        changes: change(&target.def, ended, None),
        rows_affected,
        returning,
    })
}

/// The old rows, as far as the query asks for them, and the keys.
async fn run_delete(
    env: &Env,
    target: &Target,
    query: &ast::Statement,
) -> Result<(Vec<RecordBatch>, Option<RecordBatch>), EngineError> {
    let (_, batches) = target.pass(env, Vec::new()).collect(query).await?;
    let mut seen = HashSet::new();
    let mut old = Vec::new();
    let mut ended = Vec::new();
    for batch in &batches {
        let (values, identity) = target.split(batch, &mut seen)?;
        if values.num_columns() > 0 {
            old.push(RecordBatch::try_new(target.def.schema(), values.columns().to_vec())?);
        }
        ended.push(identity);
    }
    Ok((old, concat(&ended)?))
}

pub(super) async fn truncate(env: &Env, truncate: &ast::Truncate) -> Result<Evaluated, EngineError> {
    refuse(&[
        (truncate.partitions.is_some(), "TRUNCATE … PARTITION"),
        (truncate.identity.is_some(), "RESTART / CONTINUE IDENTITY"),
        (
            matches!(truncate.cascade, Some(ast::CascadeOption::Cascade)),
            "TRUNCATE … CASCADE",
        ),
        (truncate.on_cluster.is_some(), "ON CLUSTER"),
    ])?;
    let mut evaluated = Evaluated::nothing();
    for table in &truncate.table_names {
        let def = match env.collection(&table.name) {
            Ok(def) => def,
            Err(EngineError::UnknownTable { .. }) if truncate.if_exists => continue,
            Err(error) => return Err(error),
        };
        // Once is enough for a table named twice.
        if evaluated.changes.iter().any(|change| change.collection == def.id) {
            continue;
        }
        let target = Target {
            alias: quoted(&def.name),
            def,
        };
        let query = build::select(target.identity_items().collect(), vec![target.from()], None);
        let (_, ended) = run_delete(env, &target, &query).await?;
        evaluated.rows_affected += ended.as_ref().map_or(0, |rows| rows.num_rows() as u64);
        evaluated.changes.extend(change(&target.def, ended, None));
    }
    Ok(evaluated)
}

fn change(def: &CollectionDef, ended: Option<RecordBatch>, begun: Option<RecordBatch>) -> Vec<TableChange> {
    match (ended, begun) {
        (None, None) => Vec::new(),
        (ended, begun) => vec![TableChange {
            collection: def.id,
            ended,
            begun,
        }],
    }
}
