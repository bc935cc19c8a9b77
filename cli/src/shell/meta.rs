//! Commands of the shell itself: `\…` as in psql, and a few `.…` for people who arrive from sqlite or duckdb.

use std::path::PathBuf;
use std::time::Duration;

use super::format::Format;
use super::settings::switch;
use crate::demo::command::DemoCommand;

/// One command, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meta {
    /// `\d`, `\dt`, `.tables`: tables and views.
    Tables,
    /// `\d NAME`: the columns of one.
    Describe(String),
    /// `.schema [NAME]`: as statements that make them again.
    Schema(Option<String>),
    /// `\l`: namespaces and databases.
    Databases,
    /// `\x [on|off]`
    Expanded(Option<bool>),
    /// `\timing [on|off]`
    Timing(Option<bool>),
    /// `\watch [EVERY] [TIMES]`
    Watch { every: Duration, times: Option<u32> },
    /// `\i FILE`
    Include(PathBuf),
    /// `\o [FILE]`
    Output(Option<PathBuf>),
    /// `\conninfo`
    ConnInfo,
    /// `\nodes`
    Nodes,
    /// `\lag`
    Lag,
    /// `\pin [NODE|off]`
    Pin(Pin),
    /// `\set [NAME VALUE]`
    Set(Option<(String, String)>),
    /// `\sleep SPAN`
    Sleep(Duration),
    /// `\demo …`
    Demo(DemoCommand),
    /// `\?`, `.help`
    Help,
    /// `\h [TOPIC]`
    SqlHelp(Option<String>),
    /// `\q`, `.quit`
    Quit,
}

/// What `\pin` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    Show,
    Off,
    To(String),
}

/// Whether a line is a command of the shell, where a statement may begin.
pub(crate) fn is_meta(line: &str) -> bool {
    let line = line.trim_start();
    // A number may begin with a dot, a statement never does.
    line.starts_with('\\') || (line.starts_with('.') && line[1..].starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Understands one line.
///
/// # Errors
/// A sentence that says what the command takes.
pub(crate) fn parse(line: &str) -> Result<Meta, String> {
    let words = words(line.trim().trim_end_matches(';'))?;
    let (name, arguments) = words.split_first().ok_or("a command has a name")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let wrong = |usage: &str| Err(format!("usage: {usage}"));
    Ok(match (name.as_str(), arguments.as_slice()) {
        ("\\d" | "\\dt" | ".tables", []) => Meta::Tables,
        ("\\d" | "\\dt", [name]) => Meta::Describe((*name).to_owned()),
        (".schema", []) => Meta::Schema(None),
        (".schema", [name]) => Meta::Schema(Some((*name).to_owned())),
        ("\\l" | ".databases", []) => Meta::Databases,
        ("\\x", []) => Meta::Expanded(None),
        ("\\x", [value]) => Meta::Expanded(Some(switch("\\x", value)?)),
        ("\\timing" | ".timer", []) => Meta::Timing(None),
        ("\\timing" | ".timer", [value]) => Meta::Timing(Some(switch("\\timing", value)?)),
        ("\\watch", rest) => watch(rest)?,
        ("\\i" | ".read", [file]) => Meta::Include(PathBuf::from(file)),
        ("\\o" | ".output", []) => Meta::Output(None),
        ("\\o" | ".output", [file]) => Meta::Output(Some(PathBuf::from(file))),
        ("\\conninfo", []) => Meta::ConnInfo,
        ("\\nodes" | ".nodes", []) => Meta::Nodes,
        ("\\lag", []) => Meta::Lag,
        ("\\pin", []) => Meta::Pin(Pin::Show),
        ("\\pin", ["off"]) => Meta::Pin(Pin::Off),
        ("\\pin", [node]) => Meta::Pin(Pin::To((*node).to_owned())),
        ("\\set", []) => Meta::Set(None),
        ("\\set", [name, value]) => Meta::Set(Some(((*name).to_owned(), (*value).to_owned()))),
        (".mode", [mode]) => Meta::Set(Some(("format".to_owned(), mode.parse::<Format>()?.name().to_owned()))),
        ("\\sleep", [span]) => Meta::Sleep(crate::span::parse(span)?),
        ("\\demo", rest) => Meta::Demo(DemoCommand::parse(rest)?),
        ("\\?" | ".help", _) => Meta::Help,
        ("\\h" | "\\help", []) => Meta::SqlHelp(None),
        ("\\h" | "\\help", topic) => Meta::SqlHelp(Some(topic.join(" "))),
        ("\\q" | "\\quit" | ".quit" | ".exit", []) => Meta::Quit,
        ("\\i", _) => return wrong("\\i FILE"),
        ("\\o", _) => return wrong("\\o [FILE]"),
        ("\\pin", _) => return wrong("\\pin [NODE|off]"),
        ("\\set", _) => return wrong("\\set [NAME VALUE]"),
        (".mode", _) => return wrong(".mode FORMAT"),
        ("\\sleep", _) => return wrong("\\sleep SPAN, as in `\\sleep 2s`"),
        (name, _)
            if COMMANDS
                .iter()
                .any(|(usage, _)| usage.split([' ', ',']).next() == Some(name)) =>
        {
            return Err(format!(
                "`{name}` does not take that; `\\?` lists what each command takes"
            ));
        }
        (name, _) => return Err(format!("there is no command `{name}`; `\\?` lists them")),
    })
}

fn watch(arguments: &[&str]) -> Result<Meta, String> {
    let usage = "usage: \\watch [EVERY] [TIMES], as in `\\watch 2` or `\\watch 500ms 10`";
    let every = match arguments.first() {
        None => Duration::from_secs(2),
        Some(text) => match text.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Duration::from_secs_f64(seconds),
            Ok(_) => return Err(usage.to_owned()),
            Err(_) => crate::span::parse(text)?,
        },
    };
    let times = match arguments.get(1) {
        None => None,
        Some(text) => Some(
            text.parse()
                .ok()
                .filter(|times| *times > 0)
                .ok_or_else(|| usage.to_owned())?,
        ),
    };
    if arguments.len() > 2 {
        return Err(usage.to_owned());
    }
    Ok(Meta::Watch { every, times })
}

/// Splits at white space; `'…'` keeps it together.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

/// Usage and meaning of every command, as `\?` prints them.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("\\d, \\dt, .tables", "tables and views of this database"),
    ("\\d NAME", "columns of one"),
    (".schema [NAME]", "the statements that make them"),
    ("\\l", "namespaces and databases"),
    ("\\x [on|off]", "one line for each value"),
    ("\\timing [on|off]", "the line under each answer"),
    (
        "\\watch [EVERY] [TIMES]",
        "run the last statement again and again; Ctrl-C stops",
    ),
    ("\\i FILE", "run the statements of a file"),
    ("\\o [FILE]", "write answers to a file, or here again"),
    ("\\conninfo", "the node, the session and what is pinned"),
    (
        "\\nodes",
        "the nodes this node knows of, and how long ago it heard from them",
    ),
    ("\\lag", "how far behind each follower is"),
    ("\\pin [NODE|off]", "start every statement at this node"),
    (
        "\\set [NAME VALUE]",
        "settings of the shell: format, expanded, footer, echo, on_error, rows",
    ),
    (".mode FORMAT", "table, box, csv, tsv, json, ndjson or markdown"),
    ("\\sleep SPAN", "wait, in scripts"),
    (
        "\\demo",
        "in the demo: kill, start, pause, resume, lag or partition a node",
    ),
    ("\\h [TOPIC]", "the dialect: staleness, answered, version, define …"),
    ("\\q, .quit", "leave (also Ctrl-D)"),
    ("\\?, .help", "this list"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_command_and_what_is_not() {
        for line in ["\\d", "  \\q", ".tables", ".mode csv"] {
            assert!(is_meta(line), "{line}");
        }
        for line in ["SELECT 1", ".5", "", "."] {
            assert!(!is_meta(line), "{line}");
        }
    }

    #[test]
    fn both_dialects_of_commands_mean_the_same() {
        for (line, meta) in [
            ("\\dt", Meta::Tables),
            (".tables", Meta::Tables),
            ("\\d orders;", Meta::Describe("orders".to_owned())),
            (".mode json", Meta::Set(Some(("format".to_owned(), "json".to_owned())))),
            ("\\set rows 10", Meta::Set(Some(("rows".to_owned(), "10".to_owned())))),
            ("\\i 'a file.sql'", Meta::Include(PathBuf::from("a file.sql"))),
            (
                "\\watch",
                Meta::Watch {
                    every: Duration::from_secs(2),
                    times: None,
                },
            ),
            (
                "\\watch 0.5 3",
                Meta::Watch {
                    every: Duration::from_millis(500),
                    times: Some(3),
                },
            ),
            (
                "\\watch 250ms",
                Meta::Watch {
                    every: Duration::from_millis(250),
                    times: None,
                },
            ),
            ("\\pin n3", Meta::Pin(Pin::To("n3".to_owned()))),
            ("\\h define replica", Meta::SqlHelp(Some("define replica".to_owned()))),
            (".quit", Meta::Quit),
        ] {
            assert_eq!(parse(line), Ok(meta), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_says_what_is_right() {
        for (line, says) in [
            ("\\nonsense", "no command `\\nonsense`"),
            ("\\i", "usage: \\i FILE"),
            ("\\watch 0", "usage: \\watch"),
            ("\\watch 1 0", "usage: \\watch"),
            ("\\x maybe", "`on` or `off`"),
            (".mode xml", "ndjson"),
            ("\\i 'open", "not closed"),
            ("\\conninfo now", "does not take that"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
