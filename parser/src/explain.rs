//! EXPLAIN of a query or a write.

use sqlparser::tokenizer::Token;

use crate::cursor::{Cursor, shorten};
use crate::error::ParseError;
use crate::lex::Words;
use crate::script;
use crate::statement::Body;

/// How a statement begins that can be explained.
const EXPLAINED: [&str; 10] = [
    "SELECT", "WITH", "VALUES", "TABLE", "RETURN", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "MERGE",
];

/// EXPLAIN [ANALYZE] [VERBOSE] statement, EXPLAIN (option {, option}) statement.
pub(crate) fn explain(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("EXPLAIN")?;
    let mut options = ExplainOptions::default();
    let options_at = cursor.span();
    if cursor.words.is_sign(cursor.at, &Token::LParen) && !starts_query(cursor.words, cursor.at + 1) {
        options.read_list(cursor)?;
    } else {
        options.read_words(cursor)?;
    }
    if options.route && options.analyze {
        return Err(ParseError::syntax_help(
            "ROUTE never runs the query, and ANALYZE runs it",
            "keep one of them",
            options_at,
        ));
    }
    if cursor.is_done() {
        return Err(cursor.wanted("a query"));
    }
    let inner_words = cursor.words.rest(cursor.at);
    // Looked at before it is read, so that EXPLAIN EXPLAIN … does not recurse.
    let is_explained = inner_words.is_sign(0, &Token::LParen) || EXPLAINED.iter().any(|word| inner_words.is(0, word));
    if !is_explained {
        return Err(ParseError::unsupported(
            format!("EXPLAIN {}", shorten(&inner_words.written(0).to_uppercase())),
            "EXPLAIN takes a query, INSERT, UPDATE, DELETE or MERGE",
            inner_words.span(0),
        ));
    }
    let inner = script::body(&inner_words)?;
    Ok(Body::Explain {
        analyze: options.analyze,
        verbose: options.verbose,
        route: options.route,
        inner: Box::new(inner),
    })
}

/// Whether a bracket opens a query and not a list of options.
fn starts_query(words: Words<'_>, at: usize) -> bool {
    ["SELECT", "WITH", "VALUES", "TABLE"]
        .iter()
        .any(|word| words.is(at, word))
        || words.is_sign(at, &Token::LParen)
}

#[derive(Default)]
struct ExplainOptions {
    analyze: bool,
    verbose: bool,
    route: bool,
}

impl ExplainOptions {
    fn read_words(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
        loop {
            let at = cursor.span();
            if cursor.take("ANALYZE") || cursor.take("ANALYSE") {
                self.analyze = true;
            } else if cursor.take("VERBOSE") {
                self.verbose = true;
            } else if cursor.is("FORMAT") || cursor.is("QUERY") {
                return Err(ParseError::unsupported(
                    format!("EXPLAIN {}", cursor.words.written(cursor.at).to_uppercase()),
                    "EXPLAIN, EXPLAIN ANALYZE, EXPLAIN VERBOSE and EXPLAIN (ROUTE) print rows of text",
                    at,
                ));
            } else {
                return Ok(());
            }
        }
    }

    fn read_list(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
        cursor.expect_sign(&Token::LParen)?;
        loop {
            let at = cursor.span();
            let written = cursor.words.written(cursor.at);
            let slot = match written.to_ascii_uppercase().as_str() {
                "ANALYZE" | "ANALYSE" => &mut self.analyze,
                "VERBOSE" => &mut self.verbose,
                "ROUTE" => &mut self.route,
                _ => {
                    return Err(ParseError::unsupported(
                        format!("the EXPLAIN option {}", shorten(written)),
                        "options are ROUTE, ANALYZE and VERBOSE",
                        at,
                    ));
                }
            };
            cursor.at += 1;
            *slot = if cursor.take("FALSE") || cursor.take("OFF") {
                false
            } else {
                let _ = cursor.take("TRUE") || cursor.take("ON");
                true
            };
            if !cursor.take_sign(&Token::Comma) {
                break;
            }
        }
        cursor.expect_sign(&Token::RParen)
    }
}
