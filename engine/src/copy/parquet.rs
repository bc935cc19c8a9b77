//! Parquet.

use std::io::{BufRead, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::inflow::Inflow;
use super::{Arrival, BATCH_ROWS, RowWriter, read_error};
use crate::error::EngineError;
use crate::types::from_answer;
use crate::write::{Grown, Incoming};

/// The end of a Parquet file says where everything stands, so the file is read whole.
pub(super) fn read(
    arrival: &Arrival<'_>,
    mut input: impl BufRead,
    inflow: &mut Inflow<'_>,
) -> Result<Grown, EngineError> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(read_error)?;
    let size = bytes.len() as u64;
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).map_err(|error| damaged(&error))?;
    let schema = std::sync::Arc::clone(reader.schema());
    let reader = reader
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| damaged(&error))?;
    let incoming = schema
        .fields()
        .iter()
        .map(|field| {
            Ok(Incoming {
                name: field.name().clone(),
                ty: from_answer(field)?,
            })
        })
        .collect::<Result<Vec<_>, EngineError>>()?;
    check_columns(arrival, &incoming)?;
    let (grown, mut completer) = arrival.receive(&incoming)?;
    let mut count = 0;
    for batch in reader {
        let batch = batch?;
        count += batch.num_rows() as u64;
        inflow.take(&grown, &mut completer, batch.columns(), batch.num_rows())?;
        arrival.tell(count, size);
    }
    drop(completer);
    Ok(grown)
}

/// Columns go by name; a list of columns must be the file's.
fn check_columns(arrival: &Arrival<'_>, incoming: &[Incoming]) -> Result<(), EngineError> {
    let has = |name: &String| incoming.iter().any(|column| column.name == *name);
    if let Some(name) = arrival.columns.iter().find(|name| !has(name)) {
        return Err(EngineError::plan(format!("the file has no column `{name}`")));
    }
    let listed = |column: &&Incoming| arrival.columns.is_empty() || arrival.columns.contains(&column.name);
    match incoming.iter().find(|column| !listed(column)) {
        Some(column) => Err(EngineError::plan(format!(
            "the file has a column `{}` that the statement leaves out",
            column.name
        ))),
        None => Ok(()),
    }
}

fn damaged(error: &ParquetError) -> EngineError {
    EngineError::bad_value(format!("the file is not Parquet, or is damaged: {error}"))
}

/// Writes Parquet.
pub(super) struct ParquetWriter(ArrowWriter<Box<dyn Write + Send>>);

impl ParquetWriter {
    pub(super) fn new(output: Box<dyn Write + Send>, schema: &SchemaRef) -> Result<Self, EngineError> {
        let writer = ArrowWriter::try_new(output, std::sync::Arc::clone(schema), None);
        writer
            .map(Self)
            .map_err(|error| EngineError::unsupported(format!("writing this to Parquet ({error})")))
    }
}

impl RowWriter for ParquetWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        self.0.write(batch).map_err(|error| unwritable(&error))
    }

    fn finish(self: Box<Self>) -> Result<(), EngineError> {
        self.0.close().map(|_| ()).map_err(|error| unwritable(&error))
    }
}

fn unwritable(error: &ParquetError) -> EngineError {
    super::write_error(std::io::Error::other(error.to_string()))
}
