//! Words that mean unfinished work, and attributes that switch a test off.

use anyhow::Result;

use crate::Workspace;
use crate::sources;

/// Put together here, so that this file does not find itself.
const WORDS: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimplemented", "!("),
    concat!("db", "g!("),
    concat!("#[", "ignore"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("thread::", "sleep("),
];

pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for source in sources::read(workspace, ".", &[".rs", ".toml", ".sql", ".slt", ".md", ".yml", "run"])? {
        for (index, line) in source.text.lines().enumerate() {
            for word in WORDS.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{}: {word}", source.path, index + 1));
            }
        }
    }
    Ok(findings)
}
