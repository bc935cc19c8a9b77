//! Words with their bytes, cut into statements.
//!
//! sqlparser's tokenizer keeps strings, comments and dollar quotes whole, but counts lines and characters; everything
//! of ours speaks of bytes, so places are converted once, here, in one forward pass. Whitespace and comments are
//! dropped. The bounds on size, nesting and operator chains stand here too, because they must hold *before* a tree is
//! built: sqlparser bounds its own recursion, but it builds operator chains in a loop, and a tree as deep as the chain
//! is long overflows the stack of whoever walks or drops it.

use candor_proto::SourceSpan;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace, Word};

use crate::error::{ParseError, place};

/// The dialect words are told apart in.
const DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// The longest script, bytes. Tokens take up to some seventy times their text, so this bounds memory, too.
pub const SCRIPT_BYTES_MAX: usize = candor_proto::limits::BODY_BYTES_MAX;

/// How deep brackets may nest.
pub const NESTING_MAX: usize = 100;

/// How deep queries may nest: one level of them is as deep a tree, and as large on the stack, as several of brackets.
pub const QUERIES_MAX: usize = 40;

/// How many operators one expression may hold, counted between two commas, enclosing brackets included. Each can be
/// one level of the tree.
pub const OPERATORS_MAX: usize = 1000;

/// One word, number, string or sign with its bytes in the script.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: TokenWithSpan,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Lexeme {
    pub(crate) fn span(&self) -> SourceSpan {
        span_of(self.start, self.end)
    }

    /// The word, if it is one and not quoted.
    pub(crate) fn word(&self) -> Option<&Word> {
        match &self.token.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word),
            _ => None,
        }
    }

    /// Whether it is this unquoted word, in any letter case.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.word().is_some_and(|word| word.value.eq_ignore_ascii_case(text))
    }

    pub(crate) fn is_sign(&self, token: &Token) -> bool {
        self.token.token == *token
    }

    fn opens(&self) -> bool {
        matches!(self.token.token, Token::LParen | Token::LBracket | Token::LBrace)
    }

    fn closes(&self) -> bool {
        matches!(self.token.token, Token::RParen | Token::RBracket | Token::RBrace)
    }
}

pub(crate) fn span_of(start: usize, end: usize) -> SourceSpan {
    SourceSpan {
        start,
        length: end.saturating_sub(start),
    }
}

/// The words of one statement.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    /// The whole script.
    pub(crate) script: &'a str,
    /// The words, without the `;`.
    pub(crate) list: &'a [Lexeme],
    /// Where the statement ends when its words do: the end of the last word.
    pub(crate) end: usize,
}

impl<'a> Words<'a> {
    pub(crate) fn text(&self, from: usize, to: usize) -> &'a str {
        self.script.get(from..to).unwrap_or("")
    }

    /// The bytes of the word at `index`, or the end of the statement.
    pub(crate) fn span(&self, index: usize) -> SourceSpan {
        match self.list.get(index) {
            Some(word) => word.span(),
            None => span_of(self.end, self.end),
        }
    }

    /// The text of the word at `index`; empty at the end.
    pub(crate) fn written(&self, index: usize) -> &'a str {
        let span = self.span(index);
        self.text(span.start, span.start + span.length)
    }

    /// The bytes from one word to another, both included.
    pub(crate) fn span_from_to(&self, first: usize, last: usize) -> SourceSpan {
        let (first, last) = (self.span(first), self.span(last));
        span_of(first.start, last.start + last.length)
    }

    /// All of it.
    pub(crate) fn whole(&self) -> SourceSpan {
        self.list
            .first()
            .map_or(span_of(self.end, self.end), |first| span_of(first.start, self.end))
    }

    pub(crate) fn is(&self, index: usize, text: &str) -> bool {
        self.list.get(index).is_some_and(|word| word.is(text))
    }

    pub(crate) fn is_sign(&self, index: usize, token: &Token) -> bool {
        self.list.get(index).is_some_and(|word| word.is_sign(token))
    }

    /// The words from `from` on, up to `to`.
    pub(crate) fn part(&self, from: usize, to: usize) -> Self {
        let list = &self.list[from..to];
        Self {
            script: self.script,
            list,
            end: list.last().map_or_else(|| self.span(from).start, |last| last.end),
        }
    }

    /// The words from `from` on.
    pub(crate) fn rest(&self, from: usize) -> Self {
        self.part(from, self.list.len())
    }

    /// Where these words stand one after another, as whole unquoted words.
    pub(crate) fn find(&self, sequence: &[&str]) -> Option<SourceSpan> {
        let at = (0..self.list.len()).find(|&at| {
            sequence
                .iter()
                .enumerate()
                .all(|(offset, text)| self.is(at + offset, text))
        })?;
        Some(self.span_from_to(at, at + sequence.len() - 1))
    }

    /// [`Self::find`], or the whole statement.
    pub(crate) fn locate(&self, sequence: &[&str]) -> SourceSpan {
        self.find(sequence).unwrap_or_else(|| self.whole())
    }

    /// The word that starts at a place of sqlparser's.
    pub(crate) fn at_location(&self, location: Location) -> Option<usize> {
        self.list
            .binary_search_by_key(&location, |word| word.token.span.start)
            .ok()
    }
}

/// The script's words without whitespace and comments, `;` included.
///
/// # Errors
/// [`ParseError::TooLarge`]; a string, comment or quoted name that does not end; a hint comment.
pub(crate) fn lex(script: &str) -> Result<Vec<Lexeme>, ParseError> {
    if script.len() > SCRIPT_BYTES_MAX {
        return Err(ParseError::TooLarge {
            bytes: script.len(),
            max: SCRIPT_BYTES_MAX,
        });
    }
    let tokens = Tokenizer::new(&DIALECT, script)
        .tokenize_with_location()
        .map_err(|error| broken_word(script, &error))?;
    let mut places = Places::new(script);
    let mut words = Vec::with_capacity(tokens.len());
    for token in tokens {
        let start = places.byte(token.span.start);
        let end = places.byte(token.span.end);
        match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(comment)) if comment.starts_with('+') => {
                return Err(ParseError::unsupported(
                    "a planner hint in a comment (/*+ … */)",
                    "write an ordinary comment: /* … */",
                    span_of(start, end),
                ));
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => words.push(Lexeme { token, start, end }),
        }
    }
    Ok(words)
}

/// Cuts the words at `;`. Empty statements are left out.
pub(crate) fn statements<'a>(script: &'a str, words: &'a [Lexeme]) -> impl Iterator<Item = Words<'a>> {
    words
        .split(|word| word.is_sign(&Token::SemiColon))
        .filter_map(move |list| {
            let end = list.last()?.end;
            Some(Words { script, list, end })
        })
}

/// Refuses a statement that nests deeper than [`NESTING_MAX`] or [`QUERIES_MAX`] or chains more than [`OPERATORS_MAX`]
/// operators.
pub(crate) fn check_depth(words: &Words<'_>) -> Result<(), ParseError> {
    let mut depth = Depth {
        levels: vec![Level::default()],
        operators: 0,
        queries: 0,
    };
    for (at, word) in words.list.iter().enumerate() {
        depth.read(word, words.list.get(at + 1));
        // The one prefix that sqlparser reads without counting: it would recurse until the stack ends.
        let intervals = words.list[at..]
            .iter()
            .take_while(|word| word.is("INTERVAL"))
            .take(INTERVALS_MAX + 1);
        let (what, help) = if intervals.count() > INTERVALS_MAX {
            (
                format!("INTERVAL stands more than {INTERVALS_MAX} times in a row"),
                "write INTERVAL once: INTERVAL '1 day'",
            )
        } else if depth.levels.len() > NESTING_MAX + 1 {
            (
                format!("more than {NESTING_MAX} brackets stand inside each other"),
                "take inner queries out with WITH",
            )
        } else if depth.queries > QUERIES_MAX {
            (
                format!("more than {QUERIES_MAX} queries stand inside each other"),
                "take inner queries out with WITH",
            )
        } else if depth.operators > OPERATORS_MAX {
            (
                format!("more than {OPERATORS_MAX} operators stand in one expression"),
                "use IN (…) for long lists, and VALUES for rows; UNION, EXCEPT and INTERSECT count tenfold",
            )
        } else {
            continue;
        };
        return Err(ParseError::TooDeep {
            what,
            help: help.to_owned(),
            at: place(word.span()),
        });
    }
    Ok(())
}

/// What stands between one bracket and its closing one.
#[derive(Default)]
struct Level {
    /// Operators since the last comma.
    operators: usize,
    /// Set operations, weighed: they chain across commas.
    sets: usize,
    is_query: bool,
}

/// How deep the tree of the words so far can be: the sums over all open levels.
struct Depth {
    levels: Vec<Level>,
    operators: usize,
    queries: usize,
}

impl Depth {
    fn read(&mut self, word: &Lexeme, next: Option<&Lexeme>) {
        if word.opens() {
            let is_query = next.is_some_and(|next| QUERY_WORDS.iter().any(|first| next.is(first)));
            self.queries += usize::from(is_query);
            self.levels.push(Level {
                is_query,
                ..Level::default()
            });
        } else if word.closes() {
            // A closing bracket too many is sqlparser's to refuse.
            if self.levels.len() > 1
                && let Some(level) = self.levels.pop()
            {
                self.operators -= level.operators + level.sets;
                self.queries -= usize::from(level.is_query);
            }
            return;
        }
        let level = self.levels.last_mut().expect("the outermost level is never popped");
        match kind(word) {
            Kind::Comma => {
                self.operators -= level.operators;
                level.operators = 0;
            }
            Kind::SetOperator => {
                level.sets += SET_WEIGHT;
                self.operators += SET_WEIGHT;
            }
            Kind::Operator => {
                level.operators += 1;
                self.operators += 1;
            }
            Kind::Plain => {}
        }
    }
}

/// A set operation is as large on the stack as this many operators: 100 of them fit.
const SET_WEIGHT: usize = 10;

/// How often INTERVAL may be said in a row, as a word and as a name.
const INTERVALS_MAX: usize = 3;

/// How a query in brackets begins.
const QUERY_WORDS: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];

enum Kind {
    Plain,
    Comma,
    Operator,
    SetOperator,
}

/// Whether a word can add a level to the tree without opening a bracket.
fn kind(word: &Lexeme) -> Kind {
    match &word.token.token {
        Token::Comma => Kind::Comma,
        Token::Word(word) => match word.keyword {
            Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::MINUS
            | Keyword::PIVOT
            | Keyword::UNPIVOT
            | Keyword::MATCH_RECOGNIZE => Kind::SetOperator,
            Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::IN
            | Keyword::BETWEEN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::DIV
            | Keyword::OVERLAPS
            | Keyword::OPERATOR
            | Keyword::INTERVAL
            | Keyword::PRIOR
            | Keyword::ARRAY
            | Keyword::TABLESAMPLE => Kind::Operator,
            _ => Kind::Plain,
        },
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::LBrace
        | Token::RBrace
        | Token::RBracket => Kind::Plain,
        _ => Kind::Operator,
    }
}

/// The highest parameter of the statement.
///
/// # Errors
/// A placeholder that is not `$1` … `$65535`.
pub(crate) fn highest_parameter(words: &Words<'_>) -> Result<usize, ParseError> {
    let mut highest = 0;
    for word in words.list {
        if let Token::Placeholder(name) = &word.token.token {
            highest = highest.max(parameter_number(name, word.span())? as usize);
        }
    }
    Ok(highest)
}

/// Where the first parameter stands; the whole statement if there is none.
pub(crate) fn first_parameter(words: &Words<'_>) -> SourceSpan {
    let found = words
        .list
        .iter()
        .find(|word| matches!(word.token.token, Token::Placeholder(_)));
    found.map_or_else(|| words.whole(), Lexeme::span)
}

/// The number of a placeholder.
pub(crate) fn parameter_number(name: &str, at: SourceSpan) -> Result<u32, ParseError> {
    name.strip_prefix('$')
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|digits| digits.parse::<u16>().ok())
        .filter(|number| *number > 0)
        .map(u32::from)
        .ok_or_else(|| {
            ParseError::syntax_help(
                format!("`{name}` is not a parameter"),
                format!("parameters are numbered: $1, $2, up to ${}", u16::MAX),
                at,
            )
        })
}

/// Our words for a string, comment or name that does not end.
fn broken_word(script: &str, error: &TokenizerError) -> ParseError {
    let mut start = Places::new(script).byte(error.location);
    let message = error.message.to_ascii_lowercase();
    let (what, help) = if message.contains("multi-line comment") {
        // The tokenizer stops at the end of the text; people look for the beginning.
        start = script.rfind("/*").unwrap_or(start);
        ("a comment is not closed", "end it with */")
    } else if message.contains("dollar-quoted") || message.contains("dollar quoted") {
        let mark_end = script.rfind('$').unwrap_or(start);
        start = script[..mark_end].rfind('$').unwrap_or(mark_end);
        (
            "a dollar-quoted string is not closed",
            "end it with the same mark that begins it: $$ … $$",
        )
    } else if message.contains("close delimiter") {
        (
            "a quoted name is not closed",
            "end it with \"; a \" inside it is written twice",
        )
    } else if message.contains("unterminated") {
        (
            "a string is not closed",
            "end it with '; a ' inside it is written twice",
        )
    } else {
        let length = script[start..].chars().next().map_or(0, char::len_utf8);
        return ParseError::syntax(
            format!("the text cannot be read here: {}", error.message),
            span_of(start, start + length),
        );
    };
    ParseError::syntax_help(what, help, span_of(start, script.trim_end().len().max(start)))
}

/// Turns lines and character columns into bytes, each place after the one before.
struct Places<'a> {
    script: &'a str,
    byte: usize,
    line: u64,
    column: u64,
}

impl<'a> Places<'a> {
    fn new(script: &'a str) -> Self {
        Self {
            script,
            byte: 0,
            line: 1,
            column: 1,
        }
    }

    /// The byte at `location`; the end of the script when it lies beyond.
    fn byte(&mut self, location: Location) -> usize {
        for c in self.script[self.byte..].chars() {
            if (self.line, self.column) >= (location.line, location.column) {
                break;
            }
            self.byte += c.len_utf8();
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(script: &str) -> Vec<&str> {
        lex(script)
            .expect("words")
            .iter()
            .map(|word| &script[word.start..word.end])
            .collect()
    }

    #[test]
    fn places_are_bytes_also_after_wide_characters_and_line_ends() {
        assert_eq!(
            pieces("SELECT 'ä€😀', ü\r\n FROM\n\"ö\" -- ß\n x"),
            ["SELECT", "'ä€😀'", ",", "ü", "FROM", "\"ö\"", "x"]
        );
        assert_eq!(pieces("a\u{2028}b 1"), ["a\u{2028}b", "1"]);
    }

    #[test]
    fn semicolons_in_strings_comments_and_dollar_quotes_do_not_cut() {
        let script = "SELECT ';'; /* ; */ SELECT $$;$$ -- ;\n;; SELECT \";\"";
        let words = lex(script).expect("words");
        let texts: Vec<_> = statements(script, &words)
            .map(|s| s.text(s.whole().start, s.end))
            .collect();
        assert_eq!(texts, ["SELECT ';'", "SELECT $$;$$", "SELECT \";\""]);
    }

    #[test]
    fn commas_start_an_expression_anew_but_not_a_chain_of_unions() {
        let check = |text: &str| {
            let words = lex(text).expect("words");
            statements(text, &words).try_for_each(|s| check_depth(&s))
        };
        let many = OPERATORS_MAX + 1;
        assert!(check(&format!("SELECT {}", vec!["1+1"; many].join(","))).is_ok());
        assert!(check(&format!("SELECT {}", vec!["1"; many].join("+"))).is_ok());
        assert!(check(&format!("SELECT {}", vec!["1"; many + 1].join("+"))).is_err());
        assert!(check(&vec!["SELECT 1, 2"; many + 1].join(" UNION ")).is_err());
        assert!(
            check(&format!(
                "SELECT {}1{}",
                "(".repeat(NESTING_MAX),
                ")".repeat(NESTING_MAX)
            ))
            .is_ok()
        );
        assert!(check(&format!("SELECT {}", "(".repeat(NESTING_MAX + 1))).is_err());
        // Half of the operators outside the brackets, half inside.
        let half = vec!["1"; many / 2 + 2].join("+");
        assert!(check(&format!("SELECT {half} + ({half})")).is_err());
        assert!(check(&format!("SELECT {half}, ({half})")).is_ok());
        assert!(check(")))) + (").is_ok());
    }
}
