//! Places in the script's text: lines and characters of the parser's tokens become bytes, once, here.

use candor_proto::SourceSpan;
use sqlparser::tokenizer::{Location, Span};

/// The text in which the locations of a statement's syntax tree are counted; empty when it is not known.
#[derive(Clone, Debug, Default)]
pub struct ScriptText(std::sync::Arc<str>);

impl ScriptText {
    /// The whole script, as it was given to the parser.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(std::sync::Arc::from(text.as_ref()))
    }

    /// The bytes between two locations, or `None` for a location outside the text.
    pub(crate) fn bytes(&self, span: Span) -> Option<SourceSpan> {
        let start = self.offset(span.start)?;
        let end = self.offset(span.end)?;
        Some(SourceSpan {
            start,
            length: end.saturating_sub(start),
        })
    }

    pub(crate) fn datafusion_bytes(&self, span: datafusion::common::Span) -> Option<SourceSpan> {
        let location = |at: datafusion::common::Location| Location::new(at.line, at.column);
        self.bytes(Span::new(location(span.start), location(span.end)))
    }

    /// Lines and columns count from 1, columns count characters.
    fn offset(&self, at: Location) -> Option<usize> {
        let line_index = usize::try_from(at.line).ok()?.checked_sub(1)?;
        let column_index = usize::try_from(at.column).ok()?.checked_sub(1)?;
        let line_start = match line_index {
            0 => 0,
            n => self.0.match_indices('\n').nth(n - 1)?.0 + 1,
        };
        let line = &self.0[line_start..];
        let within = line
            .char_indices()
            .map(|(offset, _)| offset)
            .chain(std::iter::once(line.len()))
            .nth(column_index)?;
        Some(line_start + within)
    }
}

/// The candidate that differs least from `name`, if it differs little enough to be a slip.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters were left out, added, changed, or swapped with their neighbour, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_bytes() {
        let text = ScriptText::new("SELECT 'é',\n  x FROM t");
        let span = text
            .bytes(Span::new(Location::new(2, 3), Location::new(2, 4)))
            .expect("inside");
        assert_eq!((span.start, span.length), (15, 1));
        let after = text
            .bytes(Span::new(Location::new(1, 11), Location::new(1, 12)))
            .expect("inside");
        assert_eq!(after.start, 11, "the comma stands after a character of two bytes");
        assert!(
            text.bytes(Span::new(Location::new(9, 1), Location::new(9, 2)))
                .is_none()
        );
        assert!(text.bytes(Span::empty()).is_none());
    }

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        assert_eq!(closest("ordres", ["orders", "events"]), Some("orders"));
        assert_eq!(closest("Orders", ["orders"]), Some("orders"));
        assert_eq!(closest("shpo", ["shop"]), Some("shop"));
        assert_eq!(closest("invoices", ["orders", "events"]), None);
    }
}
