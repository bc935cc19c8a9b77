//! The actions of MERGE that sqlparser does not read: DO NOTHING and INSERT DEFAULT VALUES.
//!
//! Before it reads a statement, they are put into words that it does read, with a name that no text can hold; whoever
//! runs the tree asks here what was meant.

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::word;

/// Stands for DO NOTHING.
const NOTHING: &str = "\0nothing";

/// Stands for DEFAULT VALUES.
const DEFAULTS: &str = "\0defaults";

/// Whether an action of MERGE is DO NOTHING.
pub fn does_nothing(action: &ast::MergeAction) -> bool {
    match action {
        ast::MergeAction::Insert(insert) => is_only_value(&insert.kind, NOTHING),
        ast::MergeAction::Update(update) => matches!(
            update.assignments.as_slice(),
            [ast::Assignment {
                target: ast::AssignmentTarget::ColumnName(name),
                ..
            }] if matches!(name.0.as_slice(), [ast::ObjectNamePart::Identifier(ident)] if ident.value == NOTHING)
        ),
        ast::MergeAction::Delete { .. } => false,
    }
}

/// Whether what an INSERT of MERGE inserts is DEFAULT VALUES.
pub fn inserts_defaults(kind: &ast::MergeInsertKind) -> bool {
    is_only_value(kind, DEFAULTS)
}

fn is_only_value(kind: &ast::MergeInsertKind, name: &str) -> bool {
    let ast::MergeInsertKind::Values(values) = kind else {
        return false;
    };
    match values.rows.as_slice() {
        [row] => matches!(row.content.as_slice(), [ast::Expr::Identifier(ident)] if ident.value == name),
        _ => false,
    }
}

/// The words of a statement with the actions that sqlparser does not read in words that it does.
pub(crate) fn readable(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is(token, "MERGE")) {
        return tokens;
    }
    let mut readable: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut inserts = false;
    let mut at = 0;
    while at < tokens.len() {
        let starts = |words: &[&str]| starts_with(&tokens[at..], words);
        if starts(&["WHEN", "MATCHED"]) {
            inserts = false;
        } else if starts(&["WHEN", "NOT", "MATCHED"]) {
            inserts = !starts(&["WHEN", "NOT", "MATCHED", "BY", "SOURCE"]);
        }
        let span = tokens[at].span;
        let instead = if starts(&["THEN", "DO", "NOTHING"]) {
            at += 3;
            nothing(inserts)
        } else if starts(&["THEN", "INSERT", "DEFAULT", "VALUES"]) {
            at += 4;
            insert(DEFAULTS)
        } else {
            readable.push(tokens[at].clone());
            at += 1;
            continue;
        };
        readable.extend(instead.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
    readable
}

fn is(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

fn starts_with(tokens: &[TokenWithSpan], words: &[&str]) -> bool {
    tokens.len() >= words.len() && words.iter().zip(tokens).all(|(word, token)| is(token, word))
}

fn name(text: &str) -> Token {
    Token::make_word(text, Some('"'))
}

fn nothing(inserts: bool) -> Vec<Token> {
    if inserts {
        return insert(NOTHING);
    }
    vec![
        word("THEN"),
        word("UPDATE"),
        word("SET"),
        name(NOTHING),
        Token::Eq,
        word("NULL"),
    ]
}

fn insert(value: &str) -> Vec<Token> {
    vec![
        word("THEN"),
        word("INSERT"),
        word("VALUES"),
        Token::LParen,
        name(value),
        Token::RParen,
    ]
}
