//! Reads `GreptimeDB`'s pairs: `x.sql`, and `x.result` in which each statement is followed by what it answered.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::record::{Action, Query, QueryExpected, Record, Script, Sort, StatementExpected};

/// Reads the pair whose statements stand in `folder`/`path`.
pub(crate) fn read_script(folder: &Path, path: &str) -> Result<Script> {
    let sql = folder.join(path);
    let result = sql.with_extension("result");
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(Script {
        path: path.to_owned(),
        records: records(path, &read(&sql)?, &read(&result)?),
    })
}

/// A statement of the `.sql` file with the directives before it.
struct Statement {
    line: u32,
    sql: String,
    sorted: bool,
    foreign: Option<&'static str>,
}

fn records(path: &str, sql: &str, result: &str) -> Vec<Record> {
    let file: Arc<str> = Arc::from(path);
    let mut rest = result;
    let mut records = Vec::new();
    for statement in statements(sql) {
        let answer = rest.find(&statement.sql).map(|at| {
            rest = &rest[at + statement.sql.len()..];
            block(rest)
        });
        let action = match (statement.foreign, answer) {
            (Some(what), _) => Action::Foreign(what),
            (None, None) => Action::Foreign("a template whose answer names other statements"),
            (None, Some(lines)) => action(statement.sql, &lines, statement.sorted),
        };
        records.push(Record {
            file: Arc::clone(&file),
            line: statement.line,
            connection: None,
            label: None,
            corrected: None,
            action,
        });
    }
    records
}

fn statements(sql: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut first = 0;
    let (mut sorted, mut foreign) = (false, None);
    for (line, number) in sql.lines().zip(1..) {
        if lines.is_empty() {
            if let Some(directive) = line.trim_start_matches(['-', ' ']).strip_prefix("SQLNESS ") {
                sorted |= directive.starts_with("SORT_RESULT");
                if directive.starts_with("PROTOCOL MYSQL") {
                    foreign = Some("is sent through MySQL's protocol");
                } else if directive.starts_with("ARG") {
                    foreign = Some("restarts the server with other arguments");
                } else if directive.starts_with("TEMPLATE") {
                    foreign = Some("a template of another program");
                }
                continue;
            }
            if line.trim().is_empty() || line.trim_start().starts_with("--") {
                continue;
            }
            first = number;
        }
        lines.push(line);
        if line.trim_end().ends_with(';') {
            found.push(Statement {
                line: first,
                sql: lines.join("\n"),
                sorted: std::mem::take(&mut sorted),
                foreign: foreign.take(),
            });
            lines.clear();
        }
    }
    found
}

/// The lines after a statement, up to a blank one.
fn block(rest: &str) -> Vec<&str> {
    rest.lines()
        .skip_while(|line| line.trim().is_empty())
        .take_while(|line| !line.trim().is_empty())
        .collect()
}

fn action(sql: String, lines: &[&str], sorted: bool) -> Action {
    let first = lines.first().copied().unwrap_or_default();
    if let Some(count) = first
        .strip_prefix("Affected Rows: ")
        .and_then(|count| count.trim().parse().ok())
    {
        // Its definitions answer with a count too, always 0 or 1.
        let writes = ["insert", "delete", "update"]
            .iter()
            .any(|verb| sql.trim_start().to_ascii_lowercase().starts_with(verb));
        let expected = if writes {
            StatementExpected::Count(count)
        } else {
            StatementExpected::Success
        };
        return Action::Statement { sql, expected };
    }
    if !first.starts_with('+') {
        return Action::Statement {
            sql,
            expected: StatementExpected::Error,
        };
    }
    let mut rows = lines
        .iter()
        .filter(|line| line.starts_with('|'))
        .map(|line| values(line));
    let letters = rows.next().map_or_else(String::new, |names| "?".repeat(names.len()));
    Action::Query(Query {
        sql,
        letters,
        sort: sorted.then_some(Sort::Rows),
        one_value_a_line: false,
        expected: QueryExpected::Lines(rows.map(|row| row.join("\t")).collect()),
    })
}

/// The values of `| a | b |`.
fn values(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split(" | ").map(|value| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_statement_by_statement() {
        let sql =
            "-- about\nCREATE TABLE t (a INT);\n\n-- SQLNESS SORT_RESULT 3 1\nSELECT a, b\nFROM t;\n\nSELECT x;\n";
        let result = "-- about\nCREATE TABLE t (a INT);\n\nAffected Rows: 0\n\n-- SQLNESS SORT_RESULT 3 1\nSELECT a, b\nFROM t;\n\n\
            +---+---+\n| a | b |\n+---+---+\n| 1 |   |\n+---+---+\n\nSELECT x;\n\nError: 3000(PlanQuery), no\n";
        let records = records("x.sql", sql, result);
        assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [2, 5, 8]);
        let Action::Query(query) = &records[1].action else {
            panic!("a query: {:?}", records[1])
        };
        assert_eq!((query.letters.as_str(), query.sort), ("??", Some(Sort::Rows)));
        assert_eq!(query.expected, QueryExpected::Lines(vec!["1\t".to_owned()]));
        assert!(records[2].wants_error() && !records[0].wants_error());
    }
}
