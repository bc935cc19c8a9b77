//! Statements and errors as the golden files show them.

use std::fmt::Write as _;

use candor_parser::{AnsweredBy, Body, CopySource, DefineWhat, NumberValue, ParseError, SpanValue, Statement, Tails};
use candor_proto::SourceSpan;

/// One statement: its bytes, what it does, its tails.
pub(crate) fn statement(statement: &Statement) -> String {
    let mut out = format!("{} {}", range(statement.span), body(&statement.body));
    if statement.parameters > 0 {
        let _ = write!(out, "\n  parameters {}", statement.parameters);
    }
    out.push_str(&tails(&statement.tails));
    out
}

fn range(span: SourceSpan) -> String {
    format!("{}..{}", span.start, span.start + span.length)
}

fn body(body: &Body) -> String {
    match body {
        Body::Query(query) => format!("query {query}"),
        // A name that no text can hold stands for what sqlparser does not read.
        Body::Write(write) => format!("write {write}").replace('\0', "\\0"),
        Body::Explain {
            analyze,
            verbose,
            route,
            inner,
        } => {
            let mut out = "explain".to_owned();
            for (said, word) in [(analyze, "analyze"), (verbose, "verbose"), (route, "route")] {
                if *said {
                    let _ = write!(out, " {word}");
                }
            }
            format!("{out} {}", self::body(inner))
        }
        Body::Copy(copy) => {
            let source = match &copy.source {
                CopySource::Table { name, columns } => format!("{name} {columns:?}"),
                CopySource::Query(query) => format!("({query})"),
            };
            format!(
                "copy {source} {:?} {:?} {:?}",
                copy.direction, copy.target, copy.options
            )
        }
        Body::Define(define) => {
            let unless = if define.if_not_exists { " if not exists" } else { "" };
            let what = match &define.what {
                DefineWhat::Namespace(name) => format!("namespace {name:?}"),
                DefineWhat::Database { namespace, name } => format!("database {namespace:?} {name:?}"),
                DefineWhat::Collection(collection) => {
                    let overwrite = if collection.overwrite { " overwrite" } else { "" };
                    let open = if collection.open { "open" } else { "closed" };
                    format!("{open} collection {}{overwrite}: {}", collection.name, collection.table)
                }
                DefineWhat::Replica(replica) => format!("{replica:?}"),
            };
            format!("define{unless} {what} (name {})", range(define.name_span))
        }
        Body::CreateTable(table) => format!("create table {table}"),
        Body::CreateView(view) => format!("create view {view}"),
        Body::CreateIndex(index) => format!("create index {index}"),
        Body::Sequence(statement) => format!("sequence {statement}"),
        Body::AlterTable(alter) => format!("alter {alter}"),
        Body::Remove(remove) => {
            let names: Vec<_> = remove.names.iter().map(ToString::to_string).collect();
            let unless = if remove.if_exists { " if exists" } else { "" };
            let cascade = if remove.cascade { " cascade" } else { "" };
            format!("remove{unless} {:?} {}{cascade}", remove.kind, names.join(", "))
        }
        Body::Set {
            name,
            value,
            value_span,
        } => format!("set {name} = {value:?} ({})", range(*value_span)),
        other => format!("{other:?}"),
    }
}

fn span_value(value: SpanValue) -> String {
    match value {
        SpanValue::Span(span) => format!("{span:?}"),
        SpanValue::Parameter(index) => format!("${index}"),
    }
}

fn number_value(value: NumberValue) -> String {
    match value {
        NumberValue::Number(number) => number.to_string(),
        NumberValue::Parameter(index) => format!("${index}"),
    }
}

fn tails(tails: &Tails) -> String {
    let mut lines = Vec::new();
    if let Some(tail) = &tails.staleness {
        lines.push((tail.span, format!("staleness {}", span_value(tail.value))));
    }
    if let Some(tail) = &tails.answered_by {
        let word = match tail.value {
            AnsweredBy::Any => "any",
            AnsweredBy::Leader => "leader",
        };
        lines.push((tail.span, format!("answered by {word}")));
    }
    if let Some(tail) = &tails.version {
        lines.push((tail.span, format!("version {}", number_value(tail.value))));
    }
    if let Some(tail) = &tails.at_least {
        let mut line = format!("at least version {}", number_value(tail.value.version));
        if let Some(wait) = tail.value.wait {
            let _ = write!(line, ", wait {}", span_value(wait));
        }
        lines.push((tail.span, line));
    }
    lines.sort_by_key(|(span, _)| span.start);
    lines.into_iter().fold(String::new(), |out, (span, line)| {
        format!("{out}\n  {line} ({})", range(span))
    })
}

/// One refusal: code, sentence, the line it points at, the way out.
pub(crate) fn error(script: &str, error: &ParseError) -> String {
    let mut out = format!("{}: {error}\n", error.code());
    if let Some(span) = error.span() {
        let line_start = script[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = script[span.start..]
            .find('\n')
            .map_or(script.len(), |at| span.start + at);
        let before = script[line_start..span.start].chars().count();
        let marked = script[span.start..(span.start + span.length).min(line_end).max(span.start)]
            .chars()
            .count();
        let _ = writeln!(out, "  | {}", &script[line_start..line_end]);
        let _ = writeln!(out, "  | {}{}", " ".repeat(before), "^".repeat(marked.max(1)));
    }
    if let Some(help) = error.help() {
        let _ = writeln!(out, "  help: {help}");
    }
    out
}
