//! The clauses that end a read: STALENESS, ANSWERED BY, VERSION, AT LEAST VERSION … WAIT.
//!
//! They are taken off the words before sqlparser sees them, so nothing becomes reserved: `staleness` may be a column,
//! a table or an alias. What makes a word a clause is what follows it: a number, a string or a parameter after
//! STALENESS, a number or a parameter after VERSION, BY after ANSWERED. Nowhere else in SQL does a name stand before
//! one of these. `STALENESS -5s` is the exception: `staleness - 5 s` may be an expression with an alias, so a minus
//! sign is only named when sqlparser cannot read the statement ([`diagnose`]).

use candor_proto::SourceSpan;
use sqlparser::keywords::RESERVED_FOR_TABLE_ALIAS;
use sqlparser::tokenizer::Token;

use crate::cursor::shorten;
use crate::error::{ParseError, place};
use crate::lex::{Words, parameter_number, span_of};
use crate::span::{SpanError, UNITS_HELP, is_unit, parse_span, parse_staleness};
use crate::statement::{AnsweredBy, AtLeast, Clause, NumberValue, SpanValue, Tail, Tails};

/// Which clause starts at `at`, if one does.
pub(crate) fn clause_at(words: &Words<'_>, at: usize) -> Option<Clause> {
    let next = |offset: usize| words.list.get(at + offset).map(|word| &word.token.token);
    let is_value = |token: Option<&Token>| matches!(token, Some(Token::Number(..) | Token::Placeholder(_)));
    let is_text = |token: Option<&Token>| matches!(token, Some(Token::SingleQuotedString(_)));
    if words.is(at, "STALENESS") && (is_value(next(1)) || is_text(next(1))) {
        Some(Clause::Staleness)
    } else if words.is(at, "ANSWERED") && words.is(at + 1, "BY") {
        Some(Clause::AnsweredBy)
    } else if words.is(at, "AT") && words.is(at + 1, "LEAST") && words.is(at + 2, "VERSION") {
        Some(Clause::AtLeastVersion)
    } else if words.is(at, "VERSION") && is_value(next(1)) {
        Some(Clause::Version)
    } else {
        None
    }
}

/// Cuts the tails off: the statement without them, and what they say.
///
/// # Errors
/// Every refusal that the clauses themselves and their place give.
pub(crate) fn split(words: Words<'_>) -> Result<(Words<'_>, Tails), ParseError> {
    let first = first_tail(&words);
    let body = words.part(0, first);
    if let Some(error) = misplaced_inside(&body) {
        return Err(error);
    }
    let mut reader = Reader { words, at: first };
    let mut tails = Tails::default();
    let mut last = None;
    while reader.at < words.list.len() {
        let Some(clause) = clause_at(&words, reader.at) else {
            return Err(reader.not_the_end(last.unwrap_or(Clause::Staleness), first));
        };
        reader.read(clause, &mut tails)?;
        last = Some(clause);
    }
    check_combinations(&tails)?;
    Ok((body, tails))
}

/// The first clause outside all brackets, or the end.
fn first_tail(words: &Words<'_>) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.list.iter().enumerate() {
        match word.token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            _ if depth == 0 && clause_at(words, at).is_some() => return at,
            _ => {}
        }
    }
    words.list.len()
}

/// A clause inside brackets belongs to the whole statement.
fn misplaced_inside(body: &Words<'_>) -> Option<ParseError> {
    let (at, clause) = (0..body.list.len()).find_map(|at| clause_at(body, at).map(|clause| (at, clause)))?;
    let place_word = if is_in_cte(body, at) {
        "it stands inside a WITH query"
    } else {
        "it stands inside brackets"
    };
    Some(ParseError::Misplaced {
        clause,
        place: place_word,
        help: format!(
            "one statement is answered by one node from one copy: write {clause} once, after everything else (SELECT … {clause} …)"
        ),
        at: place(clause_span(body, at, clause)),
    })
}

/// Whether the word stands in the brackets of `name AS ( … )`.
fn is_in_cte(body: &Words<'_>, at: usize) -> bool {
    let mut open = Vec::new();
    for (index, word) in body.list[..at].iter().enumerate() {
        match word.token.token {
            Token::LParen => open.push(index),
            Token::RParen => {
                open.pop();
            }
            _ => {}
        }
    }
    open.iter()
        .any(|&bracket| bracket > 0 && (body.is(bracket - 1, "AS") || body.is(bracket - 1, "MATERIALIZED")))
}

/// The clause's words and the one value after them, as far as they are there.
fn clause_span(words: &Words<'_>, at: usize, clause: Clause) -> SourceSpan {
    let count = match clause {
        Clause::AtLeastVersion => 4,
        Clause::AnsweredBy => 3,
        Clause::Staleness if matches!(words.list.get(at + 1).map(|w| &w.token.token), Some(Token::Number(..))) => 3,
        Clause::Staleness | Clause::Version | Clause::Wait => 2,
    };
    let last = (at + count - 1).min(words.list.len().saturating_sub(1));
    // A bracket that closes is not part of it.
    let last = if words.is_sign(last, &Token::RParen) {
        last - 1
    } else {
        last
    };
    words.span_from_to(at, last)
}

fn check_combinations(tails: &Tails) -> Result<(), ParseError> {
    let spans = (
        tails.staleness.as_ref().map(|tail| (Clause::Staleness, tail.span)),
        tails.version.as_ref().map(|tail| (Clause::Version, tail.span)),
        tails.at_least.as_ref().map(|tail| (Clause::AtLeastVersion, tail.span)),
    );
    let refuse = |one: (Clause, SourceSpan), other: (Clause, SourceSpan), why, help| {
        let (first, second) = if one.1.start < other.1.start {
            (one, other)
        } else {
            (other, one)
        };
        Err(ParseError::Combination {
            first: first.0,
            second: second.0,
            why,
            help,
            first_at: place(first.1),
            at: place(second.1),
        })
    };
    if let (Some(staleness), Some(version), _) = spans {
        return refuse(
            staleness,
            version,
            "VERSION names one exact point in the store's history, and a tolerance for how old that point may be answers the same question again",
            "keep VERSION to read that point, or STALENESS to read a recent one",
        );
    }
    if let (_, Some(version), Some(at_least)) = spans {
        return refuse(
            version,
            at_least,
            "VERSION names one exact point in the store's history, and AT LEAST VERSION leaves the point open",
            "keep VERSION to read that point, or AT LEAST VERSION to read it or a newer one",
        );
    }
    Ok(())
}

/// Reads clauses at the end of a statement.
struct Reader<'a> {
    words: Words<'a>,
    at: usize,
}

impl Reader<'_> {
    fn token(&self) -> Option<&Token> {
        self.words.list.get(self.at).map(|word| &word.token.token)
    }

    /// One clause, into its place in `tails`.
    fn read(&mut self, clause: Clause, tails: &mut Tails) -> Result<(), ParseError> {
        let start = self.at;
        match clause {
            Clause::Staleness => {
                self.at += 1;
                let value = self.span_value(Clause::Staleness)?;
                let tail = self.finish(start, value);
                put(&mut tails.staleness, tail, clause)
            }
            Clause::AnsweredBy => {
                self.at += 2;
                let value = self.answered_by()?;
                let tail = self.finish(start, value);
                put(&mut tails.answered_by, tail, clause)
            }
            Clause::Version => {
                self.at += 1;
                let value = self.number_value(Clause::Version)?;
                let tail = self.finish(start, value);
                put(&mut tails.version, tail, clause)
            }
            Clause::AtLeastVersion | Clause::Wait => {
                self.at += 3;
                let version = self.number_value(Clause::AtLeastVersion)?;
                let wait = if self.words.is(self.at, "WAIT") {
                    self.at += 1;
                    Some(self.span_value(Clause::Wait)?)
                } else {
                    None
                };
                let tail = self.finish(start, AtLeast { version, wait });
                put(&mut tails.at_least, tail, Clause::AtLeastVersion)
            }
        }
    }

    fn finish<T>(&self, start: usize, value: T) -> Tail<T> {
        Tail {
            value,
            span: self.words.span_from_to(start, self.at - 1),
        }
    }

    /// `ANY` or `LEADER`; any other word is echoed, because a guess would fail in the unsafe direction.
    fn answered_by(&mut self) -> Result<AnsweredBy, ParseError> {
        let at = self.words.span(self.at);
        let written = self.words.written(self.at);
        let value = if self.words.is(self.at, "ANY") {
            AnsweredBy::Any
        } else if self.words.is(self.at, "LEADER") {
            AnsweredBy::Leader
        } else if written.is_empty() {
            return Err(ParseError::syntax_help(
                "ANSWERED BY says nothing: the statement ends",
                "write ANSWERED BY ANY or ANSWERED BY LEADER",
                at,
            ));
        } else {
            return Err(ParseError::AnsweredBy {
                word: shorten(written),
                help: suggestion(written),
                at: place(at),
            });
        };
        self.at += 1;
        Ok(value)
    }

    fn number_value(&mut self, clause: Clause) -> Result<NumberValue, ParseError> {
        let at = self.words.span(self.at);
        let refuse = |written: &str, why, at| {
            Err(ParseError::Number {
                clause,
                written: shorten(written),
                why,
                at: place(at),
            })
        };
        let value = match self.token() {
            Some(Token::Placeholder(name)) => NumberValue::Parameter(parameter_number(name, at)?),
            Some(Token::Number(..)) => {
                let mut written = self.words.written(self.at);
                let mut end = at.start + at.length;
                // `5s` is two words that touch.
                if let Some(next) = self.words.list.get(self.at + 1)
                    && next.start == end
                    && next.word().is_some()
                {
                    end = next.end;
                    written = self.words.text(at.start, end);
                }
                if !written.bytes().all(|b| b.is_ascii_digit()) {
                    return refuse(written, "it is not a whole number", span_of(at.start, end));
                }
                match written.parse() {
                    Ok(number) => NumberValue::Number(number),
                    Err(_) => return refuse(written, "it is larger than any version", at),
                }
            }
            Some(Token::Minus) => {
                let span = self
                    .words
                    .span_from_to(self.at, (self.at + 1).min(self.words.list.len() - 1));
                let written = self.words.text(span.start, span.start + span.length);
                return refuse(written, "no version is negative", span);
            }
            Some(_) => return refuse(self.words.written(self.at), "it is not a number", at),
            None => {
                return Err(ParseError::syntax_help(
                    format!("{clause} names no version: the statement ends"),
                    format!("write {clause} 42, with a version as receipts show it"),
                    at,
                ));
            }
        };
        self.at += 1;
        Ok(value)
    }

    fn span_value(&mut self, clause: Clause) -> Result<SpanValue, ParseError> {
        let at = self.words.span(self.at);
        match self.token() {
            Some(Token::Placeholder(name)) => {
                let value = SpanValue::Parameter(parameter_number(name, at)?);
                self.at += 1;
                Ok(value)
            }
            Some(Token::SingleQuotedString(text)) => {
                // Bytes of the value are bytes of the script as long as nothing was escaped.
                let inner = (text.len() + 2 == at.length).then_some(at.start + 1);
                let value = read_span(clause, text, inner, at)?;
                self.at += 1;
                Ok(value)
            }
            Some(Token::Minus | Token::Plus | Token::Number(..)) => {
                let start = self.at;
                self.skip_span();
                let span = self.words.span_from_to(start, self.at - 1);
                let written = self.words.text(span.start, span.start + span.length);
                if written.contains("--") || written.contains("/*") {
                    let joined: String = (start..self.at).map(|at| self.words.written(at)).collect();
                    return read_span(clause, &joined, None, span);
                }
                read_span(clause, written, Some(span.start), span)
            }
            found => {
                let problem = match found {
                    Some(_) => SpanError::NumberMissing {
                        unit: shorten(self.words.written(self.at)),
                        at: 0..0,
                    },
                    None => SpanError::Empty,
                };
                Err(ParseError::Span {
                    clause,
                    problem,
                    help: UNITS_HELP.to_owned(),
                    at: place(at),
                })
            }
        }
    }

    /// Goes past `[sign] number [unit] {number [unit]}`, where a unit may be any word that could be meant as one.
    fn skip_span(&mut self) {
        if matches!(self.token(), Some(Token::Minus | Token::Plus)) {
            self.at += 1;
        }
        while matches!(self.token(), Some(Token::Number(..))) {
            self.at += 1;
            if self.is_unit_here() {
                self.at += 1;
            }
        }
    }

    fn is_unit_here(&self) -> bool {
        let Some(word) = self.words.list.get(self.at) else {
            return false;
        };
        let touches = self.at > 0 && self.words.list[self.at - 1].end == word.start;
        let Some(text) = word.word() else {
            return false;
        };
        touches
            || is_unit(&text.value)
            || !(RESERVED_FOR_TABLE_ALIAS.contains(&text.keyword)
                || clause_at(&self.words, self.at).is_some()
                || ["WAIT", "STALENESS", "VERSION", "ANSWERED", "AT"]
                    .iter()
                    .any(|own| word.is(own)))
    }

    /// Something other than a clause follows one.
    fn not_the_end(&self, clause: Clause, first: usize) -> ParseError {
        if let Some(error) = diagnose(&self.words, self.at) {
            return error;
        }
        let follows = shorten(self.words.written(self.at));
        ParseError::Misplaced {
            clause,
            place: "more follows it",
            help: format!("`{follows}` belongs before it: SELECT … WHERE … ORDER BY … LIMIT … {clause} …"),
            at: place(self.words.span_from_to(first, self.at - 1)),
        }
    }
}

fn put<T>(slot: &mut Option<Tail<T>>, tail: Tail<T>, clause: Clause) -> Result<(), ParseError> {
    if let Some(first) = slot {
        return Err(ParseError::Twice {
            clause,
            first_at: place(first.span),
            at: place(tail.span),
        });
    }
    *slot = Some(tail);
    Ok(())
}

/// Reads a span that stands in the script, and turns its refusal into the clause's.
fn read_span(clause: Clause, text: &str, start: Option<usize>, at: SourceSpan) -> Result<SpanValue, ParseError> {
    let read = if clause == Clause::Staleness {
        parse_staleness
    } else {
        parse_span
    };
    let written = || shorten(text.trim());
    read(text).map(SpanValue::Span).map_err(|problem| match problem {
        SpanError::Zero => ParseError::StalenessZero {
            written: written(),
            at: place(at),
        },
        SpanError::Negative if clause == Clause::Staleness => ParseError::StalenessNegative {
            written: written(),
            at: place(at),
        },
        problem => {
            let inner = match (start, problem.at()) {
                (Some(start), Some(part)) if !part.is_empty() => span_of(start + part.start, start + part.end),
                _ => at,
            };
            ParseError::Span {
                clause,
                help: problem.help(),
                problem,
                at: place(inner),
            }
        }
    })
}

/// What was probably meant by a word after ANSWERED BY.
fn suggestion(written: &str) -> String {
    let word = written.trim_matches(['\'', '"']).to_ascii_lowercase();
    let means_leader = ["master", "primary", "main", "writer", "writable"].contains(&word.as_str())
        || word.starts_with("leader")
        || is_close(&word, "leader");
    if means_leader {
        "did you mean LEADER? it admits only the node that decides writes for these records".to_owned()
    } else if is_close(&word, "any") || word == "all" {
        "did you mean ANY? it is what a read means that says nothing".to_owned()
    } else {
        "write ANSWERED BY ANY (any node, the default) or ANSWERED BY LEADER (only the node that decides writes)"
            .to_owned()
    }
}

/// Whether at most two letters (one for short words) have to change.
fn is_close(word: &str, wanted: &str) -> bool {
    if word.len() > 2 * wanted.len() {
        return false;
    }
    let mut row: Vec<usize> = (0..=wanted.len()).collect();
    for (i, letter) in word.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, wanted_letter) in wanted.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != wanted_letter);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[wanted.len()] <= if wanted.len() > 3 { 2 } else { 1 }
}

/// Why a statement that cannot be read stops at word `at`, if a clause without a proper value is the reason.
pub(crate) fn diagnose(words: &Words<'_>, at: usize) -> Option<ParseError> {
    let is_clause = |at: &usize| words.is(*at, "STALENESS") || words.is(*at, "VERSION") || words.is(*at, "WAIT");
    let could_be_value = matches!(
        words.list.get(at).map(|word| &word.token.token),
        Some(
            Token::Word(_)
                | Token::Number(..)
                | Token::Minus
                | Token::Plus
                | Token::SingleQuotedString(_)
                | Token::Colon
        )
    );
    let before = at.checked_sub(1).filter(|before| could_be_value && is_clause(before));
    let start = before.or(Some(at).filter(is_clause))?;
    let mut reader = Reader {
        words: *words,
        at: start + 1,
    };
    if words.is(start, "STALENESS") {
        reader.span_value(Clause::Staleness).err()
    } else if words.is(start, "VERSION") {
        reader.number_value(Clause::Version).err()
    } else if start > 1 && (clause_at(words, start.saturating_sub(4)) == Some(Clause::AtLeastVersion)) {
        reader.span_value(Clause::Wait).err()
    } else {
        None
    }
}

/// A clause that lost its value and was read as an alias: `FROM orders STALENESS ANSWERED BY LEADER`.
/// A clause that is there with its value has lost nothing, and the alias is one.
pub(crate) fn lost_value(words: &Words<'_>, alias: usize, tails: &Tails) -> Option<ParseError> {
    let clause = if words.is(alias, "STALENESS") && tails.staleness.is_none() {
        Clause::Staleness
    } else if words.is(alias, "VERSION") && tails.version.is_none() {
        Clause::Version
    } else {
        return None;
    };
    let value = if clause == Clause::Staleness {
        "STALENESS 30s"
    } else {
        "VERSION 42"
    };
    Some(ParseError::syntax_help(
        format!("{clause} names no value, and could be read as an alias"),
        format!(
            "write {value}; for an alias of that name write AS {}",
            words.written(alias)
        ),
        words.span(alias),
    ))
}
