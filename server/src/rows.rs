//! The rows of one answer, on their way to the caller.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use candor_engine::RowStream;
use candor_proto::{ErrorCode, Receipt};
use futures::{Stream, StreamExt, stream};

use crate::failure::Stop;

/// Batches with the schema they share. Dropping it stops the query.
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    batches: Batches,
}

enum Batches {
    Ready(std::vec::IntoIter<RecordBatch>),
    Running(Pin<Box<dyn Stream<Item = Result<RecordBatch, Stop>> + Send>>),
}

/// The answer to one statement.
pub(crate) struct Output {
    /// What came out, `None` for statements that give no rows.
    pub(crate) rows: Option<Rows>,
    /// How many rows a write changed.
    pub(crate) rows_affected: Option<u64>,
    /// Who answered, under what.
    pub(crate) receipt: Receipt,
}

impl Rows {
    /// Rows that are there already.
    pub(crate) fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self {
            schema,
            batches: Batches::Ready(batches.into_iter()),
        }
    }

    /// Rows of text columns, made by the node itself.
    pub(crate) fn of_text(columns: &[&str], rows: &[Vec<Option<String>>]) -> Result<Self, Stop> {
        let fields: Vec<Field> = columns
            .iter()
            .map(|name| Field::new(*name, DataType::Utf8, true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = (0..columns.len())
            .map(|column| Arc::new(rows.iter().map(|row| row[column].as_deref()).collect::<StringArray>()) as ArrayRef);
        let batch = RecordBatch::try_new(schema.clone(), arrays.collect())
            .map_err(|error| Stop::new(ErrorCode::Internal, error.to_string()))?;
        Ok(Self::of(schema, vec![batch]))
    }

    /// The rows of a query, given up at `deadline`: the deadline holds for the whole stream and not only for its start.
    pub(crate) fn until(rows: RowStream, deadline: Instant) -> Self {
        let schema = rows.schema().clone();
        let rows = match rows.into_ready() {
            Ok(batches) => return Self::of(schema, batches),
            Err(rows) => rows,
        };
        let batches = stream::unfold(Some(rows), move |stream| async move {
            let mut stream = stream?;
            match tokio::time::timeout_at(deadline.into(), stream.next()).await {
                Ok(Some(Ok(batch))) => Some((Ok(batch), Some(stream))),
                Ok(Some(Err(error))) => Some((Err(error.into()), None)),
                Ok(None) => None,
                Err(_) => Some((Err(deadline_passed()), None)),
            }
        });
        Self {
            schema,
            batches: Batches::Running(Box::pin(batches)),
        }
    }

    /// The next batch; the last one may be an error.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, Stop>> {
        match &mut self.batches {
            Batches::Ready(batches) => batches.next().map(Ok),
            Batches::Running(batches) => batches.next().await,
        }
    }

    /// All rows at once.
    pub(crate) async fn collect(mut self) -> Result<(SchemaRef, Vec<RecordBatch>), Stop> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok((self.schema, batches))
    }
}

/// The error of a statement that took too long.
pub(crate) fn deadline_passed() -> Stop {
    Stop::new(
        ErrorCode::Deadline,
        "the statement ran longer than its deadline and was stopped",
    )
}
