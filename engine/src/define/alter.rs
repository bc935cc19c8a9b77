//! ALTER TABLE and CREATE INDEX.
//!
//! The operations of a statement make one new definition. What it asks of the rows is looked at here, at the statement's
//! snapshot, so that the error names what is wrong; whether it fits is decided again when it is applied. Rows are written
//! anew only for another type of a column and for a default that differs from row to row.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use candor_storage::{
    CollectionDef, ColumnDef, ColumnType, Constant, Generated, KeyKind, ROW_ID_COLUMN, SchemaChange, TableChange,
    ViewDef,
};
use datafusion::common::DFSchema;
use sqlparser::ast;

use super::changes::{Changes, broken_views, depends};
use super::check_name;
use super::columns::{add_column, check_columns, check_generated, default_text};
use super::constraints::{Constraint, add_key, check_checks, check_foreign_types, columns_in, index_ordinals, renamed};
use crate::convert::assign;
use crate::env::Env;
use crate::error::EngineError;
use crate::parse::{parse_expr, parse_query};
use crate::pending::concat;
use crate::prepare::{folded, folded_parts, quoted};
use crate::types::of_column;
use crate::write::{Evaluated, RowCompleter, rewrite_query};

/// Evaluates ALTER TABLE.
pub(crate) async fn alter_table(env: &Env, alter: &ast::AlterTable) -> Result<Evaluated, EngineError> {
    if let Ok((database, name)) = super::split_ast(env, &alter.name)
        && let Some(view) = env.names.definitions().view(&database, &name)
    {
        return rename_view(env, view, &alter.operations);
    }
    let old = match env.collection(&alter.name) {
        Err(EngineError::UnknownTable { .. }) if alter.if_exists => return Ok(Evaluated::nothing()),
        found => found?,
    };
    let mut work = Work::new(env, old);
    for operation in &alter.operations {
        work.operation(operation)?;
    }
    work.finish().await
}

/// A view under another name.
fn rename_view(
    env: &Env,
    view: &Arc<ViewDef>,
    operations: &[ast::AlterTableOperation],
) -> Result<Evaluated, EngineError> {
    let [
        ast::AlterTableOperation::RenameTable {
            table_name: ast::RenameTableNameKind::To(name),
        },
    ] = operations
    else {
        return Err(EngineError::plan(format!(
            "`{}` is a view: CREATE OR REPLACE VIEW changes what it reads, ALTER VIEW … RENAME TO its name",
            view.name
        )));
    };
    let name = folded_parts(name).and_then(|mut parts| parts.pop());
    let name = name.ok_or_else(|| EngineError::plan("RENAME TO takes a name"))?;
    check_name("view", &name)?;
    if env.names.has_table(&view.database, &name) {
        return Err(EngineError::AlreadyExists { what: "table", name });
    }
    let mut changes = Changes::new(env);
    changes.push(SchemaChange::RemoveView {
        database: view.database.clone(),
        name: view.name.clone(),
    })?;
    // Other views know it by its name.
    changes.drop_views(
        (&view.database, &view.name),
        &format!("the name `{}`", view.name),
        false,
    )?;
    changes.push(SchemaChange::DefineView(ViewDef {
        name,
        ..ViewDef::clone(view)
    }))?;
    Ok(Evaluated::schema(changes.schema))
}

/// Evaluates CREATE INDEX.
pub(crate) async fn create_index(env: &Env, index: &ast::CreateIndex) -> Result<Evaluated, EngineError> {
    let old = env.collection(&index.table_name)?;
    let name = match &index.name {
        None => None,
        Some(name) => match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(ident)] => Some(ident),
            _ => {
                return Err(EngineError::plan(
                    "an index stands in the database of its table: write its bare name",
                ));
            }
        },
    };
    let has = |def: &Arc<CollectionDef>, name: &str| def.keys.iter().any(|key| key.name == name);
    if index.if_not_exists
        && let Some(name) = name
        && env
            .names
            .definitions()
            .collections(&old.database)
            .any(|def| has(def, &folded(name)))
    {
        return Ok(Evaluated::nothing());
    }
    let mut work = Work::new(env, old);
    let columns = index_ordinals(&work.def, &index.columns)?;
    for included in &index.include {
        work.ordinal(included)?;
    }
    let kind = if index.unique {
        KeyKind::UniqueIndex
    } else {
        KeyKind::Index
    };
    add_key(env, &mut work.def, name, columns, kind)?;
    work.finish().await
}

/// A definition on its way from one form to another.
struct Work<'a> {
    env: &'a Env,
    old: Arc<CollectionDef>,
    def: CollectionDef,
    /// For columns whose values are made anew, by id: what makes them of an old row.
    values: BTreeMap<u32, ast::Expr>,
    cascade: bool,
    /// What goes, for messages.
    gone: String,
}

impl<'a> Work<'a> {
    fn new(env: &'a Env, old: Arc<CollectionDef>) -> Self {
        Self {
            env,
            def: CollectionDef::clone(&old),
            gone: format!("the table `{}` as it is", old.name),
            old,
            values: BTreeMap::new(),
            cascade: false,
        }
    }

    fn operation(&mut self, operation: &ast::AlterTableOperation) -> Result<(), EngineError> {
        use ast::AlterTableOperation as Op;
        match operation {
            Op::AddColumn {
                if_not_exists,
                column_def,
                ..
            } => self.add_column(column_def, *if_not_exists),
            Op::AddConstraint { constraint, .. } => Constraint::of_table(constraint)?.add(self.env, &mut self.def),
            Op::DropColumn {
                column_names,
                if_exists,
                drop_behavior,
                ..
            } => {
                self.cascade |= matches!(drop_behavior, Some(ast::DropBehavior::Cascade));
                let mut names = column_names.iter();
                names.try_for_each(|name| self.drop_column(name, *if_exists))
            }
            Op::DropConstraint {
                if_exists,
                name,
                drop_behavior,
            } => {
                self.cascade |= matches!(drop_behavior, Some(ast::DropBehavior::Cascade));
                self.drop_constraint(name, *if_exists)
            }
            Op::RenameColumn {
                old_column_name,
                new_column_name,
            } => self.rename_column(old_column_name, new_column_name),
            Op::RenameConstraint { old_name, new_name } => self.rename_constraint(old_name, new_name),
            Op::RenameTable {
                table_name: ast::RenameTableNameKind::To(name),
            } => self.rename_table(name),
            Op::AlterColumn { column_name, op } => self.alter_column(column_name, op),
            other => Err(EngineError::unsupported(format!("ALTER TABLE … {other}"))),
        }
    }

    fn ordinal(&self, name: &ast::Ident) -> Result<usize, EngineError> {
        let name = folded(name);
        let here = self.def.columns.iter().map(|column| column.name.as_str());
        self.def.column(&name).ok_or_else(|| EngineError::UnknownName {
            what: "column",
            help: crate::spans::closest(&name, here).map(|name| format!("did you mean `{name}`?")),
            name: format!("{}.{name}", self.def.name),
            span: None,
        })
    }

    fn add_column(&mut self, column: &ast::ColumnDef, if_not_exists: bool) -> Result<(), EngineError> {
        if if_not_exists && self.def.column(&folded(&column.name)).is_some() {
            return Ok(());
        }
        let mut sequences = Vec::new();
        let mut constraints = add_column(self.env, &mut self.def, column, &mut sequences)?;
        if !sequences.is_empty() {
            return Err(EngineError::unsupported_try(
                "a new column that is SERIAL or an identity",
                "CREATE SEQUENCE, then ADD COLUMN … DEFAULT nextval('…')",
            ));
        }
        check_columns(&self.def)?;
        self.fill_column()?;
        constraints.sort_by_key(Constraint::rank);
        for constraint in constraints {
            constraint.add(self.env, &mut self.def)?;
        }
        Ok(())
    }

    /// What the rows that are there read as in the newest column: its default, evaluated once, or for each row if it
    /// differs from row to row.
    fn fill_column(&mut self) -> Result<(), EngineError> {
        let Some(column) = self.def.columns.last_mut() else {
            return Ok(());
        };
        if let Some(Generated::Stored(sql)) = &column.generated {
            self.values.insert(column.id, parse_expr(sql)?);
            return Ok(());
        }
        let Some(default) = &column.default else { return Ok(()) };
        let expr = parse_expr(default)?;
        let planned = self.env.expression(expr.clone(), &DFSchema::empty())?;
        if datafusion::physical_expr_common::physical_expr::is_volatile(&planned) {
            self.values.insert(column.id, expr);
            return Ok(());
        }
        let value = constant(self.env, column, &planned)?;
        column.missing = Some(value);
        Ok(())
    }

    /// With the column go the keys, foreign keys and checks that use it.
    fn drop_column(&mut self, name: &ast::Ident, if_exists: bool) -> Result<(), EngineError> {
        let ordinal = match self.ordinal(name) {
            Err(_) if if_exists => return Ok(()),
            found => found?,
        };
        if self.def.columns.len() == 1 {
            return Err(EngineError::definition(
                format!(
                    "`{}` is the only column of `{}`, and a table has one at least",
                    folded(name),
                    self.def.name
                ),
                "42P16",
            ));
        }
        let dropped = self.def.columns[ordinal].clone();
        self.gone = format!("column `{}` of `{}`", dropped.name, self.def.name);
        let place = ordinal as u32;
        if self.def.key.contains(&place) {
            self.def.key.clear();
            self.def.key_name.clear();
        }
        self.def.keys.retain(|key| !key.columns.contains(&place));
        self.def.foreign_keys.retain(|key| !key.columns.contains(&place));
        let mut checks = Vec::new();
        for check in std::mem::take(&mut self.def.checks) {
            if !columns_in(&parse_expr(&check.sql)?).contains(&dropped.name) {
                checks.push(check);
            }
        }
        self.def.checks = checks;
        let draws_on = |column: &ColumnDef| match &column.generated {
            Some(Generated::Stored(sql)) => Ok(columns_in(&parse_expr(sql)?).contains(&dropped.name)),
            _ => Ok::<bool, EngineError>(false),
        };
        for column in &self.def.columns {
            if draws_on(column)? {
                return Err(depends(&self.gone, &format!("the generated column `{}`", column.name)));
            }
        }
        self.def.remove_column(ordinal);
        self.values.remove(&dropped.id);
        Ok(())
    }

    fn drop_constraint(&mut self, name: &ast::Ident, if_exists: bool) -> Result<(), EngineError> {
        let name = folded(name);
        self.gone = format!("the constraint `{name}` of `{}`", self.def.name);
        if !self.def.key.is_empty() && self.def.key_name == name {
            self.def.key.clear();
            self.def.key_name.clear();
            return Ok(());
        }
        let before = self.def.keys.len() + self.def.foreign_keys.len() + self.def.checks.len();
        self.def
            .keys
            .retain(|key| key.kind != KeyKind::Unique || key.name != name);
        self.def.foreign_keys.retain(|key| key.name != name);
        self.def.checks.retain(|check| check.name != name);
        let after = self.def.keys.len() + self.def.foreign_keys.len() + self.def.checks.len();
        if before == after && !if_exists {
            return Err(EngineError::definition(
                format!("`{}` has no constraint `{name}`", self.def.name),
                "42704",
            ));
        }
        Ok(())
    }

    fn rename_column(&mut self, old: &ast::Ident, new: &ast::Ident) -> Result<(), EngineError> {
        let ordinal = self.ordinal(old)?;
        let (old, new) = (folded(old), folded(new));
        self.gone = format!("column `{old}` of `{}`", self.def.name);
        self.def.columns[ordinal].name.clone_from(&new);
        check_columns(&self.def)?;
        for check in &mut self.def.checks {
            check.sql = renamed(&check.sql, &old, &new)?;
        }
        for column in &mut self.def.columns {
            if let Some(Generated::Stored(sql)) = &mut column.generated {
                *sql = renamed(sql, &old, &new)?;
            }
        }
        Ok(())
    }

    fn rename_constraint(&mut self, old: &ast::Ident, new: &ast::Ident) -> Result<(), EngineError> {
        let (old, new) = (folded(old), folded(new));
        check_name("constraint", &new)?;
        if self.def.has_constraint(&new) {
            return Err(EngineError::AlreadyExists {
                what: "constraint",
                name: new,
            });
        }
        let def = &mut self.def;
        let primary = (!def.key.is_empty()).then_some(&mut def.key_name);
        let keys = def.keys.iter_mut().map(|key| &mut key.name);
        let foreign = def.foreign_keys.iter_mut().map(|key| &mut key.name);
        let checks = def.checks.iter_mut().map(|check| &mut check.name);
        let mut names = primary.into_iter().chain(keys).chain(foreign).chain(checks);
        match names.find(|name| **name == old) {
            Some(name) => {
                *name = new;
                Ok(())
            }
            None => Err(EngineError::definition(
                format!("`{}` has no constraint `{old}`", self.old.name),
                "42704",
            )),
        }
    }

    fn rename_table(&mut self, name: &ast::ObjectName) -> Result<(), EngineError> {
        let name = folded_parts(name).and_then(|mut parts| parts.pop());
        let name = name.ok_or_else(|| EngineError::plan("RENAME TO takes a name"))?;
        check_name("table", &name)?;
        if self.env.names.has_table(&self.def.database, &name) {
            return Err(EngineError::AlreadyExists { what: "table", name });
        }
        self.gone = format!("the name `{}`", self.def.name);
        for check in &mut self.def.checks {
            // Takes the old name away from before the columns.
            check.sql = renamed(&check.sql, "", "")?;
        }
        for column in &mut self.def.columns {
            if let Some(Generated::Stored(sql)) = &mut column.generated {
                *sql = renamed(sql, "", "")?;
            }
        }
        self.def.name = name;
        Ok(())
    }

    fn alter_column(&mut self, name: &ast::Ident, op: &ast::AlterColumnOperation) -> Result<(), EngineError> {
        use ast::AlterColumnOperation as Op;
        let ordinal = self.ordinal(name)?;
        let column = &mut self.def.columns[ordinal];
        match op {
            Op::SetNotNull => column.nullable = false,
            Op::DropNotNull if self.def.key.contains(&(ordinal as u32)) => {
                return Err(EngineError::definition(
                    format!(
                        "column `{}` is part of the primary key, which holds no NULL",
                        folded(name)
                    ),
                    "42P16",
                ));
            }
            Op::DropNotNull => column.nullable = true,
            Op::SetDefault { value } => column.default = Some(default_text(self.env, value)?),
            Op::DropDefault => column.default = None,
            Op::SetDataType { data_type, using, .. } => self.set_type(ordinal, data_type, using.as_ref())?,
            Op::AddGenerated { .. } => return Err(EngineError::unsupported("ADD GENERATED")),
        }
        Ok(())
    }

    /// Another type. The stored values are of the old one, so the column gets another id and the rows are written anew,
    /// but for text that only gets more room.
    fn set_type(&mut self, ordinal: usize, sql: &ast::DataType, using: Option<&ast::Expr>) -> Result<(), EngineError> {
        let ty = of_column(self.env, sql)?;
        let column = &mut self.def.columns[ordinal];
        let roomier = match (column.ty, ty) {
            (ColumnType::Varchar(_), ColumnType::Text) => true,
            (ColumnType::Varchar(before), ColumnType::Varchar(after)) => before <= after,
            (before, after) => before == after,
        };
        if roomier && using.is_none() {
            column.ty = ty;
            return Ok(());
        }
        let Some(before) = self.old.ordinal_of(column.id).map(|ordinal| &self.old.columns[ordinal]) else {
            return Err(EngineError::unsupported(
                "another type for a column of the same statement",
            ));
        };
        let is_text = |ty| matches!(ty, ColumnType::Text | ColumnType::Varchar(_));
        if using.is_none() && is_text(before.ty) && !is_text(ty) {
            return Err(EngineError::Definition {
                message: format!(
                    "column `{}` is {}, which is not read as {ty} without being asked",
                    column.name, before.ty
                ),
                sqlstate: "42804",
                help: Some(format!("say how: USING {}::{ty}", before.name)),
            });
        }
        let value = match using {
            Some(expr) => {
                super::columns::no_subquery(expr, "USING")?;
                expr.clone()
            }
            None => ast::Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(ast::Expr::Identifier(quoted(&before.name))),
                data_type: sql.clone(),
                format: None,
                array: false,
            },
        };
        let id = self.def.next_column_id;
        self.def.next_column_id += 1;
        let (old_id, column) = (column.id, &mut self.def.columns[ordinal]);
        self.values.remove(&old_id);
        self.values.insert(id, value);
        column.id = id;
        column.ty = ty;
        column.missing = None;
        Ok(())
    }

    async fn finish(mut self) -> Result<Evaluated, EngineError> {
        if self.def == *self.old {
            return Ok(Evaluated::nothing());
        }
        check_checks(self.env, &self.def)?;
        check_generated(self.env, &self.def)?;
        check_foreign_types(self.env, &self.def)?;
        let (old, new) = (Arc::clone(&self.old), self.def.clone());
        let is_key = |parent: &CollectionDef, ids: &[u32]| {
            let ordinals = ids.iter().map(|id| parent.ordinal_of(*id).map(|at| at as u32));
            let ordinals: Option<Vec<u32>> = ordinals.collect();
            ordinals.is_some_and(|ordinals| parent.unique_on(&ordinals).is_some())
        };
        let mut changes = Changes::new(self.env);
        changes.drop_references(old.id, &self.gone, self.cascade, |child, ids| {
            child.id != old.id && !is_key(&new, ids)
        })?;
        if let Some(key) = new
            .foreign_keys
            .iter()
            .find(|key| key.parent == old.id && !is_key(&new, &key.parent_columns))
        {
            if !self.cascade {
                return Err(depends(&self.gone, &format!("the foreign key `{}`", key.name)));
            }
            self.def
                .foreign_keys
                .retain(|key| key.parent != old.id || is_key(&new, &key.parent_columns));
        }
        let added = |check: &candor_storage::CheckDef| !old.checks.iter().any(|before| before.name == check.name);
        let new_checks = self.def.checks.iter().any(added);
        changes.alter(self.def.clone(), new_checks || !self.values.is_empty())?;
        let after = self.env.after(&changes.schema)?;
        for view in broken_views(self.env, &after).await {
            let still_there = changes.catalog.view(&view.database, &view.name).is_some();
            if still_there {
                changes.push_view(&view, &self.gone, self.cascade)?;
            }
        }
        let rows = if self.values.is_empty() {
            self.check_rows(&after).await?;
            Vec::new()
        } else {
            self.rewrite().await?
        };
        Ok(Evaluated {
            changes: rows,
            ..Evaluated::schema(changes.schema)
        })
    }

    /// Whether the rows hold to what is new; the store has the last word.
    async fn check_rows(&self, after: &Env) -> Result<(), EngineError> {
        // Through the old definition, which lets the rows be as they are.
        for (ordinal, column) in self.def.columns.iter().enumerate() {
            let Some(before) = self.old.ordinal_of(column.id) else {
                let missing = column.missing.as_ref().and_then(|value| value.array().ok());
                let has_value = missing.is_some_and(|value| arrow::array::Array::null_count(&value) == 0);
                if self.def.requires_value(ordinal) && !has_value && self.any(self.env, &self.old, "true").await? {
                    return Err(self.null_in(&column.name));
                }
                continue;
            };
            if self.def.requires_value(ordinal) && !self.old.requires_value(before) {
                let condition = format!("{} IS NULL", quoted(&self.old.columns[before].name));
                if self.any(self.env, &self.old, &condition).await? {
                    return Err(self.null_in(&column.name));
                }
            }
        }
        for check in &self.def.checks {
            let is_new = !self.old.checks.iter().any(|before| before.name == check.name);
            if is_new && self.any(after, &self.def, &format!("NOT ({})", check.sql)).await? {
                return Err(EngineError::Constraint {
                    message: format!(
                        "a row of `{}` does not hold to the check `{}`",
                        self.def.name, check.name
                    ),
                    sqlstate: "23514",
                    row: None,
                });
            }
        }
        Ok(())
    }

    fn null_in(&self, column: &str) -> EngineError {
        EngineError::Constraint {
            message: format!("column `{column}` of `{}` holds NULL in some row", self.def.name),
            sqlstate: "23502",
            row: None,
        }
    }

    /// Whether a row meets a condition.
    async fn any(&self, env: &Env, def: &CollectionDef, condition: &str) -> Result<bool, EngineError> {
        let (database, name) = (quoted(&def.database), quoted(&def.name));
        let query = parse_query(&format!("SELECT 1 FROM {database}.{name} WHERE {condition} LIMIT 1"))?;
        let (_, batches) = env.collect(&query).await?;
        Ok(batches.iter().any(|batch| batch.num_rows() > 0))
    }

    /// All rows, anew: each ends by its id, and one of the new form begins.
    async fn rewrite(&self) -> Result<Vec<TableChange>, EngineError> {
        if self.env.writes_pending(&self.old) {
            return Err(EngineError::unsupported_try(
                "another type, or a default that differs from row to row, after other writes to the table in one transaction",
                "COMMIT them first",
            ));
        }
        let alias = quoted(&self.old.name);
        let mut values = Vec::new();
        let mut names = Vec::new();
        for column in &self.def.columns {
            let before = self.old.ordinal_of(column.id).map(|at| &self.old.columns[at].name);
            let value = match (self.values.get(&column.id), before) {
                (Some(value), _) => value.clone(),
                (None, Some(name)) => ast::Expr::Identifier(quoted(name)),
                (None, None) => continue,
            };
            values.push(value);
            names.push(column.name.clone());
        }
        let (env, query) = rewrite_query(self.env, &self.old, &alias, values);
        let (_, batches) = env.collect(&query).await?;
        let def = Arc::new(self.def.clone());
        let mut completer = RowCompleter::new(self.env, &def, &names)?;
        let (mut ended, mut begun) = (Vec::new(), Vec::new());
        let id_schema = Arc::new(Schema::new(vec![Field::new(ROW_ID_COLUMN, DataType::UInt64, false)]));
        for batch in &batches {
            let (values, ids) = batch.columns().split_at(names.len());
            begun.push(completer.complete(values, batch.num_rows())?);
            ended.push(RecordBatch::try_new(Arc::clone(&id_schema), ids.to_vec())?);
        }
        Ok(vec![TableChange {
            collection: self.old.id,
            ended: concat(&ended)?,
            begun: concat(&begun)?,
        }])
    }
}

/// The value of a default, as a constant of the column's type.
fn constant(
    env: &Env,
    column: &ColumnDef,
    planned: &Arc<dyn datafusion::physical_expr::PhysicalExpr>,
) -> Result<Constant, EngineError> {
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(1));
    let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let value = planned.evaluate(&nothing).and_then(|value| value.into_array(1));
    let value: ArrayRef = value.map_err(|error| env.error(error))?;
    let value = assign(&value, column.ty).map_err(|misfit| misfit.at(1, &column.name))?;
    Constant::new(&value).map_err(|error| EngineError::internal(error.to_string()))
}
