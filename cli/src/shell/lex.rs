//! A lenient lexer: enough of SQL's lexical rules to find the end of a statement and to colour text that is
//! still being typed.
//!
//! It never fails. A quote or comment that is not closed yet runs to the end of the text and says so
//! (`closed == false`); everything before it keeps its meaning. The parser on the server has the last word.

use std::ops::Range;

/// What a token is, as far as colour and completion care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    /// A number, or a span such as `30s`.
    Number,
    /// `'…'`, `E'…'` or `$tag$…$tag$`.
    Text,
    /// `"…"`.
    QuotedName,
    /// `$1`.
    Parameter,
    /// `-- …` or `/* … */`.
    Comment,
    /// `;`
    End,
    /// Any other character.
    Symbol,
    /// White space.
    Space,
}

/// One token with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
    /// False when the text ended inside a quote or a comment.
    pub(crate) closed: bool,
}

/// The tokens of `text`; their spans cover it without gaps.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = Token> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let token = next(text, at)?;
        at = token.span.end;
        Some(token)
    })
}

/// The token that starts at byte `at`, which must lie between two characters.
pub(crate) fn next(text: &str, at: usize) -> Option<Token> {
    let rest = &text[at..];
    let first = rest.chars().next()?;
    let (kind, length, closed) = match first {
        c if c.is_whitespace() => (Kind::Space, length_while(rest, char::is_whitespace), true),
        '\'' => quoted(rest, 0, '\'', false, Kind::Text),
        '"' => quoted(rest, 0, '"', false, Kind::QuotedName),
        'e' | 'E' if rest[1..].starts_with('\'') => quoted(rest, 1, '\'', true, Kind::Text),
        '-' if rest.starts_with("--") => {
            // The line break ends the comment, so one at the end of the text may still grow.
            let line = rest.find('\n');
            (Kind::Comment, line.unwrap_or(rest.len()), line.is_some())
        }
        '/' if rest.starts_with("/*") => block_comment(rest),
        '$' => dollar(rest),
        ';' => (Kind::End, 1, true),
        c if c.is_ascii_digit() => (Kind::Number, length_while(rest, is_number_part), true),
        c if is_word_start(c) => (Kind::Word, length_while(rest, is_word_part), true),
        c => (Kind::Symbol, c.len_utf8(), true),
    };
    Some(Token {
        kind,
        span: at..at + length,
        closed,
    })
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

fn is_number_part(c: char) -> bool {
    c.is_alphanumeric() || c == '.' || c == '_'
}

fn length_while(text: &str, part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !part(c)).unwrap_or(text.len())
}

/// A quoted stretch; the quote stands at byte `from`, a doubled quote stands for itself.
fn quoted(text: &str, from: usize, quote: char, backslash: bool, kind: Kind) -> (Kind, usize, bool) {
    let mut chars = text[from + 1..].char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        if backslash && c == '\\' {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, following)) if *following == quote => {
                    chars.next();
                }
                _ => return (kind, from + 1 + offset + 1, true),
            }
        }
    }
    (kind, text.len(), false)
}

/// Block comments nest, as in `PostgreSQL`.
fn block_comment(text: &str) -> (Kind, usize, bool) {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return (Kind::Comment, at, true);
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    (Kind::Comment, text.len(), false)
}

/// `$1`, `$tag$ … $tag$`, or a lone dollar sign.
fn dollar(text: &str) -> (Kind, usize, bool) {
    let digits = length_while(&text[1..], |c| c.is_ascii_digit());
    if digits > 0 {
        return (Kind::Parameter, 1 + digits, true);
    }
    let tag = 1 + length_while(&text[1..], |c| c.is_alphanumeric() || c == '_');
    if !text[tag..].starts_with('$') {
        return (Kind::Symbol, 1, true);
    }
    let delimiter = &text[..=tag];
    match text[delimiter.len()..].find(delimiter) {
        Some(end) => (Kind::Text, end + 2 * delimiter.len(), true),
        None => (Kind::Text, text.len(), false),
    }
}

/// Collects lines until they make statements.
///
/// Lexing resumes where the last closed token ended, so a long script costs its length once.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    text: String,
    /// Start of the statement under way.
    start: usize,
    /// Everything before this is lexed.
    lexed: usize,
    /// Whether the statement under way has a token that is neither space nor comment.
    begun: bool,
}

/// One piece of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A statement without its semicolon and without what stands before its first token.
    Statement(String),
    /// A comment that stands between statements, for transcripts.
    Comment(String),
}

impl Splitter {
    /// Adds text and takes out the pieces that it completes.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.text.push_str(text);
        self.take(false)
    }

    /// The text has ended: what is left is a statement too, if it is anything at all.
    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        self.take(true)
    }

    /// Whether nothing but space has been seen since the last piece.
    pub(crate) fn is_idle(&self) -> bool {
        !self.begun && self.text[self.start..].trim().is_empty()
    }

    fn take(&mut self, ended: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(token) = next(&self.text, self.lexed) {
            if !token.closed && !ended {
                break;
            }
            self.lexed = token.span.end;
            match token.kind {
                Kind::End => self.complete(token.span.start, &mut pieces),
                Kind::Space if !self.begun => self.start = self.lexed,
                Kind::Comment if !self.begun => {
                    pieces.push(Piece::Comment(self.text[token.span].trim_end().to_owned()));
                    self.start = self.lexed;
                }
                Kind::Space | Kind::Comment => {}
                _ => self.begun = true,
            }
        }
        if ended {
            self.complete(self.lexed, &mut pieces);
        }
        self.text.drain(..self.start);
        self.lexed -= self.start;
        self.start = 0;
        pieces
    }

    fn complete(&mut self, end: usize, pieces: &mut Vec<Piece>) {
        if self.begun {
            pieces.push(Piece::Statement(self.text[self.start..end].trim_end().to_owned()));
        }
        self.start = self.lexed;
        self.begun = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        tokens(text)
            .filter(|t| t.kind != Kind::Space)
            .map(|t| (t.kind, &text[t.span]))
            .collect()
    }

    fn split(parts: &[&str]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut pieces: Vec<Piece> = parts.iter().flat_map(|part| splitter.push(part)).collect();
        pieces.extend(splitter.finish());
        pieces
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Statement(text) => Some(text),
                Piece::Comment(_) => None,
            })
            .collect()
    }

    #[test]
    fn tokens_cover_the_text_without_gaps_whatever_it_is() {
        for text in [
            "",
            "SELECT 'it''s' , \"a\"\"b\" -- done",
            "/* a /* b */ c */ $1 $x$ ; $x$ 30s",
            "E'a\\'b' é€ $ /* open",
            "'open",
            "\\d orders",
        ] {
            let mut at = 0;
            for token in tokens(text) {
                assert_eq!(token.span.start, at, "{text}");
                at = token.span.end;
            }
            assert_eq!(at, text.len(), "{text}");
        }
    }

    #[test]
    fn a_semicolon_inside_quotes_or_comments_ends_nothing() {
        assert_eq!(
            split(&["SELECT ';'; SELECT \";\" ; SELECT $$;$$; SELECT 1 /* ; */ ; SELECT E'\\';' -- ;\n; SELECT 2"]),
            [
                "SELECT ';'",
                "SELECT \";\"",
                "SELECT $$;$$",
                "SELECT 1 /* ; */",
                "SELECT E'\\';' -- ;",
                "SELECT 2"
            ]
        );
    }

    #[test]
    fn where_a_script_is_cut_makes_no_difference() {
        let script =
            "-- head\nSELECT 'a;\nb', $t$;$t$; /* x /* ; */ */ INSERT INTO t VALUES (E'\\'');\n;;\nSELECT \"é;\"";
        let whole = split(&[script]);
        assert_eq!(whole.len(), 3);
        for (cut, _) in script.char_indices() {
            // Words and numbers may not be cut: a script is read line by line.
            if script.as_bytes()[cut.saturating_sub(1)] == b'\n' {
                assert_eq!(split(&[&script[..cut], &script[cut..]]), whole, "cut at {cut}");
            }
        }
    }

    #[test]
    fn empty_statements_are_none() {
        assert_eq!(split(&[";;  ; -- nothing\n ;"]), Vec::<String>::new());
    }

    #[test]
    fn comments_between_statements_are_kept_for_transcripts() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push("-- A read.\n"), [Piece::Comment("-- A read.".into())]);
        assert!(splitter.is_idle());
        assert_eq!(splitter.push("SELECT 1\n"), []);
        assert!(!splitter.is_idle());
        assert_eq!(splitter.push("  ;\n"), [Piece::Statement("SELECT 1".into())]);
        assert!(splitter.is_idle());
    }

    #[test]
    fn broken_input_keeps_the_meaning_of_what_stands_before() {
        assert_eq!(
            kinds("SELECT 1 'open"),
            [(Kind::Word, "SELECT"), (Kind::Number, "1"), (Kind::Text, "'open")]
        );
        assert!(!tokens("'open").last().expect("one token").closed);
    }

    #[test]
    fn spans_and_parameters_are_one_token_each() {
        assert_eq!(
            kinds("STALENESS 1m30s $12"),
            [
                (Kind::Word, "STALENESS"),
                (Kind::Number, "1m30s"),
                (Kind::Parameter, "$12")
            ]
        );
    }
}
