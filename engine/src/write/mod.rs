//! Writes, planned as queries.
//!
//! UPDATE and DELETE become a SELECT of the keys of the rows that match and of their new values, at the statement's
//! snapshot; INSERT becomes a SELECT of the new rows. What comes out is a change of rows for the log, complete and
//! checked: defaults, conversions, NOT NULL and CHECK are settled here, at the leader, and every replica only applies
//! them. DataFusion's own hooks for writes are never used: they lose conditions that are subqueries and then touch
//! every row.

mod assign;
mod build;
mod conflict;
mod direct;
mod grow;
mod insert;
mod literal;
mod merge;
mod modify;
mod references;
mod returning;
mod rows;
mod sides;
mod unique;
mod values;
mod with;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use candor_storage::{SchemaChange, TableChange};
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast;

use crate::env::Env;
use crate::error::EngineError;

pub(crate) use build::select_from;
pub(crate) use direct::by_key;
pub(crate) use grow::{Grown, Incoming};
pub(crate) use insert::{check_given, small as small_insert};
pub(crate) use modify::rewrite_query;
pub(crate) use references::{Replaced, carry_out};
pub(crate) use rows::RowCompleter;
pub(crate) use values::has_subquery;

/// SQLSTATE of a statement that would change a row twice.
const CARDINALITY_VIOLATION: &str = "21000";

/// What a statement would write: the caller proposes it, or keeps it for the open transaction.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// Changes of definitions, in order, before the rows.
    pub schema: Vec<SchemaChange>,
    /// Changes of rows.
    pub changes: Vec<TableChange>,
    /// Rows inserted, updated or deleted.
    pub rows_affected: u64,
    /// The name of the collection for which the statement has an answer to keys that exist: ON CONFLICT or MERGE. A key
    /// that appears there before the write is applied is no reason to give up.
    pub upsert: Option<String>,
    /// The answer of RETURNING.
    pub returning: Option<(SchemaRef, Vec<RecordBatch>)>,
    /// Which of the rows in `changes` replace which, where a foreign key asks for it.
    pub(crate) updated: Vec<Replaced>,
}

impl Evaluated {
    /// Nothing to write, and nothing to say: `IF NOT EXISTS` of something that exists.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// A change of definitions alone.
    pub(crate) fn schema(schema: Vec<SchemaChange>) -> Self {
        Self {
            schema,
            ..Self::default()
        }
    }

    /// Whether there is something to propose.
    pub fn is_empty(&self) -> bool {
        self.schema.is_empty() && self.changes.is_empty()
    }
}

/// Evaluates one write.
pub(crate) async fn evaluate(env: &Env, statement: &ast::Statement) -> Result<Evaluated, EngineError> {
    match statement {
        ast::Statement::Insert(insert) => Box::pin(insert::insert(env, insert)).await,
        ast::Statement::Update(update) => Box::pin(modify::update(env, update)).await,
        ast::Statement::Delete(delete) => Box::pin(modify::delete(env, delete)).await,
        ast::Statement::Truncate(truncate) => Box::pin(modify::truncate(env, truncate)).await,
        ast::Statement::Merge(merge) => Box::pin(merge::merge(env, merge)).await,
        ast::Statement::Query(query) => Box::pin(with::evaluate(env, query)).await,
        other => Err(EngineError::unsupported(first_words(other))),
    }
}

/// The query that a write is planned as.
pub(crate) async fn plan_of(env: Env, statement: &ast::Statement) -> Result<(Env, LogicalPlan), EngineError> {
    let (env, query) = match statement {
        ast::Statement::Insert(insert) => match &insert.source {
            Some(source) => (env, ast::Statement::Query(source.clone())),
            None => return Err(EngineError::unsupported("EXPLAIN of INSERT … DEFAULT VALUES")),
        },
        ast::Statement::Update(update) => modify::update_query(&env, update)?,
        ast::Statement::Delete(delete) => modify::delete_query(&env, delete)?,
        other => return Err(EngineError::unsupported(format!("EXPLAIN of {}", first_words(other)))),
    };
    let plan = env.plan(&query).await?;
    Ok((env, plan))
}

/// How a statement that is not run begins, for a message.
fn first_words(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
