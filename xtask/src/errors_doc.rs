//! `docs/errors.md`, written from the table of codes in `proto/src/error.rs`.
//!
//! The table is read as text, because depending on `candor-proto` would make this program build with it.

use anyhow::{Context, Result, bail};

use crate::Workspace;

const TABLE: &str = "proto/src/error.rs";
const PAGE: &str = "docs/errors.md";

const INTRODUCTION: &str = r#"<!-- Written by `cargo xtask fix` from the table in proto/src/error.rs; edit that. -->
# Errors

Every refusal and failure is one object, with the HTTP status of its code:

```json
{"error": "plain English", "code": "staleness-unmet", "sqlstate": "72001", "retryable": true, "retry_after_ms": 1000,
 "span": {"start": 22, "length": 12}, "help": "what to do", "statement": 0,
 "bound_ms": 5000, "floor_ms": 2000, "best_age_ms": 8120}
```

`error`, `code`, `sqlstate` and `retryable` always stand; the others where they apply. `span` counts bytes of the
script, `statement` counts its statements from 0, and facts of one code (`bound_ms`, `leader` …) stand beside them.
SQLSTATEs of class 72 are Candor's own. What a caller may do after an error:

* **no**: the same request fails again.
* **at once**: the same request may succeed.
* **after a while**: it may succeed after `retry_after_ms`, which is also the `Retry-After` header.
* **look first**: whether a write took effect is not known; read before writing again.

| code | HTTP | SQLSTATE | retry | meaning |
|---|---|---|---|---|
"#;

/// One line of the table.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    meaning: String,
    code: &'a str,
    status: &'a str,
    sqlstate: &'a str,
    retry: &'static str,
}

/// Says so when the page is not what the table makes.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let written = workspace.read(PAGE).unwrap_or_default();
    Ok(if written == page(workspace)? {
        Vec::new()
    } else {
        vec![format!("{PAGE} is not up to date: run `cargo xtask fix`")]
    })
}

/// Writes the page.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    std::fs::write(workspace.path(PAGE), page(workspace)?).with_context(|| format!("cannot write {PAGE}"))
}

fn page(workspace: &Workspace) -> Result<String> {
    let source = workspace.read(TABLE)?;
    let mut page = String::from(INTRODUCTION);
    for row in parse(&source)? {
        let line = [
            &format!("`{}`", row.code),
            row.status,
            row.sqlstate,
            row.retry,
            &row.meaning,
        ]
        .join(" | ");
        page.extend(["| ", &line, " |\n"]);
    }
    Ok(page)
}

/// The lines between `codes! {` and its closing brace.
fn parse(source: &str) -> Result<Vec<Row<'_>>> {
    let table = source
        .split_once("\ncodes! {\n")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map(|(table, _)| table)
        .with_context(|| format!("{TABLE} has no table `codes! {{ … }}`"))?;
    let mut codes = Vec::new();
    let mut meaning: Vec<&str> = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("///") {
            Some(text) => meaning.push(text.trim()),
            None => codes.push(parse_row(line, std::mem::take(&mut meaning).join(" "))?),
        }
    }
    Ok(codes)
}

/// `Syntax = "syntax", 400, "42601", Retry::Never;`
fn parse_row(line: &str, meaning: String) -> Result<Row<'_>> {
    let fields: Option<Vec<&str>> = line
        .strip_suffix(';')
        .and_then(|line| line.split_once(" = "))
        .map(|(_, fields)| fields.split(", ").map(|field| field.trim_matches('"')).collect());
    let Some([code, status, sqlstate, retry]) = fields.as_deref() else {
        bail!("{TABLE}: not a line of the table: {line}");
    };
    let retry = match *retry {
        "Retry::Never" => "no",
        "Retry::Same" => "at once",
        "SOON" => "after a while",
        "Retry::OutcomeUnknown" => "look first",
        other => bail!("{TABLE}: {code}: no words for {other}"),
    };
    Ok(Row {
        meaning,
        code,
        status,
        sqlstate,
        retry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_line_by_line() {
        let source = "\ncodes! {\n    /// One\n    /// meaning.\n    A = \"a-b\", 400, \"42601\", Retry::Never;\n    \
                      /// Two.\n    C = \"c\", 503, \"72002\", SOON;\n}\n";
        let codes = parse(source).expect("a table");
        assert_eq!(codes.len(), 2);
        assert_eq!(codes[0].meaning, "One meaning.");
        assert_eq!(
            (codes[1].code, codes[1].status, codes[1].retry),
            ("c", "503", "after a while")
        );
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        assert!(parse("\ncodes! {\n    A = \"a\", 400;\n}\n").is_err());
        assert!(parse("no table").is_err());
    }
}
