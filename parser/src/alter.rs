//! ALTER TABLE and ALTER VIEW … RENAME; every other ALTER is refused by name.

use sqlparser::ast;

use crate::cursor::{Cursor, shorten};
use crate::error::ParseError;
use crate::lex::span_of;
use crate::refuse;
use crate::sql;
use crate::statement::Body;

/// ALTER TABLE [IF EXISTS] name operation {, operation}.
pub(crate) fn alter(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let words = cursor.words;
    cursor.expect("ALTER")?;
    if cursor.is("VIEW") {
        return rename_view(cursor);
    }
    if !cursor.is("TABLE") {
        return Err(not_altered(cursor));
    }
    match sql::statement(&words)? {
        ast::Statement::AlterTable(mut alter) => {
            refuse::alter_table(&mut alter, &words)?;
            Ok(Body::AlterTable(Box::new(alter)))
        }
        _ => Err(ParseError::unsupported(
            "this kind of ALTER TABLE",
            "write ALTER TABLE name ADD COLUMN, DROP COLUMN, ALTER COLUMN, RENAME …",
            words.whole(),
        )),
    }
}

/// ALTER VIEW [IF EXISTS] name RENAME TO name, which says the same with TABLE.
fn rename_view(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let words = cursor.words;
    let prefix = [sql::word("ALTER"), sql::word("TABLE")];
    let read = sql::statement_after(&prefix, &words.rest(cursor.at + 1));
    let Ok(ast::Statement::AlterTable(mut alter)) = read else {
        return Err(not_altered(cursor));
    };
    if !matches!(
        alter.operations.as_slice(),
        [ast::AlterTableOperation::RenameTable { .. }]
    ) {
        return Err(not_altered(cursor));
    }
    refuse::alter_table(&mut alter, &words)?;
    Ok(Body::AlterTable(Box::new(alter)))
}

fn not_altered(cursor: &Cursor<'_>) -> ParseError {
    if cursor.is_done() {
        return cursor.wanted("TABLE");
    }
    let kind = cursor.words.written(cursor.at).to_uppercase();
    let help = match kind.as_str() {
        "VIEW" => "write CREATE OR REPLACE VIEW, or ALTER VIEW name RENAME TO name",
        "INDEX" => "write DROP INDEX and CREATE INDEX under the other name",
        "USER" | "ROLE" => "users are not available yet",
        _ => "ALTER takes TABLE",
    };
    let start = cursor.words.whole().start;
    let end = cursor.span();
    ParseError::unsupported(
        format!("ALTER {}", shorten(&kind)),
        help,
        span_of(start, end.start + end.length),
    )
}
