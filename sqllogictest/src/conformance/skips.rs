//! Which records are left out, and why.
//!
//! Three kinds of reasons, all of them about the record itself and none about how it would fare: the file leaves it out
//! for this engine (`skipif`, `onlyif`), a rule of `skips/*.toml` knows its text as another dialect, or it works on a
//! table that a record left out by a rule makes or changes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde::Deserialize;

use super::record::Record;

/// Why records on tables of left-out records are left out too.
const DEPENDS: &str = "works on a table that a record of another dialect makes or changes";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SkipFile {
    #[serde(default)]
    skip: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What holds for every record that the patterns find.
    reason: String,
    /// Patterns over the statement without its comments and without what its strings hold, in any letter case.
    #[serde(default)]
    sql: Vec<String>,
    /// Names of functions: a call of one of them is enough. `*` stands for the rest of a name.
    #[serde(default)]
    functions: Vec<String>,
    /// Patterns over the statement that are exceptions.
    #[serde(default)]
    unless: Vec<String>,
    /// A pattern over the script's path.
    #[serde(default)]
    file: Option<String>,
    /// The statement does nothing to a table, so that later records do not depend on it.
    #[serde(default)]
    harmless: bool,
    /// Records that want an error are sent: PostgreSQL refuses the form too.
    #[serde(default)]
    errors_are_sent: bool,
}

#[derive(Debug)]
struct Rule {
    reason: String,
    sql: Vec<Regex>,
    unless: Vec<Regex>,
    file: Option<Regex>,
    harmless: bool,
    errors_are_sent: bool,
}

impl Rule {
    fn finds(&self, sql: &str, wants_error: bool) -> bool {
        let any = |patterns: &[Regex]| patterns.iter().any(|pattern| pattern.is_match(sql));
        !(wants_error && self.errors_are_sent) && any(&self.sql) && !any(&self.unless)
    }
}

/// The rules of one origin.
#[derive(Debug)]
pub(crate) struct Skips {
    rules: Vec<Rule>,
    target: Regex,
}

impl Skips {
    /// Reads the rules for all origins and those of `origin`.
    pub(crate) fn read(folder: &Path, origin: &str) -> Result<Self> {
        let mut rules = Vec::new();
        for name in ["all", origin] {
            let path = folder.join(name).with_extension("toml");
            if !path.exists() {
                continue;
            }
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            rules.extend(parse(&text).with_context(|| format!("in {}", path.display()))?);
        }
        Ok(Self {
            rules,
            target: Regex::new(TARGET).context("the pattern of a write's target")?,
        })
    }

    /// A fresh look at one script.
    pub(crate) fn of_script<'a>(&'a self, path: &str) -> ScriptSkips<'a> {
        let applies = |rule: &&Rule| rule.file.as_ref().is_none_or(|file| file.is_match(path));
        ScriptSkips {
            rules: self.rules.iter().filter(applies).collect(),
            target: &self.target,
            touched: BTreeMap::new(),
        }
    }
}

/// The table, view, type or sequence that a statement makes or changes.
const TARGET: &str = r#"(?ix)^\s*
    (?: create \s+ (?:or\s+replace\s+)? (?:\w+\s+){0,2}? (?:table|view|macro|function|type|schema|sequence|database|index) (?:\s+if\s+not\s+exists)?
      | insert \s+ (?:or\s+\w+\s+)? (?:into|overwrite) (?:\s+table)? | replace\s+into
      | update | delete \s+ from | merge \s+ into | alter \s+ \w+ (?:\s+if\s+exists)? | truncate (?:\s+table)? | copy | prepare | drop \s+ \w+ (?:\s+if\s+exists)?
    ) \s+ ["`]? ([\w.]+)"#;

fn parse(text: &str) -> Result<Vec<Rule>> {
    let file: SkipFile = toml::from_str(text)?;
    file.skip.into_iter().map(rule).collect()
}

fn rule(entry: Entry) -> Result<Rule> {
    if entry.reason.trim().is_empty() {
        bail!("a rule without a reason: {:?}", entry.sql);
    }
    let pattern =
        |pattern: &str| Regex::new(&format!("(?is){pattern}")).with_context(|| format!("bad pattern {pattern}"));
    let mut sql = entry
        .sql
        .iter()
        .map(|sql| pattern(sql))
        .collect::<Result<Vec<Regex>>>()?;
    if !entry.functions.is_empty() {
        let names = entry.functions.join("|").replace('*', r"\w*");
        sql.push(pattern(&format!(r"\b(?:{names})\s*\("))?);
    }
    if sql.is_empty() {
        bail!("a rule that finds nothing: {}", entry.reason);
    }
    Ok(Rule {
        sql,
        unless: entry.unless.iter().map(|sql| pattern(sql)).collect::<Result<_>>()?,
        file: entry.file.as_deref().map(pattern).transpose()?,
        reason: entry.reason,
        harmless: entry.harmless,
        errors_are_sent: entry.errors_are_sent,
    })
}

/// `sql` without comments and without what stands in single quotes: neither says which dialect it is.
fn bare(sql: &str) -> String {
    let mut bare = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(['\'', '-', '/']) {
        bare.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if let Some(text) = rest.strip_prefix('\'') {
            bare.push_str("''");
            text.find('\'').map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            bare.push_str(&rest[..1]);
            1
        };
        rest = &rest[length..];
    }
    bare.push_str(rest);
    bare
}

/// What is left out of one script.
pub(crate) struct ScriptSkips<'a> {
    rules: Vec<&'a Rule>,
    target: &'a Regex,
    /// Tables that left-out records make or change, with a pattern that finds their names.
    touched: BTreeMap<String, Regex>,
}

impl ScriptSkips<'_> {
    /// Why `record` is left out; `None` if it is to be sent. Called in the order of the records.
    pub(crate) fn reason(&mut self, record: &Record) -> Option<String> {
        if let Some(label) = &record.label {
            return Some(label.clone());
        }
        let sql = &bare(record.sql());
        if let Some(rule) = self
            .rules
            .iter()
            .find(|rule| rule.finds(sql, record.wants_error()))
            .copied()
        {
            if !rule.harmless && !record.wants_error() {
                self.touch(sql);
            }
            return Some(rule.reason.clone());
        }
        if self.touched.is_empty() {
            return None;
        }
        if let Some(name) = self.makes(sql) {
            self.touched.remove(&name);
        }
        if self.touched.values().any(|name| name.is_match(sql)) {
            // What it makes or changes differs in turn.
            if !record.wants_error() {
                self.touch(sql);
            }
            return Some(DEPENDS.to_owned());
        }
        None
    }

    fn touch(&mut self, sql: &str) {
        let Some(name) = self.named(sql) else { return };
        if let Ok(pattern) = Regex::new(&format!(r"(?i)\b{}\b", regex::escape(&name))) {
            self.touched.insert(name, pattern);
        }
    }

    /// What the statement makes anew.
    fn makes(&self, sql: &str) -> Option<String> {
        sql.trim_start()
            .get(..6)
            .filter(|word| word.eq_ignore_ascii_case("create"))
            .and_then(|_| self.named(sql))
    }

    fn named(&self, sql: &str) -> Option<String> {
        let name = self.target.captures(sql)?.get(1)?.as_str();
        Some(name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::record::{Action, StatementExpected};
    use super::*;

    fn record(sql: &str) -> Record {
        Record {
            file: Arc::from("a.test"),
            line: 1,
            connection: None,
            label: None,
            corrected: None,
            action: Action::Statement {
                sql: sql.to_owned(),
                expected: StatementExpected::Success,
            },
        }
    }

    fn skips(text: &str) -> Skips {
        Skips {
            rules: parse(text).expect("rules"),
            target: Regex::new(TARGET).expect("a pattern"),
        }
    }

    #[test]
    fn a_rule_takes_what_depends_on_its_records_with_it() {
        let skips = skips("[[skip]]\nreason = \"engines\"\nsql = ['\\bengine\\s*=']\n");
        let mut script = skips.of_script("a.test");
        let mut reason = |sql: &str| script.reason(&record(sql));
        assert_eq!(
            reason("CREATE TABLE t (a INT) ENGINE = memory").as_deref(),
            Some("engines")
        );
        assert_eq!(reason("SELECT * FROM T").as_deref(), Some(DEPENDS));
        assert_eq!(reason("INSERT INTO u SELECT * FROM t").as_deref(), Some(DEPENDS));
        assert_eq!(reason("SELECT * FROM u").as_deref(), Some(DEPENDS));
        assert_eq!(reason("SELECT * FROM tt"), None);
        assert_eq!(reason("CREATE OR REPLACE TABLE t (a INT)"), None);
        assert_eq!(reason("SELECT * FROM t"), None);
    }

    #[test]
    fn strings_and_comments_say_nothing_about_the_dialect() {
        let sql = "SELECT 'a -- b', 4 / 2 -- x\n/* y */ FROM t";
        assert_eq!(bare(sql), "SELECT '', 4 / 2 \n FROM t");
        let skips = skips("[[skip]]\nreason = \"lists\"\nfunctions = ['list_*', 'len']\n");
        let mut script = skips.of_script("a.test");
        let mut reason = |sql: &str| script.reason(&record(sql));
        assert!(reason("SELECT List_sum (a) FROM t").is_some());
        assert!(reason("SELECT 'len(a)', length(a), list FROM t").is_none());
    }

    #[test]
    fn a_rule_needs_a_reason() {
        assert!(parse("[[skip]]\nreason = \" \"\nsql = ['x']\n").is_err());
        assert!(parse("[[skip]]\nreason = \"r\"\nsql = ['(']\n").is_err());
        assert!(parse("[[skip]]\nreason = \"r\"\n").is_err());
    }
}
