//! Answers in the form the caller accepts. Streams say how they end: an error in mid-stream is a last line in NDJSON,
//! and a body that breaks off in CSV and Arrow, which no caller can take for a whole one.

use std::fmt::Write as _;
use std::io;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use candor_proto::{ErrorCode, Receipt};
use futures::{StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::OwnedSemaphorePermit;

use super::json::{RowWriter, write_columns};
use super::request::Format;
use crate::failure::Stop;
use crate::rows::{Output, Rows};
use crate::script::Collected;

/// Appends the `results` array.
pub(super) fn write_results(outputs: &[Collected], out: &mut String) {
    out.push('[');
    for (index, output) in outputs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&output.text);
    }
    out.push(']');
}

/// One element of `results` as JSON text.
///
/// # Errors
/// When a column has no text form.
pub(crate) fn result_text(
    schema: &Schema,
    batches: &[RecordBatch],
    rows_affected: Option<u64>,
    receipt: &Receipt,
) -> Result<String, Stop> {
    let mut out = String::with_capacity(256);
    out.push_str("{\"columns\":");
    write_columns(schema, &mut out);
    out.push_str(",\"rows\":[");
    let mut first = true;
    for batch in batches {
        let rows = RowWriter::new(batch).map_err(unprintable)?;
        for row in 0..rows.rows() {
            if !first {
                out.push(',');
            }
            first = false;
            rows.write(row, &mut out).map_err(unprintable)?;
        }
    }
    out.push_str("],\"rows_affected\":");
    out.push_str(&rows_affected.map_or_else(|| "null".to_owned(), |count| count.to_string()));
    out.push_str(",\"receipt\":");
    out.push_str(&receipt_text(receipt));
    out.push('}');
    Ok(out)
}

fn receipt_text(receipt: &Receipt) -> String {
    // A receipt is names and numbers: it cannot fail to be written.
    serde_json::to_string(receipt).unwrap_or_else(|_| "null".to_owned())
}

fn unprintable(error: impl std::fmt::Display) -> Stop {
    Stop::new(ErrorCode::Unsupported, format!("a value has no text form: {error}"))
}

/// Streams one answer. The permit is held until the stream ends or the caller is gone.
pub(super) fn stream(format: Format, output: Output, permit: OwnedSemaphorePermit) -> Response {
    let Output {
        rows,
        rows_affected,
        receipt,
    } = output;
    let rows = rows.unwrap_or_else(|| Rows::of(SchemaRef::new(Schema::empty()), Vec::new()));
    let mut writer = match Writer::new(format, &rows.schema, rows_affected, &receipt) {
        Ok(writer) => writer,
        Err(error) => {
            return (http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    let head = writer.take();
    let chunks = stream::unfold(Some((rows, writer, permit)), |state| async move {
        let (mut rows, mut writer, permit) = state?;
        match rows.next().await {
            Some(Ok(batch)) => match writer.batch(&batch) {
                Ok(()) => Some((Ok(writer.take()), Some((rows, writer, permit)))),
                Err(stop) => Some((writer.fail(stop), None)),
            },
            Some(Err(stop)) => Some((writer.fail(stop), None)),
            None => Some((writer.finish(), None)),
        }
    });
    let body = Body::from_stream(stream::once(async { Ok::<_, io::Error>(head) }).chain(chunks));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

/// Turns batches into bytes of one format.
enum Writer {
    Ndjson { out: String, rows: u64 },
    Csv { out: String },
    Arrow { writer: Box<StreamWriter<Vec<u8>>> },
}

impl Writer {
    fn new(format: Format, schema: &SchemaRef, rows_affected: Option<u64>, receipt: &Receipt) -> io::Result<Self> {
        match format {
            Format::Json | Format::Ndjson => {
                let mut out = String::from("{\"columns\":");
                write_columns(schema, &mut out);
                if let Some(count) = rows_affected {
                    // Writing to a String cannot fail.
                    let _ = write!(out, ",\"rows_affected\":{count}");
                }
                out.push_str(",\"receipt\":");
                out.push_str(&receipt_text(receipt));
                out.push_str("}\n");
                Ok(Self::Ndjson { out, rows: 0 })
            }
            Format::Csv => {
                let mut out = String::new();
                let names = schema.fields().iter().map(|field| Some(field.name().clone()));
                super::csv::write_line(names, &mut out);
                Ok(Self::Csv { out })
            }
            Format::Arrow => {
                let mut metadata = schema.metadata().clone();
                metadata.insert("candor.receipt".to_owned(), receipt_text(receipt));
                let schema = Schema::new_with_metadata(schema.fields().clone(), metadata);
                let writer = StreamWriter::try_new(Vec::new(), &schema).map_err(io::Error::other)?;
                Ok(Self::Arrow {
                    writer: Box::new(writer),
                })
            }
        }
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        match self {
            Self::Ndjson { out, rows } => {
                let lines = RowWriter::new(batch).map_err(unprintable)?;
                for row in 0..lines.rows() {
                    lines.write(row, out).map_err(unprintable)?;
                    out.push('\n');
                }
                *rows += lines.rows() as u64;
                Ok(())
            }
            Self::Csv { out } => super::csv::write_batch(batch, out).map_err(unprintable),
            Self::Arrow { writer } => writer.write(batch).map_err(unprintable),
        }
    }

    /// The bytes written since the last call.
    fn take(&mut self) -> Bytes {
        match self {
            Self::Ndjson { out, .. } | Self::Csv { out } => Bytes::from(std::mem::take(out)),
            Self::Arrow { writer } => Bytes::from(std::mem::take(writer.get_mut())),
        }
    }

    fn finish(mut self) -> io::Result<Bytes> {
        match &mut self {
            Self::Ndjson { out, rows } => {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{{\"end\":true,\"rows\":{rows}}}");
            }
            Self::Csv { .. } => {}
            Self::Arrow { writer } => writer.finish().map_err(io::Error::other)?,
        }
        Ok(self.take())
    }

    /// The error after which nothing more comes.
    fn fail(mut self, stop: Stop) -> io::Result<Bytes> {
        let body = super::answer::stopped_after_commit(stop);
        match &mut self {
            Self::Ndjson { out, .. } => {
                out.push_str(&super::error_text(&body));
                out.push('\n');
                Ok(self.take())
            }
            // No more bytes and no end of the body: the connection breaks off.
            Self::Csv { .. } | Self::Arrow { .. } => Err(io::Error::other(body.error)),
        }
    }
}
