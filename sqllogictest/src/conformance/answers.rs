//! Right answers to records whose scripts expect another one.
//!
//! A record whose text is PostgreSQL's dialect, and to which PostgreSQL answers otherwise than the script expects, is not
//! left out: it is judged by PostgreSQL's answer. `answers/*.toml` holds these records with that answer and the reason, and
//! each run counts them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde::Deserialize;

use super::record::{Action, Query, QueryExpected, Record, Script, StatementExpected};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFile {
    #[serde(default)]
    answer: Vec<Answer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// What PostgreSQL does otherwise.
    reason: String,
    /// The end of the path of the record's file.
    #[serde(default)]
    file: String,
    /// The whole text of the record.
    #[serde(default)]
    sql: String,
    /// Instead of one text: a pattern of those that the script wants an error of and PostgreSQL takes.
    pattern: Option<String>,
    /// The lines that the script expects, where it has the text more than once.
    instead_of: Option<Vec<String>>,
    /// The rows, printed in the way of the origin.
    rows: Option<Vec<String>>,
    #[serde(default)]
    error: bool,
    /// Success, whatever the rows.
    #[serde(default)]
    ok: bool,
}

/// The right answers for one origin.
#[derive(Debug, Default)]
pub(crate) struct Answers(Vec<(Answer, Option<Regex>)>);

impl Answers {
    /// Reads those of `origin`; there need not be any.
    pub(crate) fn read(folder: &Path, origin: &str) -> Result<Self> {
        let path = folder.join(origin).with_extension("toml");
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: AnswerFile = toml::from_str(text)?;
        for answer in &file.answer {
            let ways = [answer.rows.is_some(), answer.error, answer.ok];
            if answer.reason.trim().is_empty() || ways.into_iter().filter(|way| *way).count() != 1 {
                bail!("an answer is a reason and one of rows, error and ok: {}", answer.sql);
            }
            if answer.pattern.is_some() && !(answer.ok && answer.sql.is_empty()) {
                bail!("a pattern is of texts that PostgreSQL takes: {}", answer.reason);
            }
        }
        let with_pattern = |answer: Answer| {
            let pattern = answer
                .pattern
                .as_ref()
                .map(|pattern| Regex::new(&format!("(?is){pattern}")));
            Ok((answer, pattern.transpose()?))
        };
        Ok(Self(file.answer.into_iter().map(with_pattern).collect::<Result<_>>()?))
    }

    /// Puts the right answers into `script`.
    pub(crate) fn correct(&self, script: &mut Script) {
        for record in &mut script.records {
            let found = self.0.iter().find(|(answer, pattern)| match pattern {
                Some(pattern) => record.wants_error() && pattern.is_match(record.sql()),
                None => answer.is_to(record),
            });
            if let Some((answer, _)) = found {
                answer.put_into(record);
            }
        }
    }
}

impl Answer {
    fn is_to(&self, record: &Record) -> bool {
        let expected = |lines: &Vec<String>| matches!(&record.action, Action::Query(query) if query.expected == QueryExpected::Lines(lines.clone()));
        // What succeeds was to fail, and the other way round: a script may have a text twice.
        let turns = if record.wants_error() { !self.error } else { !self.ok };
        record.file.ends_with(&self.file)
            && record.sql().trim() == self.sql
            && turns
            && self.instead_of.as_ref().is_none_or(expected)
    }

    fn put_into(&self, record: &mut Record) {
        match &mut record.action {
            Action::Query(Query { expected, .. }) => {
                *expected = match &self.rows {
                    Some(rows) => QueryExpected::Lines(rows.clone()),
                    None if self.error => QueryExpected::Error,
                    None => QueryExpected::Any,
                };
            }
            Action::Statement { expected, .. } => {
                *expected = if self.error {
                    StatementExpected::Error
                } else {
                    StatementExpected::Success
                };
            }
            Action::Sleep(_) | Action::Foreign(_) => return,
        }
        record.corrected = Some(self.reason.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn script(sql: &str, action: impl Fn(String) -> Action) -> Script {
        let record = Record {
            file: Arc::from("tests/a.slt"),
            line: 1,
            connection: None,
            label: None,
            corrected: None,
            action: action(sql.to_owned()),
        };
        Script {
            path: "tests/a.slt".to_owned(),
            records: vec![record],
        }
    }

    #[test]
    fn the_right_answer_takes_the_place_of_the_expected_one() {
        let text = "[[answer]]\nreason = \"r\"\nfile = 'a.slt'\nsql = 'INSERT'\nerror = true\n";
        let answers = Answers::parse(text).expect("answers");
        let insert = |sql| Action::Statement {
            sql,
            expected: StatementExpected::Success,
        };
        let mut found = script("INSERT\n", insert);
        answers.correct(&mut found);
        assert!(found.records[0].wants_error());
        assert_eq!(found.records[0].corrected.as_deref(), Some("r"));
        let mut other = script("INSERT INTO", insert);
        answers.correct(&mut other);
        assert!(!other.records[0].wants_error());
        assert_eq!(other.records[0].corrected, None);
    }

    #[test]
    fn a_pattern_is_about_errors() {
        let text = "[[answer]]\nreason = \"r\"\npattern = '\\bcascade\\b'\nok = true\n";
        let answers = Answers::parse(text).expect("answers");
        for (expected, corrected) in [(StatementExpected::Error, true), (StatementExpected::Success, false)] {
            let mut found = script("DROP TABLE t CASCADE", |sql| Action::Statement { sql, expected });
            answers.correct(&mut found);
            assert_eq!(found.records[0].corrected.is_some(), corrected);
            assert!(!found.records[0].wants_error());
        }
    }

    #[test]
    fn an_answer_is_one_of_three() {
        let start = "[[answer]]\nreason = \"r\"\nfile = 'a'\nsql = 's'\n";
        assert!(Answers::parse(start).is_err());
        assert!(Answers::parse(&format!("{start}ok = true\nerror = true\n")).is_err());
        assert!(Answers::parse(&format!("{start}rows = []\n")).is_ok());
    }
}
