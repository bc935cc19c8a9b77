//! Reads scripts of the sqllogictest family, with what each origin added to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::lines::{Line, Lines, expand_loops};
use super::record::{Action, Query, QueryExpected, Record, Script, Sort, StatementExpected};

/// How an origin writes what the common format leaves open.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent habits, of which an origin has any"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flavour {
    /// A word after a directive names a connection, `foreach` and `loop` repeat, comment lines end a statement.
    pub(crate) duckdb: bool,
    /// An error's text after `----` ends at two blank lines instead of one.
    pub(crate) error_ends_at_two_blanks: bool,
    /// Comments before a `query error` hold the true answer.
    pub(crate) answers_in_comments: bool,
    /// One value on a line in every file.
    pub(crate) one_value_a_line: bool,
    /// Materialized views are views that are always current: they are sent as views.
    pub(crate) materialized_views: bool,
    /// Indexes that the origin cannot make are written as errors.
    pub(crate) create_index_succeeds: bool,
}

/// How deep files may include others: more is a circle.
const INCLUDE_DEPTH_MAX: usize = 8;

/// The marker before a value of the true answer.
const TRUE_ANSWER: &str = "# Datafusion - Expected - ";

/// Reads the script at `root`/`path` with all that it includes.
pub(crate) fn read_script(root: &Path, path: &str, labels: &[&str], flavour: Flavour) -> Result<Script> {
    let mut reader = Reader {
        root,
        labels,
        flavour,
        one_value_a_line: flavour.one_value_a_line,
        sort: None,
        connection: None,
        conditions: Vec::new(),
        records: Vec::new(),
        halted: false,
    };
    reader.file(&root.join(path), 0)?;
    Ok(Script {
        path: path.to_owned(),
        records: reader.records,
    })
}

struct Reader<'a> {
    root: &'a Path,
    labels: &'a [&'a str],
    flavour: Flavour,
    one_value_a_line: bool,
    /// `control sortmode`
    sort: Option<Sort>,
    /// `connection NAME`, for the next record.
    connection: Option<Arc<str>>,
    /// `skipif` and `onlyif` for the next record, those that do not hold.
    conditions: Vec<String>,
    records: Vec<Record>,
    halted: bool,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<()> {
        if depth > INCLUDE_DEPTH_MAX {
            bail!("{}: files include each other in a circle", path.display());
        }
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let short = path.strip_prefix(self.root).unwrap_or(path);
        let name: Arc<str> = Arc::from(short.to_string_lossy().replace('\\', "/"));
        let lines: Vec<Line> = text
            .lines()
            .zip(1..)
            .map(|(text, number)| Line {
                number,
                text: text.trim_end_matches('\r').to_owned(),
            })
            .collect();
        let lines = if self.flavour.duckdb {
            expand_loops(lines, &BTreeMap::new()).with_context(|| name.to_string())?
        } else {
            lines
        };
        let mut lines = Lines::new(lines);
        let mut answers = Vec::new();
        while let Some(line) = lines.next() {
            if self.halted {
                break;
            }
            let text = line.text.trim().to_owned();
            if text.is_empty() {
                answers.clear();
            } else if text.starts_with('#') {
                answers.extend(text.strip_prefix(TRUE_ANSWER).map(str::to_owned));
            } else if let Some(pattern) = text.strip_prefix("include ") {
                for included in included(path, pattern.trim())? {
                    if included.is_file() {
                        self.file(&included, depth + 1)?;
                    } else {
                        self.push(
                            &name,
                            line.number,
                            Action::Foreign("includes a file that this copy does not hold"),
                        );
                    }
                }
            } else {
                self.directive(&name, line.number, &text, &mut lines, &answers)
                    .with_context(|| format!("{name}:{}", line.number))?;
                answers.clear();
            }
        }
        Ok(())
    }

    fn directive(
        &mut self,
        file: &Arc<str>,
        line: u32,
        text: &str,
        lines: &mut Lines,
        answers: &[String],
    ) -> Result<()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["statement", expectation, rest @ ..] => {
                let action = self.statement(expectation, rest, lines)?;
                self.push(file, line, action);
            }
            ["query", "error", ..] => {
                let sql = self.sql(lines);
                self.skip_error_text(lines);
                let expected = if self.flavour.answers_in_comments && !answers.is_empty() {
                    lines_or_hash(answers.to_vec())
                } else {
                    QueryExpected::Error
                };
                let action = Action::Query(Query {
                    sql,
                    letters: String::new(),
                    // The comments do not say how the answer was sorted: rows are compared in any order.
                    sort: matches!(expected, QueryExpected::Lines(_)).then_some(Sort::Rows),
                    one_value_a_line: self.one_value_a_line,
                    expected,
                });
                self.push(file, line, action);
            }
            ["query", rest @ ..] => {
                let action = self.query(rest, lines);
                self.push(file, line, action);
            }
            ["skipif", label, ..] => {
                if self.labels.iter().any(|own| own.eq_ignore_ascii_case(label)) {
                    self.conditions.push(format!("skipif {label}"));
                }
            }
            ["onlyif", label, ..] => {
                if !self.labels.iter().any(|own| own.eq_ignore_ascii_case(label)) {
                    self.conditions.push(format!("onlyif {label}"));
                }
            }
            ["halt", ..] => {
                self.halted = self.conditions.is_empty();
                self.conditions.clear();
            }
            ["control", "resultmode", mode, ..] => self.one_value_a_line = *mode == "valuewise",
            ["control", "sortmode", mode, ..] => self.sort = sort_of(mode),
            ["connection", name, ..] => {
                self.connection = (*name != "default").then(|| Arc::from(*name));
            }
            ["sleep", span, ..] => {
                let span = span_of(span).with_context(|| format!("no span: {span}"))?;
                self.push(file, line, Action::Sleep(span));
            }
            ["system", ..] => {
                let _ = self.sql(lines);
                if lines.peek().is_some_and(|next| next.text == "----") {
                    let _ = block(lines);
                }
                self.push(file, line, Action::Foreign("runs a program of the operating system"));
            }
            ["restart" | "load" | "unzip" | "reconnect", ..] => {
                self.push(
                    file,
                    line,
                    Action::Foreign("loads, restarts or reopens the engine in the same process"),
                );
            }
            [
                "hash-threshold" | "subtest" | "control" | "require" | "mode" | "set" | "tags" | "test-env",
                ..,
            ]
            | [] => {}
            // The rest of a record that a blank line cuts in two.
            _ => {
                let _ = self.sql(lines);
                self.push(
                    file,
                    line,
                    Action::Foreign("is no record: a blank line stands inside the statement"),
                );
            }
        }
        Ok(())
    }

    fn statement(&mut self, expectation: &str, rest: &[&str], lines: &mut Lines) -> Result<Action> {
        if self.flavour.duckdb
            && let Some(name) = rest.first()
        {
            self.connection = Some(Arc::from(*name));
        }
        let sql = self.sql(lines);
        self.skip_error_text(lines);
        let expected = match expectation {
            "ok" => StatementExpected::Success,
            "error" => StatementExpected::Error,
            "maybe" => StatementExpected::Any,
            "count" => {
                let count = rest.first().and_then(|count| count.parse().ok());
                StatementExpected::Count(count.context("statement count without a number")?)
            }
            other => bail!("statement {other} is not known"),
        };
        let makes_index = || sql.trim_start().to_ascii_lowercase().starts_with("create index");
        let expected = match expected {
            StatementExpected::Error if self.flavour.create_index_succeeds && makes_index() => {
                StatementExpected::Success
            }
            expected => expected,
        };
        Ok(Action::Statement { sql, expected })
    }

    fn query(&mut self, rest: &[&str], lines: &mut Lines) -> Action {
        let letters = rest.first().copied().unwrap_or_default().to_owned();
        let mut sort = self.sort;
        for (place, word) in rest.iter().enumerate().skip(1) {
            if let Some(named) = sort_of(word) {
                sort = Some(named);
            } else if self.flavour.duckdb && place == 1 {
                self.connection = Some(Arc::from(*word));
            }
        }
        let sql = self.sql(lines);
        let expected = if lines.peek().is_some_and(|next| next.text.trim_end() == "----") {
            lines_or_hash(block(lines))
        } else {
            QueryExpected::Any
        };
        Action::Query(Query {
            sql,
            letters,
            sort,
            one_value_a_line: self.one_value_a_line,
            expected,
        })
    }

    /// The lines up to a blank one or `----`.
    fn sql(&self, lines: &mut Lines) -> String {
        let mut sql = String::new();
        if lines.peek().is_some_and(|next| next.text.is_empty()) {
            // A blank line right after the directive does not end the statement.
            let _ = lines.next();
        }
        while let Some(next) = lines.peek() {
            if next.text.is_empty() || next.text.trim_end() == "----" {
                break;
            }
            if self.flavour.duckdb && next.text.starts_with('#') {
                break;
            }
            if !sql.is_empty() {
                sql.push('\n');
            }
            sql.push_str(&next.text);
            let _ = lines.next();
        }
        if self.flavour.materialized_views {
            as_view(sql)
        } else {
            sql
        }
    }

    /// What an error should say: nobody words errors as others do.
    fn skip_error_text(&self, lines: &mut Lines) {
        if lines.peek().is_none_or(|next| next.text.trim_end() != "----") {
            return;
        }
        let mut blanks = 0;
        let blanks_max = if self.flavour.error_ends_at_two_blanks { 2 } else { 1 };
        for next in lines.by_ref() {
            blanks = if next.text.is_empty() { blanks + 1 } else { 0 };
            if blanks == blanks_max {
                break;
            }
        }
    }

    fn push(&mut self, file: &Arc<str>, line: u32, action: Action) {
        let conditions = std::mem::take(&mut self.conditions);
        self.records.push(Record {
            file: Arc::clone(file),
            line,
            connection: self.connection.take(),
            label: (!conditions.is_empty()).then(|| conditions.join(", ")),
            corrected: None,
            action,
        });
    }
}

/// The statement about a materialized view as one about a view.
fn as_view(sql: String) -> String {
    let mut words = sql.split_whitespace();
    let verb = words.next().unwrap_or_default();
    let is_definition = ["create", "drop", "alter"]
        .iter()
        .any(|word| verb.eq_ignore_ascii_case(word));
    let Some(word) = words.take(3).find(|word| word.eq_ignore_ascii_case("materialized")) else {
        return sql;
    };
    if is_definition { sql.replacen(word, "", 1) } else { sql }
}

/// The lines after `----` up to a blank one.
fn block(lines: &mut Lines) -> Vec<String> {
    let _ = lines.next();
    lines
        .by_ref()
        .map(|line| line.text)
        .take_while(|line| !line.is_empty())
        .collect()
}

/// `30 values hashing to 3c13dee48d9356ae19af2515e05e6b54`
pub(crate) fn lines_or_hash(lines: Vec<String>) -> QueryExpected {
    if let [line] = lines.as_slice()
        && let Some((count, md5)) = line.split_once(" values hashing to ")
        && let Ok(count) = count.trim().parse()
    {
        return QueryExpected::Hash {
            count,
            md5: md5.trim().to_owned(),
        };
    }
    QueryExpected::Lines(lines)
}

fn sort_of(word: &str) -> Option<Sort> {
    Some(match word {
        "nosort" => Sort::None,
        "rowsort" => Sort::Rows,
        "valuesort" => Sort::Values,
        _ => return None,
    })
}

/// `2s`, `500ms`
fn span_of(text: &str) -> Option<Duration> {
    if let Some(count) = text.strip_suffix("ms") {
        return count.parse().ok().map(Duration::from_millis);
    }
    text.trim_end_matches('s').parse().ok().map(Duration::from_secs)
}

/// The files that `include` names, relative to the including one; `*` stands for any part of a name.
pub(crate) fn included(from: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let whole = from.parent().unwrap_or(Path::new("")).join(pattern);
    let Some(name) = whole.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        bail!("include names no file: {pattern}");
    };
    let Some((start, end)) = name.split_once('*') else {
        return Ok(vec![whole]);
    };
    let folder = whole.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    // A folder that is not part of this copy of the suite holds nothing to include.
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
