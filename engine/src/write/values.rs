//! INSERT of expressions: each is evaluated by itself and stored as its own column takes it.
//!
//! A list of VALUES in a query has one type per column, found from all of its rows. In an INSERT the columns have their
//! types already, so `('2024-02-29'), (DATE '2024-03-01' - INTERVAL '1 day')` is two dates.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use candor_storage::{CollectionDef, ColumnType};
use datafusion::common::DFSchema;
use sqlparser::ast::{self, Visit as _, Visitor};

use super::build;
use super::insert::{default_of, is_default};
use crate::convert::assign;
use crate::env::Env;
use crate::error::EngineError;
use crate::types::from_answer;

/// Evaluated rows of VALUES: one array of one value per cell.
pub(super) struct Cells {
    rows: Vec<Vec<ArrayRef>>,
}

impl Cells {
    /// Evaluates all cells; `names` are the columns they go to.
    pub(super) async fn of(
        env: &Env,
        def: &CollectionDef,
        names: &[String],
        values: &ast::Values,
    ) -> Result<Self, EngineError> {
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != names.len() {
                return Err(EngineError::plan("the rows of VALUES have different lengths"));
            }
            let mut cells = Vec::with_capacity(names.len());
            for (expr, name) in row.content.iter().zip(names) {
                cells.push(if is_default(expr) {
                    evaluate(env, default_of(def, name)?).await?
                } else {
                    evaluate(env, expr.clone()).await?
                });
            }
            rows.push(cells);
        }
        Ok(Self { rows })
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The type that the first value of a column sets in an open collection.
    pub(super) fn first_type(&self, column: usize) -> Result<Option<ColumnType>, EngineError> {
        let types = self.rows.iter().map(|row| row[column].data_type());
        types
            .map(|ty| from_answer(&Field::new("", ty.clone(), true)))
            .find(|ty| !matches!(ty, Ok(None)))
            .unwrap_or(Ok(None))
    }

    /// The values of one column as the column `name` of `def` takes them.
    pub(super) fn column(&self, at: usize, def: &CollectionDef, name: &str) -> Result<Option<ArrayRef>, EngineError> {
        let Some(ordinal) = def.column(name) else {
            // Only NULLs: the column was not made.
            return Ok(None);
        };
        let ty = def.columns[ordinal].ty;
        let assigned = self
            .rows
            .iter()
            .enumerate()
            .map(|(row, cells)| assign(&cells[at], ty).map_err(|misfit| misfit.at(row as u64 + 1, name)));
        let assigned: Vec<ArrayRef> = assigned.collect::<Result<_, _>>()?;
        let parts: Vec<&dyn arrow::array::Array> = assigned.iter().map(AsRef::as_ref).collect();
        Ok(Some(concat(&parts)?))
    }
}

/// The value of an expression that names no column.
async fn evaluate(env: &Env, expr: ast::Expr) -> Result<ArrayRef, EngineError> {
    if has_subquery(&expr) {
        let query = build::select(vec![ast::SelectItem::UnnamedExpr(expr)], Vec::new(), None);
        let (_, batches) = env.collect(&query).await?;
        let value = batches
            .iter()
            .find(|batch| batch.num_rows() > 0)
            .map(|batch| Arc::clone(batch.column(0)));
        return Ok(value.unwrap_or_else(|| new_null_array(&DataType::Null, 1)));
    }
    let planned = env.expression(expr, &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let value = planned.evaluate(&nothing).and_then(|value| value.into_array(1));
    value.map_err(|error| env.error(error))
}

pub(crate) fn has_subquery(expr: &ast::Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Finder).is_break()
}
