//! Lists for programs, one JSON object on a line: the wrong records, and those that were left out.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Serialize;

use super::record::{Action, QueryExpected, Record, StatementExpected};
use super::tally::Verdict;

/// Where the lists go; nowhere unless they were asked for.
#[derive(Clone)]
pub(crate) struct Lists {
    wrong: Option<List>,
    left_out: Option<List>,
}

type List = Arc<Mutex<BufWriter<File>>>;

#[derive(Serialize)]
struct Wrong<'a> {
    origin: &'a str,
    place: String,
    query: bool,
    sql: &'a str,
    expected: String,
    got: &'a str,
}

#[derive(Serialize)]
struct LeftOut<'a> {
    origin: &'a str,
    place: String,
    sql: &'a str,
    reason: &'a str,
}

impl Lists {
    pub(crate) fn to(wrong: Option<&Path>, left_out: Option<&Path>) -> Result<Self> {
        let list = |path: &Path| -> Result<List> {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(Arc::new(Mutex::new(BufWriter::new(file))))
        };
        Ok(Self {
            wrong: wrong.map(list).transpose()?,
            left_out: left_out.map(list).transpose()?,
        })
    }

    /// Writes `record` down if it is wrong or left out.
    pub(crate) fn note(&self, origin: &str, record: &Record, verdict: &Verdict) -> Result<()> {
        let place = || format!("{}:{}", record.file, record.line);
        match (verdict, &self.wrong, &self.left_out) {
            (Verdict::Wrong(got), Some(list), _) => {
                let entry = Wrong {
                    origin,
                    place: place(),
                    query: record.is_query(),
                    sql: record.sql(),
                    expected: expected(record),
                    got,
                };
                write(list, &entry)
            }
            (Verdict::Skipped(reason), _, Some(list)) => {
                let entry = LeftOut {
                    origin,
                    place: place(),
                    sql: record.sql(),
                    reason,
                };
                write(list, &entry)
            }
            _ => Ok(()),
        }
    }

    /// Writes the rest out.
    pub(crate) fn finish(&self) -> Result<()> {
        for list in [&self.wrong, &self.left_out].into_iter().flatten() {
            list.lock().unwrap_or_else(PoisonError::into_inner).flush()?;
        }
        Ok(())
    }
}

fn write(list: &List, entry: &impl Serialize) -> Result<()> {
    let mut file = list.lock().unwrap_or_else(PoisonError::into_inner);
    serde_json::to_writer(&mut *file, entry)?;
    file.write_all(b"\n").context("a list of records")
}

fn expected(record: &Record) -> String {
    match &record.action {
        Action::Statement { expected, .. } => match expected {
            StatementExpected::Success => "ok".to_owned(),
            StatementExpected::Error => "error".to_owned(),
            StatementExpected::Count(count) => format!("{count} rows"),
            StatementExpected::Any => "ok or error".to_owned(),
        },
        Action::Query(query) => match &query.expected {
            QueryExpected::Lines(lines) => lines.join("\n"),
            QueryExpected::Hash { count, md5 } => format!("{count} values hashing to {md5}"),
            QueryExpected::Error => "error".to_owned(),
            QueryExpected::Any => "ok".to_owned(),
        },
        Action::Sleep(_) | Action::Foreign(_) => String::new(),
    }
}
