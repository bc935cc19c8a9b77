//! Known differences: records that are not expected to hold, each with its reason.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The file of one origin.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFile {
    #[serde(default)]
    known: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Path of the suite below the origin's folder.
    file: String,
    /// Lines on which the records stand; none means the whole file.
    #[serde(default)]
    lines: Vec<u32>,
    /// Why the records do not hold, in words.
    reason: String,
    /// `false`: the records are not even sent, because they would change what later records see.
    #[serde(default = "yes")]
    run: bool,
}

fn yes() -> bool {
    true
}

/// What is known about one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) text: String,
    /// Whether the record is sent all the same, to notice when it starts to hold.
    pub(crate) run: bool,
}

/// All known differences of one origin.
#[derive(Debug, Default)]
pub(crate) struct Known {
    records: BTreeMap<(String, u32), Reason>,
    files: BTreeMap<String, Reason>,
}

impl Known {
    /// Reads `path`; an origin without such a file has no known differences.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: KnownFile = toml::from_str(text)?;
        let mut known = Self::default();
        for entry in file.known {
            if entry.reason.trim().is_empty() {
                bail!("{}: a known difference without a reason", entry.file);
            }
            let reason = Reason {
                text: entry.reason,
                run: entry.run,
            };
            if entry.lines.is_empty() {
                known.files.insert(entry.file, Reason { run: false, ..reason });
                continue;
            }
            for line in entry.lines {
                if known
                    .records
                    .insert((entry.file.clone(), line), reason.clone())
                    .is_some()
                {
                    bail!("{}:{line} stands twice", entry.file);
                }
            }
        }
        Ok(known)
    }

    /// The reason why nothing of `file` is run.
    pub(crate) fn file(&self, file: &str) -> Option<&Reason> {
        self.files.get(file)
    }

    /// The reason why the record on `line` of `file` does not hold.
    pub(crate) fn record(&self, file: &str, line: u32) -> Option<&Reason> {
        self.records.get(&(file.to_owned(), line))
    }

    /// Entries about files that `exists` does not know.
    pub(crate) fn about_missing_files(&self, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.files.keys().chain(self.records.keys().map(|(file, _)| file));
        names.filter(|file| !exists(file)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_line_and_by_file() {
        let known = Known::parse(
            "[[known]]\nfile = \"a.slt\"\nlines = [3, 9]\nreason = \"r\"\n\n[[known]]\nfile = \"b.slt\"\nreason = \"s\"\n",
        )
        .expect("valid");
        assert_eq!(known.record("a.slt", 9).map(|reason| reason.text.as_str()), Some("r"));
        assert!(known.record("a.slt", 4).is_none());
        assert!(known.file("b.slt").is_some_and(|reason| !reason.run));
        assert_eq!(known.about_missing_files(|file| file == "a.slt"), ["b.slt"]);
    }

    #[test]
    fn an_entry_needs_a_reason_and_stands_once() {
        assert!(Known::parse("[[known]]\nfile = \"a\"\nlines = [1]\nreason = \" \"\n").is_err());
        assert!(Known::parse("[[known]]\nfile = \"a\"\nlines = [1, 1]\nreason = \"r\"\n").is_err());
        assert!(Known::parse("[[known]]\nfile = \"a\"\nlines = [1]\n").is_err());
    }
}
