//! Expressions over rows at hand, evaluated without a plan.
//!
//! Planning a query takes DataFusion most of a millisecond, and writes of single rows need none. Whatever cannot be
//! evaluated here, or fails here, is left to the planned way, which answers the same and has the better messages.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Fields};
use candor_storage::{CollectionDef, TableChange};
use datafusion::common::{DFSchema, TableReference};
use sqlparser::ast;

use super::assign::{Assignments, assignments};
use super::references::has_actions;
use super::sides::Side;
use super::values::has_subquery;
use super::{Evaluated, RowCompleter, literal, unique};
use crate::context::Param;
use crate::env::Env;
use crate::existing::{Existing, Place};
use crate::point;
use crate::prepare::{folded, prepared_expr, quoted};

/// Rows of some relations side by side, and how a statement names their columns.
pub(super) struct Direct<'a> {
    env: &'a Env,
    schema: DFSchema,
    /// The statement's integers among its parameters stand beside the rows as columns `$1` …, so that an expression with
    /// them is the same whatever they are.
    integers: Vec<(String, i64)>,
}

impl<'a> Direct<'a> {
    /// `None` where names would not be clear.
    pub(super) fn new(env: &'a Env, sides: &[Side]) -> Option<Self> {
        let mut schema = DFSchema::empty();
        for side in sides {
            let table = TableReference::bare(folded(side.alias()));
            let own = DFSchema::try_from_qualified_schema(table, side.schema()).ok()?;
            schema = schema.join(&own).ok()?;
        }
        let params = env.ctx.params.iter().enumerate();
        let integers: Vec<_> = params
            .filter_map(|(at, param)| match param {
                Param::Int(value) => Some((format!("${}", at + 1), *value)),
                _ => None,
            })
            .collect();
        let fields: Fields = integers
            .iter()
            .map(|(name, _)| Field::new(name, DataType::Int64, false))
            .collect();
        let beside = DFSchema::from_unqualified_fields(fields, HashMap::new()).ok()?;
        Some(Self {
            env,
            schema: schema.join(&beside).ok()?,
            integers,
        })
    }

    /// The values of an expression, one for each of `rows`.
    pub(super) fn values(&self, expr: &ast::Expr, rows: &RecordBatch) -> Option<ArrayRef> {
        if has_subquery(expr) {
            return None;
        }
        let mut expr = expr.clone();
        self.name_integers(&mut expr);
        let expr = prepared_expr(&expr, &self.env.ctx.params).ok()?;
        let planned = self.env.expression(expr, &self.schema).ok()?;
        let values = planned.evaluate(&self.beside_integers(rows)?).ok()?;
        values.into_array(rows.num_rows()).ok()
    }

    fn name_integers(&self, expr: &mut ast::Expr) {
        let _: ControlFlow<()> = ast::visit_expressions_mut(expr, |expr| {
            if let ast::Expr::Value(value) = &*expr
                && let ast::Value::Placeholder(name) = &value.value
                && self.integers.iter().any(|(integer, _)| integer == name)
            {
                *expr = ast::Expr::Identifier(quoted(name));
            }
            ControlFlow::Continue(())
        });
    }

    fn beside_integers(&self, rows: &RecordBatch) -> Option<RecordBatch> {
        let count = rows.num_rows();
        let integers = self.integers.iter();
        let integers = integers.map(|(_, value)| Arc::new(Int64Array::from_value(*value, count)) as ArrayRef);
        let columns = rows.columns().iter().map(Arc::clone).chain(integers).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(self.schema.inner()), columns, &options).ok()
    }

    /// Which of `rows` a condition is true for.
    pub(super) fn holds(&self, condition: &ast::Expr, rows: &RecordBatch) -> Option<BooleanArray> {
        let values = self.values(condition, rows)?;
        let verdicts = values.as_boolean_opt()?;
        Some(verdicts.iter().map(|verdict| Some(verdict == Some(true))).collect())
    }

    /// The values of all columns of `def` for rows that begin with those of the row they replace.
    pub(super) fn updated(
        &self,
        def: &CollectionDef,
        assigned: &Assignments,
        rows: &RecordBatch,
    ) -> Option<Vec<ArrayRef>> {
        let value = |(at, column): (usize, &candor_storage::ColumnDef)| match assigned.get(&column.name) {
            Some(expr) => literal::repeated(expr, &self.env.ctx.params, column.ty, rows.num_rows())
                .or_else(|| self.values(expr, rows)),
            None => Some(Arc::clone(rows.column(at))),
        };
        def.columns.iter().enumerate().map(value).collect()
    }
}

/// `UPDATE t SET … WHERE key = constant` and `DELETE FROM t WHERE key = constant`, or `key IN (constants)`; `None` for
/// anything else.
pub(crate) fn by_key(env: &Env, statement: &ast::Statement) -> Option<Evaluated> {
    match statement {
        ast::Statement::Update(update) => update_by_key(env, update),
        ast::Statement::Delete(delete) => delete_by_key(env, delete),
        _ => None,
    }
}

/// The rows with the keys that the condition fixes.
struct Rows {
    def: Arc<CollectionDef>,
    places: Vec<Place>,
    existing: Existing,
}

impl Rows {
    fn of(env: &Env, table: &ast::TableWithJoins, condition: &ast::Expr) -> Option<Self> {
        let (def, keys) = point::fixed_keys(&env.ctx, table, condition)?;
        if has_actions(env, &def) {
            return None;
        }
        let existing = Existing::of(&env.ctx, &def);
        let found = existing.find(&def.key, &keys).ok()?;
        Some(Self {
            def,
            places: found.into_iter().flatten().collect(),
            existing,
        })
    }
}

fn update_by_key(env: &Env, update: &ast::Update) -> Option<Evaluated> {
    let ast::Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments: list,
        from: None,
        selection: Some(selection),
        returning: None,
        output: None,
        or: None,
        order_by,
        limit: None,
    } = update
    else {
        return None;
    };
    if !optimizer_hints.is_empty() || !order_by.is_empty() {
        return None;
    }
    let rows = Rows::of(env, table, selection)?;
    let def = &rows.def;
    let assigned = assignments(def, list).ok()?;
    let alias = alias_of(table, def)?;
    let old = rows.existing.read(&rows.places).ok()?;
    let direct = Direct::new(env, &[Side::collection(&alias, def)])?;
    // The expressions are looked at also where there is no row: they may be wrong.
    let values = direct.updated(def, &assigned, &old)?;
    if rows.places.is_empty() {
        return Some(Evaluated::nothing());
    }
    let names: Vec<String> = def.columns.iter().map(|column| column.name.clone()).collect();
    let begun = RowCompleter::new(env, def, &names)
        .ok()?
        .complete(&values, old.num_rows())
        .ok()?;
    let ended = rows.existing.identity(&rows.places, &old).ok()?;
    let changed = assigned.keys().filter_map(|name| def.column(name)).collect();
    unique::check(env, def, Some(&ended), std::slice::from_ref(&begun), Some(&changed)).ok()?;
    Some(change(def, ended, Some(begun)))
}

fn delete_by_key(env: &Env, delete: &ast::Delete) -> Option<Evaluated> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from: ast::FromTable::WithFromKeyword(from),
        using: None,
        selection: Some(selection),
        returning: None,
        output: None,
        order_by,
        limit: None,
    } = delete
    else {
        return None;
    };
    let [table] = from.as_slice() else { return None };
    if !optimizer_hints.is_empty() || !tables.is_empty() || !order_by.is_empty() {
        return None;
    }
    let rows = Rows::of(env, table, selection)?;
    if rows.places.is_empty() {
        return Some(Evaluated::nothing());
    }
    let old = rows.existing.read(&rows.places).ok()?;
    let ended = rows.existing.identity(&rows.places, &old).ok()?;
    Some(change(&rows.def, ended, None))
}

/// What the statement calls the table.
fn alias_of(table: &ast::TableWithJoins, def: &CollectionDef) -> Option<ast::Ident> {
    match &table.relation {
        ast::TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.clone()),
        ast::TableFactor::Table { alias: None, .. } => Some(quoted(&def.name)),
        _ => None,
    }
}

fn change(def: &CollectionDef, ended: RecordBatch, begun: Option<RecordBatch>) -> Evaluated {
    Evaluated {
        rows_affected: ended.num_rows() as u64,
        changes: vec![TableChange {
            collection: def.id,
            ended: Some(ended),
            begun,
        }],
        ..Evaluated::nothing()
    }
}
