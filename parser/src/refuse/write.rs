//! Clauses of INSERT, UPDATE, DELETE, TRUNCATE and MERGE.

use sqlparser::ast;

use super::read::Reads;
use super::{flow, joins, reads};
use crate::error::ParseError;
use crate::lex::Words;

/// Checks a statement that has to be a write.
///
/// # Errors
/// [`ParseError::Unsupported`] for each clause that would be ignored.
pub(crate) fn write(mut statement: ast::Statement, words: &Words<'_>) -> Result<ast::Statement, ParseError> {
    part(&mut statement, words)?;
    Ok(statement)
}

/// A write, or a query that is one or has some in its WITH.
fn part(statement: &mut ast::Statement, words: &Words<'_>) -> Result<(), ParseError> {
    match statement {
        ast::Statement::Insert(insert) => self::insert(insert, words)?,
        ast::Statement::Update(update) => self::update(update, words)?,
        ast::Statement::Delete(delete) => self::delete(delete, words)?,
        ast::Statement::Truncate(truncate) => self::truncate(truncate, words)?,
        ast::Statement::Merge(merge) => self::merge(merge, words)?,
        ast::Statement::Query(query) => return self::query(query, words),
        _ => return Err(ParseError::syntax("a write is expected here", words.whole())),
    }
    reads(statement, words)
}

/// Whether a statement that begins with WITH writes.
pub(crate) fn is_write(statement: &ast::Statement) -> bool {
    let ast::Statement::Query(query) = statement else {
        return false;
    };
    let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
    write_of(&query.body) || ctes.into_iter().any(|cte| write_of(&cte.query.body))
}

fn write_of(body: &ast::SetExpr) -> bool {
    matches!(
        body,
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_)
    )
}

/// A query whose body or whose WITH holds writes; deeper inside they are refused as in any query.
fn query(query: &mut ast::Query, words: &Words<'_>) -> Result<(), ParseError> {
    let mut with = query.with.take();
    if let Some(with) = &mut with {
        flow(Reads { words }.with(with))?;
        for cte in &mut with.cte_tables {
            if write_of(&cte.query.body) && cte.query.with.is_some() {
                return Err(ParseError::unsupported(
                    "WITH before a write inside a WITH",
                    "put its queries into the outer WITH",
                    words.whole(),
                ));
            }
            body(&mut cte.query, words)?;
        }
    }
    body(query, words)?;
    query.with = with;
    Ok(())
}

fn body(query: &mut ast::Query, words: &Words<'_>) -> Result<(), ParseError> {
    match query.body.as_mut() {
        ast::SetExpr::Insert(statement)
        | ast::SetExpr::Update(statement)
        | ast::SetExpr::Delete(statement)
        | ast::SetExpr::Merge(statement) => part(statement, words),
        _ => reads(query, words),
    }
}

/// Refuses when one of `$present`; the place is where the words stand.
macro_rules! refuse_if {
    ($words:expr, $present:expr, $what:expr, $help:expr, $place:expr) => {
        if $present {
            return Err(ParseError::unsupported($what, $help, $words.locate($place)));
        }
    };
}

const OUTPUT_HELP: &str = "write RETURNING … at the end";
const ROWS_HELP: &str = "choose the rows in WHERE: … WHERE id IN (SELECT id FROM … ORDER BY … LIMIT …)";

fn insert(insert: &ast::Insert, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints,
        or,
        ignore,
        into,
        table,
        table_alias: _,
        columns,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword,
        on,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    refuse_if!(
        words,
        !optimizer_hints.is_empty(),
        "a planner hint",
        "leave it away",
        &["INSERT"]
    );
    refuse_if!(words, or.is_some(), "INSERT OR …", "write ON CONFLICT …", &["OR"]);
    refuse_if!(
        words,
        *ignore,
        "INSERT IGNORE",
        "write ON CONFLICT DO NOTHING",
        &["IGNORE"]
    );
    refuse_if!(
        words,
        *replace_into,
        "REPLACE INTO",
        "write INSERT … ON CONFLICT DO UPDATE",
        &["REPLACE"]
    );
    refuse_if!(
        words,
        *overwrite,
        "INSERT OVERWRITE",
        "write TRUNCATE, then INSERT INTO",
        &["OVERWRITE"]
    );
    refuse_if!(
        words,
        !*into,
        "INSERT without INTO",
        "write INSERT INTO name …",
        &["INSERT"]
    );
    refuse_if!(
        words,
        *has_table_keyword,
        "INSERT INTO TABLE",
        "write INSERT INTO name …",
        &["TABLE"]
    );
    refuse_if!(
        words,
        !matches!(table, ast::TableObject::TableName(_)),
        "INSERT INTO a function or query",
        "write INSERT INTO name …",
        &["INTO"]
    );
    refuse_if!(
        words,
        partitioned.is_some() || !after_columns.is_empty(),
        "INSERT … PARTITION",
        "leave it away",
        &["PARTITION"]
    );
    refuse_if!(
        words,
        !assignments.is_empty(),
        "INSERT … SET",
        "write INSERT INTO name (columns) VALUES (…)",
        &["SET"]
    );
    refuse_if!(words, output.is_some(), "OUTPUT", OUTPUT_HELP, &["OUTPUT"]);
    refuse_if!(
        words,
        priority.is_some(),
        "a priority of INSERT",
        "leave it away",
        &["INSERT"]
    );
    refuse_if!(
        words,
        insert_alias.is_some(),
        "an alias for the new row",
        "use excluded.column",
        &["AS"]
    );
    refuse_if!(words, settings.is_some(), "SETTINGS", "leave it away", &["SETTINGS"]);
    refuse_if!(
        words,
        format_clause.is_some(),
        "INSERT … FORMAT",
        "write COPY name FROM STDIN",
        &["FORMAT"]
    );
    refuse_if!(
        words,
        matches!(on, Some(ast::OnInsert::DuplicateKeyUpdate(_))),
        "ON DUPLICATE KEY UPDATE",
        "write ON CONFLICT (key) DO UPDATE SET …",
        &["ON", "DUPLICATE"]
    );
    refuse_if!(
        words,
        multi_table_insert_type.is_some()
            || !multi_table_into_clauses.is_empty()
            || !multi_table_when_clauses.is_empty()
            || multi_table_else_clause.is_some(),
        "INSERT into several tables",
        "write one INSERT for each, in one transaction",
        &["INSERT"]
    );
    refuse_if!(
        words,
        columns.iter().any(|name| name.0.len() != 1),
        "a column name with a dot",
        "name the columns of the table only",
        &["INTO"]
    );
    Ok(())
}

fn update(update: &ast::Update, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments: _,
        from,
        selection: _,
        returning: _,
        output,
        or,
        order_by,
        limit,
    } = update;
    refuse_if!(
        words,
        !optimizer_hints.is_empty(),
        "a planner hint",
        "leave it away",
        &["UPDATE"]
    );
    refuse_if!(words, or.is_some(), "UPDATE OR …", "leave it away", &["OR"]);
    refuse_if!(words, output.is_some(), "OUTPUT", OUTPUT_HELP, &["OUTPUT"]);
    refuse_if!(
        words,
        !order_by.is_empty(),
        "UPDATE … ORDER BY",
        ROWS_HELP,
        &["ORDER", "BY"]
    );
    refuse_if!(words, limit.is_some(), "UPDATE … LIMIT", ROWS_HELP, &["LIMIT"]);
    refuse_if!(
        words,
        !table.joins.is_empty(),
        "UPDATE of a join",
        "write UPDATE name SET … FROM other WHERE …",
        &["JOIN"]
    );
    refuse_if!(
        words,
        matches!(from, Some(ast::UpdateTableFromKind::BeforeSet(_))),
        "FROM before SET",
        "write UPDATE name SET … FROM other WHERE …",
        &["FROM"]
    );
    match from {
        Some(ast::UpdateTableFromKind::AfterSet(tables)) => joins(tables, words),
        _ => Ok(()),
    }
}

fn delete(delete: &ast::Delete, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from,
        using,
        selection: _,
        returning: _,
        output,
        order_by,
        limit,
    } = delete;
    let (ast::FromTable::WithFromKeyword(from_tables) | ast::FromTable::WithoutKeyword(from_tables)) = from;
    refuse_if!(
        words,
        !optimizer_hints.is_empty(),
        "a planner hint",
        "leave it away",
        &["DELETE"]
    );
    refuse_if!(words, output.is_some(), "OUTPUT", OUTPUT_HELP, &["OUTPUT"]);
    refuse_if!(
        words,
        !order_by.is_empty(),
        "DELETE … ORDER BY",
        ROWS_HELP,
        &["ORDER", "BY"]
    );
    refuse_if!(words, limit.is_some(), "DELETE … LIMIT", ROWS_HELP, &["LIMIT"]);
    refuse_if!(
        words,
        !tables.is_empty() || from_tables.len() != 1 || from_tables.iter().any(|table| !table.joins.is_empty()),
        "DELETE from several tables",
        "write DELETE FROM name USING other WHERE …",
        &["DELETE"]
    );
    refuse_if!(
        words,
        matches!(from, ast::FromTable::WithoutKeyword(_)),
        "DELETE without FROM",
        "write DELETE FROM name …",
        &["DELETE"]
    );
    joins(using.as_deref().unwrap_or_default(), words)
}

fn truncate(truncate: &ast::Truncate, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::Truncate {
        table_names,
        partitions,
        table: _,
        if_exists: _,
        identity: _,
        cascade: _,
        on_cluster,
    } = truncate;
    refuse_if!(
        words,
        partitions.is_some(),
        "TRUNCATE … PARTITION",
        "write DELETE … WHERE …",
        &["PARTITION"]
    );
    refuse_if!(words, on_cluster.is_some(), "ON CLUSTER", "leave it away", &["CLUSTER"]);
    refuse_if!(
        words,
        table_names.iter().any(|target| target.only || target.has_asterisk),
        "ONLY and * after a table",
        "leave them away: tables do not inherit",
        &["ONLY"]
    );
    Ok(())
}

fn merge(merge: &ast::Merge, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::Merge {
        merge_token: _,
        optimizer_hints,
        into,
        table,
        source: _,
        on: _,
        clauses,
        output,
    } = merge;
    refuse_if!(
        words,
        !optimizer_hints.is_empty(),
        "a planner hint",
        "leave it away",
        &["MERGE"]
    );
    refuse_if!(
        words,
        !*into,
        "MERGE without INTO",
        "write MERGE INTO name USING …",
        &["MERGE"]
    );
    refuse_if!(
        words,
        matches!(output, Some(ast::OutputClause::Output { .. })),
        "OUTPUT",
        OUTPUT_HELP,
        &["OUTPUT"]
    );
    refuse_if!(
        words,
        !matches!(table, ast::TableFactor::Table { .. }),
        "MERGE into a query",
        "write MERGE INTO name USING …",
        &["INTO"]
    );
    refuse_if!(
        words,
        clauses.is_empty(),
        "MERGE without WHEN",
        "write WHEN MATCHED THEN … or WHEN NOT MATCHED THEN …",
        &["MERGE"]
    );
    clauses.iter().try_for_each(|clause| merge_clause(clause, words))
}

fn merge_clause(clause: &ast::MergeClause, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::MergeClause {
        when_token: _,
        clause_kind: _,
        predicate: _,
        action,
    } = clause;
    let (has_where, columns): (bool, &[ast::ObjectName]) = match action {
        ast::MergeAction::Insert(ast::MergeInsertExpr {
            insert_token: _,
            columns,
            kind_token: _,
            kind: _,
            insert_predicate,
        }) => (insert_predicate.is_some(), columns),
        ast::MergeAction::Update(ast::MergeUpdateExpr {
            update_token: _,
            assignments: _,
            update_predicate,
            delete_predicate,
        }) => (update_predicate.is_some() || delete_predicate.is_some(), &[]),
        ast::MergeAction::Delete { delete_token: _ } => (false, &[]),
    };
    refuse_if!(
        words,
        has_where,
        "WHERE after an action of MERGE",
        "put the condition into WHEN … AND condition THEN",
        &["WHERE"]
    );
    refuse_if!(
        words,
        columns.iter().any(|name| name.0.len() != 1),
        "a column name with a dot",
        "name the columns of the table only",
        &["INSERT"]
    );
    Ok(())
}
