//! RETURNING: a query over the rows that were just written.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use candor_storage::CollectionDef;
use sqlparser::ast;

use super::build;
use crate::env::Env;
use crate::error::EngineError;

const ROWS: &str = "written";

/// Names and types of an answer, and its rows.
pub(super) type Returned = (SchemaRef, Vec<RecordBatch>);

/// The answer of `items` over `rows`, which the statement calls `alias`.
pub(super) async fn answer(
    env: &Env,
    def: &CollectionDef,
    alias: &ast::Ident,
    items: Option<&Vec<ast::SelectItem>>,
    rows: &[RecordBatch],
) -> Result<Option<Returned>, EngineError> {
    let Some(items) = items else {
        return Ok(None);
    };
    let rows = Env::rows_table(def.schema(), rows.to_vec())?;
    let env = env.with_passing(vec![(ROWS, rows)]);
    let query = build::select(items.clone(), vec![build::passing(ROWS, alias.clone())], None);
    env.collect_answer(&query).await.map(Some)
}
