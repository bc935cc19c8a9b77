//! Spans of time on the command line, in the configuration file and in commands of the shell: the same text as in SQL.

use std::time::Duration;

use candor_parser::span::parse_span;

/// `30s`, `1m30s`, `250ms`.
///
/// # Errors
/// A sentence that names the units.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    parse_span(text).map_err(|error| error.to_string())
}
