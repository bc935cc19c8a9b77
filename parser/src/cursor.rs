//! A reader over the words of one statement, for the statements that are Candor's own.

use candor_proto::{SourceSpan, limits};
use sqlparser::tokenizer::Token;

use crate::error::ParseError;
use crate::lex::{Words, span_of};
use crate::statement::QualifiedName;
use crate::tails;

/// The next word to read, and the words around it.
pub(crate) struct Cursor<'a> {
    pub(crate) words: Words<'a>,
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(words: Words<'a>, at: usize) -> Self {
        Self { words, at }
    }

    /// The bytes of the next word.
    pub(crate) fn span(&self) -> SourceSpan {
        self.words.span(self.at)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.words.list.len()
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.words.is(self.at, word)
    }

    /// Takes `word` if it is next.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.at += usize::from(found);
        found
    }

    /// Takes these words if they are next, all or none.
    pub(crate) fn take_all(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(offset, word)| self.words.is(self.at + offset, word));
        if found {
            self.at += words.len();
        }
        found
    }

    pub(crate) fn take_sign(&mut self, sign: &Token) -> bool {
        let found = self.words.is_sign(self.at, sign);
        self.at += usize::from(found);
        found
    }

    /// Takes `word`, which the grammar demands here.
    pub(crate) fn expect(&mut self, word: &str) -> Result<(), ParseError> {
        if self.take(word) {
            Ok(())
        } else {
            Err(self.wanted(&format!("`{word}`")))
        }
    }

    pub(crate) fn expect_sign(&mut self, sign: &Token) -> Result<(), ParseError> {
        if self.take_sign(sign) {
            Ok(())
        } else {
            Err(self.wanted(&format!("`{sign}`")))
        }
    }

    /// The statement ends here.
    pub(crate) fn expect_end(&self) -> Result<(), ParseError> {
        if self.is_done() {
            return Ok(());
        }
        Err(self.wanted("the end of the statement"))
    }

    /// The statement ends here, after which only tails may follow; one of them may have been miswritten.
    pub(crate) fn expect_end_of_read(&self) -> Result<(), ParseError> {
        match tails::diagnose(&self.words, self.at) {
            Some(error) if !self.is_done() => Err(error),
            _ => self.expect_end(),
        }
    }

    /// What stands here is not what is wanted.
    pub(crate) fn wanted(&self, what: &str) -> ParseError {
        let message = if self.is_done() {
            format!("the statement ends where {what} is expected")
        } else {
            format!(
                "`{}` stands where {what} is expected",
                shorten(self.words.written(self.at))
            )
        };
        ParseError::syntax(message, self.span())
    }

    /// A string in single quotes.
    pub(crate) fn string(&mut self, what: &str) -> Result<(String, SourceSpan), ParseError> {
        let span = self.span();
        let text = match self.words.list.get(self.at).map(|word| &word.token.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(self.wanted(what)),
        };
        self.at += 1;
        Ok((text, span))
    }

    /// One name, lower case unless quoted.
    pub(crate) fn name(&mut self, what: &str) -> Result<(String, SourceSpan), ParseError> {
        let span = self.span();
        let Some(Token::Word(word)) = self.words.list.get(self.at).map(|word| &word.token.token) else {
            return Err(self.wanted(what));
        };
        let name = match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        };
        check_name(&name, span)?;
        self.at += 1;
        Ok((name, span))
    }

    /// `[[namespace.]database.]name`.
    pub(crate) fn qualified_name(&mut self, what: &str) -> Result<QualifiedName, ParseError> {
        let (first, first_span) = self.name(what)?;
        let mut parts = vec![first];
        let mut end = first_span.start + first_span.length;
        while self.take_sign(&Token::Period) {
            let (part, span) = self.name("a name after the dot")?;
            parts.push(part);
            end = span.start + span.length;
        }
        let span = span_of(first_span.start, end);
        let mut parts = parts.into_iter().rev();
        let name = QualifiedName {
            name: parts.next().unwrap_or_default(),
            database: parts.next(),
            namespace: parts.next(),
            span,
        };
        if parts.next().is_some() {
            return Err(ParseError::syntax_help(
                "a name has more than three parts",
                "write name, database.name or namespace.database.name",
                span,
            ));
        }
        Ok(name)
    }
}

/// Refuses names nothing may be called.
pub(crate) fn check_name(name: &str, at: SourceSpan) -> Result<(), ParseError> {
    if name.is_empty() {
        return Err(ParseError::name("a name is empty", at));
    }
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(ParseError::name(format!("a name is {} bytes long", name.len()), at));
    }
    if name.chars().any(char::is_control) {
        return Err(ParseError::name("a name holds a control character", at));
    }
    Ok(())
}

/// A word as messages quote it: long ones are cut.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
