//! Output modes: how the rows of one answer are written.
//!
//! `table`, `box` and `markdown` are for people and shorten long answers; `csv`, `tsv`, `json` and `ndjson` are for
//! programs, write every row and nothing else. In all of them a value is written as the node sent it: integers that
//! JSON numbers cannot hold and NUMERIC arrive as text and lose no digit here.

use std::io::{self, Write};
use std::str::FromStr;

use candor_client::Column;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Row, Table};
use comfy_table::{ContentLineStyle, LineStyle, TableStyle, presets};
use serde_json::Value;

/// The frame of `table`.
const ASCII: TableStyle = frame(
    LineStyle::new('+', '-', '+', '+'),
    '|',
    [LineStyle::new('+', '-', '+', '+'); 2],
);

/// The frame of `box`.
const LINES: TableStyle = frame(
    LineStyle::new('┌', '─', '┬', '┐'),
    '│',
    [LineStyle::new('├', '─', '┼', '┤'), LineStyle::new('└', '─', '┴', '┘')],
);

const fn frame(top: LineStyle, bar: char, [middle, bottom]: [LineStyle; 2]) -> TableStyle {
    TableStyle::new()
        .top_border(top)
        .header_lines(ContentLineStyle::new(bar, bar, bar))
        .header_separator(middle)
        .content_lines(ContentLineStyle::new(bar, bar, bar))
        .bottom_border(bottom)
}

/// One output mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// ASCII frame.
    Table,
    /// Frame of line characters.
    Box,
    /// RFC 4180 with a header line; NULL is empty, an empty text is `""`.
    Csv,
    /// Tab separated with a header line; NULL is `\N`, and tab, line break and backslash are escaped.
    Tsv,
    /// One array of objects for each statement.
    Json,
    /// One object a line.
    Ndjson,
    /// A Markdown table.
    Markdown,
}

impl Format {
    /// Every mode by name.
    pub(crate) const NAMES: [(&'static str, Self); 7] = [
        ("table", Self::Table),
        ("box", Self::Box),
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("json", Self::Json),
        ("ndjson", Self::Ndjson),
        ("markdown", Self::Markdown),
    ];

    /// The name that `--format`, `\set format` and `.mode` take.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, format)| *format == self)
            .map_or("box", |(name, _)| name)
    }

    /// Whether people read it, so that rows may be left out and a footer may follow.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Box | Self::Markdown)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, format)| *format)
            .ok_or_else(|| {
                let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                format!("`{text}` is not an output mode; there are {}", names.join(", "))
            })
    }
}

/// How to write an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) format: Format,
    /// One line for each value instead of one for each row.
    pub(crate) expanded: bool,
    /// The most rows that a mode for people shows.
    pub(crate) rows_max: Option<usize>,
    /// The terminal's width; `None` never breaks a line.
    pub(crate) width: Option<u16>,
    /// Whether escape codes may be written.
    pub(crate) color: bool,
}

/// Writes `rows` and returns how many of them.
pub(crate) fn write_rows(
    out: &mut dyn Write,
    columns: &[Column],
    rows: &[Vec<Value>],
    layout: Layout,
) -> io::Result<usize> {
    if columns.is_empty() {
        return Ok(rows.len());
    }
    match layout.format {
        Format::Csv => write_csv(out, columns, rows)?,
        Format::Tsv => write_tsv(out, columns, rows)?,
        Format::Json => write_json(out, columns, rows)?,
        Format::Ndjson => write_ndjson(out, columns, rows)?,
        Format::Table | Format::Box | Format::Markdown => return write_for_people(out, columns, rows, layout),
    }
    Ok(rows.len())
}

/// The first and the last rows when there are more than `max`: the middle is what nobody reads.
fn ends(count: usize, max: Option<usize>) -> (usize, usize) {
    match max {
        Some(max) if count > max => (max - max / 2, max / 2),
        _ => (count, 0),
    }
}

fn write_for_people(out: &mut dyn Write, columns: &[Column], rows: &[Vec<Value>], layout: Layout) -> io::Result<usize> {
    let (head, tail) = ends(rows.len(), layout.rows_max);
    let left_out = rows.len() - head - tail;
    if layout.expanded {
        let numbered = rows.iter().enumerate();
        for (index, row) in numbered.filter(|(index, _)| *index < head || *index >= rows.len() - tail) {
            if index == rows.len() - tail && left_out > 0 {
                writeln!(out, "…")?;
            }
            write_record(out, index + 1, columns, row)?;
        }
        return Ok(head + tail);
    }
    let mut table = Table::new();
    table.load_style(match layout.format {
        Format::Table => ASCII,
        Format::Markdown => presets::ASCII_MARKDOWN,
        _ => LINES,
    });
    match layout.width {
        Some(width) if layout.format != Format::Markdown => {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
        }
        _ => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if layout.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(columns.iter().map(|column| {
        let cell = Cell::new(printable(&column.name));
        if layout.color {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }));
    let cells = |row: &Vec<Value>| Row::from(row.iter().map(|value| cell(value, layout)).collect::<Vec<_>>());
    table.add_rows(rows[..head].iter().map(cells));
    if left_out > 0 {
        table.add_row(columns.iter().map(|_| Cell::new("…")));
    }
    table.add_rows(rows[rows.len() - tail..].iter().map(cells));
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(head + tail)
}

fn cell(value: &Value, layout: Layout) -> Cell {
    let text = match text_of(value) {
        Some(text) if layout.format == Format::Markdown => printable(&text).replace('|', "\\|").replace('\n', "<br>"),
        Some(text) => printable(&text),
        None => "NULL".to_owned(),
    };
    let cell = Cell::new(text);
    match value {
        Value::Null if layout.color => cell.add_attribute(Attribute::Dim),
        Value::Number(_) => cell.set_alignment(CellAlignment::Right),
        Value::String(text) if is_figure(text) => cell.set_alignment(CellAlignment::Right),
        _ => cell,
    }
}

/// Whether a text is a number that JSON could not hold: NUMERIC and large integers arrive so.
fn is_figure(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn write_record(out: &mut dyn Write, number: usize, columns: &[Column], row: &[Value]) -> io::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| printable(&column.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    writeln!(out, "-[ row {number} ]-")?;
    for (name, value) in names.iter().zip(row) {
        let text = text_of(value).map_or_else(|| "NULL".to_owned(), |text| printable(&text));
        // Later lines of a value stand under its first.
        let text = text.replace('\n', &format!("\n{:width$} | ", ""));
        writeln!(out, "{name:width$} | {text}")?;
    }
    Ok(())
}

/// A value as text, `None` for NULL.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Control characters except line breaks are escaped: data must not steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut all, c| {
        if c.is_control() && c != '\n' {
            all.extend(c.escape_default());
        } else {
            all.push(c);
        }
        all
    })
}

fn write_csv(out: &mut dyn Write, columns: &[Column], rows: &[Vec<Value>]) -> io::Result<()> {
    let header = columns.iter().map(|column| csv_field(&column.name));
    writeln!(out, "{}", header.collect::<Vec<_>>().join(","))?;
    for row in rows {
        let fields = row
            .iter()
            .map(|value| text_of(value).map_or_else(String::new, |text| csv_field(&text)));
        writeln!(out, "{}", fields.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

fn csv_field(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn write_tsv(out: &mut dyn Write, columns: &[Column], rows: &[Vec<Value>]) -> io::Result<()> {
    let header = columns.iter().map(|column| tsv_field(&column.name));
    writeln!(out, "{}", header.collect::<Vec<_>>().join("\t"))?;
    for row in rows {
        let fields = row
            .iter()
            .map(|value| text_of(value).map_or_else(|| "\\N".to_owned(), |text| tsv_field(&text)));
        writeln!(out, "{}", fields.collect::<Vec<_>>().join("\t"))?;
    }
    Ok(())
}

fn tsv_field(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\t', "\\t")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn object(columns: &[Column], row: &[Value]) -> Value {
    let mut object = serde_json::Map::with_capacity(columns.len());
    for (column, value) in columns.iter().zip(row) {
        // Two columns of one name would otherwise be one member, and a value would be lost.
        let mut name = column.name.clone();
        let mut count = 1;
        while object.contains_key(&name) {
            count += 1;
            name = format!("{}_{count}", column.name);
        }
        object.insert(name, value.clone());
    }
    Value::Object(object)
}

fn write_json(out: &mut dyn Write, columns: &[Column], rows: &[Vec<Value>]) -> io::Result<()> {
    let all: Vec<Value> = rows.iter().map(|row| object(columns, row)).collect();
    writeln!(out, "{}", Value::Array(all))
}

fn write_ndjson(out: &mut dyn Write, columns: &[Column], rows: &[Vec<Value>]) -> io::Result<()> {
    rows.iter()
        .try_for_each(|row| writeln!(out, "{}", object(columns, row)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns(names: &[&str]) -> Vec<Column> {
        names
            .iter()
            .map(|name| serde_json::from_value(json!({"name": name, "type": "text"})).expect("a column"))
            .collect()
    }

    fn layout(format: Format) -> Layout {
        Layout {
            format,
            expanded: false,
            rows_max: None,
            width: None,
            color: false,
        }
    }

    fn written(layout: Layout, names: &[&str], rows: &[Vec<Value>]) -> String {
        let mut out = Vec::new();
        write_rows(&mut out, &columns(names), rows, layout).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    fn sample() -> Vec<Vec<Value>> {
        vec![
            vec![json!(1), json!("a,\"b\"\tc\\")],
            vec![json!("9007199254740993"), Value::Null],
            vec![json!(-3), json!("")],
        ]
    }

    #[test]
    fn csv_tells_null_from_an_empty_text() {
        assert_eq!(
            written(layout(Format::Csv), &["id", "note"], &sample()),
            "id,note\n1,\"a,\"\"b\"\"\tc\\\"\n9007199254740993,\n-3,\"\"\n"
        );
    }

    #[test]
    fn tsv_is_one_line_a_row_whatever_the_text_holds() {
        assert_eq!(
            written(layout(Format::Tsv), &["id", "note"], &sample()),
            "id\tnote\n1\ta,\"b\"\\tc\\\\\n9007199254740993\t\\N\n-3\t\n"
        );
    }

    #[test]
    fn json_keeps_every_column_even_of_one_name() {
        assert_eq!(
            written(layout(Format::Json), &["id", "id"], &[vec![json!(1), json!(2)]]),
            "[{\"id\":1,\"id_2\":2}]\n"
        );
        assert_eq!(
            written(layout(Format::Ndjson), &["a"], &[vec![json!(1)], vec![Value::Null]]),
            "{\"a\":1}\n{\"a\":null}\n"
        );
    }

    #[test]
    fn figures_stand_right_and_null_is_said() {
        assert_eq!(
            written(
                layout(Format::Table),
                &["id", "note"],
                &[vec![json!(1), json!("x")], vec![json!("12.50"), Value::Null]]
            ),
            "\
+-------+------+
| id    | note |
+-------+------+
|     1 | x    |
| 12.50 | NULL |
+-------+------+
"
        );
    }

    #[test]
    fn markdown_escapes_what_would_break_the_table() {
        assert_eq!(
            written(layout(Format::Markdown), &["a"], &[vec![json!("x|y\nz")]]),
            "| a         |\n|-----------|\n| x\\|y<br>z |\n"
        );
    }

    #[test]
    fn a_long_answer_shows_its_ends() {
        let rows: Vec<_> = (1..=9).map(|n| vec![json!(n)]).collect();
        let short = Layout {
            rows_max: Some(4),
            ..layout(Format::Markdown)
        };
        assert_eq!(
            written(short, &["n"], &rows),
            "| n |\n|---|\n| 1 |\n| 2 |\n| … |\n| 8 |\n| 9 |\n"
        );
        let mut out = Vec::new();
        assert_eq!(
            write_rows(&mut out, &columns(&["n"]), &rows, short).expect("written"),
            4
        );
    }

    #[test]
    fn expanded_rows_put_one_value_on_a_line() {
        let expanded = Layout {
            expanded: true,
            ..layout(Format::Box)
        };
        assert_eq!(
            written(expanded, &["id", "note"], &[vec![json!(1), json!("two\nlines")]]),
            "-[ row 1 ]-\nid   | 1\nnote | two\n     | lines\n"
        );
    }

    #[test]
    fn data_cannot_steer_the_terminal() {
        let text = written(layout(Format::Box), &["a"], &[vec![json!("\u{1b}[2J")]]);
        assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J"), "{text}");
    }
}
