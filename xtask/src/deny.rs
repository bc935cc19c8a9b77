//! What `cargo deny` checks offline, from `cargo tree` and `Cargo.lock`: licences, sources and duplicates, under the
//! lists of `deny.toml`, which stays usable with `cargo deny check` itself.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, output};
use crate::{Workspace, toml};

const CONFIG: &str = "deny.toml";

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let config = workspace.read(CONFIG)?;
    let lock = workspace.read("Cargo.lock")?;
    let mut findings = licences(workspace, &config)?;
    findings.extend(sources(&lock));
    findings.extend(banned(&lock, &config));
    report_duplicates(&lock);
    for finding in &findings {
        println!("   {finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(())
}

/// Packages whose licence expression the allow-list does not satisfy.
fn licences(workspace: &Workspace, config: &str) -> Result<Vec<String>> {
    let allowed: BTreeSet<String> = toml::strings(config, "[licenses]", "allow").into_iter().collect();
    if allowed.is_empty() {
        bail!("{CONFIG}: [licenses] allow is empty");
    }
    let exceptions = exceptions(config);
    let tree = output(cargo(workspace).args([
        "tree",
        "--workspace",
        "--locked",
        "--edges",
        "normal,build,dev",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ]))?;
    let packages: BTreeMap<&str, &str> = tree
        .lines()
        .filter_map(|line| line.trim_end_matches(" (*)").split_once('|'))
        .collect();
    println!(
        "   {} packages, licences {}",
        packages.len(),
        allowed.iter().cloned().collect::<Vec<_>>().join(", ")
    );
    let mut findings = Vec::new();
    for (package, expression) in packages {
        let name = package.split(' ').next().unwrap_or(package);
        let extra = exceptions.get(name);
        let allows =
            |licence: &str| allowed.contains(licence) || extra.is_some_and(|extra| extra.iter().any(|e| e == licence));
        if !Expression::parse(expression)
            .with_context(|| format!("{package}: {expression}"))?
            .holds(&allows)
        {
            findings.push(format!("{package}: licence `{expression}` is not allowed"));
        }
    }
    Ok(findings)
}

/// `{ crate = "x", allow = ["Y"] }` lines of `exceptions`.
fn exceptions(config: &str) -> BTreeMap<String, Vec<String>> {
    toml::table(config, "[licenses]")
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| {
            let mut quoted = line.split('"').skip(1).step_by(2).map(str::to_owned);
            Some((quoted.next()?, quoted.collect()))
        })
        .collect()
}

/// A licence expression of SPDX: names, `WITH`, `AND`, `OR`, parentheses; `/` is the older spelling of `OR`.
#[derive(Debug, PartialEq)]
enum Expression {
    One(String),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

impl Expression {
    fn parse(text: &str) -> Result<Self> {
        let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_ascii_whitespace().peekable();
        let expression = Self::any(&mut words)?;
        match words.next() {
            Some(word) => bail!("`{word}` after the end of the licence expression"),
            None => Ok(expression),
        }
    }

    fn any<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Result<Self> {
        let mut parts = vec![Self::all(words)?];
        while words.next_if_eq(&"OR").is_some() {
            parts.push(Self::all(words)?);
        }
        Ok(Self::Any(parts))
    }

    fn all<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Result<Self> {
        let mut parts = vec![Self::one(words)?];
        while words.next_if_eq(&"AND").is_some() {
            parts.push(Self::one(words)?);
        }
        Ok(Self::All(parts))
    }

    fn one<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Result<Self> {
        match words.next() {
            Some("(") => {
                let inner = Self::any(words)?;
                match words.next() {
                    Some(")") => Ok(inner),
                    _ => bail!("a parenthesis is not closed"),
                }
            }
            Some(name) if !matches!(name, ")" | "OR" | "AND" | "WITH") => match words.next_if_eq(&"WITH") {
                Some(_) => Ok(Self::One(format!(
                    "{name} WITH {}",
                    words.next().context("nothing after WITH")?
                ))),
                None => Ok(Self::One(name.to_owned())),
            },
            _ => bail!("no licence where one must stand"),
        }
    }

    fn holds(&self, allows: &impl Fn(&str) -> bool) -> bool {
        match self {
            Self::One(licence) => allows(licence),
            Self::All(parts) => parts.iter().all(|part| part.holds(allows)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(allows)),
        }
    }
}

/// Packages that come neither from the workspace nor from the default registry with a checksum.
fn sources(lock: &str) -> Vec<String> {
    let packages: Vec<_> = toml::blocks(lock, "[[package]]").collect();
    let registries: BTreeSet<_> = packages
        .iter()
        .filter_map(|block| toml::string(block, "source"))
        .collect();
    let mut findings = Vec::new();
    if registries.len() > 1 {
        findings.push(format!("Cargo.lock: more than one source: {registries:?}"));
    }
    for block in packages {
        let name = toml::string(block, "name").unwrap_or_default();
        match toml::string(block, "source") {
            None if !name.starts_with("candor-") => findings.push(format!("{name}: from a path outside the workspace")),
            Some(source) if !source.starts_with("registry+") => findings.push(format!("{name}: from {source}")),
            Some(_) if toml::string(block, "checksum").is_none() => findings.push(format!("{name}: no checksum")),
            _ => {}
        }
    }
    findings
}

/// Packages that `[bans] deny` names.
fn banned(lock: &str, config: &str) -> Vec<String> {
    let banned: Vec<String> = toml::strings(config, "[bans]", "deny");
    toml::blocks(lock, "[[package]]")
        .filter_map(|block| toml::string(block, "name"))
        .filter(|name| banned.contains(name))
        .map(|name| format!("{name}: banned by {CONFIG}"))
        .collect()
}

/// Several versions of one package cost build time; they are shown, not refused, because most cannot be helped here.
fn report_duplicates(lock: &str) {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in toml::blocks(lock, "[[package]]") {
        if let (Some(name), Some(version)) = (toml::string(block, "name"), toml::string(block, "version")) {
            versions.entry(name).or_default().push(version);
        }
    }
    let twice: Vec<String> = versions
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| format!("{name} {}", versions.join("/")))
        .collect();
    println!("   {} packages in several versions: {}", twice.len(), twice.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(expression: &str, allowed: &[&str]) -> bool {
        Expression::parse(expression)
            .expect("an expression")
            .holds(&|licence: &str| allowed.contains(&licence))
    }

    #[test]
    fn expressions_are_evaluated() {
        assert!(holds("MIT OR GPL-3.0", &["MIT"]));
        assert!(holds("GPL-3.0/MIT", &["MIT"]));
        assert!(!holds("MIT AND GPL-3.0", &["MIT"]));
        assert!(holds("(MIT OR GPL-3.0) AND Unicode-3.0", &["MIT", "Unicode-3.0"]));
        assert!(!holds("(MIT OR GPL-3.0) AND Unicode-3.0", &["MIT"]));
        assert!(holds(
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            &["Apache-2.0 WITH LLVM-exception"]
        ));
        assert!(!holds("Apache-2.0 WITH LLVM-exception", &["Apache-2.0"]));
        // AND binds tighter than OR.
        assert!(holds("MIT OR GPL-3.0 AND LGPL-3.0", &["MIT"]));
        for wrong in ["", "MIT OR", "(MIT", "MIT MIT", "OR MIT", "MIT WITH"] {
            assert!(Expression::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn foreign_sources_are_found() {
        let lock = "version = 4\n\n[[package]]\nname = \"candor-x\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"a\"\n\
                    version = \"1\"\nsource = \"registry+x\"\nchecksum = \"00\"\n\n[[package]]\nname = \"b\"\nversion = \"1\"\n\
                    source = \"git+https://y\"\n\n[[package]]\nname = \"c\"\nversion = \"1\"\n";
        let findings = sources(lock);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings.iter().any(|finding| finding.starts_with("b: from git")));
        assert!(findings.iter().any(|finding| finding.starts_with("c: from a path")));
    }
}
