//! Statements about the session: BEGIN … COMMIT, USE, SET, RESET, SHOW, INFO FOR.

use sqlparser::tokenizer::Token;

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::lex::span_of;
use crate::statement::{Body, InfoFor, Setting};

/// BEGIN, START TRANSACTION, COMMIT, END, ROLLBACK, ABORT, SAVEPOINT, RELEASE; `None` when the statement is none of
/// them.
pub(crate) fn transaction(cursor: &mut Cursor<'_>) -> Result<Option<Body>, ParseError> {
    let body = if cursor.take_all(&["START", "TRANSACTION"]) {
        begin(cursor)?
    } else if cursor.take("BEGIN") {
        let _ = cursor.take("TRANSACTION") || cursor.take("WORK");
        begin(cursor)?
    } else if cursor.take("COMMIT") || cursor.take("END") {
        end_of_transaction(cursor, "COMMIT")?;
        Body::Commit
    } else if cursor.take("ROLLBACK") || cursor.take("ABORT") {
        end_of_transaction(cursor, "ROLLBACK")?;
        if cursor.take("TO") {
            let _ = cursor.take("SAVEPOINT");
            Body::RollbackTo(savepoint(cursor)?)
        } else {
            Body::Rollback
        }
    } else if cursor.take("SAVEPOINT") {
        Body::Savepoint(savepoint(cursor)?)
    } else if cursor.take("RELEASE") {
        let _ = cursor.take("SAVEPOINT");
        Body::Release(savepoint(cursor)?)
    } else {
        return Ok(None);
    };
    cursor.expect_end_of_read()?;
    Ok(Some(body))
}

fn savepoint(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    Ok(cursor.name("the name of a savepoint")?.0)
}

fn begin(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    Ok(Body::Begin {
        read_only: modes(cursor)?.unwrap_or(false),
    })
}

/// READ ONLY, READ WRITE, ISOLATION LEVEL …, in any order: whether the transaction only reads, if said.
fn modes(cursor: &mut Cursor<'_>) -> Result<Option<bool>, ParseError> {
    let mut read_only = None;
    loop {
        let start = cursor.span();
        if cursor.take_all(&["READ", "ONLY"]) {
            set_once(&mut read_only, true, start)?;
        } else if cursor.take_all(&["READ", "WRITE"]) {
            set_once(&mut read_only, false, start)?;
        } else if cursor.take_all(&["ISOLATION", "LEVEL"]) {
            isolation_level(cursor)?;
        } else if cursor.is("NOT") || cursor.is("DEFERRABLE") {
            return Err(ParseError::unsupported(
                "DEFERRABLE",
                "a transaction reads one version of the data and never waits for another",
                start,
            ));
        } else if !cursor.take_sign(&Token::Comma) {
            break;
        }
    }
    Ok(read_only)
}

fn set_once(slot: &mut Option<bool>, value: bool, at: candor_proto::SourceSpan) -> Result<(), ParseError> {
    if slot.replace(value).is_some() {
        return Err(ParseError::syntax("READ ONLY or READ WRITE is said twice", at));
    }
    Ok(())
}

/// Every transaction is snapshot-isolated, which keeps the promises of all levels but SERIALIZABLE.
fn isolation_level(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    let start = cursor.span();
    if cursor.take("SERIALIZABLE") {
        return Err(ParseError::unsupported(
            "ISOLATION LEVEL SERIALIZABLE",
            "transactions read one version and the first of two that write the same row wins (REPEATABLE READ); two transactions can still each overlook the other's write",
            start,
        ));
    }
    if cursor.take_all(&["REPEATABLE", "READ"])
        || cursor.take_all(&["READ", "COMMITTED"])
        || cursor.take_all(&["READ", "UNCOMMITTED"])
        || cursor.take("SNAPSHOT")
    {
        return Ok(());
    }
    Err(cursor.wanted("REPEATABLE READ, READ COMMITTED or READ UNCOMMITTED"))
}

fn end_of_transaction(cursor: &mut Cursor<'_>, what: &str) -> Result<(), ParseError> {
    let _ = cursor.take("TRANSACTION") || cursor.take("WORK");
    let start = cursor.span();
    let refuse = |words: &str, help: &str| Err(ParseError::unsupported(format!("{what} {words}"), help, start));
    if cursor.is("PREPARED") {
        return refuse("PREPARED", "a transaction ends with COMMIT or ROLLBACK");
    }
    if what != "ROLLBACK" && cursor.is("TO") {
        return refuse("TO", "COMMIT takes no savepoint; RELEASE SAVEPOINT name forgets one");
    }
    if cursor.take_all(&["AND", "NO", "CHAIN"]) {
        return Ok(());
    }
    if cursor.is("AND") {
        return refuse("AND CHAIN", "begin the next transaction with BEGIN");
    }
    Ok(())
}

/// USE [NAMESPACE | NS] name [[DATABASE | DB] name].
pub(crate) fn use_names(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("USE")?;
    let mut namespace = None;
    let mut database = None;
    while !cursor.is_done() {
        let start = cursor.span();
        let slot = if cursor.take("NAMESPACE") || cursor.take("NS") {
            &mut namespace
        } else if cursor.take("DATABASE") || cursor.take("DB") {
            &mut database
        } else {
            let written = cursor.words.written(cursor.at);
            return Err(ParseError::syntax_help(
                format!("USE does not say what `{written}` is"),
                format!("write USE NAMESPACE {written} or USE DATABASE {written}, or both"),
                start,
            ));
        };
        if slot.is_some() {
            return Err(ParseError::syntax("this is said twice", start));
        }
        *slot = Some(cursor.name("a name")?.0);
        let _ = cursor.take_sign(&Token::Comma);
    }
    if namespace.is_none() && database.is_none() {
        return Err(cursor.wanted("NAMESPACE name or DATABASE name"));
    }
    Ok(Body::Use { namespace, database })
}

/// SET name = value, SET name TO value, SET TIME ZONE value.
pub(crate) fn set(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("SET")?;
    let start = cursor.span();
    if cursor.is("LOCAL") {
        return Err(ParseError::unsupported(
            "SET LOCAL",
            "write SET name = value; it holds for the session",
            start,
        ));
    }
    if cursor.take("TRANSACTION") {
        if cursor.is("SNAPSHOT") {
            return Err(ParseError::unsupported(
                "SET TRANSACTION SNAPSHOT",
                "BEGIN READ ONLY VERSION n reads a version of your choice",
                start,
            ));
        }
        if cursor.is_done() {
            return Err(cursor.wanted("READ ONLY, READ WRITE or ISOLATION LEVEL …"));
        }
        let read_only = modes(cursor)?;
        cursor.expect_end()?;
        return Ok(Body::SetTransaction { read_only });
    }
    if cursor.is("SESSION") && cursor.words.is(cursor.at + 1, "CHARACTERISTICS") {
        return Err(ParseError::unsupported(
            "SET SESSION CHARACTERISTICS",
            "say it on each transaction: BEGIN READ ONLY",
            start,
        ));
    }
    if cursor.is("CONSTRAINTS") || cursor.is("ROLE") {
        return Err(ParseError::unsupported(
            format!("SET {}", cursor.words.written(cursor.at).to_uppercase()),
            "transactions are described where they begin: BEGIN READ ONLY",
            start,
        ));
    }
    // `SET session = 1` would set something called session.
    if cursor.is("SESSION") && !cursor.words.is_sign(cursor.at + 1, &Token::Eq) && !cursor.words.is(cursor.at + 1, "TO")
    {
        cursor.at += 1;
    }
    let name = if cursor.take_all(&["TIME", "ZONE"]) {
        let _ = cursor.take_sign(&Token::Eq) || cursor.take("TO");
        "timezone".to_owned()
    } else {
        let name = setting_name(cursor)?;
        if !cursor.take_sign(&Token::Eq) && !cursor.take("TO") {
            return Err(cursor.wanted("`=`"));
        }
        name
    };
    if cursor.is("DEFAULT") && cursor.at + 1 == cursor.words.list.len() {
        return Ok(Body::Reset(Setting::Name(name)));
    }
    set_value(cursor, name)
}

fn set_value(cursor: &mut Cursor<'_>, name: String) -> Result<Body, ParseError> {
    let first = cursor.at;
    if cursor.is_done() {
        return Err(cursor.wanted("a value"));
    }
    let one_string = cursor.at + 1 == cursor.words.list.len();
    if one_string && let Ok((value, value_span)) = cursor.string("a value") {
        return Ok(Body::Set {
            name,
            value,
            value_span,
        });
    }
    while !cursor.is_done() {
        let token = &cursor.words.list[cursor.at].token.token;
        let is_value = matches!(
            token,
            Token::Word(_)
                | Token::Number(..)
                | Token::SingleQuotedString(_)
                | Token::Minus
                | Token::Plus
                | Token::Comma
                | Token::Period
                | Token::Colon
                | Token::Div
        );
        if !is_value {
            return Err(cursor.wanted("a string, a number or a word"));
        }
        cursor.at += 1;
    }
    let value_span = cursor.words.span_from_to(first, cursor.at - 1);
    let value = cursor
        .words
        .text(value_span.start, value_span.start + value_span.length)
        .to_owned();
    Ok(Body::Set {
        name,
        value,
        value_span,
    })
}

/// A setting's name: lower case, with dots.
fn setting_name(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    let (mut name, _) = cursor.name("the name of a setting")?;
    while cursor.take_sign(&Token::Period) {
        let (part, _) = cursor.name("the name of a setting")?;
        name = format!("{name}.{part}");
    }
    Ok(name)
}

/// RESET name | ALL and SHOW name | ALL.
pub(crate) fn reset_or_show(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let show = cursor.is("SHOW");
    cursor.at += 1;
    let setting = if cursor.is("ALL") && cursor.at + 1 == cursor.words.list.len() {
        cursor.at += 1;
        Setting::All
    } else if cursor.take_all(&["TIME", "ZONE"]) {
        Setting::Name("timezone".to_owned())
    } else if cursor.take_all(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        Setting::Name("transaction_isolation".to_owned())
    } else {
        if show {
            refuse_show_of_tables(cursor)?;
        }
        Setting::Name(setting_name(cursor)?)
    };
    cursor.expect_end()?;
    Ok(if show {
        Body::Show(setting)
    } else {
        Body::Reset(setting)
    })
}

/// `SHOW TABLES` and its like are MySQL's; SHOW is for settings.
fn refuse_show_of_tables(cursor: &Cursor<'_>) -> Result<(), ParseError> {
    let instead = [
        ("TABLES", "SELECT * FROM information_schema.tables"),
        ("VIEWS", "SELECT * FROM information_schema.views"),
        (
            "COLUMNS",
            "SELECT * FROM information_schema.columns WHERE table_name = '…'",
        ),
        ("FUNCTIONS", "SELECT * FROM information_schema.routines"),
        ("DATABASES", "INFO FOR NAMESPACE"),
        ("SCHEMAS", "SELECT * FROM information_schema.schemata"),
        ("CREATE", "INFO FOR COLLECTION name"),
    ];
    for (word, help) in instead {
        if cursor.is(word) {
            let at = span_of(cursor.words.whole().start, cursor.span().start + cursor.span().length);
            return Err(ParseError::unsupported(
                format!("SHOW {word}"),
                format!("write {help}"),
                at,
            ));
        }
    }
    Ok(())
}

/// INFO FOR ….
pub(crate) fn info(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("INFO")?;
    cursor.expect("FOR")?;
    let start = cursor.span();
    let info = if cursor.take("NODE") {
        InfoFor::Node
    } else if cursor.take("ROOT") {
        InfoFor::Root
    } else if cursor.take("NAMESPACE") || cursor.take("NS") {
        InfoFor::Namespace
    } else if cursor.take("DATABASE") || cursor.take("DB") {
        InfoFor::Database
    } else if cursor.take("COLLECTION") || cursor.take("TABLE") {
        InfoFor::Collection(cursor.qualified_name("the name of a collection")?)
    } else if cursor.is("USER") {
        return Err(ParseError::unsupported(
            "INFO FOR USER",
            "users are not available yet",
            start,
        ));
    } else {
        return Err(cursor.wanted("NODE, ROOT, NAMESPACE, DATABASE or COLLECTION name"));
    };
    cursor.expect_end()?;
    Ok(Body::InfoFor(info))
}
