//! TRIM where it names no characters, `trim(both from x)`, and where they stand behind, `trim(from x, y)`.
//!
//! sqlparser reads neither. Before it reads a statement, they are put into the words of the function that they mean.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::word;

/// The words of a statement with calls that sqlparser reads.
pub(crate) fn readable(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is(token, "TRIM")) {
        return tokens;
    }
    let mut readable: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let Some((function, count)) = function_of(&tokens[at..]) else {
            readable.push(tokens[at].clone());
            at += 1;
            continue;
        };
        readable.push(TokenWithSpan::new(word(function), tokens[at].span));
        readable.push(tokens[at + 1].clone());
        at += count;
    }
    readable
}

/// The function that `TRIM ( [ where ] FROM` calls, and how many words that is.
fn function_of(tokens: &[TokenWithSpan]) -> Option<(&'static str, usize)> {
    let [trim, bracket, rest @ ..] = tokens else {
        return None;
    };
    if !(is(trim, "TRIM") && bracket.token == Token::LParen) {
        return None;
    }
    let (function, count) = match rest.first()? {
        word if is(word, "BOTH") => ("btrim", 3),
        word if is(word, "LEADING") => ("ltrim", 3),
        word if is(word, "TRAILING") => ("rtrim", 3),
        _ => ("btrim", 2),
    };
    is(tokens.get(count)?, "FROM").then_some((function, count + 1))
}

fn is(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}
