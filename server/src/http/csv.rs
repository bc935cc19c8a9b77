//! CSV: PostgreSQL's text of each value, in quotes where it would be read as something else. NULL is an empty field, an
//! empty text is `""`.

use arrow::array::RecordBatch;
use candor_engine::{EngineError, TextWriter};

/// Appends the rows of a batch.
///
/// # Errors
/// When a column has a type that has no text form.
pub(super) fn write_batch(batch: &RecordBatch, out: &mut String) -> Result<(), EngineError> {
    let columns = batch
        .columns()
        .iter()
        .map(|column| TextWriter::new(column.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        write_line(columns.iter().map(|column| column.value(row)), out);
    }
    Ok(())
}

/// Appends one line.
pub(super) fn write_line(fields: impl Iterator<Item = Option<String>>, out: &mut String) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(',');
        }
        if let Some(text) = field {
            write_field(&text, out);
        }
    }
    out.push('\n');
}

fn write_field(text: &str, out: &mut String) {
    if !text.is_empty() && !text.contains(['"', ',', '\n', '\r']) {
        out.push_str(text);
        return;
    }
    out.push('"');
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must() {
        let mut out = String::new();
        let fields = [None, Some(""), Some("a"), Some("a,\"b\"")];
        write_line(fields.into_iter().map(|field| field.map(str::to_owned)), &mut out);
        assert_eq!(out, ",\"\",a,\"a,\"\"b\"\"\"\n");
    }
}
