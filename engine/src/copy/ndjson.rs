//! NDJSON: one JSON object per line. A field that is missing is NULL. Numbers keep their digits.

use std::borrow::Cow;
use std::io::{BufRead, Write};

use arrow::array::{ArrayRef, RecordBatch};
use candor_storage::ColumnType;
use serde::de::IgnoredAny;

use super::inflow::Inflow;
use super::{Arrival, BATCH_ROWS, RowWriter, misfit, read_error, write_error};
use crate::error::EngineError;
use crate::text::{TextColumn, TextWriter, holds_documents};
use crate::value::json;
use crate::write::{Grown, Incoming};

pub(super) fn read(
    arrival: &Arrival<'_>,
    mut input: impl BufRead,
    inflow: &mut Inflow<'_>,
) -> Result<Grown, EngineError> {
    let mut columns = Columns::new(arrival);
    let mut line = String::new();
    let mut bytes = 0;
    loop {
        line.clear();
        let read = input.read_line(&mut line).map_err(read_error)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if line.trim().is_empty() {
            continue;
        }
        columns.push(line.trim())?;
        if columns.rows.is_multiple_of(BATCH_ROWS as u64) {
            arrival.tell(columns.rows, bytes);
        }
    }
    let rows = columns.rows;
    let (incoming, arrays) = columns.finish();
    let (grown, mut completer) = arrival.receive(&incoming)?;
    inflow.take(&grown, &mut completer, &arrays, rows as usize)?;
    drop(completer);
    arrival.tell(rows, bytes);
    Ok(grown)
}

/// The columns seen so far; each gets its type from the definition, or from its first value.
struct Columns<'a> {
    arrival: &'a Arrival<'a>,
    seen: Vec<Column>,
    rows: u64,
}

struct Column {
    name: String,
    /// `None` until a value has been seen.
    values: Option<(ColumnType, TextColumn)>,
    filled: u64,
}

impl<'a> Columns<'a> {
    fn new(arrival: &'a Arrival<'a>) -> Self {
        Self {
            arrival,
            seen: Vec::new(),
            rows: 0,
        }
    }

    fn push(&mut self, line: &str) -> Result<(), EngineError> {
        self.rows += 1;
        let row = self.rows;
        let fields = object(line).map_err(|message| EngineError::BadValue {
            message,
            row: Some(row),
            column: None,
        })?;
        for (name, value) in fields {
            self.push_field(name, &value)?;
        }
        for column in &mut self.seen {
            column.fill_to(row);
        }
        Ok(())
    }

    fn push_field(&mut self, name: String, value: &Value) -> Result<(), EngineError> {
        let row = self.rows;
        let def = &self.arrival.def;
        let known = def.column(&name).map(|ordinal| def.columns[ordinal].ty);
        let listed = self.arrival.columns.is_empty() || self.arrival.columns.contains(&name);
        if !listed || (known.is_none() && !def.open) {
            return Err(misfit(format!("`{}` has no such column", def.name), row, &name));
        }
        let known_at = self.seen.iter().position(|column| column.name == name);
        let at = known_at.unwrap_or(self.seen.len());
        if known_at.is_none() {
            self.seen.push(Column {
                name,
                values: None,
                filled: 0,
            });
        }
        let column = &mut self.seen[at];
        if column.filled == row {
            return Err(misfit("the field stands twice".to_owned(), row, &column.name));
        }
        column.fill_to(row - 1);
        // An open collection that has no rows takes the key's type from the first one.
        let settled = known.filter(|_| !(def.open && def.columns.len() == 1));
        column
            .push(value, settled)
            .map_err(|message| misfit(message, row, &column.name))
    }

    fn finish(self) -> (Vec<Incoming>, Vec<ArrayRef>) {
        let mut incoming = Vec::new();
        let mut arrays = Vec::new();
        for column in self.seen {
            if let Some((ty, values)) = column.values {
                incoming.push(Incoming {
                    name: column.name,
                    ty: Some(ty),
                });
                arrays.push(values.finish());
            }
        }
        (incoming, arrays)
    }
}

impl Column {
    /// NULL for the rows up to `row` that had no value.
    fn fill_to(&mut self, row: u64) {
        if let Some((_, values)) = &mut self.values {
            for _ in self.filled..row {
                values.push_null();
            }
        }
        self.filled = self.filled.max(row);
    }

    fn push(&mut self, value: &Value, settled: Option<ColumnType>) -> Result<(), String> {
        let Some(first) = value.first_type() else {
            return Ok(());
        };
        if self.values.is_none() {
            let ty = settled.unwrap_or(first);
            let mut values = TextColumn::new(ty);
            (0..self.filled).for_each(|_| values.push_null());
            self.values = Some((ty, values));
        }
        if let Some((ty, values)) = &mut self.values {
            value.push_to(values, *ty)?;
            self.filled += 1;
        }
        Ok(())
    }
}

/// A JSON value with the digits of its numbers.
enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    /// An object or array, as it was written.
    Nested(String),
}

impl Value {
    fn first_type(&self) -> Option<ColumnType> {
        match self {
            Self::Null => None,
            Self::Bool(_) => Some(ColumnType::Bool),
            Self::Number(text) if text.parse::<i64>().is_ok() => Some(ColumnType::Int64),
            Self::Number(_) => Some(ColumnType::Float64),
            Self::Text(_) | Self::Nested(_) => Some(ColumnType::Text),
        }
    }

    fn push_to(&self, values: &mut TextColumn, ty: ColumnType) -> Result<(), String> {
        if !matches!(ty, ColumnType::Json | ColumnType::Jsonb | ColumnType::Array { .. }) {
            return values.push(self.as_text(ty)?);
        }
        let document = match self {
            Self::Null => Cow::Borrowed("null"),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Number(text) | Self::Nested(text) => Cow::Borrowed(text.as_str()),
            Self::Text(text) => Cow::Owned(json_text(text)),
        };
        values.push_json(&json::parse(&document)?, &document)
    }

    fn as_text(&self, ty: ColumnType) -> Result<&str, String> {
        let is_text = matches!(ty, ColumnType::Text | ColumnType::Varchar(_));
        match self {
            Self::Bool(value) if is_text || ty == ColumnType::Bool => Ok(if *value { "true" } else { "false" }),
            Self::Number(_) if ty == ColumnType::Bool => Err("a number is not a BOOLEAN".to_owned()),
            Self::Number(text) | Self::Text(text) => Ok(text),
            Self::Nested(text) if is_text => Ok(text),
            Self::Null => Ok(""),
            Self::Bool(_) => Err(format!("a BOOLEAN is not a value of type {ty}")),
            Self::Nested(_) => Err(format!("an object or array is not a value of type {ty}")),
        }
    }
}

/// The fields of one object.
fn object(line: &str) -> Result<Vec<(String, Value)>, String> {
    let mut rest = line
        .strip_prefix('{')
        .ok_or("the line is not a JSON object")?
        .trim_start();
    let mut fields = Vec::new();
    if let Some(after) = rest.strip_prefix('}') {
        return at_end(after, fields);
    }
    loop {
        let (key, after) = value(rest)?;
        let Value::Text(key) = key else {
            return Err("a field's name is not in quotes".to_owned());
        };
        let after = after
            .trim_start()
            .strip_prefix(':')
            .ok_or_else(|| format!("`:` is missing after \"{key}\""))?;
        let (field, after) = value(after)?;
        fields.push((key, field));
        let after = after.trim_start();
        if let Some(after) = after.strip_prefix('}') {
            return at_end(after, fields);
        }
        rest = after.strip_prefix(',').ok_or("`,` or `}` is missing")?.trim_start();
    }
}

fn at_end(rest: &str, fields: Vec<(String, Value)>) -> Result<Vec<(String, Value)>, String> {
    match rest.trim() {
        "" => Ok(fields),
        _ => Err("more text follows the object".to_owned()),
    }
}

/// One value and what follows it.
fn value(text: &str) -> Result<(Value, &str), String> {
    let text = text.trim_start();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => {}
        Some(Err(error)) => return Err(format!("the line is not JSON: {error}")),
        None => return Err("a value is missing".to_owned()),
    }
    let (raw, rest) = text.split_at(values.byte_offset());
    let value = match raw.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'"') => Value::Text(serde_json::from_str(raw).map_err(|error| format!("the line is not JSON: {error}"))?),
        Some(b'{' | b'[') => Value::Nested(raw.to_owned()),
        _ => Value::Number(raw.trim_end().to_owned()),
    };
    Ok((value, rest))
}

/// Writes NDJSON.
pub(super) struct NdjsonWriter {
    output: Box<dyn Write + Send>,
    line: String,
}

impl NdjsonWriter {
    pub(super) fn new(output: Box<dyn Write + Send>) -> Self {
        Self {
            output,
            line: String::new(),
        }
    }
}

impl RowWriter for NdjsonWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        let schema = batch.schema();
        let columns: Vec<(String, bool, TextWriter<'_>)> = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| {
                let writer = TextWriter::new(column.as_ref())?;
                Ok((json_text(field.name()), holds_documents(field), writer))
            })
            .collect::<Result<_, EngineError>>()?;
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (at, (name, is_document, column)) in columns.iter().enumerate() {
                self.line.push(if at == 0 { '{' } else { ',' });
                self.line.push_str(name);
                self.line.push(':');
                column.write_json(row, *is_document, &mut self.line);
            }
            self.line.push_str(if columns.is_empty() { "{}\n" } else { "}\n" });
            self.output.write_all(self.line.as_bytes()).map_err(write_error)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), EngineError> {
        self.output.flush().map_err(write_error)
    }
}

fn json_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    json::write_text(text, &mut quoted);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_nested_values_their_text() {
        let fields =
            object(r#"{"a": 12345678901234567890.10, "b\n": "x\u0041", "c": [1, {"d": 2}], "e": null, "f": true}"#)
                .expect("an object");
        let shown: Vec<(String, String)> = fields
            .into_iter()
            .map(|(name, value)| {
                let text = match value {
                    Value::Null => "null".to_owned(),
                    Value::Bool(value) => value.to_string(),
                    Value::Number(text) | Value::Text(text) | Value::Nested(text) => text,
                };
                (name, text)
            })
            .collect();
        let expected = [
            ("a", "12345678901234567890.10"),
            ("b\n", "xA"),
            ("c", r#"[1, {"d": 2}]"#),
            ("e", "null"),
            ("f", "true"),
        ];
        assert_eq!(shown, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for line in [
            "",
            "[1]",
            "{",
            r#"{"a" 1}"#,
            r#"{"a": 1,}"#,
            r#"{"a": 01}"#,
            r#"{"a": 1} x"#,
            "{a: 1}",
        ] {
            assert!(object(line).is_err(), "{line}");
        }
        assert!(object("{}").is_ok_and(|fields| fields.is_empty()));
    }
}
