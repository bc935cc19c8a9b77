//! What CI runs of the suites, and how much of it has to hold.
//!
//! The choice is the same on every machine: hashes of paths and lines decide. The counts are a floor: fewer right records
//! than written down are an error, more are written down with `--write-floor`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::tally::Tally;

/// The first lines of the file.
const HEADER: &str = "\
# What CI runs of other projects' suites (`cargo xtask conformance --sample`), in percent, and how many records have to be
# right. `--write-floor` writes the counts of a run; nobody lowers them without saying why.
";

/// Records that may be wrong in one run and right in another: some scripts ask for any rows with LIMIT, and a slow machine
/// may miss the deadline of a record.
const SLACK: u64 = 3;

/// The sample of every origin, by name.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(transparent)]
pub(crate) struct Floor(BTreeMap<String, Share>);

/// The sample of one origin.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Share {
    /// Of its scripts, in percent.
    scripts: u64,
    /// Of the queries in those scripts, in percent; their statements are all run.
    queries: u64,
    right_queries: u64,
    right_statements: u64,
}

impl Floor {
    /// The file with shares and counts.
    pub(crate) fn path() -> PathBuf {
        crate::origin::crate_folder().join("conformance-floor.toml")
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("in {}", path.display()))
    }

    pub(crate) fn takes_origin(&self, origin: &str) -> bool {
        self.0.contains_key(origin)
    }

    pub(crate) fn takes_script(&self, origin: &str, path: &str) -> bool {
        self.0
            .get(origin)
            .is_some_and(|share| hash(path, 0) % 100 < share.scripts)
    }

    pub(crate) fn takes_record(&self, origin: &str, record: &Record) -> bool {
        let chosen = |share: &Share| hash(&record.file, record.line) % 100 < share.queries;
        !record.is_query() || self.0.get(origin).is_some_and(chosen)
    }

    /// Fails if fewer records are right than are written down.
    pub(crate) fn check(&self, tallies: &[Tally]) -> Result<()> {
        let mut fewer = Vec::new();
        for tally in tallies {
            let Some(share) = self.0.get(tally.origin) else {
                continue;
            };
            let (queries, statements) = (tally.all.queries.right, tally.all.statements.right);
            if queries + SLACK < share.right_queries || statements + SLACK < share.right_statements {
                fewer.push(format!(
                    "{}: {queries} queries and {statements} statements are right, and it was {} and {}",
                    tally.origin, share.right_queries, share.right_statements
                ));
            }
        }
        if !fewer.is_empty() {
            bail!("fewer records hold than before\n{}", fewer.join("\n"));
        }
        Ok(())
    }

    /// Writes the counts of a run down.
    pub(crate) fn write(mut self, path: &Path, tallies: &[Tally]) -> Result<()> {
        for tally in tallies {
            if let Some(share) = self.0.get_mut(tally.origin) {
                share.right_queries = tally.all.queries.right;
                share.right_statements = tally.all.statements.right;
            }
        }
        let text = format!("{HEADER}\n{}", toml::to_string(&self)?);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// FNV-1a with a last mix, fixed for ever: another hash would be another sample.
fn hash(text: &str, number: u32) -> u64 {
    let bytes = text.bytes().chain(number.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(right: u64) -> Tally {
        let mut tally = Tally {
            origin: "duckdb",
            ..Tally::default()
        };
        tally.all.queries.right = right;
        tally
    }

    #[test]
    fn fewer_right_records_are_an_error() {
        let text = "[duckdb]\nscripts = 50\nqueries = 100\nright_queries = 7\nright_statements = 0\n";
        let floor: Floor = toml::from_str(text).expect("a floor");
        assert!(floor.check(&[tally(7 - SLACK)]).is_ok());
        assert!(floor.check(&[tally(6 - SLACK)]).is_err());
        assert!(floor.takes_origin("duckdb") && !floor.takes_origin("sqlite"));
    }

    #[test]
    fn the_file_holds_origins_that_there_are() {
        let floor = Floor::read(&Floor::path()).expect("the file of this crate");
        for name in floor.0.keys() {
            let known = super::super::origins::ORIGINS.iter().any(|origin| origin.name == name);
            assert!(known, "{name}");
        }
    }

    #[test]
    fn the_sample_is_fixed() {
        let chosen: Vec<u64> = ["a.test", "b.test", "c.test"]
            .iter()
            .map(|path| hash(path, 0) % 100)
            .collect();
        assert_eq!(chosen, [52, 93, 52]);
    }
}
