//! Errors as people read them: a sentence, the offending word underlined, and what to do about it.

use std::fmt;

use candor_client::ClientError;
use candor_proto::{ErrorBody, SourceSpan};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};

/// One error with the statement that caused it.
#[derive(Debug)]
struct Report {
    message: String,
    code: Option<String>,
    help: Option<String>,
    source: NamedSource<String>,
    label: Option<LabeledSpan>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Report {}

impl Diagnostic for Report {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.code.as_ref().map(|code| Box::new(code) as Box<dyn fmt::Display>)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.label.is_some().then_some(&self.source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = self.label.clone()?;
        Some(Box::new(std::iter::once(label)))
    }
}

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) color: bool,
    /// Where lines are broken; `None` breaks none, so that a script can look for a sentence.
    pub(crate) width: Option<usize>,
}

/// Wider than any line.
const WIDTH_MAX: usize = 1 << 20;

/// The refusal or failure that a node answered with, pointing into `statement`.
pub(crate) fn server_error(body: &ErrorBody, statement: &str, style: Style) -> String {
    draw(
        &Report {
            message: body.error.clone(),
            code: Some(body.code.as_str().to_owned()),
            help: body.help.clone(),
            source: NamedSource::new("statement", statement.to_owned()),
            label: body.span.map(|span| label(span, statement)),
        },
        style,
    )
}

/// An error on the way: no connection, a redirect loop, a deadline.
pub(crate) fn client_error(error: &ClientError, statement: &str, style: Style) -> String {
    if let ClientError::Server(body) = error {
        return server_error(body, statement, style);
    }
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        source = cause.source();
    }
    plain_error(&message, style)
}

/// An error of the shell itself.
pub(crate) fn plain_error(message: &str, style: Style) -> String {
    draw(
        &Report {
            message: message.to_owned(),
            code: None,
            help: None,
            source: NamedSource::new("statement", String::new()),
            label: None,
        },
        style,
    )
}

/// The span, moved inside the text should a node ever send one that is not.
fn label(span: SourceSpan, statement: &str) -> LabeledSpan {
    let inside = |mut at: usize| {
        at = at.min(statement.len());
        while !statement.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = inside(span.start);
    let end = inside(span.start.saturating_add(span.length)).max(start);
    LabeledSpan::new(None, start, end - start)
}

fn draw(report: &Report, style: Style) -> String {
    let theme = if style.color {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let mut text = String::new();
    let drawn = GraphicalReportHandler::new_themed(theme)
        .with_width(style.width.unwrap_or(WIDTH_MAX))
        .with_wrap_lines(style.width.is_some())
        .with_links(false)
        .render_report(&mut text, report);
    if drawn.is_err() {
        // Drawing is decoration; the sentence is what must not be lost.
        text = format!("error: {}", report.message);
    }
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .skip_while(|line| line.is_empty())
        .collect();
    format!("{}\n", lines.join("\n").trim_end())
}

#[cfg(test)]
mod tests {
    use candor_proto::ErrorCode;

    use super::*;

    const PLAIN: Style = Style {
        color: false,
        width: Some(80),
    };

    #[test]
    fn the_offending_word_is_underlined_and_the_way_out_is_said() {
        let statement = "SELECT * FROM orders STALENESS 0s";
        let body = ErrorBody::new(ErrorCode::BadClause, "STALENESS 0s admits no node at all")
            .with_span(SourceSpan { start: 31, length: 2 })
            .with_help("name a bound of at least 2s");
        let text = server_error(&body, statement, PLAIN);
        for part in [
            "bad-clause",
            "STALENESS 0s admits no node at all",
            "SELECT * FROM orders STALENESS 0s",
            "name a bound",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        let source = text
            .lines()
            .position(|line| line.contains("SELECT"))
            .expect("the source line");
        let word = text
            .lines()
            .nth(source)
            .and_then(|line| line.find("0s"))
            .expect("the word");
        let mark: Vec<char> = text.lines().nth(source + 1).expect("the mark").chars().collect();
        let column = text.lines().nth(source).expect("the source line")[..word]
            .chars()
            .count();
        assert!(mark[column] != ' ', "the mark does not stand under the word:\n{text}");
        assert!(!text.contains('\u{1b}'), "an escape code without colour");
    }

    #[test]
    fn a_span_outside_the_text_is_survived() {
        for (start, length) in [(0, 99), (99, 1), (usize::MAX, usize::MAX), (8, 1)] {
            let body = ErrorBody::new(ErrorCode::Syntax, "no").with_span(SourceSpan { start, length });
            assert!(server_error(&body, "SELECT é", PLAIN).contains("no"));
        }
    }
}
