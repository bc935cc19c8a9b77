//! Reads of one row by its whole primary key, answered without planning.
//!
//! `SELECT columns FROM collection WHERE key = constant [AND …]` is most of what an application asks. Planning it takes
//! DataFusion most of a millisecond; looking it up takes microseconds. Anything that is not exactly of this form, and
//! any constant that is not exactly of the key's type, goes the long way: this module never refuses, and never answers
//! differently from a plan.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use candor_storage::{CollectionDef, ColumnType};
use sqlparser::ast;

use crate::context::{Param, StatementContext};
use crate::error::EngineError;
use crate::keys::key_schema;
use crate::prepare::{folded, folded_parts};
use crate::scan::CollectionTable;
use crate::text::TextColumn;

/// The answer, if the statement is such a read.
pub(crate) fn answer(ctx: &StatementContext, statement: &ast::Statement) -> Result<Option<RecordBatch>, EngineError> {
    let (Some(read), Some(snapshot)) = (Read::of(statement), &ctx.snapshot) else {
        return Ok(None);
    };
    let catalog = ctx.catalog();
    let Some(database) = read.database.as_ref().or(ctx.name_database()) else {
        return Ok(None);
    };
    let Some(def) = catalog.collection(database, &read.table) else {
        return Ok(None);
    };
    let (Some(keys), Some(columns)) = (read.keys(def, &ctx.params), read.columns(def)) else {
        return Ok(None);
    };
    let pending = ctx.pending.as_ref().and_then(|pending| pending.table(def.id)).cloned();
    let schema = catalog.schema_of(def.id).map_or_else(|| def.schema(), Arc::clone);
    let stands = pending.as_ref().is_none_or(|pending| !pending.is_rewritten());
    let base = snapshot.table_in(&catalog, def.id).filter(|_| stands);
    let table = CollectionTable::new(Arc::clone(def), Arc::clone(&schema), base, pending);
    let projection: Vec<usize> = columns.iter().map(|(ordinal, _)| *ordinal).collect();
    let found = table.lookup(&keys, &projection)?;
    named(&schema, &columns, &found).map(Some)
}

/// The collection, and the key that `condition` fixes, if it does nothing else.
pub(crate) fn fixed_key(
    ctx: &StatementContext,
    table: &ast::TableWithJoins,
    condition: &ast::Expr,
) -> Option<(Arc<CollectionDef>, RecordBatch)> {
    let (database, name, qualifier) = plain_table(table)?;
    let mut read = Read {
        database,
        table: name,
        qualifier,
        projection: &[],
        equalities: Vec::new(),
    };
    read.equalities(condition)?;
    let catalog = ctx.catalog();
    let def = catalog.collection(read.database.as_ref().or(ctx.name_database())?, &read.table)?;
    let keys = read.keys(def, &ctx.params)?;
    Some((Arc::clone(def), keys))
}

/// The columns of the answer under the names the statement gives them.
fn named(schema: &Schema, columns: &[(usize, String)], found: &[RecordBatch]) -> Result<RecordBatch, EngineError> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(ordinal, name)| schema.field(*ordinal).clone().with_name(name))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let rename = |batch: &RecordBatch| {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)
    };
    match found {
        [batch] => Ok(rename(batch)?),
        batches => Ok(concat_batches(
            &schema,
            &batches.iter().map(rename).collect::<Result<Vec<_>, _>>()?,
        )?),
    }
}

/// A statement of the form, taken apart.
struct Read<'a> {
    database: Option<String>,
    table: String,
    /// What the columns may be qualified with.
    qualifier: String,
    projection: &'a [ast::SelectItem],
    equalities: Vec<(String, &'a ast::Expr)>,
}

impl<'a> Read<'a> {
    fn of(statement: &'a ast::Statement) -> Option<Self> {
        let ast::Statement::Query(query) = statement else {
            return None;
        };
        let ast::Query {
            with: None,
            body,
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks,
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators,
        } = query.as_ref()
        else {
            return None;
        };
        let ast::SetExpr::Select(select) = body.as_ref() else {
            return None;
        };
        if !locks.is_empty() || !pipe_operators.is_empty() || !is_plain(select) {
            return None;
        }
        let [from] = select.from.as_slice() else {
            return None;
        };
        let (database, table, qualifier) = plain_table(from)?;
        let mut read = Self {
            database,
            table,
            qualifier,
            projection: &select.projection,
            equalities: Vec::new(),
        };
        read.equalities(select.selection.as_ref()?)?;
        Some(read)
    }

    /// Collects `column = constant` out of a chain of ANDs.
    fn equalities(&mut self, expr: &'a ast::Expr) -> Option<()> {
        match expr {
            ast::Expr::Nested(inner) => self.equalities(inner),
            ast::Expr::BinaryOp {
                left,
                op: ast::BinaryOperator::And,
                right,
            } => {
                self.equalities(left)?;
                self.equalities(right)
            }
            ast::Expr::BinaryOp {
                left,
                op: ast::BinaryOperator::Eq,
                right,
            } => {
                let (column, constant) = match self.column(left) {
                    Some(column) => (column, right.as_ref()),
                    None => (self.column(right)?, left.as_ref()),
                };
                self.equalities.push((column, constant));
                Some(())
            }
            _ => None,
        }
    }

    fn column(&self, expr: &ast::Expr) -> Option<String> {
        match expr {
            ast::Expr::Identifier(ident) => Some(folded(ident)),
            ast::Expr::CompoundIdentifier(idents) => match idents.as_slice() {
                [qualifier, column] if folded(qualifier) == self.qualifier => Some(folded(column)),
                _ => None,
            },
            _ => None,
        }
    }

    /// One key, if each of its columns is fixed exactly once and nothing else is asked.
    fn keys(&self, def: &CollectionDef, params: &[Param]) -> Option<RecordBatch> {
        if def.key.is_empty() || self.equalities.len() != def.key.len() {
            return None;
        }
        let columns = def.key.iter().map(|ordinal| {
            let column = &def.columns[*ordinal as usize];
            let (_, constant) = self.equalities.iter().find(|(name, _)| *name == column.name)?;
            key_value(column.ty, constant, params)
        });
        RecordBatch::try_new(key_schema(def), columns.collect::<Option<Vec<_>>>()?).ok()
    }

    /// Ordinals and names of the answer's columns.
    fn columns(&self, def: &CollectionDef) -> Option<Vec<(usize, String)>> {
        let mut columns = Vec::new();
        for item in self.projection {
            match item {
                ast::SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                    columns.extend(
                        def.columns
                            .iter()
                            .enumerate()
                            .map(|(ordinal, column)| (ordinal, column.name.clone())),
                    );
                }
                ast::SelectItem::UnnamedExpr(expr) => {
                    let name = self.column(expr)?;
                    columns.push((def.column(&name)?, name));
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push((def.column(&self.column(expr)?)?, folded(alias)));
                }
                _ => return None,
            }
        }
        // DataFusion refuses a name that stands twice.
        let distinct = columns
            .iter()
            .enumerate()
            .all(|(at, (_, name))| columns[..at].iter().all(|(_, other)| other != name));
        distinct.then_some(columns)
    }
}

/// Nothing but a projection, one table and a condition.
fn is_plain(select: &ast::Select) -> bool {
    let no_groups =
        matches!(&select.group_by, ast::GroupByExpr::Expressions(by, with) if by.is_empty() && with.is_empty());
    no_groups
        && select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.exclude.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.prewhere.is_none()
        && select.select_modifiers.is_none()
        && select.value_table_mode.is_none()
        && select.optimizer_hints.is_empty()
        && select.lateral_views.is_empty()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty()
}

/// Database, name and qualifier of a table without any extras.
fn plain_table(from: &ast::TableWithJoins) -> Option<(Option<String>, String, String)> {
    let ast::TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = &from.relation
    else {
        return None;
    };
    if !from.joins.is_empty() || !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
        return None;
    }
    let (database, table) = match folded_parts(name)?.as_slice() {
        [table] => (None, table.clone()),
        [database, table] => (Some(database.clone()), table.clone()),
        _ => return None,
    };
    let qualifier = match alias {
        Some(alias) if alias.columns.is_empty() => folded(&alias.name),
        Some(_) => return None,
        None => table.clone(),
    };
    Some((database, table, qualifier))
}

/// The constant as a value of the key's type, if it is exactly that.
fn key_value(ty: ColumnType, constant: &ast::Expr, params: &[Param]) -> Option<ArrayRef> {
    let literal;
    let constant = match constant {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                literal = params.get(number.checked_sub(1)?)?.literal().ok()?;
                &literal
            }
            _ => constant,
        },
        other => other,
    };
    let (negative, value) = match constant {
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => (true, expr.as_ref()),
        other => (false, other),
    };
    let ast::Expr::Value(value) = value else {
        return None;
    };
    let is_integer = matches!(ty, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64);
    let text = match &value.value {
        ast::Value::Number(digits, _) if is_integer && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{}{digits}", if negative { "-" } else { "" })
        }
        ast::Value::SingleQuotedString(text) if !negative && matches!(ty, ColumnType::Text | ColumnType::Uuid) => {
            text.clone()
        }
        _ => return None,
    };
    let mut column = TextColumn::new(ty);
    column.push(&text).ok()?;
    Some(column.finish())
}
