//! Clauses of CREATE TABLE and CREATE VIEW.

use candor_proto::SourceSpan;
use sqlparser::ast::{self, helpers::stmt_create_table::CreateTableBuilder};

use super::reads;
use crate::cursor::check_name;
use crate::error::ParseError;
use crate::lex::Words;
use crate::sql::bytes_of;

/// Checks the definition of a closed or open collection.
///
/// # Errors
/// [`ParseError::Unsupported`] for what would not be enforced.
pub(crate) fn create_table(table: &mut ast::CreateTable, words: &Words<'_>) -> Result<(), ParseError> {
    known_options(table, words)?;
    reads(table, words)?;
    // Set aside, because copying a deep query takes a deep stack.
    let query = table.query.take();
    let checked = without_query(table, words);
    table.query = query;
    checked
}

fn without_query(table: &ast::CreateTable, words: &Words<'_>) -> Result<(), ParseError> {
    names(&table.name, words)?;
    // Whatever else is said beside name, columns, constraints and query is refused without knowing what it is.
    let plain = CreateTableBuilder::new(table.name.clone())
        .or_replace(table.or_replace)
        .if_not_exists(table.if_not_exists)
        .columns(table.columns.clone())
        .constraints(table.constraints.clone())
        .hive_formats(table.hive_formats.clone().filter(is_empty))
        .build();
    if ast::Statement::from(plain) != ast::Statement::CreateTable(table.clone()) {
        return Err(ParseError::unsupported(
            "an option of this CREATE TABLE",
            "a table has a name, columns and constraints, or AS and a query",
            words.whole(),
        ));
    }
    for column in &table.columns {
        self::column(column, words)?;
    }
    for constraint in &table.constraints {
        self::constraint(constraint, words)?;
    }
    Ok(())
}

/// A name that is given: `[[namespace.]database.]name`, each part one that [`check_name`] takes.
pub(super) fn names(name: &ast::ObjectName, words: &Words<'_>) -> Result<(), ParseError> {
    if name.0.len() > 3 {
        return Err(ParseError::syntax_help(
            "a name has more than three parts",
            "write name, database.name or namespace.database.name",
            words.whole(),
        ));
    }
    name.0
        .iter()
        .filter_map(ast::ObjectNamePart::as_ident)
        .try_for_each(|part| check_name(&part.value, bytes_of(words, part.span)))
}

/// sqlparser leaves an empty struct where nothing was said.
fn is_empty(formats: &ast::HiveFormat) -> bool {
    let ast::HiveFormat {
        row_format,
        serde_properties,
        storage,
        location,
    } = formats;
    row_format.is_none() && serde_properties.is_none() && storage.is_none() && location.is_none()
}

/// The options people do write, by name.
fn known_options(table: &ast::CreateTable, words: &Words<'_>) -> Result<(), ParseError> {
    let refuse = |what: &str, help: &str, place: &[&str]| Err(ParseError::unsupported(what, help, words.locate(place)));
    if table.temporary {
        let place = if words.find(&["TEMP"]).is_some() {
            "TEMP"
        } else {
            "TEMPORARY"
        };
        return refuse(
            "CREATE TEMPORARY TABLE",
            "use WITH, or a table that is dropped afterwards",
            &[place],
        );
    }
    if table.or_replace && table.if_not_exists {
        return Err(ParseError::syntax_help(
            "IF NOT EXISTS keeps what is there and OR REPLACE replaces it",
            "keep one of them",
            words.locate(&["OR", "REPLACE"]),
        ));
    }
    if table.external || table.location.is_some() || table.file_format.is_some() {
        return refuse(
            "an external table",
            "load the file with COPY name FROM 'path'",
            &["EXTERNAL"],
        );
    }
    if table.like.is_some() || table.clone.is_some() {
        return refuse(
            "CREATE TABLE … LIKE",
            "write CREATE TABLE name AS SELECT … LIMIT 0",
            &["LIKE"],
        );
    }
    if table.inherits.is_some() {
        return refuse("INHERITS", "list the columns", &["INHERITS"]);
    }
    if table.partition_by.is_some() || table.partition_of.is_some() {
        return refuse(
            "PARTITION",
            "leave it away: a collection is not split by hand",
            &["PARTITION"],
        );
    }
    if table.on_commit.is_some() {
        return refuse("ON COMMIT", "leave it away", &["ON", "COMMIT"]);
    }
    if table.comment.is_some() {
        return refuse("COMMENT", "leave it away", &["COMMENT"]);
    }
    if !matches!(table.table_options, ast::CreateTableOptions::None) {
        return refuse("a storage option of a table", "leave it away", &["WITH"]);
    }
    Ok(())
}

pub(super) fn column(column: &ast::ColumnDef, words: &Words<'_>) -> Result<(), ParseError> {
    let at = bytes_of(words, column.name.span);
    check_name(&column.name.value, at)?;
    if column.data_type == ast::DataType::Unspecified {
        return Err(ParseError::syntax_help(
            format!("the column {} has no type", column.name),
            format!("write {} TEXT, or another type", column.name),
            at,
        ));
    }
    for option in &column.options {
        column_option(&option.option, words, at)?;
    }
    Ok(())
}

fn column_option(option: &ast::ColumnOption, words: &Words<'_>, at: SourceSpan) -> Result<(), ParseError> {
    let refuse = |what: &str, help: &str| Err(ParseError::unsupported(what, help, at));
    match option {
        ast::ColumnOption::Null | ast::ColumnOption::NotNull | ast::ColumnOption::Default(_) => Ok(()),
        ast::ColumnOption::PrimaryKey(key) => primary_key(key, words),
        ast::ColumnOption::Unique(unique) => self::unique(unique, words),
        ast::ColumnOption::Check(check) => self::check(check, words),
        ast::ColumnOption::ForeignKey(key) => foreign_key(key, words),
        ast::ColumnOption::Collation(_) => refuse("COLLATE", "leave it away: text is ordered by its bytes"),
        ast::ColumnOption::Generated {
            generated_as: _,
            sequence_options: _,
            generation_expr,
            generation_expr_mode,
            generated_keyword: _,
        } => match (generation_expr, generation_expr_mode) {
            (None, _) | (Some(_), Some(ast::GeneratedExpressionMode::Stored)) => Ok(()),
            (Some(_), _) => refuse(
                "a generated column that is not STORED",
                "write STORED behind the expression",
            ),
        },
        ast::ColumnOption::Identity(_) => refuse("IDENTITY", "write GENERATED BY DEFAULT AS IDENTITY"),
        ast::ColumnOption::Comment(_) => refuse("COMMENT", "leave it away"),
        _ => refuse(
            "an option of this column",
            "columns take NOT NULL, DEFAULT, GENERATED, PRIMARY KEY, UNIQUE, CHECK and REFERENCES",
        ),
    }
}

pub(super) fn constraint(constraint: &ast::TableConstraint, words: &Words<'_>) -> Result<(), ParseError> {
    match constraint {
        ast::TableConstraint::PrimaryKey(key) => primary_key(key, words),
        ast::TableConstraint::Unique(unique) => self::unique(unique, words),
        ast::TableConstraint::Check(check) => self::check(check, words),
        ast::TableConstraint::ForeignKey(key) => foreign_key(key, words),
        _ => Err(ParseError::unsupported(
            "this table constraint",
            "constraints are PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY",
            words.whole(),
        )),
    }
}

fn foreign_key(key: &ast::ForeignKeyConstraint, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::ForeignKeyConstraint {
        name: _,
        index_name,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete: _,
        on_update: _,
        match_kind,
        characteristics,
    } = key;
    self::characteristics(characteristics.as_ref(), words)?;
    let at = words.locate(&["REFERENCES"]);
    if index_name.is_some() {
        return Err(ParseError::unsupported(
            "an index option of a key",
            "name the columns only",
            at,
        ));
    }
    if matches!(
        match_kind,
        Some(ast::ConstraintReferenceMatchKind::Full | ast::ConstraintReferenceMatchKind::Partial)
    ) {
        return Err(ParseError::unsupported(
            "MATCH FULL or MATCH PARTIAL",
            "leave it away: a row with a NULL in the key needs no parent",
            words.locate(&["MATCH"]),
        ));
    }
    Ok(())
}

fn primary_key(key: &ast::PrimaryKeyConstraint, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type,
        columns,
        index_options,
        characteristics,
    } = key;
    let extras = index_name.is_some() || index_type.is_some() || !index_options.is_empty();
    key_parts("PRIMARY", extras, columns, characteristics.as_ref(), words)
}

fn unique(unique: &ast::UniqueConstraint, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct,
    } = unique;
    if matches!(nulls_distinct, ast::NullsDistinctOption::NotDistinct) {
        return Err(ParseError::unsupported(
            "UNIQUE NULLS NOT DISTINCT",
            "declare the column NOT NULL",
            words.locate(&["NULLS"]),
        ));
    }
    let extras = index_name.is_some() || index_type.is_some() || !index_options.is_empty();
    key_parts("UNIQUE", extras, columns, characteristics.as_ref(), words)
}

fn key_parts(
    word: &str,
    extras: bool,
    columns: &[ast::IndexColumn],
    characteristics: Option<&ast::ConstraintCharacteristics>,
    words: &Words<'_>,
) -> Result<(), ParseError> {
    let at = words.locate(&[word]);
    self::characteristics(characteristics, words)?;
    if extras {
        return Err(ParseError::unsupported(
            "an index option of a key",
            "name the columns only",
            at,
        ));
    }
    let plain = |column: &ast::IndexColumn| {
        matches!(column.column.expr, ast::Expr::Identifier(_))
            && column.operator_class.is_none()
            && column.column.options == ast::OrderByOptions::default()
            && column.column.with_fill.is_none()
    };
    if !columns.iter().all(plain) {
        return Err(ParseError::unsupported(
            "a key of expressions or with an order",
            "name the columns only: (a, b)",
            at,
        ));
    }
    Ok(())
}

fn check(check: &ast::CheckConstraint, words: &Words<'_>) -> Result<(), ParseError> {
    if check.enforced.is_some() {
        return Err(ParseError::unsupported(
            "[NOT] ENFORCED",
            "leave it away: every constraint is enforced",
            words.locate(&["ENFORCED"]),
        ));
    }
    Ok(())
}

fn characteristics(found: Option<&ast::ConstraintCharacteristics>, words: &Words<'_>) -> Result<(), ParseError> {
    if found.is_some() {
        let at = words
            .find(&["DEFERRABLE"])
            .unwrap_or_else(|| words.locate(&["INITIALLY"]));
        return Err(ParseError::unsupported(
            "a deferrable constraint",
            "leave it away: constraints are checked when the transaction is applied",
            at,
        ));
    }
    Ok(())
}

/// Checks the definition of a view.
///
/// # Errors
/// [`ParseError::Unsupported`] for what would be ignored.
pub(crate) fn create_view(view: &mut ast::CreateView, words: &Words<'_>) -> Result<(), ParseError> {
    let ast::CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists: _,
        temporary,
        copy_grants,
        to,
        params,
    } = &*view;
    names(name, words)?;
    let refuse = |what: &str, help: &str, place: &[&str]| Err(ParseError::unsupported(what, help, words.locate(place)));
    if *materialized {
        return refuse(
            "CREATE MATERIALIZED VIEW",
            "write CREATE VIEW, or CREATE TABLE … AS SELECT … for a copy",
            &["MATERIALIZED"],
        );
    }
    if *temporary {
        return refuse(
            "CREATE TEMPORARY VIEW",
            "use WITH, or a view that is dropped afterwards",
            &["VIEW"],
        );
    }
    let with_options = !matches!(options, ast::CreateTableOptions::None);
    if *or_alter
        || *secure
        || with_options
        || !cluster_by.is_empty()
        || comment.is_some()
        || *with_no_schema_binding
        || *copy_grants
        || to.is_some()
        || params.is_some()
    {
        return refuse(
            "an option of this view",
            "a view has a name, column names and a query",
            &["VIEW"],
        );
    }
    if columns
        .iter()
        .any(|column| column.data_type.is_some() || column.options.is_some())
    {
        return refuse("a column of a view with a type", "name the columns only", &["VIEW"]);
    }
    reads(view, words)
}
