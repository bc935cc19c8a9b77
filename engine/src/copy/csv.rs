//! CSV.

use std::io::{BufRead, Write};
use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use candor_parser::CopyOptions;
use candor_storage::ColumnType;

use super::chunks::in_chunks;
use super::inflow::Inflow;
use super::records::{PlainRecords, RecordSource, count_without_last};
use super::{Arrival, BATCH_ROWS, RowWriter, misfit, read_error, write_error};
use crate::error::EngineError;
use crate::text::{TextColumn, TextWriter};
use crate::write::{Grown, Incoming};

const QUOTE: u8 = b'"';

/// One record may span lines, but not more than this.
const RECORD_BYTES_MAX: usize = 64 << 20;

pub(super) fn read(
    arrival: &Arrival<'_>,
    mut input: impl BufRead,
    inflow: &mut Inflow<'_>,
) -> Result<Grown, EngineError> {
    let delimiter = delimiter(arrival.options)?;
    let null = arrival.options.null.as_deref().unwrap_or("");
    skip_mark(&mut input)?;
    let mut head = Records::new(&mut input, delimiter);
    let names = column_names(arrival, &mut head)?;
    let mut bytes = head.bytes;
    let incoming: Vec<Incoming> = names.iter().map(|name| incoming(arrival, name)).collect();
    let (grown, mut completer) = arrival.receive(&incoming)?;
    let types: Vec<ColumnType> = names
        .iter()
        .map(|name| match grown.def.column(name) {
            Some(ordinal) => Ok(grown.def.columns[ordinal].ty),
            None => Err(EngineError::internal(format!("column `{name}` was not made"))),
        })
        .collect::<Result<_, _>>()?;
    let reader = ChunkReader {
        names: &names,
        types: &types,
        delimiter,
        null,
    };
    let mut row = 0;
    let take = |chunk: Chunk, size: u64| {
        for (columns, rows) in &chunk.batches {
            inflow.take(&grown, &mut completer, columns, *rows)?;
        }
        if let Some(error) = chunk.error {
            return Err(error.in_rows_from(row));
        }
        row += chunk.batches.iter().map(|(_, rows)| *rows as u64).sum::<u64>();
        bytes += size;
        arrival.tell(row, bytes);
        Ok(())
    };
    in_chunks(
        input,
        RECORD_BYTES_MAX,
        arrival.threads,
        whole_records,
        |text| reader.read(text),
        take,
    )?;
    drop(completer);
    Ok(grown)
}

/// A byte order mark is no part of the first name.
fn skip_mark(input: &mut impl BufRead) -> Result<(), EngineError> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    if input.fill_buf().map_err(read_error)?.starts_with(MARK) {
        input.consume(MARK.len());
    }
    Ok(())
}

/// How many bytes at the start of a text are whole records: up to the last line that does not end inside quotes.
fn whole_records(text: &[u8]) -> usize {
    let behind = |at: usize| at + 1;
    if !text.contains(&QUOTE) {
        return text.iter().rposition(|byte| *byte == b'\n').map_or(0, behind);
    }
    let (mut quoted, mut end) = (false, 0);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            &QUOTE => quoted = !quoted,
            b'\n' if !quoted => end = behind(at),
            _ => {}
        }
    }
    end
}

/// Reads the records of chunks.
struct ChunkReader<'a> {
    names: &'a [String],
    types: &'a [ColumnType],
    delimiter: u8,
    null: &'a str,
}

/// The rows of a chunk, and what ended it early; rows are counted from its start.
#[derive(Default)]
struct Chunk {
    batches: Vec<(Vec<ArrayRef>, usize)>,
    error: Option<EngineError>,
}

impl ChunkReader<'_> {
    fn read(&self, text: &[u8]) -> Chunk {
        let mut chunk = Chunk::default();
        chunk.error = self.read_into(text, &mut chunk.batches).err();
        chunk
    }

    fn read_into(&self, text: &[u8], batches: &mut Vec<(Vec<ArrayRef>, usize)>) -> Result<(), EngineError> {
        // Without quotes, lines are records and what stands between delimiters are fields, where they stand.
        match std::str::from_utf8(text) {
            Ok(text) if !text.as_bytes().contains(&QUOTE) => {
                self.read_records(&mut PlainRecords::new(text, self.delimiter), batches)
            }
            _ => self.read_records(&mut Records::new(text, self.delimiter), batches),
        }
    }

    fn read_records(
        &self,
        records: &mut impl RecordSource,
        batches: &mut Vec<(Vec<ArrayRef>, usize)>,
    ) -> Result<(), EngineError> {
        let mut row = 0;
        loop {
            let mut columns: Vec<TextColumn> = self.types.iter().map(|ty| TextColumn::new(*ty)).collect();
            let first = row;
            while row - first < BATCH_ROWS as u64 && records.next(row + 1)? {
                row += 1;
                push_record(records, self.names, &mut columns, self.null, row)?;
            }
            let rows = (row - first) as usize;
            if rows > 0 {
                batches.push((columns.into_iter().map(TextColumn::finish).collect(), rows));
            }
            if rows < BATCH_ROWS {
                return Ok(());
            }
        }
    }
}

fn delimiter(options: &CopyOptions) -> Result<u8, EngineError> {
    match options.delimiter {
        None => Ok(b','),
        Some(delimiter) if delimiter.is_ascii() && !matches!(delimiter, '"' | '\n' | '\r') => Ok(delimiter as u8),
        Some(delimiter) => Err(EngineError::plan(format!("`{delimiter}` cannot stand between fields"))),
    }
}

/// Text has no types, so a column that an open collection does not have yet becomes TEXT.
fn incoming(arrival: &Arrival<'_>, name: &str) -> Incoming {
    let known = arrival.def.column(name).map(|ordinal| arrival.def.columns[ordinal].ty);
    Incoming {
        name: name.to_owned(),
        ty: Some(known.unwrap_or(ColumnType::Text)),
    }
}

/// The columns that the fields go to: those of the statement, or of the header, or of the definition.
fn column_names(arrival: &Arrival<'_>, records: &mut Records<impl BufRead>) -> Result<Vec<String>, EngineError> {
    let has_header = arrival.options.header == Some(true);
    let header: Option<Vec<String>> = if has_header && records.next(0)? {
        Some(records.fields().map(|(text, _)| text.trim().to_owned()).collect())
    } else {
        None
    };
    let names = match (arrival.columns, header) {
        (columns @ [_, ..], _) => columns.to_vec(),
        ([], Some(header)) => header.into_iter().map(|name| known_name(arrival, name)).collect(),
        ([], None) if arrival.def.open => {
            return Err(EngineError::plan(
                "an open collection needs the names of the columns: a HEADER or a column list",
            ));
        }
        ([], None) => arrival.def.columns.iter().map(|column| column.name.clone()).collect(),
    };
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(EngineError::plan(format!("column `{name}` stands twice")));
        }
    }
    Ok(names)
}

/// A header may spell a column in capitals.
fn known_name(arrival: &Arrival<'_>, name: String) -> String {
    match arrival.def.column(&name) {
        Some(_) => name,
        None => name.to_lowercase(),
    }
}

fn push_record(
    records: &impl RecordSource,
    names: &[String],
    columns: &mut [TextColumn],
    null: &str,
    row: u64,
) -> Result<(), EngineError> {
    let count = records.field_count(names.len());
    if count != names.len() {
        return Err(EngineError::BadValue {
            message: format!("{count} fields for {} columns", names.len()),
            row: Some(row),
            column: None,
        });
    }
    for ((column, name), (text, is_quoted)) in columns.iter_mut().zip(names).zip(records.fields()) {
        if !is_quoted && text == null {
            column.push_null();
            continue;
        }
        column.push(text).map_err(|message| misfit(message, row, name))?;
    }
    Ok(())
}

/// Cuts the input into records and fields.
struct Records<R> {
    input: R,
    delimiter: u8,
    /// The record at hand, quotes undone.
    text: String,
    /// Where its fields stand in `text`, and whether they were quoted.
    fields: Vec<(Range<usize>, bool)>,
    /// The record as it stands in the input.
    raw: Vec<u8>,
    bytes: u64,
}

impl<R: BufRead> Records<R> {
    fn new(input: R, delimiter: u8) -> Self {
        Self {
            input,
            delimiter,
            text: String::new(),
            fields: Vec::new(),
            raw: Vec::new(),
            bytes: 0,
        }
    }

    fn read_line(&mut self) -> Result<bool, EngineError> {
        let read = self.input.read_until(b'\n', &mut self.raw).map_err(read_error)?;
        self.bytes += read as u64;
        Ok(read > 0)
    }

    fn inside_quotes(&self) -> bool {
        self.raw.contains(&QUOTE) && self.raw.split(|byte| *byte == QUOTE).count().is_multiple_of(2)
    }

    fn cut(&mut self, row: u64) -> Result<(), EngineError> {
        let Self {
            text,
            fields,
            raw,
            delimiter: delimiter_byte,
            ..
        } = self;
        text.clear();
        fields.clear();
        let raw = std::str::from_utf8(raw).map_err(|_| bad_record("the text is not UTF-8", row))?;
        let delimiter = char::from(*delimiter_byte);
        if !raw.as_bytes().contains(&QUOTE) {
            text.push_str(raw);
            let mut start = 0;
            for (at, _) in raw.bytes().enumerate().filter(|(_, byte)| *byte == *delimiter_byte) {
                fields.push((start..at, false));
                start = at + 1;
            }
            fields.push((start..raw.len(), false));
            return Ok(());
        }
        let mut rest = Some(raw);
        while let Some(field) = rest {
            rest = match field.strip_prefix('"') {
                None => {
                    let (plain, next) = match field.split_once(delimiter) {
                        Some((plain, next)) => (plain, Some(next)),
                        None => (field, None),
                    };
                    let start = text.len();
                    text.push_str(plain);
                    fields.push((start..text.len(), false));
                    next
                }
                Some(quoted) => {
                    let start = text.len();
                    let next =
                        unquote(quoted, text).ok_or_else(|| bad_record("a quote is opened and never closed", row))?;
                    fields.push((start..text.len(), true));
                    match next {
                        "" => None,
                        next => match next.strip_prefix(delimiter) {
                            Some(next) => Some(next),
                            None => return Err(bad_record("a closing quote is followed by more text", row)),
                        },
                    }
                }
            };
        }
        Ok(())
    }
}

impl<R: BufRead> RecordSource for Records<R> {
    fn next(&mut self, row: u64) -> Result<bool, EngineError> {
        loop {
            self.raw.clear();
            if !self.read_line()? {
                return Ok(false);
            }
            // A line inside quotes belongs to the record.
            while self.inside_quotes() {
                if self.raw.len() > RECORD_BYTES_MAX || !self.read_line()? {
                    return Err(bad_record("a quote is opened and never closed", row));
                }
            }
            let end = self.raw.trim_ascii_end_newline();
            self.raw.truncate(end);
            if !self.raw.is_empty() {
                return self.cut(row).map(|()| true);
            }
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&str, bool)> {
        let fields = self.fields.iter();
        fields.map(|(place, is_quoted)| (&self.text[place.clone()], *is_quoted))
    }

    fn field_count(&self, expected: usize) -> usize {
        let last = self.fields.last();
        let last_is_empty = last.is_some_and(|(place, is_quoted)| place.is_empty() && !is_quoted);
        count_without_last(self.fields.len(), last_is_empty, expected)
    }
}

/// Copies a quoted field, whose opening quote is gone, and returns what follows it.
fn unquote<'a>(mut quoted: &'a str, text: &mut String) -> Option<&'a str> {
    loop {
        let (inside, rest) = quoted.split_once('"')?;
        text.push_str(inside);
        match rest.strip_prefix('"') {
            Some(rest) => {
                text.push('"');
                quoted = rest;
            }
            None => return Some(rest),
        }
    }
}

trait LineEnd {
    fn trim_ascii_end_newline(&self) -> usize;
}

impl LineEnd for Vec<u8> {
    /// The length without the line's end.
    fn trim_ascii_end_newline(&self) -> usize {
        let without_lf = self.strip_suffix(b"\n").unwrap_or(self);
        without_lf.strip_suffix(b"\r").unwrap_or(without_lf).len()
    }
}

fn bad_record(message: &str, row: u64) -> EngineError {
    EngineError::BadValue {
        message: message.to_owned(),
        row: Some(row),
        column: None,
    }
}

/// Writes CSV.
pub(super) struct CsvWriter {
    output: Box<dyn Write + Send>,
    delimiter: u8,
    null: String,
    line: String,
}

impl CsvWriter {
    pub(super) fn new(
        output: Box<dyn Write + Send>,
        schema: &SchemaRef,
        options: &CopyOptions,
    ) -> Result<Self, EngineError> {
        let mut writer = Self {
            output,
            delimiter: delimiter(options)?,
            null: options.null.clone().unwrap_or_default(),
            line: String::new(),
        };
        if options.header == Some(true) {
            writer.write_line(schema.fields().iter().map(|field| Some(field.name().clone())))?;
        }
        Ok(writer)
    }

    fn write_line(&mut self, fields: impl Iterator<Item = Option<String>>) -> Result<(), EngineError> {
        self.line.clear();
        for (at, field) in fields.enumerate() {
            if at > 0 {
                self.line.push(char::from(self.delimiter));
            }
            match field {
                None => self.line.push_str(&self.null),
                Some(text) => self.push_field(&text),
            }
        }
        self.line.push('\n');
        self.output.write_all(self.line.as_bytes()).map_err(write_error)
    }

    /// Quotes what would be read as something else.
    fn push_field(&mut self, text: &str) {
        let special = |byte: u8| byte == self.delimiter || matches!(byte, QUOTE | b'\n' | b'\r');
        if text != self.null && !text.is_empty() && !text.bytes().any(special) {
            self.line.push_str(text);
            return;
        }
        self.line.push('"');
        self.line.push_str(&text.replace('"', "\"\""));
        self.line.push('"');
    }
}

impl RowWriter for CsvWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        let columns: Vec<TextWriter<'_>> = batch
            .columns()
            .iter()
            .map(|column| TextWriter::new(column.as_ref()))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            self.write_line(columns.iter().map(|column| column.value(row)))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), EngineError> {
        self.output.flush().map_err(write_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str, delimiter: u8) -> Result<Vec<Vec<(String, bool)>>, EngineError> {
        let mut records = Records::new(text.as_bytes(), delimiter);
        let mut all = Vec::new();
        while records.next(all.len() as u64 + 1)? {
            all.push(
                records
                    .fields()
                    .map(|(text, quoted)| (text.to_owned(), quoted))
                    .collect(),
            );
        }
        Ok(all)
    }

    #[test]
    fn records_without_quotes_are_the_same_either_way() {
        for text in [
            "",
            "\n\r\n",
            "a,b\n",
            "a,,b,\r\n\n,\n",
            "last",
            "last\r",
            "\r\r\n",
            "é,ü\nx",
            ",\r\n\r",
        ] {
            let mut plain = PlainRecords::new(text, b',');
            let mut all: Vec<Vec<(String, bool)>> = Vec::new();
            while plain.next(0).expect("no quotes") {
                all.push(plain.fields().map(|(text, quoted)| (text.to_owned(), quoted)).collect());
            }
            assert_eq!(records(text, b',').expect("reads"), all, "{text:?}");
        }
    }

    #[test]
    fn fields_are_cut_and_quotes_undone() {
        let plain = |text: &str| (text.to_owned(), false);
        let quoted = |text: &str| (text.to_owned(), true);
        assert_eq!(
            records("a,,\"\"\r\n\n\"x, \"\"y\"\"\",\"two\nlines\",z\n", b',').expect("reads"),
            vec![
                vec![plain("a"), plain(""), quoted("")],
                vec![quoted("x, \"y\""), quoted("two\nlines"), plain("z")],
            ]
        );
        assert_eq!(
            records("1|a|\n", b'|').expect("reads"),
            vec![vec![plain("1"), plain("a"), plain("")]]
        );
        let mut marked = "\u{feff}a".as_bytes();
        skip_mark(&mut marked).expect("reads");
        assert_eq!(marked, b"a");
    }

    #[test]
    fn broken_quotes_are_refused_by_row() {
        for text in ["a\n\"open", "a\n\"x\"y,z"] {
            let error = records(text, b',').expect_err(text);
            assert!(error.to_string().starts_with("row 2: "), "{error}");
        }
    }
}
