//! UPDATE, DELETE and TRUNCATE: a SELECT of the rows that match.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use candor_storage::{CollectionDef, ROW_ID_COLUMN, SchemaChange, TableChange};
use sqlparser::ast;

use super::assign::{Assignments, assignments};
use super::insert::incoming;
use super::references::{Replaced, has_actions};
use super::sides::{Side, beside};
use super::unique::identity_keys;
use super::{Evaluated, Grown, Incoming, RowCompleter, build, returning, unique};
use crate::env::Env;
use crate::error::EngineError;
use crate::existing::identity_schema;
use crate::keys::{Key, key_columns};
use crate::pending::concat;
use crate::prepare::quoted;

/// The collection that a write changes, in passing.
const TARGET: &str = "target";

/// The collection that a write changes, and what the statement calls it.
pub(super) struct Target {
    pub(super) def: Arc<CollectionDef>,
    pub(super) alias: ast::Ident,
}

impl Target {
    fn of(env: &Env, table: &ast::TableWithJoins) -> Result<Self, EngineError> {
        if !table.joins.is_empty() {
            return Err(EngineError::unsupported_try(
                "a join in the place of the table to write",
                "name other tables in FROM or USING",
            ));
        }
        Self::named(env, &table.relation)
    }

    pub(super) fn named(env: &Env, table: &ast::TableFactor) -> Result<Self, EngineError> {
        let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = table
        else {
            return Err(EngineError::unsupported(
                "writing to something that is not a collection",
            ));
        };
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
    pub(super) fn identity(&self) -> Vec<&str> {
        if self.def.key.is_empty() {
            vec![ROW_ID_COLUMN]
        } else {
            key_columns(&self.def).map(|column| column.name.as_str()).collect()
        }
    }

    pub(super) fn identity_items(&self) -> impl Iterator<Item = ast::SelectItem> {
        let item = |(at, name)| build::named(build::column(&self.alias, name), &format!("\0key{at}"));
        self.identity().into_iter().enumerate().map(item)
    }

    /// Splits the columns that [`Self::identity_items`] asked for off the end, and leaves out rows that are `seen`,
    /// because a join has matched them before: one row is written once. Without a join no row comes twice.
    fn split(
        &self,
        batch: &RecordBatch,
        seen: Option<&mut HashSet<Key>>,
    ) -> Result<(RecordBatch, RecordBatch), EngineError> {
        let width = batch.num_columns() - self.identity().len();
        let identity = RecordBatch::try_new(identity_schema(&self.def), batch.columns()[width..].to_vec())?;
        let values = batch.project(&(0..width).collect::<Vec<_>>())?;
        let Some(seen) = seen else {
            return Ok((values, identity));
        };
        let keys = identity_keys(&self.def, &identity)?;
        let first: BooleanArray = keys.into_iter().map(|key| Some(seen.insert(key))).collect();
        Ok((
            filter_record_batch(&values, &first)?,
            filter_record_batch(&identity, &first)?,
        ))
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

/// An UPDATE, taken apart.
struct Parts {
    target: Target,
    assigned: Assignments,
    from: Vec<ast::TableWithJoins>,
}

impl Parts {
    fn of(env: &Env, update: &ast::Update) -> Result<Self, EngineError> {
        refuse(&[
            (update.or.is_some(), "UPDATE OR …"),
            (update.output.is_some(), "OUTPUT"),
            (!update.order_by.is_empty(), "UPDATE … ORDER BY"),
            (update.limit.is_some(), "UPDATE … LIMIT"),
        ])?;
        let target = Target::of(env, &update.table)?;
        let assigned = assignments(&target.def, &update.assignments)?;
        let from = match &update.from {
            None => Vec::new(),
            Some(ast::UpdateTableFromKind::AfterSet(from)) => from.clone(),
            Some(ast::UpdateTableFromKind::BeforeSet(_)) => return Err(EngineError::unsupported("FROM before SET")),
        };
        Ok(Self { target, assigned, from })
    }

    /// The new rows, what they were joined with as far as it is returned, and the keys of the old ones.
    fn query(&self, joined: &[Side], selection: Option<ast::Expr>) -> ast::Statement {
        let target = &self.target;
        let value = |name: &String| match self.assigned.get(name) {
            Some(expr) => expr.clone(),
            None => build::column(&target.alias, name),
        };
        let values = updated_columns(target, &self.assigned)
            .into_iter()
            .enumerate()
            .map(|(at, name)| build::named(value(&name), &format!("\0new{at}")));
        let projection = values
            .chain(returning::columns_of(joined))
            .chain(target.identity_items())
            .collect();
        let from = std::iter::once(target.from()).chain(self.from.clone()).collect();
        build::select(projection, from, selection)
    }

    /// The columns whose values may change.
    fn changed(&self, def: &CollectionDef) -> HashSet<usize> {
        self.assigned.keys().filter_map(|name| def.column(name)).collect()
    }
}

/// An update, evaluated.
struct Updated {
    grown: Grown,
    ended: Option<RecordBatch>,
    begun: Vec<RecordBatch>,
    /// The new rows next to what they were joined with.
    beside: Vec<RecordBatch>,
    replaced: Vec<Replaced>,
}

/// Runs a query of [`Parts::query`] and completes its rows.
async fn run_update(env: &Env, parts: &Parts, query: &ast::Statement) -> Result<Updated, EngineError> {
    let target = &parts.target;
    let (schema, batches) = env.collect(query).await?;
    let names = updated_columns(target, &parts.assigned);
    let arrivals: Vec<Incoming> = names
        .iter()
        .zip(schema.fields())
        .filter(|(name, _)| target.def.column(name).is_none())
        .map(|(name, field)| incoming(&target.def, name, field))
        .collect::<Result<_, _>>()?;
    let any_rows = batches.iter().any(|batch| batch.num_rows() > 0);
    let grown = Grown::of(env, &target.def, if any_rows { &arrivals } else { &[] })?;
    let mut completer = RowCompleter::new(env, &grown.def, &names)?;
    let (mut begun, mut ended, mut next_to) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = (!parts.from.is_empty()).then(HashSet::new);
    let has_actions = has_actions(env, &target.def);
    let mut replaced = Vec::new();
    for batch in &batches {
        let (values, identity) = target.split(batch, seen.as_mut())?;
        let rows = completer.complete(&values.columns()[..names.len()], values.num_rows())?;
        let joined = values.project(&(names.len()..values.num_columns()).collect::<Vec<_>>())?;
        next_to.push(beside(&rows, &joined)?);
        if has_actions {
            replaced.push(Replaced {
                collection: target.def.id,
                ended: identity.clone(),
                begun: rows.clone(),
            });
        }
        begun.push(rows);
        ended.push(identity);
    }
    Ok(Updated {
        grown,
        ended: concat(&ended)?,
        begun,
        beside: next_to,
        replaced,
    })
}

fn refuse(refused: &[(bool, &str)]) -> Result<(), EngineError> {
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(EngineError::unsupported(*what)),
        None => Ok(()),
    }
}

/// The query of an UPDATE, with the environment to plan it in.
pub(super) fn update_query(env: &Env, update: &ast::Update) -> Result<(Env, ast::Statement), EngineError> {
    let parts = Parts::of(env, update)?;
    let query = parts.query(&[], update.selection.clone());
    Ok((parts.target.pass(env, Vec::new()), query))
}

pub(super) async fn update(env: &Env, update: &ast::Update) -> Result<Evaluated, EngineError> {
    let parts = Parts::of(env, update)?;
    let target = &parts.target;
    let passing = target.pass(env, Vec::new());
    let returned = update.returning.as_ref();
    let joined = returning::joined(&passing, &target.from(), &target.alias, &parts.from, returned).await?;
    let query = parts.query(&joined, update.selection.clone());
    let updated = run_update(&passing, &parts, &query).await?;
    let def = &updated.grown.def;
    unique::check(
        env,
        def,
        updated.ended.as_ref(),
        &updated.begun,
        Some(&parts.changed(def)),
    )?;
    let mut sides = vec![Side::collection(&target.alias, def)];
    sides.extend(joined);
    let returning = returning::answer(env, sides, returned, updated.beside).await?;
    let begun = concat(&updated.begun)?;
    let rows_affected = begun.as_ref().map_or(0, |rows| rows.num_rows() as u64);
    Ok(Evaluated {
        changes: change(def, updated.ended, begun),
        schema: updated.grown.schema,
        rows_affected,
        upsert: None,
        returning,
        updated: updated.replaced,
    })
}

fn delete_target(env: &Env, delete: &ast::Delete) -> Result<Target, EngineError> {
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
    Target::of(env, table)
}

/// The keys of the rows that match; before them the old rows and what they were joined with, as far as it is returned.
fn keys_query(target: &Target, delete: &ast::Delete, joined: &[Side]) -> ast::Statement {
    let mut projection = Vec::new();
    if delete.returning.is_some() {
        let own = target.def.columns.iter().enumerate();
        projection.extend(
            own.map(|(at, column)| build::named(build::column(&target.alias, &column.name), &format!("\0old{at}"))),
        );
        projection.extend(returning::columns_of(joined));
    }
    projection.extend(target.identity_items());
    let using = delete.using.clone().unwrap_or_default();
    let from = std::iter::once(target.from()).chain(using).collect();
    build::select(projection, from, delete.selection.clone())
}

/// The query of a DELETE, with the environment to plan it in.
pub(super) fn delete_query(env: &Env, delete: &ast::Delete) -> Result<(Env, ast::Statement), EngineError> {
    let target = delete_target(env, delete)?;
    let query = keys_query(&target, delete, &[]);
    Ok((target.pass(env, Vec::new()), query))
}

pub(super) async fn delete(env: &Env, delete: &ast::Delete) -> Result<Evaluated, EngineError> {
    let target = delete_target(env, delete)?;
    let passing = target.pass(env, Vec::new());
    let returned = delete.returning.as_ref();
    let using = delete.using.as_deref().unwrap_or_default();
    let joined = returning::joined(&passing, &target.from(), &target.alias, using, returned).await?;
    let (old, ended) = run_delete(
        &passing,
        &target,
        &keys_query(&target, delete, &joined),
        !using.is_empty(),
    )
    .await?;
    let mut sides = vec![Side::collection(&target.alias, &target.def)];
    sides.extend(joined);
    let returning = returning::answer(env, sides, returned, old).await?;
    let rows_affected = ended.as_ref().map_or(0, |rows| rows.num_rows() as u64);
    Ok(Evaluated {
        schema: Vec::new(),
        changes: change(&target.def, ended, None),
        rows_affected,
        upsert: None,
        returning,
        updated: Vec::new(),
    })
}

/// The old rows, as far as the query asks for them, and the keys.
async fn run_delete(
    env: &Env,
    target: &Target,
    query: &ast::Statement,
    joins: bool,
) -> Result<(Vec<RecordBatch>, Option<RecordBatch>), EngineError> {
    let (_, batches) = env.collect(query).await?;
    let mut seen = joins.then(HashSet::new);
    let mut old = Vec::new();
    let mut ended = Vec::new();
    for batch in &batches {
        let (values, identity) = target.split(batch, seen.as_mut())?;
        old.push(values);
        ended.push(identity);
    }
    Ok((old, concat(&ended)?))
}

pub(super) async fn truncate(env: &Env, truncate: &ast::Truncate) -> Result<Evaluated, EngineError> {
    refuse(&[
        (truncate.partitions.is_some(), "TRUNCATE … PARTITION"),
        (truncate.on_cluster.is_some(), "ON CLUSTER"),
    ])?;
    let mut evaluated = Evaluated::nothing();
    let cascade = matches!(truncate.cascade, Some(ast::CascadeOption::Cascade));
    let restart = matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart));
    for def in truncated(env, truncate, cascade)? {
        if restart {
            let sequences = env.names.definitions().sequences();
            let own = sequences.filter(|sequence| sequence.owner.is_some_and(|(owner, _)| owner == def.id));
            evaluated.schema.extend(own.map(|sequence| SchemaChange::MoveSequence {
                id: sequence.id,
                from: sequence.place,
                to: sequence.set_to(sequence.start, false),
            }));
        }
        let target = Target {
            alias: quoted(&def.name),
            def,
        };
        let query = build::select(target.identity_items().collect(), vec![target.from()], None);
        let (_, ended) = run_delete(&target.pass(env, Vec::new()), &target, &query, false).await?;
        evaluated.rows_affected += ended.as_ref().map_or(0, |rows| rows.num_rows() as u64);
        evaluated.changes.extend(change(&target.def, ended, None));
    }
    Ok(evaluated)
}

/// The tables that a TRUNCATE empties: those that it names, each once, and with CASCADE those that point to them.
fn truncated(env: &Env, truncate: &ast::Truncate, cascade: bool) -> Result<Vec<Arc<CollectionDef>>, EngineError> {
    let mut defs: Vec<Arc<CollectionDef>> = Vec::new();
    for table in &truncate.table_names {
        match env.collection(&table.name) {
            Ok(def) if defs.iter().any(|named| named.id == def.id) => {}
            Ok(def) => defs.push(def),
            Err(EngineError::UnknownTable { .. }) if truncate.if_exists => {}
            Err(error) => return Err(error),
        }
    }
    let mut at = 0;
    while let Some(def) = defs.get(at).map(Arc::clone) {
        at += 1;
        for (child, key) in env.names.definitions().references_to(def.id) {
            if defs.iter().any(|named| named.id == child.id) {
                continue;
            }
            if !cascade {
                return Err(EngineError::Definition {
                    message: format!(
                        "`{}` cannot be truncated, because the foreign key `{}` of `{}` points to it",
                        def.name, key.name, child.name
                    ),
                    sqlstate: "0A000",
                    help: Some(format!("name `{}` too, or write CASCADE", child.name)),
                });
            }
            defs.push(Arc::clone(child));
        }
    }
    Ok(defs)
}

pub(super) fn change(def: &CollectionDef, ended: Option<RecordBatch>, begun: Option<RecordBatch>) -> Vec<TableChange> {
    match (ended, begun) {
        (None, None) => Vec::new(),
        (ended, begun) => vec![TableChange {
            collection: def.id,
            ended,
            begun,
        }],
    }
}

/// A query of `values` for each row of a collection, with the row's id behind them.
pub(crate) fn rewrite_query(
    env: &Env,
    def: &Arc<CollectionDef>,
    alias: &ast::Ident,
    values: Vec<ast::Expr>,
) -> (Env, ast::Statement) {
    let table: Arc<dyn datafusion::catalog::TableProvider> = Arc::new(env.names.table(def).with_row_id());
    let values = values.into_iter().enumerate();
    let mut projection: Vec<ast::SelectItem> = values
        .map(|(at, value)| build::named(value, &format!("\0new{at}")))
        .collect();
    projection.push(build::named(build::column(alias, ROW_ID_COLUMN), "\0row"));
    let query = build::select(projection, vec![build::passing(TARGET, alias.clone())], None);
    (env.with_passing(vec![(TARGET, table)]), query)
}
