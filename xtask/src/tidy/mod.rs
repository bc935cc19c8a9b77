//! Rules about the project that no compiler checks. Each returns what it found wrong, all of it, one line a finding.

mod crates;
mod pages;
mod purity;
mod words;

use anyhow::{Result, bail};

use crate::{Workspace, errors_doc};

type Rule = (&'static str, fn(&Workspace) -> Result<Vec<String>>);

const RULES: &[Rule] = &[
    (
        "pure crates and machines know no clock, randomness, socket, file or async",
        purity::check,
    ),
    ("crates depend on what their list allows", crates::check_manifests),
    (
        "ring is the only crypto provider; no runtime in the pure crates",
        crates::check_trees,
    ),
    ("no unfinished work and no switched-off tests", words::check),
    (
        "ARCHITECTURE.md is short and names what exists",
        pages::check_architecture,
    ),
    ("links between pages lead somewhere", pages::check_links),
    ("docs/errors.md is what the table says", errors_doc::check),
];

/// Runs every rule and prints all findings.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut count = 0;
    for (name, rule) in RULES {
        let findings = rule(workspace)?;
        println!("   {} {name}", if findings.is_empty() { "ok    " } else { "FAILED" });
        for finding in &findings {
            println!("          {finding}");
        }
        count += findings.len();
    }
    if count > 0 {
        bail!("{count} findings");
    }
    Ok(())
}
