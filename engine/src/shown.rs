//! Answers as they leave the engine: names as the statement gave them, and no column without a type.
//!
//! A column of bare NULLs is a column of texts, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;

use crate::names::shown_name;

/// A running query whose rows are shown.
pub(crate) struct Shown {
    stream: SendableRecordBatchStream,
    schema: SchemaRef,
    /// Whether the rows differ from the stream's in more than their schema's names.
    has_untyped: bool,
}

impl Shown {
    /// With the names that the statement gives its columns, where it does.
    pub(crate) fn new(stream: SendableRecordBatchStream, names: Option<Vec<String>>) -> Self {
        let own = stream.schema();
        let has_untyped = own.fields().iter().any(|field| *field.data_type() == DataType::Null);
        let planned = || own.fields().iter().map(|field| planned_name(&own, field)).collect();
        let names: Vec<String> = names
            .filter(|names| names.len() == own.fields().len())
            .unwrap_or_else(planned);
        let fields: Vec<Field> = own
            .fields()
            .iter()
            .zip(&names)
            .map(|(field, name)| shown_field(field, name))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        Self {
            stream,
            schema,
            has_untyped,
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, DataFusionError>> {
        let batch = self.stream.next().await?;
        Some(batch.and_then(|batch| self.show(&batch)))
    }

    fn show(&self, batch: &RecordBatch) -> Result<RecordBatch, DataFusionError> {
        let columns = if self.has_untyped {
            batch.columns().iter().map(typed).collect()
        } else {
            batch.columns().to_vec()
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}

/// DataFusion numbers the columns of one name that a query in FROM gives: `id`, `id:1`.
fn planned_name(schema: &Schema, field: &Field) -> String {
    let name = field.name();
    let bare = match name.rsplit_once(':') {
        Some((first, number)) if number.parse::<usize>().is_ok() && schema.index_of(first).is_ok() => first,
        _ => name,
    };
    shown_name(bare).to_owned()
}

fn shown_field(field: &Field, name: &str) -> Field {
    let ty = match field.data_type() {
        DataType::Null => DataType::Utf8View,
        ty => ty.clone(),
    };
    Field::new(name, ty, field.is_nullable())
}

fn typed(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Null => new_null_array(&DataType::Utf8View, column.len()),
        _ => Arc::clone(column),
    }
}
