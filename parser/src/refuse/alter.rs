//! Clauses of ALTER TABLE and CREATE INDEX.

use sqlparser::ast;

use super::ddl::{column, constraint, names};
use super::reads;
use crate::cursor::check_name;
use crate::error::ParseError;
use crate::lex::Words;
use crate::sql::bytes_of;

/// What ALTER TABLE does.
const OPERATIONS: &str = "ALTER TABLE takes ADD, DROP, ALTER and RENAME of columns and constraints, and RENAME TO";

/// Checks ALTER TABLE.
///
/// # Errors
/// [`ParseError::Unsupported`] for what would not be done.
pub(crate) fn alter_table(alter: &mut ast::AlterTable, words: &Words<'_>) -> Result<(), ParseError> {
    reads(alter, words)?;
    let ast::AlterTable {
        name: _,
        if_exists: _,
        only,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = &*alter;
    if *only {
        return Err(ParseError::unsupported(
            "ALTER TABLE ONLY",
            "leave ONLY away: tables do not inherit",
            words.locate(&["ONLY"]),
        ));
    }
    if location.is_some() || on_cluster.is_some() || table_type.is_some() {
        return Err(ParseError::unsupported(
            "this kind of ALTER TABLE",
            OPERATIONS,
            words.whole(),
        ));
    }
    operations
        .iter()
        .try_for_each(|operation| self::operation(operation, words))
}

fn operation(operation: &ast::AlterTableOperation, words: &Words<'_>) -> Result<(), ParseError> {
    use ast::AlterTableOperation as Op;
    match operation {
        Op::AddColumn {
            column_keyword: _,
            if_not_exists: _,
            column_def,
            column_position: None,
        } => column(column_def, words),
        Op::AddConstraint {
            constraint: added,
            not_valid: false,
        } => constraint(added, words),
        Op::AddConstraint { .. } => Err(ParseError::unsupported(
            "NOT VALID",
            "leave it away: a constraint holds for every row",
            words.locate(&["NOT", "VALID"]),
        )),
        Op::DropColumn {
            has_column_keyword: _,
            column_names: _,
            if_exists: _,
            drop_behavior: _,
        }
        | Op::DropConstraint {
            if_exists: _,
            name: _,
            drop_behavior: _,
        } => Ok(()),
        Op::RenameColumn {
            old_column_name: _,
            new_column_name: new,
        }
        | Op::RenameConstraint {
            old_name: _,
            new_name: new,
        } => check_name(&new.value, bytes_of(words, new.span)),
        Op::RenameTable { table_name } => match table_name {
            ast::RenameTableNameKind::To(name) if name.0.len() == 1 => names(name, words),
            ast::RenameTableNameKind::To(_) => Err(ParseError::unsupported(
                "a new name with a database",
                "write the name alone: a table stays in its database",
                words.locate(&["TO"]),
            )),
            ast::RenameTableNameKind::As(_) => Err(ParseError::unsupported(
                "RENAME AS",
                "write RENAME TO",
                words.locate(&["RENAME"]),
            )),
        },
        Op::AlterColumn { column_name: _, op } => alter_column(op, words),
        other => Err(ParseError::unsupported(
            format!("ALTER TABLE … {}", first_words(other)),
            OPERATIONS,
            words.whole(),
        )),
    }
}

fn alter_column(op: &ast::AlterColumnOperation, words: &Words<'_>) -> Result<(), ParseError> {
    use ast::AlterColumnOperation as Op;
    match op {
        Op::SetNotNull
        | Op::DropNotNull
        | Op::SetDefault { value: _ }
        | Op::DropDefault
        | Op::SetDataType {
            data_type: _,
            using: _,
            had_set: _,
        } => Ok(()),
        Op::AddGenerated { .. } => Err(ParseError::unsupported(
            "ADD GENERATED",
            "write SET DEFAULT, or compute the value where it is inserted",
            words.locate(&["GENERATED"]),
        )),
    }
}

fn first_words(operation: &ast::AlterTableOperation) -> String {
    let text = operation.to_string();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Checks CREATE INDEX.
///
/// # Errors
/// [`ParseError::Unsupported`] for what reads would not use.
pub(crate) fn create_index(index: &ast::CreateIndex, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::CreateIndex {
        name,
        table_name: _,
        using,
        columns,
        unique: _,
        concurrently,
        if_not_exists: _,
        // Every column of a row that an index finds can be read: what it includes changes nothing.
        include: _,
        nulls_distinct,
        with,
        predicate,
        index_options,
        alter_options,
    } = index;
    if let Some(name) = name {
        names(name, words)?;
    }
    let refuse = |what: &str, help: &str, place: &[&str]| Err(ParseError::unsupported(what, help, words.locate(place)));
    if using
        .as_ref()
        .is_some_and(|using| !matches!(using, ast::IndexType::BTree))
    {
        return refuse(
            "an index of this kind",
            "leave USING away: an index finds rows by equal values",
            &["USING"],
        );
    }
    if *concurrently {
        return refuse(
            "CREATE INDEX CONCURRENTLY",
            "leave CONCURRENTLY away",
            &["CONCURRENTLY"],
        );
    }
    if predicate.is_some() {
        return refuse(
            "a partial index",
            "leave WHERE away: the index holds every row",
            &["WHERE"],
        );
    }
    if *nulls_distinct == Some(false) {
        return refuse("NULLS NOT DISTINCT", "declare the column NOT NULL", &["NULLS"]);
    }
    if !with.is_empty() || !index_options.is_empty() || !alter_options.is_empty() {
        return refuse("an option of an index", "leave it away", &["WITH"]);
    }
    let is_name = |column: &ast::IndexColumn| matches!(column.column.expr, ast::Expr::Identifier(_));
    if !columns.iter().all(is_name) {
        return refuse(
            "an index on an expression",
            "name columns only; a column of its own can hold the value",
            &["ON"],
        );
    }
    // An index finds rows by equal values, whatever order it is said to have.
    let plain = |column: &ast::IndexColumn| column.operator_class.is_none() && column.column.with_fill.is_none();
    if !columns.iter().all(plain) {
        return refuse("an operator class of an index", "name the columns only", &["ON"]);
    }
    Ok(())
}
