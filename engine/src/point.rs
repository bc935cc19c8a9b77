//! Reads of rows by their whole primary key, answered without planning.
//!
//! `SELECT columns FROM collection WHERE key = constant [AND …]`, or `key IN (constants)`, is most of what an application
//! asks. Planning it takes DataFusion most of a millisecond; looking it up takes microseconds. Anything that is not exactly
//! of this form, and any constant that is not exactly of the key's type, goes the long way: this module never refuses, and
//! never answers differently from a plan.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat, concat_batches, filter_record_batch, take};
use arrow::datatypes::{Schema, SchemaRef};
use candor_storage::{Catalog, CollectionDef, ColumnDef, ColumnType};
use sqlparser::ast;

use crate::context::{Param, StatementContext};
use crate::error::EngineError;
use crate::keys::{KeyCoder, LOOKUP_KEYS_MAX, key_columns, key_schema};
use crate::prepare::{folded, folded_parts};
use crate::scan::CollectionTable;
use crate::text::TextColumn;

/// The answer, if the statement is such a read.
pub(crate) fn answer(ctx: &StatementContext, statement: &ast::Statement) -> Result<Option<RecordBatch>, EngineError> {
    let Some(snapshot) = &ctx.snapshot else {
        return Ok(None);
    };
    let catalog = ctx.catalog();
    let plan = || PointRead::plan(&catalog, ctx.name_database(), statement).map(Arc::new);
    let Some(read) = ctx.memo.point_read(&catalog, ctx.name_database(), plan) else {
        return Ok(None);
    };
    let Some(keys) = read.keys.batch(&read.def, &ctx.params) else {
        return Ok(None);
    };
    let def = &read.def;
    let pending = ctx.pending.as_ref().and_then(|pending| pending.table(def.id)).cloned();
    let stands = pending.as_ref().is_none_or(|pending| !pending.is_rewritten());
    let base = snapshot.table_in(&catalog, def.id).filter(|_| stands);
    let table = CollectionTable::new(Arc::clone(def), Arc::clone(&read.schema), base, pending);
    let found = table.lookup(&keys, &read.projection)?;
    read.named(&found).map(Some)
}

/// What is known of a read by key before its parameters are; it holds for one catalog and one selected database.
pub(crate) struct PointRead {
    def: Arc<CollectionDef>,
    schema: SchemaRef,
    keys: FixedKeys,
    /// Ordinals of the answer's columns.
    projection: Vec<usize>,
    /// The same under the names the statement gives them.
    answer: SchemaRef,
}

impl PointRead {
    fn plan(catalog: &Catalog, database: Option<&String>, statement: &ast::Statement) -> Option<Self> {
        let read = Read::of(statement)?;
        let def = catalog.collection(read.database.as_ref().or(database)?, &read.table)?;
        let (keys, columns) = (read.keys(def)?, read.columns(def)?);
        let schema = catalog.schema_of(def.id).map_or_else(|| def.schema(), Arc::clone);
        let named = |(ordinal, name): &(usize, String)| schema.field(*ordinal).clone().with_name(name);
        let answer = Schema::new(columns.iter().map(named).collect::<Vec<_>>());
        Some(Self {
            def: Arc::clone(def),
            keys,
            projection: columns.iter().map(|(ordinal, _)| *ordinal).collect(),
            answer: Arc::new(answer),
            schema,
        })
    }

    /// What was found, as one batch under the names of the answer.
    fn named(&self, found: &[RecordBatch]) -> Result<RecordBatch, EngineError> {
        let rename = |batch: &RecordBatch| {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(Arc::clone(&self.answer), batch.columns().to_vec(), &options)
        };
        match found {
            [batch] => Ok(rename(batch)?),
            batches => {
                let batches = batches.iter().map(rename).collect::<Result<Vec<_>, _>>()?;
                Ok(concat_batches(&self.answer, &batches)?)
            }
        }
    }
}

/// The keys that a statement fixes, by constants of its own or by parameters.
pub(crate) struct FixedKeys {
    schema: SchemaRef,
    /// For each column of the key the values that it may have.
    columns: Vec<Vec<KeySource>>,
}

enum KeySource {
    /// The place of a parameter.
    Parameter(usize),
    Constant(ArrayRef),
}

impl FixedKeys {
    /// The keys as columns, each key once; `None` if a parameter is not exactly of its column's type.
    pub(crate) fn batch(&self, def: &CollectionDef, params: &[Param]) -> Option<RecordBatch> {
        let values = key_columns(def).zip(&self.columns).map(|(column, sources)| {
            let values = sources.iter().map(|source| source.value(column.ty, params));
            all_values(&values.collect::<Option<Vec<_>>>()?)
        });
        let columns = each_with_each(values.collect::<Option<Vec<_>>>()?)?;
        let keys = RecordBatch::try_new(Arc::clone(&self.schema), columns).ok()?;
        if keys.num_rows() == 1 {
            return Some(keys);
        }
        let mut seen = HashSet::new();
        let encoded = KeyCoder::of_types(&keys).ok()?.encode(keys.columns()).ok()?;
        let is_first: BooleanArray = encoded.into_iter().map(|key| Some(seen.insert(key))).collect();
        filter_record_batch(&keys, &is_first).ok()
    }

    /// How many keys there are at most.
    fn count(&self) -> Option<usize> {
        let counts = self.columns.iter().map(Vec::len);
        counts.into_iter().try_fold(1_usize, usize::checked_mul)
    }
}

impl KeySource {
    fn value(&self, ty: ColumnType, params: &[Param]) -> Option<ArrayRef> {
        match self {
            Self::Parameter(place) => param_value(ty, params.get(*place)?),
            Self::Constant(value) => Some(Arc::clone(value)),
        }
    }
}

/// Arrays of one value as one array.
fn all_values(values: &[ArrayRef]) -> Option<ArrayRef> {
    match values {
        [value] => Some(Arc::clone(value)),
        values => concat(&values.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>()).ok(),
    }
}

/// Every value of each column beside every value of the others.
fn each_with_each(columns: Vec<ArrayRef>) -> Option<Vec<ArrayRef>> {
    let rows: usize = columns.iter().map(Array::len).product();
    if rows == 1 {
        return Some(columns);
    }
    let mut repeats = rows;
    let spread = columns.iter().map(|column| {
        repeats /= column.len();
        let places = (0..rows).map(|row| (row / repeats % column.len()) as u64);
        take(column, &UInt64Array::from_iter_values(places), None).ok()
    });
    spread.collect()
}

/// The collection, and the keys that `condition` fixes, if it does nothing else.
pub(crate) fn fixed_keys(
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
    let keys = read.keys(def)?.batch(def, &ctx.params)?;
    Some((Arc::clone(def), keys))
}

/// A statement of the form, taken apart.
struct Read<'a> {
    database: Option<String>,
    table: String,
    /// What the columns may be qualified with.
    qualifier: String,
    projection: &'a [ast::SelectItem],
    /// Columns of the key, and the constants they are equal to one of.
    equalities: Vec<(String, &'a [ast::Expr])>,
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

    /// Collects `column = constant` and `column IN (constants)` out of a chain of ANDs.
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
                self.equalities.push((column, std::slice::from_ref(constant)));
                Some(())
            }
            ast::Expr::InList {
                expr,
                list,
                negated: false,
            } => {
                self.equalities.push((self.column(expr)?, list));
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

    /// The keys, if each of their columns is fixed exactly once and nothing else is asked.
    fn keys(&self, def: &CollectionDef) -> Option<FixedKeys> {
        if def.key.is_empty() || self.equalities.len() != def.key.len() {
            return None;
        }
        let sources = |column: &ColumnDef| {
            let (_, constants) = self.equalities.iter().find(|(name, _)| *name == column.name)?;
            constants
                .iter()
                .map(|constant| key_source(column.ty, constant))
                .collect()
        };
        let keys = FixedKeys {
            schema: key_schema(def),
            columns: key_columns(def).map(sources).collect::<Option<_>>()?,
        };
        let count = keys.count()?;
        (1..=LOOKUP_KEYS_MAX).contains(&count).then_some(keys)
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

/// Where a value of the key comes from, if it is a parameter or a constant that is exactly of the key's type.
fn key_source(ty: ColumnType, constant: &ast::Expr) -> Option<KeySource> {
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
    let text = match &value.value {
        ast::Value::Placeholder(name) if !negative => {
            let number: usize = name.strip_prefix('$')?.parse().ok()?;
            return Some(KeySource::Parameter(number.checked_sub(1)?));
        }
        ast::Value::Number(digits, _) if is_integer(ty) && all_digits(digits) => {
            format!("{}{digits}", if negative { "-" } else { "" })
        }
        ast::Value::SingleQuotedString(text) if !negative && is_text(ty) => text.clone(),
        _ => return None,
    };
    read_value(ty, &text).map(KeySource::Constant)
}

/// The parameter as a value of the key's type, if it is exactly that.
fn param_value(ty: ColumnType, param: &Param) -> Option<ArrayRef> {
    match param {
        Param::Int(value) if ty == ColumnType::Int64 => Some(Arc::new(Int64Array::from_value(*value, 1))),
        Param::Int(value) if is_integer(ty) => read_value(ty, &value.to_string()),
        Param::Number(digits) if is_integer(ty) && all_digits(digits) => read_value(ty, digits),
        Param::Text(text) if is_text(ty) => read_value(ty, text),
        _ => None,
    }
}

fn is_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64)
}

/// Types whose constants stand in quotes.
fn is_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Uuid)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_value(ty: ColumnType, text: &str) -> Option<ArrayRef> {
    let mut column = TextColumn::new(ty);
    column.push(text).ok()?;
    Some(column.finish())
}
