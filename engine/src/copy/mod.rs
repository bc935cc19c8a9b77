//! COPY: files into collections and answers into files.
//!
//! CSV is PostgreSQL's (an unquoted empty field is NULL, a quoted one is an empty text; a delimiter at the end of each
//! line, as in TPC-H's `.tbl` files, is forgiven), NDJSON is one object per line, Parquet is Parquet. Texts are read
//! exactly ([`crate::text`]); the first value that does not fit ends the COPY and is named by row and column. A COPY
//! is one write: all of it or nothing.

mod chunks;
mod csv;
mod inflow;
mod ndjson;
mod parquet;
mod records;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use candor_parser::{Copy, CopyDirection, CopyFormat, CopyOptions, CopySource, CopyTarget};
use candor_storage::CollectionDef;
use sqlparser::ast;

use crate::define::split;
use crate::env::Env;
use crate::error::EngineError;
use crate::names::column_names;
use crate::prepare::quoted;
use crate::write::{Evaluated, Grown, Incoming, RowCompleter, check_given};

use inflow::Inflow;
pub use inflow::RowSink;

/// Rows between two words about progress, and in one batch.
const BATCH_ROWS: usize = 8192;

/// Where COPY FROM reads.
pub enum CopyInput {
    /// A file on this node's disk.
    Path(PathBuf),
    /// Bytes that the caller hands in.
    Reader(Box<dyn Read + Send>),
}

/// Where COPY TO writes.
pub enum CopyOutput {
    /// A file on this node's disk; an old one is overwritten.
    Path(PathBuf),
    /// Whatever the caller hands in.
    Writer(Box<dyn Write + Send>),
}

/// How far a COPY has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Rows read or written.
    pub rows: u64,
    /// Bytes read; 0 where they are not counted.
    pub bytes: u64,
    /// Bytes in all, where that is known.
    pub bytes_total: Option<u64>,
}

/// Told about progress now and then.
pub type Progress = Arc<dyn Fn(CopyProgress) + Send + Sync>;

/// What a reader of one format needs.
struct Arrival<'a> {
    env: &'a Env,
    def: Arc<CollectionDef>,
    /// The columns that the statement names; empty = the file or the definition says.
    columns: &'a [String],
    options: &'a CopyOptions,
    progress: &'a Progress,
    bytes_total: Option<u64>,
    /// Threads that may read at once.
    threads: usize,
}

/// What a COPY FROM has read.
#[derive(Debug)]
pub struct Copied {
    /// The write: the rows that were not handed on, and how many rows there were in all.
    pub evaluated: Evaluated,
    /// Whether rows were handed on while the file was read; they belong to the same write.
    pub handed: bool,
}

impl Arrival<'_> {
    fn tell(&self, rows: u64, bytes: u64) {
        (self.progress)(CopyProgress {
            rows,
            bytes,
            bytes_total: self.bytes_total,
        });
    }

    /// A definition with a place for the columns, and the means to complete their rows.
    fn receive(&self, incoming: &[Incoming]) -> Result<(Grown, RowCompleter<'_>), EngineError> {
        let grown = Grown::of(self.env, &self.def, incoming)?;
        let names: Vec<String> = incoming.iter().map(|column| column.name.clone()).collect();
        for name in &names {
            check_given(&grown.def, name)?;
        }
        let completer = RowCompleter::new(self.env, &grown.def, &names)?;
        Ok((grown, completer))
    }
}

/// Reads a file into the rows of a write. Rows that are too many to be kept go to `sink`, if there is one.
/// Ends early once `gone` is set.
pub(crate) fn copy_from(
    env: &Env,
    copy: &Copy,
    input: CopyInput,
    progress: &Progress,
    sink: Option<RowSink>,
    gone: &AtomicBool,
) -> Result<Copied, EngineError> {
    let CopySource::Table { name, columns } = &copy.source else {
        return Err(EngineError::plan("COPY FROM names a collection"));
    };
    if copy.direction != CopyDirection::From {
        return Err(EngineError::internal("COPY TO was taken for COPY FROM"));
    }
    let (database, table) = split(env, name)?;
    let def = env.names.definitions().collection(&database, &table);
    let def = def.ok_or_else(|| env.unknown_table(&database, &table, Some(name.span)))?;
    let (input, bytes_total) = open(input)?;
    let arrival = Arrival {
        env,
        def: Arc::clone(def),
        columns,
        options: &copy.options,
        progress,
        bytes_total,
        threads: env.names.threads(),
    };
    let mut inflow = Inflow::new(sink, gone);
    let grown = match format(copy)? {
        CopyFormat::Csv => csv::read(&arrival, input, &mut inflow),
        CopyFormat::Ndjson => ndjson::read(&arrival, input, &mut inflow),
        CopyFormat::Parquet => parquet::read(&arrival, input, &mut inflow),
    }?;
    inflow.end(grown)
}

/// Writes a collection or an answer.
pub(crate) async fn copy_to(
    env: &Env,
    copy: &Copy,
    output: CopyOutput,
    progress: &Progress,
) -> Result<u64, EngineError> {
    let query = match &copy.source {
        CopySource::Query(query) => query.as_ref().clone(),
        CopySource::Table { name, columns } => table_query(name, columns),
    };
    let plan = env.plan(&query).await?;
    let mut stream = env.answer(env.physical(&plan).await?, column_names(&query))?;
    let output = create(output)?;
    let schema = Arc::clone(stream.schema());
    let mut writer: Box<dyn RowWriter> = match format(copy)? {
        CopyFormat::Csv => Box::new(csv::CsvWriter::new(output, &schema, &copy.options)?),
        CopyFormat::Ndjson => Box::new(ndjson::NdjsonWriter::new(output)),
        CopyFormat::Parquet => Box::new(parquet::ParquetWriter::new(output, &schema)?),
    };
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| env.error(error))?;
        writer.write(&batch)?;
        rows += batch.num_rows() as u64;
        progress(CopyProgress {
            rows,
            bytes: 0,
            bytes_total: None,
        });
    }
    writer.finish()?;
    Ok(rows)
}

/// Writes batches in one format.
trait RowWriter: Send {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EngineError>;
    fn finish(self: Box<Self>) -> Result<(), EngineError>;
}

/// `SELECT columns FROM name`.
fn table_query(name: &candor_parser::QualifiedName, columns: &[String]) -> ast::Statement {
    let parts = [
        name.namespace.as_deref(),
        name.database.as_deref(),
        Some(name.name.as_str()),
    ];
    let parts = parts
        .into_iter()
        .flatten()
        .map(|part| ast::ObjectNamePart::Identifier(quoted(part)))
        .collect();
    let projection = match columns {
        [] => vec![ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())],
        columns => columns
            .iter()
            .map(|column| ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(quoted(column))))
            .collect(),
    };
    crate::write::select_from(ast::ObjectName(parts), projection)
}

/// The format that is named, or that the file's ending says.
fn format(copy: &Copy) -> Result<CopyFormat, EngineError> {
    if let Some(format) = copy.options.format {
        return Ok(format);
    }
    let CopyTarget::Path(path) = &copy.target else {
        return Ok(CopyFormat::Csv);
    };
    let ending = Path::new(path)
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "csv" | "tsv" | "tbl" | "txt" | "" => Ok(CopyFormat::Csv),
        "ndjson" | "jsonl" | "json" => Ok(CopyFormat::Ndjson),
        "parquet" => Ok(CopyFormat::Parquet),
        other => Err(EngineError::unsupported_try(
            format!("a file ending in .{other}"),
            "say which format it has: (FORMAT csv), (FORMAT ndjson) or (FORMAT parquet)",
        )),
    }
}

type Input = (Box<dyn BufRead + Send>, Option<u64>);

fn open(input: CopyInput) -> Result<Input, EngineError> {
    match input {
        CopyInput::Reader(reader) => Ok((Box::new(BufReader::new(reader)), None)),
        CopyInput::Path(path) => {
            let refuse = |source| file_error("read", &path, source);
            let file = File::open(&path).map_err(refuse)?;
            let length = file.metadata().map_err(refuse)?.len();
            Ok((Box::new(BufReader::with_capacity(1 << 20, file)), Some(length)))
        }
    }
}

fn create(output: CopyOutput) -> Result<Box<dyn Write + Send>, EngineError> {
    match output {
        CopyOutput::Writer(writer) => Ok(Box::new(BufWriter::new(writer))),
        CopyOutput::Path(path) => {
            let file = File::create(&path).map_err(|source| file_error("write", &path, source))?;
            Ok(Box::new(BufWriter::new(file)))
        }
    }
}

fn file_error(action: &'static str, path: &Path, source: std::io::Error) -> EngineError {
    EngineError::File {
        action,
        path: path.display().to_string(),
        source: source.into(),
    }
}

fn read_error(source: std::io::Error) -> EngineError {
    file_error("read", Path::new("the input"), source)
}

fn write_error(source: std::io::Error) -> EngineError {
    file_error("write", Path::new("the output"), source)
}

/// A value that does not fit.
fn misfit(message: String, row: u64, column: &str) -> EngineError {
    EngineError::BadValue {
        message,
        row: Some(row),
        column: Some(column.to_owned()),
    }
}
