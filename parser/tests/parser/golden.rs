//! Golden files: `testdata/ok` holds scripts and what they mean, `testdata/err` scripts and their refusals.
//!
//! A file is a list of cases. Lines that begin with `> ` are the script, the lines below are what comes of it, a blank
//! line ends the case, and lines that begin with `#` speak to the reader. `UPDATE_GOLDEN=1 cargo test` writes the
//! answers anew; read every line before you commit it.

use std::fmt::Write as _;
use std::path::Path;

use candor_parser::parse_script;

use crate::describe;

/// Checks one file of `testdata`.
fn check(kind: &str, feature: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(kind)
        .join(format!("{feature}.txt"));
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut actual = String::new();
    let mut cases = 0;
    for block in golden.split("\n\n") {
        let (comments, script) = read_case(block);
        actual.push_str(&comments);
        if let Some(script) = script {
            cases += 1;
            for line in script.split('\n') {
                actual.push_str(format!("> {line}").trim_end());
                actual.push('\n');
            }
            actual.push_str(&answer(kind, &script));
        }
        actual.push('\n');
    }
    let actual = format!("{}\n", actual.trim_end());
    assert!(cases > 0, "{} holds no case", path.display());
    if actual == golden {
        return;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).expect("the golden file can be written");
        return;
    }
    let line = actual.lines().zip(golden.lines()).take_while(|(a, g)| a == g).count();
    panic!(
        "{}:{}\n  golden: {}\n  actual: {}\n(UPDATE_GOLDEN=1 writes the file anew)",
        path.display(),
        line + 1,
        golden.lines().nth(line).unwrap_or("<end>"),
        actual.lines().nth(line).unwrap_or("<end>"),
    );
}

/// The comment lines and the script of one case.
fn read_case(block: &str) -> (String, Option<String>) {
    let mut comments = String::new();
    let mut script: Option<String> = None;
    for line in block.lines() {
        if let Some(text) = line.strip_prefix('>') {
            let text = text.strip_prefix(' ').unwrap_or(text);
            match &mut script {
                Some(script) => {
                    script.push('\n');
                    script.push_str(text);
                }
                None => script = Some(text.to_owned()),
            }
        } else if line.starts_with('#') {
            comments.push_str(line);
            comments.push('\n');
        }
    }
    (comments, script)
}

fn answer(kind: &str, script: &str) -> String {
    match (kind, parse_script(script)) {
        ("ok", Ok(read)) => {
            let mut out = String::new();
            for statement in &read.statements {
                let _ = writeln!(out, "{}", describe::statement(statement));
            }
            if read.statements.is_empty() {
                out.push_str("no statement\n");
            }
            out
        }
        ("err", Err(error)) => describe::error(script, &error),
        ("ok", Err(error)) => panic!("refused:\n{script}\n{}", describe::error(script, &error)),
        (_, Ok(_)) => panic!("accepted: {script}"),
        (kind, _) => panic!("no such kind of golden file: {kind}"),
    }
}

macro_rules! golden {
    ($kind:ident: $($feature:ident),* $(,)?) => {
        mod $kind {
            $(#[test]
            fn $feature() {
                super::check(stringify!($kind), stringify!($feature));
            })*

            #[test]
            fn every_file_is_checked() {
                let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(stringify!($kind));
                let mut files: Vec<_> = std::fs::read_dir(folder)
                    .expect("the folder")
                    .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
                    .collect();
                let mut listed = vec![$(stringify!($feature).to_owned()),*];
                files.sort();
                listed.sort();
                assert_eq!(files, listed);
            }
        }
    };
}

golden!(ok: tails, names, scripts, define, session, transactions, explain, copy, queries, writes, ddl, functions);
golden!(err: tails, misplaced, define, session, transactions, explain, copy, queries, writes, ddl, syntax, depth, not_run);
