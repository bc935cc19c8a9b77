//! The 22 queries of TPC-H with their answers at scale factor 1, over rows made with `tpchgen`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::record::{Action, Query, QueryExpected, Record, Script, StatementExpected};
use crate::tpch::{TABLES, write_csv};

/// The scale factor of the answers.
const SCALE: f64 = 1.0;

/// Queries of the suite.
const QUERIES: u32 = 22;

/// Writes the rows of all tables below `data`.
pub(crate) fn write_rows(data: &Path) -> Result<()> {
    for (table, _) in TABLES {
        write_csv(table, SCALE, &data.join(format!("{table}.csv"))).with_context(|| format!("the rows of {table}"))?;
    }
    Ok(())
}

/// Tables, rows and queries of `folder` as one script; relative paths start where [`write_rows`] wrote.
pub(crate) fn read_script(folder: &Path) -> Result<Script> {
    let mut records = Vec::new();
    for (table, columns) in TABLES {
        records.push(statement("rows", 1, format!("CREATE TABLE {table} ({columns})")));
        records.push(statement(
            "rows",
            2,
            format!("COPY {table} FROM '{table}.csv' (FORMAT csv, HEADER true)"),
        ));
    }
    for number in 1..=QUERIES {
        let file = format!("queries/q{number}.sql");
        let answer = folder.join(format!("sf1-impala/tpch-q{number}.test"));
        let read =
            |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        let sql = read(&folder.join(&file))?;
        let lines = results(&read(&answer)?);
        for part in sql.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            records.push(if part.starts_with("select") || part.starts_with("with") {
                query(&file, part, lines.clone())
            } else {
                statement(&file, 1, part.to_owned())
            });
        }
    }
    Ok(Script {
        path: "queries".to_owned(),
        records,
    })
}

fn statement(file: &str, line: u32, sql: String) -> Record {
    let expected = StatementExpected::Success;
    record(file, line, Action::Statement { sql, expected })
}

fn query(file: &str, sql: &str, lines: Vec<String>) -> Record {
    let letters = lines
        .first()
        .map_or_else(String::new, |line| "?".repeat(line.split('\t').count()));
    record(
        file,
        1,
        Action::Query(Query {
            sql: sql.to_owned(),
            letters,
            sort: Some(super::record::Sort::Rows),
            one_value_a_line: false,
            expected: QueryExpected::Lines(lines),
        }),
    )
}

fn record(file: &str, line: u32, action: Action) -> Record {
    Record {
        file: Arc::from(file),
        line,
        connection: None,
        label: None,
        corrected: None,
        action,
    }
}

/// The lines between `---- RESULTS` and `---- TYPES`, values between tabs.
fn results(test: &str) -> Vec<String> {
    test.lines()
        .skip_while(|line| *line != "---- RESULTS")
        .skip(1)
        .take_while(|line| !line.starts_with("----"))
        .map(|line| values(line).join("\t"))
        .collect()
}

/// The values of a line of CSV whose strings stand in single quotes.
fn values(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            c => {
                if let Some(value) = values.last_mut() {
                    value.push(c);
                }
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_from_between_their_marks() {
        let test = "select 1\n---- RESULTS\n'A, b','F',37.00\n'C','',1\n---- TYPES\nSTRING\n";
        assert_eq!(results(test), ["A, b\tF\t37.00", "C\t\t1"]);
    }
}
