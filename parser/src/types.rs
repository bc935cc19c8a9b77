//! CREATE TYPE, ALTER TYPE and DROP TYPE.

use sqlparser::ast;

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::lex::Words;
use crate::sql;
use crate::statement::Body;

/// The statement, if it is about a type.
pub(crate) fn statement(words: &Words<'_>) -> Result<Option<Body>, ParseError> {
    let mut cursor = Cursor::new(*words, 0);
    let verbs = ["CREATE", "ALTER", "DROP"];
    if !verbs.iter().any(|verb| cursor.take(verb)) || !cursor.is("TYPE") {
        return Ok(None);
    }
    let unsupported = |what: &str, help: &str| ParseError::unsupported(what, help, words.whole());
    let read = sql::statement(words)?;
    match &read {
        ast::Statement::CreateType {
            name: _,
            representation: Some(ast::UserDefinedTypeRepresentation::Enum { labels: _ }),
        }
        | ast::Statement::AlterType(ast::AlterType { name: _, operation: _ }) => {}
        ast::Statement::Drop {
            object_type: ast::ObjectType::Type,
            if_exists: _,
            names: _,
            cascade,
            restrict: _,
            purge: _,
            temporary: _,
            table: _,
        } => {
            if *cascade {
                return Err(unsupported("CASCADE", "drop the columns that have the type first"));
            }
        }
        _ => {
            return Err(unsupported(
                "a type that is not an enumerated one",
                "write CREATE TYPE name AS ENUM ('…', …)",
            ));
        }
    }
    Ok(Some(Body::Type(Box::new(read))))
}
