//! CREATE TABLE, VIEW, INDEX, DATABASE and SCHEMA; everything else is refused by name.

use sqlparser::ast;

use crate::cursor::{Cursor, shorten};
use crate::define;
use crate::error::ParseError;
use crate::lex::span_of;
use crate::refuse;
use crate::sql;
use crate::statement::Body;

/// CREATE TABLE | VIEW | INDEX | DATABASE | SCHEMA; everything else by name.
pub(crate) fn create(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let words = cursor.words;
    cursor.expect("CREATE")?;
    if cursor.take("DATABASE") || cursor.take("SCHEMA") {
        return define::database(cursor);
    }
    // OR REPLACE, TEMPORARY and the like stand before the kind.
    while [
        "OR",
        "REPLACE",
        "TEMP",
        "TEMPORARY",
        "GLOBAL",
        "LOCAL",
        "UNLOGGED",
        "MATERIALIZED",
        "EXTERNAL",
        "UNIQUE",
    ]
    .iter()
    .any(|word| cursor.is(word))
    {
        let refused = [
            ("UNLOGGED", "leave it away: every write is logged"),
            ("EXTERNAL", "load the file with COPY name FROM 'path'"),
        ];
        if let Some((word, help)) = refused.iter().find(|(word, _)| cursor.is(word)) {
            return Err(ParseError::unsupported(
                format!("CREATE {word} TABLE"),
                *help,
                cursor.span(),
            ));
        }
        cursor.at += 1;
    }
    if cursor.is("TABLE") {
        return match sql::statement(&words)? {
            ast::Statement::CreateTable(mut table) => {
                refuse::create_table(&mut table, &words)?;
                if table.columns.is_empty() && table.query.is_none() {
                    return Err(ParseError::syntax_help(
                        "the table has no columns",
                        format!(
                            "list them, or write DEFINE COLLECTION {} for one that grows columns as rows arrive",
                            table.name
                        ),
                        words.whole(),
                    ));
                }
                Ok(Body::CreateTable(Box::new(table)))
            }
            _ => Err(ParseError::unsupported(
                "this kind of table",
                "write CREATE TABLE name (…)",
                words.whole(),
            )),
        };
    }
    if cursor.is("VIEW") {
        return match sql::statement(&words)? {
            ast::Statement::CreateView(mut view) => {
                refuse::create_view(&mut view, &words)?;
                Ok(Body::CreateView(Box::new(view)))
            }
            _ => Err(ParseError::unsupported(
                "this kind of view",
                "write CREATE VIEW name AS SELECT …",
                words.whole(),
            )),
        };
    }
    if cursor.is("INDEX") {
        return match sql::statement(&words)? {
            ast::Statement::CreateIndex(index) => {
                refuse::create_index(&index, &words)?;
                Ok(Body::CreateIndex(Box::new(index)))
            }
            _ => Err(ParseError::unsupported(
                "this kind of index",
                "write CREATE INDEX name ON table (column)",
                words.whole(),
            )),
        };
    }
    Err(not_created(cursor))
}

fn not_created(cursor: &Cursor<'_>) -> ParseError {
    if cursor.is_done() {
        return cursor.wanted("TABLE, VIEW, INDEX, DATABASE or SCHEMA");
    }
    let kind = cursor.words.written(cursor.at).to_uppercase();
    let help = match kind.as_str() {
        "USER" | "ROLE" => "users are not available yet",
        "FUNCTION" | "PROCEDURE" | "AGGREGATE" => "functions of one's own are not available",
        "TRIGGER" => "triggers are not available",
        "DOMAIN" => "domains are not available: give the column a CHECK",
        "EXTENSION" => "extensions are not available",
        _ => "CREATE takes TABLE, VIEW, INDEX, DATABASE or SCHEMA",
    };
    let start = cursor.words.whole().start;
    let end = cursor.span();
    ParseError::unsupported(
        format!("CREATE {}", shorten(&kind)),
        help,
        span_of(start, end.start + end.length),
    )
}
