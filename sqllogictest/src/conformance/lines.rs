//! The lines of a script, and DuckDB's loops over them.

use std::collections::BTreeMap;
use std::iter::Peekable;

use anyhow::{Context, Result, bail};

/// A line with the place it has in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u32,
    pub(crate) text: String,
}

/// Lines with a look at the next one.
pub(crate) struct Lines(Peekable<std::vec::IntoIter<Line>>);

impl Lines {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        Self(lines.into_iter().peekable())
    }

    pub(crate) fn peek(&mut self) -> Option<&Line> {
        self.0.peek()
    }
}

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        self.0.next()
    }
}

/// What the names in angle brackets stand for in `foreach`.
const GROUPS: &[(&str, &[&str])] = &[
    ("<signed>", &["tinyint", "smallint", "integer", "bigint", "hugeint"]),
    (
        "<unsigned>",
        &["utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"],
    ),
    (
        "<integral>",
        &[
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "hugeint",
            "utinyint",
            "usmallint",
            "uinteger",
            "ubigint",
            "uhugeint",
        ],
    ),
    (
        "<numeric>",
        &[
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "hugeint",
            "utinyint",
            "usmallint",
            "uinteger",
            "ubigint",
            "uhugeint",
            "float",
            "double",
        ],
    ),
    (
        "<compression>",
        &[
            "none",
            "uncompressed",
            "rle",
            "bitpacking",
            "dictionary",
            "fsst",
            "chimp",
            "patas",
        ],
    ),
];

/// Repeats what stands between `foreach` or `loop` and `endloop`, with the variable replaced.
pub(crate) fn expand_loops(lines: Vec<Line>, variables: &BTreeMap<String, String>) -> Result<Vec<Line>> {
    let mut expanded = Vec::new();
    let mut rest = lines.into_iter();
    while let Some(line) = rest.next() {
        let text = replaced(&line.text, variables);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, values) = match words.as_slice() {
            ["loop" | "concurrentloop", name, from, to] => {
                let from: i64 = from
                    .parse()
                    .with_context(|| format!("line {}: loop from {from}", line.number))?;
                let to: i64 = to
                    .parse()
                    .with_context(|| format!("line {}: loop to {to}", line.number))?;
                (*name, (from..to).map(|value| value.to_string()).collect())
            }
            ["foreach" | "concurrentforeach", name, values @ ..] => (*name, each(values)),
            _ => {
                expanded.push(Line {
                    number: line.number,
                    text,
                });
                continue;
            }
        };
        let body = body(&mut rest, line.number)?;
        for value in values {
            let mut inner = variables.clone();
            inner.insert(name.to_owned(), value);
            expanded.extend(expand_loops(body.clone(), &inner)?);
        }
    }
    Ok(expanded)
}

/// The lines up to the `endloop` that belongs to the loop on `line`.
fn body(rest: &mut impl Iterator<Item = Line>, line: u32) -> Result<Vec<Line>> {
    let mut body = Vec::new();
    let mut depth = 1;
    for next in rest {
        match next.text.split_whitespace().next() {
            Some("loop" | "foreach" | "concurrentloop" | "concurrentforeach") => depth += 1,
            Some("endloop") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(body);
        }
        body.push(next);
    }
    bail!("line {line}: a loop without endloop")
}

/// The values of `foreach`: words, groups in angle brackets, and `!word` for one less.
fn each(words: &[&str]) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for word in words {
        if let Some(less) = word.strip_prefix('!') {
            values.retain(|value| value != less);
        } else if let Some((_, group)) = GROUPS.iter().find(|(name, _)| name == word) {
            values.extend(group.iter().map(|&value| value.to_owned()));
        } else {
            values.push((*word).to_owned());
        }
    }
    values
}

/// `${name}` and `{name}`
fn replaced(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    if text.contains('{') {
        for (name, value) in variables {
            text = text
                .replace(&format!("${{{name}}}"), value)
                .replace(&format!("{{{name}}}"), value);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        text.lines()
            .zip(1..)
            .map(|(text, number)| Line {
                number,
                text: text.to_owned(),
            })
            .collect()
    }

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn loops_nest_and_keep_line_numbers() {
        let script = "foreach t INT <signed> !INT\nloop i 0 2\n${t} {i}\nendloop\nendloop\nlast";
        let expanded = expand_loops(lines(script), &BTreeMap::new()).expect("balanced");
        assert_eq!(expanded.len(), 11);
        assert_eq!(texts(&expanded)[..3], ["tinyint 0", "tinyint 1", "smallint 0"]);
        assert_eq!((expanded[0].number, expanded[10].number), (3, 6));
        assert!(expand_loops(lines("loop i 0 2\nx"), &BTreeMap::new()).is_err());
    }
}
