//! The pure crates take time and seeds as arguments. Their own `clippy.toml` forbids the usual entry points to clippy;
//! this reads the sources, so that a renamed import or a new entry point does not slip through either.

use anyhow::Result;

use super::crates::CRATES;
use crate::sources::{self, Source};
use crate::{Workspace, toml};

const IMPURE: &[&str] = &[
    "Instant",
    "SystemTime",
    "std::time::*",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "tokio",
    "async fn",
    "async move",
    ".await",
    "rand::",
    "thread_rng",
    "getrandom",
    "RandomState",
    "HashMap",
    "HashSet",
];

/// Modules of `cluster` that hold state and a protocol and are driven from outside: the same rule holds for them.
const MACHINES: &[&str] = &[
    "cluster/src/awareness.rs",
    "cluster/src/collect",
    "cluster/src/followers.rs",
    "cluster/src/raft_group/group.rs",
    "cluster/src/raft_group/log.rs",
    "cluster/src/split.rs",
];

/// A fence that clippy must have been given for each pure crate.
const FENCED: &[&str] = &["std::time::Instant::now", "std::time::SystemTime::now"];

pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for one in CRATES.iter().filter(|one| one.pure) {
        for source in sources::read(workspace, &format!("{}/src", one.folder), &[".rs"])? {
            findings.extend(impurities(&source));
        }
        findings.extend(missing_fences(workspace, one.folder));
    }
    for machine in MACHINES {
        let sources = sources::read(workspace, machine, &[".rs"])?;
        if sources.is_empty() {
            findings.push(format!("{machine}: no such machine; xtask/src/tidy/purity.rs names it"));
        }
        findings.extend(sources.iter().flat_map(impurities));
    }
    Ok(findings)
}

/// Lines of `source` that name what a pure crate must not know.
fn impurities(source: &Source) -> Vec<String> {
    source
        .code_lines()
        .flat_map(|(number, line)| IMPURE.iter().map(move |word| (number, line, word)))
        .filter(|(_, line, word)| names(line, word))
        .map(|(number, _, word)| format!("{}:{number}: {word} where everything is an argument", source.path))
        .collect()
}

/// Whether `word` stands in `line` as a word of its own, not inside a longer name.
fn names(line: &str, word: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let longer = inside(before) && inside(word.chars().next()) || inside(after) && inside(word.chars().next_back());
        !longer
    })
}

fn missing_fences(workspace: &Workspace, folder: &str) -> Vec<String> {
    let path = format!("{folder}/clippy.toml");
    let Ok(config) = workspace.read(&path) else {
        return vec![format!("{path}: missing; it forbids clocks to clippy")];
    };
    let paths: Vec<String> = toml::blocks(&config, "").flat_map(quoted).collect();
    FENCED
        .iter()
        .filter(|fence| !paths.iter().any(|path| path == *fence))
        .map(|fence| format!("{path}: {fence} is not among disallowed-methods"))
        .collect()
}

fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        impurities(&Source {
            path: "x.rs".to_owned(),
            text: text.to_owned(),
        })
        .len()
    }

    #[test]
    fn clocks_and_runtimes_are_found_and_look_alikes_are_not() {
        assert_eq!(found("let now = Instant::now();"), 1);
        assert_eq!(found("use std::fs;\nasync fn f() {}"), 2);
        assert_eq!(found("x.await"), 1);
        assert_eq!(
            found("// Instant is an argument\nlet InstantTea = 1; let operand::x = y;"),
            0
        );
        assert_eq!(found("fn f() {}\n#[cfg(test)]\nmod tests { use std::fs; }"), 0);
    }
}
