//! Pages that name parts of the project name parts that exist.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::crates::CRATES;
use crate::{Workspace, sources};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// So short that a newcomer reads it to the end.
const ARCHITECTURE_WORDS_MAX: usize = 2_500;

/// Length, crates, paths and `folder::item` names.
pub(super) fn check_architecture(workspace: &Workspace) -> Result<Vec<String>> {
    let text = workspace.read(ARCHITECTURE)?;
    let mut findings = Vec::new();
    let words = text.split_whitespace().count();
    if words > ARCHITECTURE_WORDS_MAX {
        findings.push(format!(
            "{ARCHITECTURE} has {words} words, more than {ARCHITECTURE_WORDS_MAX}"
        ));
    }
    for name in code_spans(&text) {
        let wrong = match Name::of(name) {
            Name::Crate(folder) => (!is_crate(folder)).then_some("no crate of that name"),
            Name::Path(path) => (!workspace.path(path).exists()).then_some("no such path"),
            Name::Item(folder, item) => (!defines(workspace, folder, item)?).then_some("no such item"),
            Name::Other => None,
        };
        findings.extend(wrong.map(|wrong| format!("{ARCHITECTURE}: `{name}`: {wrong}")));
    }
    for one in CRATES.iter().filter(|one| !text.contains(&format!("`{}`", one.folder))) {
        findings.push(format!("{ARCHITECTURE}: the crate `{}` is not named", one.folder));
    }
    Ok(findings)
}

/// What a piece of code in the page is taken for.
#[derive(Debug, PartialEq)]
enum Name<'a> {
    /// `candor-parser`
    Crate(&'a str),
    /// `docs/http.md`, `deny.toml`
    Path(&'a str),
    /// `planner::admit`, `storage::RangeStore::apply_to`: the crate's folder and the last name
    Item(&'a str, &'a str),
    /// Anything else: a statement, a flag, a type of some library
    Other,
}

impl<'a> Name<'a> {
    fn of(text: &'a str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        if let Some(folder) = text.strip_prefix("candor-").filter(|folder| !folder.is_empty()) {
            return Self::Crate(folder);
        }
        if let Some((folder, rest)) = text.split_once("::") {
            let item = rest.rsplit("::").next().unwrap_or(rest).trim_end_matches("()");
            return if is_crate(folder) {
                Self::Item(folder, item)
            } else {
                Self::Other
            };
        }
        let is_path = text.chars().all(plain)
            && !text.starts_with(['/', '-'])
            && (text.contains('/')
                || [".md", ".rs", ".toml", ".sql"]
                    .iter()
                    .any(|ending| text.ends_with(ending)));
        if is_path { Self::Path(text) } else { Self::Other }
    }
}

fn is_crate(folder: &str) -> bool {
    CRATES.iter().any(|one| one.folder == folder)
}

/// The texts between single backticks, fenced blocks left out.
fn code_spans(text: &str) -> Vec<&str> {
    text.split("```")
        .step_by(2)
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .collect()
}

/// Whether the crate in `folder` defines a function, type, module, constant or variant called `item`.
fn defines(workspace: &Workspace, folder: &str, item: &str) -> Result<bool> {
    const WORDS: &[&str] = &["fn ", "struct ", "enum ", "trait ", "mod ", "const ", "type "];
    for source in sources::read(workspace, &format!("{folder}/src"), &[".rs"])? {
        let found = source.code_lines().any(|(_, line)| {
            let defined = WORDS.iter().any(|word| {
                line.split_once(word)
                    .is_some_and(|(_, rest)| starts_with_name(rest, item))
            });
            defined || (item.starts_with(char::is_uppercase) && starts_with_name(line.trim_start(), item))
        });
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn starts_with_name(text: &str, name: &str) -> bool {
    text.strip_prefix(name)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Relative links of every page lead to files that exist.
pub(super) fn check_links(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for page in sources::read(workspace, ".", &[".md"])? {
        let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
        for target in links(&page.text) {
            let path = target.split('#').next().unwrap_or(target);
            if !path.is_empty() && !workspace.path(normal(&folder.join(path))).exists() {
                findings.push(format!("{}: the link to {target} leads nowhere", page.path));
            }
        }
    }
    Ok(findings)
}

/// Targets of `[text](target)` that are paths.
fn links(text: &str) -> Vec<&str> {
    text.split("```")
        .step_by(2)
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        .collect()
}

/// `docs/../README.md` → `README.md`
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        assert_eq!(Name::of("candor-parser"), Name::Crate("parser"));
        assert_eq!(Name::of("docs/http.md"), Name::Path("docs/http.md"));
        assert_eq!(Name::of("planner::admit"), Name::Item("planner", "admit"));
        assert_eq!(
            Name::of("storage::RangeStore::apply_to()"),
            Name::Item("storage", "apply_to")
        );
        for other in ["/sql", "STALENESS 30s", "--data", "std::fs", "BEGIN"] {
            assert_eq!(Name::of(other), Name::Other, "{other}");
        }
    }

    #[test]
    fn spans_and_links_outside_fences_are_found() {
        let page = "see `a/b.md` and [c](d.md#e)\n```\n`no` [no](no.md)\n```\n[f](https://g) `h`";
        assert_eq!(code_spans(page), ["a/b.md", "h"]);
        assert_eq!(links(page), ["d.md#e"]);
        assert_eq!(normal(Path::new("docs/../README.md")), Path::new("README.md"));
    }
}
