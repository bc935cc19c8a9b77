//! CREATE SEQUENCE and DROP SEQUENCE, and which queries draw from sequences.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::lex::Words;
use crate::sql;
use crate::statement::Body;

/// The statement, if it is about a sequence.
pub(crate) fn statement(words: &Words<'_>) -> Result<Option<Body>, ParseError> {
    let mut cursor = Cursor::new(*words, 0);
    let verbs = ["CREATE", "DROP"];
    if !verbs.iter().any(|verb| cursor.take(verb)) || !cursor.is("SEQUENCE") {
        return Ok(None);
    }
    let unsupported = |what: &str, help: &str| ParseError::unsupported(what, help, words.whole());
    let read = sql::statement(words)?;
    match &read {
        ast::Statement::CreateSequence {
            temporary: _,
            if_not_exists: _,
            name: _,
            data_type: _,
            sequence_options: _,
            owned_by,
        } => {
            if owned_by.is_some() {
                return Err(unsupported("OWNED BY", "leave it away, or make the column SERIAL"));
            }
        }
        ast::Statement::Drop {
            object_type: ast::ObjectType::Sequence,
            if_exists: _,
            names: _,
            cascade: _,
            restrict: _,
            purge: _,
            temporary: _,
            table: _,
        } => {}
        _ => return Err(unsupported("this kind of sequence", "write CREATE SEQUENCE name")),
    }
    Ok(Some(Body::Sequence(Box::new(read))))
}

/// The options of a sequence in the order in which sqlparser reads them; SQL lets them stand in any.
pub(crate) fn options_in_order(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |at: usize| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let mut ranges = Vec::new();
    if word(0) == "CREATE" && word(1) == "SEQUENCE" {
        ranges.push(2..tokens.len());
    }
    for at in (0..tokens.len()).filter(|at| word(*at) == "IDENTITY") {
        let end = tokens[at..].iter().position(|token| token.token == Token::RParen);
        if let (Some(Token::LParen), Some(end)) = (tokens.get(at + 1).map(|token| &token.token), end) {
            ranges.push(at + 2..at + end);
        }
    }
    for range in ranges {
        sort_options(&mut tokens[range]);
    }
    tokens
}

fn sort_options(tokens: &mut [TokenWithSpan]) {
    let rank = |at: usize| {
        let Token::Word(word) = &tokens[at].token else {
            return None;
        };
        let ranks = ["INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE", "OWNED"];
        ranks.iter().position(|name| word.value.eq_ignore_ascii_case(name))
    };
    let is_no = |at: usize| matches!(&tokens[at].token, Token::Word(word) if word.value.eq_ignore_ascii_case("NO"));
    // The first word of each option; NO belongs to the word behind it.
    let mut options: Vec<(usize, usize)> = Vec::new();
    for at in 0..tokens.len() {
        if let Some(rank) = rank(at) {
            options.push((rank, if at > 0 && is_no(at - 1) { at - 1 } else { at }));
        }
    }
    let Some((_, first)) = options.first().copied() else {
        return;
    };
    let ends = options.iter().skip(1).map(|(_, start)| *start).chain([tokens.len()]);
    let mut parts: Vec<(usize, Vec<TokenWithSpan>)> = options
        .iter()
        .zip(ends)
        .map(|((rank, start), end)| (*rank, tokens[*start..end].to_vec()))
        .collect();
    parts.sort_by_key(|(rank, _)| *rank);
    let sorted = parts.into_iter().flat_map(|(_, part)| part);
    for (place, token) in tokens[first..].iter_mut().zip(sorted) {
        *place = token;
    }
}

/// Whether a query speaks of sequences: then it is a write, for the leader to answer. So are the functions that only ask
/// what the session has drawn, because it has done so there.
pub(crate) fn draws(query: &ast::Statement) -> bool {
    let draws = |expr: &ast::Expr| {
        let ast::Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let name = function.name.0.last().and_then(ast::ObjectNamePart::as_ident);
        let functions = ["nextval", "setval", "currval", "lastval"];
        let is_drawing = |name: &ast::Ident| functions.iter().any(|word| name.value.eq_ignore_ascii_case(word));
        if name.is_some_and(is_drawing) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    ast::visit_expressions(query, draws).is_break()
}
