//! RETURNING: a query over the rows that were just written, and over those they were joined with.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use sqlparser::ast;

use super::build;
use super::sides::{Side, Sides};
use crate::env::Env;
use crate::error::EngineError;
use crate::prepare::{folded, quoted};

/// Names and types of an answer, and its rows.
pub(super) type Returned = (SchemaRef, Vec<RecordBatch>);

/// The answer of `items` over `rows`, whose columns are those of `sides`.
pub(super) async fn answer(
    env: &Env,
    sides: Vec<Side>,
    items: Option<&Vec<ast::SelectItem>>,
    rows: Vec<RecordBatch>,
) -> Result<Option<Returned>, EngineError> {
    let Some(items) = items else {
        return Ok(None);
    };
    if let [side] = sides.as_slice()
        && let Some(answered) = bare_columns(side, items, &rows)?
    {
        return Ok(Some(answered));
    }
    let answered = Sides::new(sides, rows).answer(env, items.clone()).await;
    answered.map(Some)
}

/// An answer of nothing but columns of the rows, which needs no plan.
fn bare_columns(side: &Side, items: &[ast::SelectItem], rows: &[RecordBatch]) -> Result<Option<Returned>, EngineError> {
    let schema = side.schema();
    let mut columns: Vec<(usize, String)> = Vec::new();
    for item in items {
        match item {
            ast::SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                let all = schema.fields().iter().enumerate();
                columns.extend(all.map(|(at, field)| (at, field.name().clone())));
            }
            ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(name)) => match schema.index_of(&folded(name)) {
                Ok(at) => columns.push((at, folded(name))),
                Err(_) => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
    let field = |(at, name): &(usize, String)| Field::new(name, schema.field(*at).data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let shown = |batch: &RecordBatch| {
        let values = columns.iter().map(|(at, _)| Arc::clone(batch.column(*at))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), values, &options)
    };
    let rows = rows.iter().map(shown).collect::<Result<_, _>>()?;
    Ok(Some((schema, rows)))
}

/// The relations of FROM or USING as RETURNING may name them, next to `target`; none when nothing is returned.
pub(super) async fn joined(
    env: &Env,
    target: &ast::TableWithJoins,
    target_alias: &ast::Ident,
    from: &[ast::TableWithJoins],
    items: Option<&Vec<ast::SelectItem>>,
) -> Result<Vec<Side>, EngineError> {
    if items.is_none() || from.is_empty() {
        return Ok(Vec::new());
    }
    let tables = std::iter::once(target).chain(from).cloned().collect();
    let everything = ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
    let plan = env.plan(&build::select(vec![everything], tables, None)).await?;
    let target = folded(target_alias);
    let mut sides: Vec<(String, Vec<_>)> = Vec::new();
    for (relation, field) in plan.schema().iter() {
        // A column that has lost its table, as USING makes it, cannot be asked for by name.
        let Some(name) = relation.map(TableReference::table).filter(|name| *name != target) else {
            continue;
        };
        match sides.iter_mut().find(|(side, _)| side == name) {
            Some((_, fields)) => fields.push(field.as_ref().clone()),
            None => sides.push((name.to_owned(), vec![field.as_ref().clone()])),
        }
    }
    let side = |(name, fields): (String, Vec<Field>)| Side::new(quoted(&name), &Arc::new(Schema::new(fields)));
    Ok(sides.into_iter().map(side).collect())
}

/// The columns of `sides` for the list of a query.
pub(super) fn columns_of(sides: &[Side]) -> impl Iterator<Item = ast::SelectItem> {
    let columns = sides.iter().flat_map(Side::columns);
    columns
        .enumerate()
        .map(|(at, column)| build::named(column, &format!("\0beside{at}")))
}
