//! From text to statements.

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use crate::alter;
use crate::copy;
use crate::create;
use crate::cursor::{Cursor, shorten};
use crate::define;
use crate::error::{ParseError, place};
use crate::explain;
use crate::lex::{self, Words};
use crate::refuse;
use crate::sequences;
use crate::session;
use crate::sql;
use crate::statement::{Body, Clause, CopyDirection, Script, Statement, Tails};
use crate::tails;
use crate::types;

/// Reads a script: statements separated by `;`. Nothing of a script that is refused has run.
///
/// ```
/// let script = candor_parser::parse_script("DEFINE COLLECTION orders; SELECT * FROM orders STALENESS 30s;").unwrap();
/// assert_eq!(script.statements.len(), 2);
/// assert_eq!(script.statements[1].text, "SELECT * FROM orders STALENESS 30s");
/// ```
///
/// # Errors
/// The first refusal in the text, with its bytes.
pub fn parse_script(text: &str) -> Result<Script, ParseError> {
    let words = lex::lex(text)?;
    let mut statements = Vec::new();
    let mut in_transaction = false;
    for words in lex::statements(text, &words) {
        let statement = statement(words)?;
        if in_transaction {
            statement.check_in_transaction()?;
        }
        match statement.body {
            Body::Begin { .. } => in_transaction = true,
            Body::Commit | Body::Rollback => in_transaction = false,
            _ => {}
        }
        statements.push(statement);
    }
    Ok(Script { statements })
}

fn statement(words: Words<'_>) -> Result<Statement, ParseError> {
    lex::check_depth(&words)?;
    let parameters = lex::highest_parameter(&words)?;
    let (body_words, tails) = tails::split(words)?;
    if body_words.list.is_empty() {
        return Err(ParseError::syntax_help(
            "there is no statement before this",
            "write the query first: SELECT … STALENESS 30s",
            words.whole(),
        ));
    }
    let body = body(&body_words)?;
    check_tails_fit(&body, &tails, &body_words)?;
    if parameters > 0 && is_kept(&body) {
        return Err(ParseError::unsupported(
            "a parameter in a definition",
            "write the value: a definition is kept, and the parameters of its statement are not",
            lex::first_parameter(&words),
        ));
    }
    let span = words.whole();
    Ok(Statement {
        span,
        text: words.text(span.start, span.start + span.length).to_owned(),
        body,
        tails,
        parameters,
    })
}

/// Whether the text itself is kept, to be read again for other statements.
fn is_kept(body: &Body) -> bool {
    match body {
        Body::Define(_)
        | Body::CreateView(_)
        | Body::CreateIndex(_)
        | Body::AlterTable(_)
        | Body::Type(_)
        | Body::Sequence(_) => true,
        Body::CreateTable(table) => table.query.is_none(),
        _ => false,
    }
}

/// Statements that are understood and not run, with what to do instead.
const NOT_RUN: [(&str, &str); 35] = [
    ("GRANT", "users and grants are not available yet"),
    ("REVOKE", "users and grants are not available yet"),
    ("REASSIGN", "users and grants are not available yet"),
    (
        "BACKUP",
        "backups are not available yet: COPY … TO writes single collections",
    ),
    (
        "RESTORE",
        "backups are not available yet: COPY … FROM reads single collections",
    ),
    ("TRANSFER", "leadership cannot be transferred yet"),
    ("PREPARE", "send the statement with $1, $2 and its parameters"),
    ("EXECUTE", "send the statement with $1, $2 and its parameters"),
    ("DEALLOCATE", "nothing is prepared by statement"),
    (
        "DECLARE",
        "read large answers as a stream: Accept: application/x-ndjson",
    ),
    ("FETCH", "read large answers as a stream: Accept: application/x-ndjson"),
    ("MOVE", "read large answers as a stream: Accept: application/x-ndjson"),
    ("CLOSE", "read large answers as a stream: Accept: application/x-ndjson"),
    ("LISTEN", "notifications are not available"),
    ("NOTIFY", "notifications are not available"),
    ("UNLISTEN", "notifications are not available"),
    (
        "LOCK",
        "reads lock nothing, and of two transactions that write the same row the first wins",
    ),
    ("VACUUM", "space is reclaimed without being asked"),
    ("ANALYZE", "statistics are kept without being asked"),
    ("CLUSTER", "rows are ordered by their key without being asked"),
    ("REINDEX", "leave it away"),
    ("CHECKPOINT", "leave it away"),
    ("DISCARD", "write RESET ALL"),
    ("COMMENT", "comments on definitions are not kept"),
    ("CALL", "procedures are not available"),
    ("DO", "procedures are not available"),
    ("DESCRIBE", "write INFO FOR COLLECTION name"),
    ("DESC", "write INFO FOR COLLECTION name"),
    ("REPLACE", "write INSERT INTO … ON CONFLICT DO UPDATE"),
    ("PRAGMA", "settings are given with SET name = value"),
    ("KILL", "close the request to cancel it"),
    ("ATTACH", "files are loaded with COPY name FROM 'path'"),
    ("DETACH", "files are loaded with COPY name FROM 'path'"),
    ("LOAD", "files are loaded with COPY name FROM 'path'"),
    ("FROM", "write SELECT … FROM …"),
];

/// What a statement without its tails does.
pub(crate) fn body(words: &Words<'_>) -> Result<Body, ParseError> {
    let Some(first) = words.list.first() else {
        return Err(ParseError::syntax("there is no statement", words.whole()));
    };
    if first.is_sign(&Token::LParen) {
        return query(words);
    }
    let mut cursor = Cursor::new(*words, 0);
    if let Some(body) = session::transaction(&mut cursor)? {
        return Ok(body);
    }
    if let Some(body) = types::statement(words)? {
        return Ok(body);
    }
    if let Some(body) = sequences::statement(words)? {
        return Ok(body);
    }
    let keyword = first
        .word()
        .map(|word| word.value.to_ascii_uppercase())
        .unwrap_or_default();
    match keyword.as_str() {
        "SELECT" | "VALUES" => query(words),
        "WITH" => query_or_write(words),
        "TABLE" => table(words),
        "RETURN" => return_expression(words),
        "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" | "MERGE" => {
            let statement = refuse::write(sql::statement(words)?, words)?;
            Ok(Body::Write(Box::new(statement)))
        }
        "EXPLAIN" => explain::explain(&mut cursor),
        "COPY" => copy::copy(&mut cursor),
        "DEFINE" => define::define(&mut cursor),
        "REMOVE" => define::remove(&mut cursor),
        "CREATE" => create::create(&mut cursor),
        "ALTER" => alter::alter(&mut cursor),
        "DROP" => define::drop(&mut cursor),
        "USE" => session::use_names(&mut cursor),
        "INFO" => session::info(&mut cursor),
        "SET" => session::set(&mut cursor),
        "RESET" | "SHOW" => session::reset_or_show(&mut cursor),
        other => Err(begins_nothing(words, other)),
    }
}

/// The first word begins no statement that is run.
fn begins_nothing(words: &Words<'_>, keyword: &str) -> ParseError {
    let at = words.span(0);
    match NOT_RUN.iter().find(|(word, _)| *word == keyword) {
        Some((word, help)) => ParseError::unsupported(*word, *help, at),
        None => ParseError::syntax_help(
            format!("`{}` does not begin a statement", shorten(words.written(0))),
            begin_help(keyword),
            at,
        ),
    }
}

/// What to write instead of a first word that begins nothing.
fn begin_help(word: &str) -> &'static str {
    if word.starts_with("SEL") || word.ends_with("ECT") {
        return "did you mean SELECT?";
    }
    "statements begin with SELECT, INSERT, UPDATE, DELETE, COPY, CREATE, DROP, DEFINE, REMOVE, USE, INFO, RETURN, EXPLAIN, BEGIN, SET or SHOW, among others"
}

fn query(words: &Words<'_>) -> Result<Body, ParseError> {
    Ok(query_body(refuse::query(sql::statement(words)?, words)?))
}

/// A query, or the write that one is which draws from a sequence.
fn query_body(statement: ast::Statement) -> Body {
    if sequences::draws(&statement) {
        Body::Write(Box::new(statement))
    } else {
        Body::Query(Box::new(statement))
    }
}

/// A WITH stands before a query or a write, and a write may stand in it.
fn query_or_write(words: &Words<'_>) -> Result<Body, ParseError> {
    let statement = sql::statement(words)?;
    if refuse::is_write(&statement) {
        return Ok(Body::Write(Box::new(refuse::write(statement, words)?)));
    }
    Ok(query_body(refuse::query(statement, words)?))
}

/// `TABLE name …` is `SELECT * FROM name …`.
fn table(words: &Words<'_>) -> Result<Body, ParseError> {
    let rest = words.rest(1);
    if rest.list.is_empty() {
        return Err(Cursor::new(*words, 1).wanted("the name of a table"));
    }
    let prefix = [sql::word("SELECT"), Token::Mul, sql::word("FROM")];
    let statement = refuse::query(sql::statement_after(&prefix, &rest)?, words)?;
    Ok(Body::Query(Box::new(statement)))
}

/// `RETURN e` is `SELECT e`.
fn return_expression(words: &Words<'_>) -> Result<Body, ParseError> {
    let rest = words.rest(1);
    if rest.list.is_empty() {
        return Err(Cursor::new(*words, 1).wanted("an expression"));
    }
    let statement = sql::statement_after(&[sql::word("SELECT")], &rest)?;
    if !is_one_expression(&statement) {
        return Err(ParseError::syntax_help(
            "RETURN takes one expression",
            "write SELECT for anything more, or put a query in brackets: RETURN (SELECT …)",
            rest.whole(),
        ));
    }
    Ok(query_body(refuse::query(statement, words)?))
}

fn is_one_expression(statement: &ast::Statement) -> bool {
    let ast::Statement::Query(query) = statement else {
        return false;
    };
    let ast::SetExpr::Select(select) = &*query.body else {
        return false;
    };
    let item = match select.projection.as_slice() {
        [ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. }] => &select.projection,
        _ => return false,
    };
    // Whatever else was said would show beside the one item.
    format!("SELECT {}", item[0]) == query.to_string()
}

/// Tails stand on reads only, and a bare word before them that lost its value is not taken for an alias.
fn check_tails_fit(body: &Body, tails: &Tails, words: &Words<'_>) -> Result<(), ParseError> {
    let Some((clause, span)) = tails.first() else {
        return Ok(());
    };
    let why_not = match body {
        Body::Query(statement) => return check_no_lost_value(statement, tails, words),
        Body::Explain { inner, .. } => return check_tails_fit(inner, tails, words),
        Body::Copy(copy) if copy.direction == CopyDirection::To => return Ok(()),
        Body::Begin { read_only: true } => return Ok(()),
        Body::Begin { read_only: false } => "a transaction that may write is decided by the leader",
        Body::CreateView(_) => {
            return Err(ParseError::Misplaced {
                clause,
                place: "it stands in the body of a view",
                help: format!("write {clause} on the statements that read the view"),
                at: place(span),
            });
        }
        Body::Write(_) | Body::Copy(_) | Body::CreateTable(_) => {
            "a write is decided by the leader, whose copy is never stale"
        }
        Body::Define(_)
        | Body::Type(_)
        | Body::Sequence(_)
        | Body::Remove(_)
        | Body::CreateIndex(_)
        | Body::AlterTable(_) => "a definition is decided by the leader, or by the node being asked",
        Body::Use { .. }
        | Body::InfoFor(_)
        | Body::Commit
        | Body::Rollback
        | Body::Savepoint(_)
        | Body::RollbackTo(_)
        | Body::Release(_)
        | Body::SetTransaction { .. }
        | Body::Set { .. }
        | Body::Reset(_)
        | Body::Show(_) => "it is answered by the node being asked",
    };
    Err(not_a_read(body, clause, why_not, span, words))
}

fn not_a_read(
    body: &Body,
    clause: Clause,
    why: &'static str,
    span: candor_proto::SourceSpan,
    words: &Words<'_>,
) -> ParseError {
    let written = words.text(span.start, span.start + span.length);
    let help = if matches!(body, Body::Begin { .. }) {
        format!("write BEGIN READ ONLY {written}")
    } else {
        format!("leave {clause} away")
    };
    ParseError::NotARead {
        clause,
        statement: words.written(0).to_uppercase(),
        why,
        help,
        at: place(span),
    }
}

/// `FROM orders STALENESS ANSWERED BY LEADER`: the number is missing, and the bound would silently become an alias.
fn check_no_lost_value(statement: &ast::Statement, tails: &Tails, words: &Words<'_>) -> Result<(), ParseError> {
    let Some(last) = words.list.len().checked_sub(1) else {
        return Ok(());
    };
    let after_as = last > 0 && words.is(last - 1, "AS");
    match tails::lost_value(words, last, tails) {
        Some(error) if !after_as && refuse::is_bare_alias(statement, words.list[last].token.span.start) => Err(error),
        _ => Ok(()),
    }
}
