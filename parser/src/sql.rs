//! The one place where sqlparser reads, and where its complaints become ours.

use candor_proto::SourceSpan;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use crate::cursor::shorten;
use crate::dialect::BoundedDialect;
use crate::error::{ParseError, place};
use crate::lex::{Lexeme, NESTING_MAX, Words};
use crate::merge;
use crate::sequences;
use crate::tails;
use crate::trim;

/// How deep sqlparser may recurse. A level of brackets takes up to four of its steps; beyond brackets this bounds NOT,
/// CASE and joins inside each other.
const RECURSION_MAX: usize = 4 * NESTING_MAX + 50;

/// How many expressions may be tried for each word, and for a statement however short.
const STEPS_PER_WORD: usize = 50;
const STEPS_MIN: usize = 1000;

/// Reads one statement to its end.
///
/// # Errors
/// What sqlparser does not understand, at the word where it stops.
pub(crate) fn statement(words: &Words<'_>) -> Result<ast::Statement, ParseError> {
    statement_from(words, tokens(words.list))
}

/// Reads one statement from words of ours in front of words of the script; places stay those of the script.
pub(crate) fn statement_after(prefix: &[Token], words: &Words<'_>) -> Result<ast::Statement, ParseError> {
    let span = words.list.first().map_or_else(Span::empty, |word| {
        Span::new(word.token.span.start, word.token.span.start)
    });
    let mut all: Vec<_> = prefix
        .iter()
        .map(|token| TokenWithSpan::new(token.clone(), span))
        .collect();
    all.append(&mut tokens(words.list));
    statement_from(words, all)
}

/// A word of SQL, as the tokenizer would make it.
pub(crate) fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

fn statement_from(words: &Words<'_>, tokens: Vec<TokenWithSpan>) -> Result<ast::Statement, ParseError> {
    let tokens = sequences::options_in_order(trim::readable(merge::readable(tokens)));
    let dialect = BoundedDialect::new(STEPS_MIN + STEPS_PER_WORD * tokens.len());
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(RECURSION_MAX)
        .with_tokens_with_locations(tokens);
    let read = parser.parse_statement();
    let next = parser.peek_token();
    if dialect.is_used_up() {
        return Err(ParseError::TooDeep {
            what: "what stands inside each other can be read in too many ways".to_owned(),
            help: "take inner calls and queries out with WITH".to_owned(),
            at: place(words.span(word_at(words, &next))),
        });
    }
    match read {
        Ok(statement) if next.token == Token::EOF => Ok(statement),
        Ok(_) => Err(unexpected(words, word_at(words, &next), "the end of the statement")),
        Err(ParserError::RecursionLimitExceeded) => Err(ParseError::TooDeep {
            what: format!("more than {RECURSION_MAX} levels"),
            help: "take inner queries out with WITH".to_owned(),
            at: place(words.span(word_at(words, &next))),
        }),
        Err(ParserError::ParserError(message) | ParserError::TokenizerError(message)) => {
            Err(translate(words, &message, &next))
        }
    }
}

/// The words as sqlparser takes them. `session::context(` is a function, not a cast: the name of a function namespace
/// before `::` and one of its functions after it make the sign a dot.
fn tokens(words: &[Lexeme]) -> Vec<TokenWithSpan> {
    let mut tokens: Vec<_> = words.iter().map(|word| word.token.clone()).collect();
    for at in 1..words.len() {
        if is_namespace_call(words, at) {
            tokens[at].token = Token::Period;
            // Both parts are names here, whatever they mean elsewhere.
            for part in [at - 1, at + 1] {
                if let Token::Word(word) = &mut tokens[part].token {
                    word.keyword = Keyword::NoKeyword;
                    word.value.make_ascii_lowercase();
                }
            }
        }
    }
    tokens
}

/// The function namespaces and what is in them.
const NAMESPACE_FUNCTIONS: [(&str, &[&str]); 1] = [("session", &["context"])];

fn is_namespace_call(words: &[Lexeme], at: usize) -> bool {
    words[at].is_sign(&Token::DoubleColon)
        && !(at > 1 && words[at - 2].is_sign(&Token::Period))
        && words.get(at + 2).is_some_and(|word| word.is_sign(&Token::LParen))
        && NAMESPACE_FUNCTIONS.iter().any(|(namespace, functions)| {
            words[at - 1].is(namespace) && functions.iter().any(|function| words[at + 1].is(function))
        })
}

/// Which word of the statement a token of sqlparser's is; the end if it is none.
fn word_at(words: &Words<'_>, token: &TokenWithSpan) -> usize {
    words.at_location(token.span.start).unwrap_or(words.list.len())
}

/// `… at Line: 1, Column: 22` at the end of a message, taken off it.
fn cut_location(message: &str) -> (&str, Option<Location>) {
    let cut = || {
        let (text, place) = message.rsplit_once(" at Line: ")?;
        let (line, column) = place.split_once(", Column: ")?;
        let location = Location::new(line.parse().ok()?, column.parse().ok()?);
        Some((text, location))
    };
    match cut() {
        Some((text, location)) => (text, Some(location)),
        None => (message, None),
    }
}

fn translate(words: &Words<'_>, message: &str, next: &TokenWithSpan) -> ParseError {
    let (text, location) = cut_location(message);
    let end = words.list.len();
    if let Some((expected, found)) = text
        .strip_prefix("Expected: ")
        .or_else(|| text.strip_prefix("Expected "))
        .and_then(|rest| rest.rsplit_once(", found: "))
    {
        let at = match location {
            Some(location) => words.at_location(location).unwrap_or(end),
            None if found == "EOF" => end,
            None => last_read(words, word_at(words, next), found),
        };
        return unexpected(words, at, expected);
    }
    let at = location.and_then(|location| words.at_location(location));
    let at = at.unwrap_or_else(|| word_at(words, next));
    if let Some(error) = tails::diagnose(words, at) {
        return error;
    }
    ParseError::syntax(
        format!("this is not SQL that Candor reads: {}", shorten_message(text)),
        words.span(at),
    )
}

/// Where sqlparser names no place, it may have read past the word it complains about.
fn last_read(words: &Words<'_>, next: usize, found: &str) -> usize {
    match next.checked_sub(1) {
        Some(before) if words.written(before).eq_ignore_ascii_case(found) => before,
        _ => next,
    }
}

/// Something stands where something else is expected.
fn unexpected(words: &Words<'_>, at: usize, expected: &str) -> ParseError {
    if let Some(error) = tails::diagnose(words, at) {
        return error;
    }
    let span = words.span(at);
    let expected = plain(expected);
    if at >= words.list.len() {
        return ParseError::syntax(format!("the statement ends where {expected} is expected"), span);
    }
    let found = shorten(words.written(at));
    let message = format!("`{found}` stands where {expected} is expected");
    match help_for(words, at, &expected) {
        Some(help) => ParseError::syntax_help(message, help, span),
        None => ParseError::syntax(message, span),
    }
}

/// sqlparser's names for what it wants, in words for people.
fn plain(expected: &str) -> String {
    match expected {
        "an SQL statement" => "a statement".to_owned(),
        "an expression" | "an expression:" => "an expression".to_owned(),
        "end of statement" | "the end of the statement" => "the end of the statement".to_owned(),
        "identifier" => "a name".to_owned(),
        "a data type name" => "a type".to_owned(),
        "SELECT, VALUES, or a subquery in the query body" => "SELECT, VALUES or a query in brackets".to_owned(),
        sign if !sign.contains(char::is_alphanumeric) => format!("`{sign}`"),
        other => other.trim_end_matches(':').to_owned(),
    }
}

/// What to do about words from other dialects and other common slips.
fn help_for(words: &Words<'_>, at: usize, expected: &str) -> Option<&'static str> {
    let word = words.list.get(at)?;
    if expected == "a type" {
        return Some("a column needs a type: name TEXT");
    }
    let before = |text: &str| at.checked_sub(1).is_some_and(|before| words.is(before, text));
    if before("FOR") && (word.is("SYSTEM_TIME") || word.is("VERSION")) {
        return Some("one statement reads one version: write VERSION n at the end");
    }
    if before("TABLE") {
        return Some("write SELECT * FROM name; TABLE name is read as a statement of its own");
    }
    match &word.token.token {
        Token::Comma | Token::RParen => Some("is a value or a name missing before it, or is it one too many?"),
        Token::Question | Token::QuestionPipe => Some("parameters are numbered: $1, $2"),
        Token::Char('`') => Some("names are quoted with \"double quotes\""),
        _ => None,
    }
}

fn shorten_message(text: &str) -> String {
    const SHOWN: usize = 200;
    text.chars().take(SHOWN).collect()
}

/// The bytes of a place of sqlparser's, or the whole statement where it has none.
pub(crate) fn bytes_of(words: &Words<'_>, span: Span) -> SourceSpan {
    match words.at_location(span.start) {
        Some(at) => {
            let last = words.list[at..]
                .iter()
                .take_while(|word| word.token.span.end <= span.end)
                .last();
            crate::lex::span_of(words.list[at].start, last.map_or(words.list[at].end, |word| word.end))
        }
        None => words.whole(),
    }
}
