//! Spans of time as people write them: `30s`, `1m30s`, `250 ms`.
//!
//! One reader for statements, settings, command-line flags and configuration files, so that a span is never accepted
//! in one place and refused in another. Whole numbers only, each with a unit; at most [`SPAN_MAX`].

use std::ops::Range;
use std::time::Duration;

use candor_proto::limits::SPAN_MAX;

/// The units a span takes, with their length in milliseconds, longest first.
const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 24 * 3600 * 1000),
    ("d", 24 * 3600 * 1000),
    ("h", 3600 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];

/// The units as every message names them.
pub(crate) const UNITS_HELP: &str =
    "a span is a whole number and a unit, once or more: 250ms, 30s, 1m30s; units are ms, s, m, h, d and w";

/// Why a text is no span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// There is no text.
    #[error("the span is empty")]
    Empty,
    /// It starts with a minus sign.
    #[error("a span cannot be negative")]
    Negative,
    /// A unit without a number before it.
    #[error("`{unit}` has no number before it")]
    NumberMissing {
        /// What stands where the number belongs.
        unit: String,
        /// Its bytes in the text.
        at: Range<usize>,
    },
    /// A number without a unit after it.
    #[error("`{number}` has no unit")]
    UnitMissing {
        /// The number.
        number: String,
        /// Its bytes in the text.
        at: Range<usize>,
    },
    /// A word that is no unit.
    #[error("`{unit}` is not a unit of time")]
    UnitUnknown {
        /// The word.
        unit: String,
        /// Its bytes in the text.
        at: Range<usize>,
    },
    /// A number with a fraction or an exponent.
    #[error("`{number}` is not a whole number")]
    NotWhole {
        /// The number.
        number: String,
        /// Its bytes in the text.
        at: Range<usize>,
    },
    /// More than [`SPAN_MAX`].
    #[error("the span is longer than {} days", SPAN_MAX.as_secs() / 86_400)]
    TooLarge,
    /// Zero, where a bound is asked for.
    #[error("a bound of zero admits no node at all, not even the one being asked")]
    Zero,
}

impl SpanError {
    /// The offending bytes of the text; `None` means all of it.
    pub fn at(&self) -> Option<Range<usize>> {
        match self {
            Self::NumberMissing { at, .. }
            | Self::UnitMissing { at, .. }
            | Self::UnitUnknown { at, .. }
            | Self::NotWhole { at, .. } => Some(at.clone()),
            Self::Empty | Self::Negative | Self::TooLarge | Self::Zero => None,
        }
    }

    /// What to write instead.
    pub fn help(&self) -> String {
        match self {
            Self::NotWhole { .. } => "use a smaller unit: 1500ms or 1m30s".to_owned(),
            Self::Zero => {
                "name a bound of at least twice the awareness interval, or ask for the leader: ANSWERED BY LEADER"
                    .to_owned()
            }
            _ => UNITS_HELP.to_owned(),
        }
    }
}

/// Reads a span: `number unit {number unit}`, spaces allowed anywhere between, letter case of units ignored.
///
/// ```
/// use std::time::Duration;
/// use candor_parser::span::parse_span;
/// assert_eq!(parse_span("1m30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(parse_span("250 ms"), Ok(Duration::from_millis(250)));
/// assert!(parse_span("30").is_err());
/// ```
///
/// # Errors
/// [`SpanError`], with the offending bytes of `text`.
pub fn parse_span(text: &str) -> Result<Duration, SpanError> {
    let mut rest = Pieces { text, at: 0 };
    rest.skip_blanks();
    match rest.peek() {
        None => return Err(SpanError::Empty),
        Some('-') => return Err(SpanError::Negative),
        Some('+') => {
            rest.at += 1;
            rest.skip_blanks();
        }
        Some(_) => {}
    }
    let mut total: u64 = 0;
    loop {
        let millis = rest.number_and_unit()?;
        total = total.checked_add(millis).ok_or(SpanError::TooLarge)?;
        rest.skip_blanks();
        if rest.peek().is_none() {
            break;
        }
    }
    let span = Duration::from_millis(total);
    if span > SPAN_MAX {
        return Err(SpanError::TooLarge);
    }
    Ok(span)
}

/// Reads a staleness bound: a span that is not zero, since a bound of zero could only ever refuse.
///
/// ```
/// use candor_parser::span::{SpanError, parse_staleness};
/// assert_eq!(parse_staleness("0s"), Err(SpanError::Zero));
/// ```
///
/// # Errors
/// [`SpanError`], also for zero.
pub fn parse_staleness(text: &str) -> Result<Duration, SpanError> {
    let span = parse_span(text)?;
    if span.is_zero() {
        return Err(SpanError::Zero);
    }
    Ok(span)
}

/// Whether `word` is a unit of time, in any letter case.
pub(crate) fn is_unit(word: &str) -> bool {
    UNITS.iter().any(|(unit, _)| unit.eq_ignore_ascii_case(word))
}

struct Pieces<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Pieces<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let taken = rest.find(|c| !keep(c)).map_or(rest, |end| &rest[..end]);
        self.at += taken.len();
        taken
    }

    /// One `number unit`, in milliseconds.
    fn number_and_unit(&mut self) -> Result<u64, SpanError> {
        let start = self.at;
        // `_` and `.` are taken along, so that `1.5h` is named as a whole.
        let number = self.take_while(|c| c.is_ascii_digit() || c == '.' || c == '_');
        let number_at = start..self.at;
        self.skip_blanks();
        let unit_start = self.at;
        let unit = self.take_while(|c| !c.is_whitespace() && !c.is_ascii_digit());
        let unit_at = unit_start..self.at;
        if number.is_empty() {
            let (unit, at) = (unit.to_owned(), unit_at);
            return Err(SpanError::NumberMissing { unit, at });
        }
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            let (number, at) = (number.to_owned(), number_at);
            return Err(SpanError::NotWhole { number, at });
        }
        if unit.is_empty() {
            let (number, at) = (number.to_owned(), number_at);
            return Err(SpanError::UnitMissing { number, at });
        }
        let Some((_, millis)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
            let (unit, at) = (unit.to_owned(), unit_at);
            return Err(SpanError::UnitUnknown { unit, at });
        };
        let count: u64 = number.parse().map_err(|_| SpanError::TooLarge)?;
        count.checked_mul(*millis).ok_or(SpanError::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_compounds_are_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1w", 604_800_000),
            ("1m30s", 90_000),
            (" 1 m 30 S ", 90_000),
            ("1h1m1s1ms", 3_661_001),
            ("+5s", 5_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refusals_name_the_offending_bytes() {
        for (text, at) in [
            ("30", Some(0..2)),
            ("30 fortnights", Some(3..13)),
            ("1m s", Some(3..4)),
            ("s", Some(0..1)),
            ("1.5h", Some(0..3)),
            ("1m 20", Some(3..5)),
            ("", None),
            ("  ", None),
            ("-5s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615ms", None),
            ("18446744073709551615w", None),
        ] {
            assert_eq!(parse_span(text).expect_err(text).at(), at, "{text}");
        }
    }

    #[test]
    fn the_longest_span_is_accepted_and_one_more_is_not() {
        let most = SPAN_MAX.as_secs();
        assert_eq!(parse_span(&format!("{most}s")), Ok(SPAN_MAX));
        assert_eq!(parse_span(&format!("{}s", most + 1)), Err(SpanError::TooLarge));
        assert_eq!(parse_span(&format!("{most}s1ms")), Err(SpanError::TooLarge));
    }

    #[test]
    fn a_bound_of_zero_is_refused_in_every_spelling() {
        for text in ["0s", "0ms", "0h0s", "000w"] {
            assert_eq!(parse_staleness(text), Err(SpanError::Zero), "{text}");
        }
    }
}
