//! Rows made complete: every column of the definition, of its type, with defaults, and all constraints of a row held.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use candor_storage::{CollectionDef, Generated, enum_of};
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;

use crate::convert::{Misfit, assign};
use crate::env::Env;
use crate::error::EngineError;
use crate::parse::parse_expr;
use crate::pg::enums;

/// SQLSTATE of a NULL where none is allowed.
const NOT_NULL_VIOLATION: &str = "23502";

/// SQLSTATE of a row that a CHECK refuses.
const CHECK_VIOLATION: &str = "23514";

/// Completes rows of one collection, batch after batch, counting rows for messages.
pub(crate) struct RowCompleter<'a> {
    env: &'a Env,
    def: Arc<CollectionDef>,
    schema: SchemaRef,
    /// For each column of the definition, where its values come from.
    sources: Vec<ColumnSource>,
    /// The columns that are made of others.
    generated: Vec<Made>,
    checks: Vec<Check>,
    /// The row that comes next, from 1.
    next_row: u64,
}

enum ColumnSource {
    Given(usize),
    Default(Arc<dyn PhysicalExpr>),
    Null,
}

/// A column, and what makes its values.
struct Made {
    ordinal: usize,
    expr: Arc<dyn PhysicalExpr>,
}

struct Check {
    name: String,
    expr: Arc<dyn PhysicalExpr>,
}

impl<'a> RowCompleter<'a> {
    /// For rows that bring the columns `given`, in this order.
    pub(crate) fn new(env: &'a Env, def: &Arc<CollectionDef>, given: &[String]) -> Result<Self, EngineError> {
        let schema = def.schema();
        let source = |column: &candor_storage::ColumnDef| -> Result<ColumnSource, EngineError> {
            if matches!(column.generated, Some(Generated::Stored(_))) {
                return Ok(ColumnSource::Null);
            }
            match (given.iter().position(|name| *name == column.name), &column.default) {
                (Some(at), _) => Ok(ColumnSource::Given(at)),
                (None, Some(sql)) => Ok(ColumnSource::Default(
                    env.expression(parse_expr(sql)?, &DFSchema::empty())?,
                )),
                (None, None) => Ok(ColumnSource::Null),
            }
        };
        let sources = def.columns.iter().map(source).collect::<Result<_, _>>()?;
        Ok(Self {
            checks: checks(env, def, &schema)?,
            generated: generated(env, def, &schema)?,
            env,
            def: Arc::clone(def),
            schema,
            sources,
            next_row: 1,
        })
    }

    /// The next `rows` rows.
    ///
    /// # Errors
    /// The first value that does not fit, by row and column, and the first row that a constraint refuses.
    pub(crate) fn complete(&mut self, given: &[ArrayRef], rows: usize) -> Result<RecordBatch, EngineError> {
        let first_row = self.next_row;
        let mut columns = Vec::with_capacity(self.sources.len());
        for (source, column) in self.sources.iter().zip(&self.def.columns) {
            let values = match source {
                ColumnSource::Given(at) => Arc::clone(&given[*at]),
                ColumnSource::Default(expr) => self.default_values(expr, rows)?,
                ColumnSource::Null => new_null_array(&column.ty.arrow(), rows),
            };
            let values = assign(&values, column.ty).map_err(|misfit| misfit.at(first_row, &column.name))?;
            if let Some(def) = enum_of(column.ty).and_then(|id| self.env.names.definitions().type_by_id(id)) {
                enums::check(&values, &def.labels)
                    .map_err(|(row, message)| Misfit { row, message }.at(first_row, &column.name))?;
            }
            columns.push(values);
        }
        self.make(&mut columns, rows, first_row)?;
        self.check_nulls(&columns, first_row)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.check(&batch, first_row)?;
        self.next_row += rows as u64;
        Ok(batch)
    }

    /// Puts the values in place that are made of others.
    fn make(&self, columns: &mut [ArrayRef], rows: usize, first_row: u64) -> Result<(), EngineError> {
        if self.generated.is_empty() {
            return Ok(());
        }
        let fields = self
            .schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let given = RecordBatch::try_new_with_options(schema, columns.to_vec(), &options)?;
        for Made { ordinal, expr } in &self.generated {
            let column = &self.def.columns[*ordinal];
            let values = expr.evaluate(&given).and_then(|values| values.into_array(rows));
            let values = values.map_err(|error| self.env.error(error))?;
            columns[*ordinal] = assign(&values, column.ty).map_err(|misfit| misfit.at(first_row, &column.name))?;
        }
        Ok(())
    }

    /// One value per row, so that `random()` gives each row its own.
    fn default_values(&self, expr: &Arc<dyn PhysicalExpr>, rows: usize) -> Result<ArrayRef, EngineError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        let values = expr.evaluate(&nothing).and_then(|values| values.into_array(rows));
        values.map_err(|error| self.env.error(error))
    }

    fn check_nulls(&self, columns: &[ArrayRef], first_row: u64) -> Result<(), EngineError> {
        for (ordinal, values) in columns.iter().enumerate() {
            if values.null_count() == 0 || !self.def.requires_value(ordinal) {
                continue;
            }
            let row = (0..values.len()).find(|row| values.is_null(*row)).unwrap_or_default();
            return Err(EngineError::Constraint {
                message: format!(
                    "column `{}` of `{}` must have a value, and NULL is none",
                    self.def.columns[ordinal].name, self.def.name
                ),
                sqlstate: NOT_NULL_VIOLATION,
                row: Some(first_row + row as u64),
            });
        }
        Ok(())
    }

    /// A row passes a check that is true or NULL.
    fn check(&self, batch: &RecordBatch, first_row: u64) -> Result<(), EngineError> {
        for check in &self.checks {
            let verdicts = check
                .expr
                .evaluate(batch)
                .and_then(|values| values.into_array(batch.num_rows()));
            let verdicts = verdicts.map_err(|error| self.env.error(error))?;
            let verdicts = verdicts.as_boolean();
            if let Some(row) = (0..verdicts.len()).find(|row| verdicts.is_valid(*row) && !verdicts.value(*row)) {
                return Err(EngineError::Constraint {
                    message: format!(
                        "the row does not hold to the check `{}` of `{}`",
                        check.name, self.def.name
                    ),
                    sqlstate: CHECK_VIOLATION,
                    row: Some(first_row + row as u64),
                });
            }
        }
        Ok(())
    }
}

fn generated(env: &Env, def: &CollectionDef, schema: &SchemaRef) -> Result<Vec<Made>, EngineError> {
    let mut generated = Vec::new();
    for (ordinal, column) in def.columns.iter().enumerate() {
        if let Some(Generated::Stored(sql)) = &column.generated {
            let columns = DFSchema::try_from_qualified_schema(def.name.as_str(), schema);
            let columns = columns.map_err(|error| env.error(error))?;
            generated.push(Made {
                ordinal,
                expr: env.expression(parse_expr(sql)?, &columns)?,
            });
        }
    }
    Ok(generated)
}

fn checks(env: &Env, def: &CollectionDef, schema: &SchemaRef) -> Result<Vec<Check>, EngineError> {
    if def.checks.is_empty() {
        return Ok(Vec::new());
    }
    let columns = DFSchema::try_from_qualified_schema(def.name.as_str(), schema).map_err(|error| env.error(error))?;
    def.checks
        .iter()
        .map(|check| {
            Ok(Check {
                name: check.name.clone(),
                expr: env.expression(parse_expr(&check.sql)?, &columns)?,
            })
        })
        .collect()
}
