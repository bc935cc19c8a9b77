//! Keys, foreign keys and checks of a definition, each under a name.
//!
//! A constraint without a name gets the one that PostgreSQL would give it: `t_pkey`, `t_a_key`, `t_a_fkey`, `t_a_check`,
//! with a number behind it where that name is taken.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use candor_storage::{CheckDef, CollectionDef, ColumnDef, ColumnType, ForeignAction, ForeignKeyDef, KeyDef, KeyKind};
use datafusion::common::DFSchema;
use sqlparser::ast::{self, Visit as _, VisitMut, Visitor, VisitorMut};

use super::check_name;
use crate::env::Env;
use crate::error::EngineError;
use crate::parse::parse_expr;
use crate::prepare::{folded, folded_parts, quoted};

/// A constraint as it was written, on a column or on the table.
pub(super) struct Constraint<'a> {
    pub(super) name: Option<&'a ast::Ident>,
    /// The column that it stands at.
    pub(super) column: Option<u32>,
    pub(super) what: What<'a>,
}

pub(super) enum What<'a> {
    PrimaryKey(&'a ast::PrimaryKeyConstraint),
    Unique(&'a ast::UniqueConstraint),
    Check(&'a ast::CheckConstraint),
    ForeignKey(&'a ast::ForeignKeyConstraint),
}

impl<'a> Constraint<'a> {
    /// Of a table.
    pub(super) fn of_table(constraint: &'a ast::TableConstraint) -> Result<Self, EngineError> {
        let (name, what) = match constraint {
            ast::TableConstraint::PrimaryKey(key) => (&key.name, What::PrimaryKey(key)),
            ast::TableConstraint::Unique(key) => (&key.name, What::Unique(key)),
            ast::TableConstraint::Check(check) => (&check.name, What::Check(check)),
            ast::TableConstraint::ForeignKey(key) => (&key.name, What::ForeignKey(key)),
            other => return Err(EngineError::unsupported(format!("the constraint `{other}`"))),
        };
        Ok(Self {
            name: name.as_ref(),
            column: None,
            what,
        })
    }

    /// Where it comes in the order in which constraints are added: what others rest on first.
    pub(super) fn rank(&self) -> u8 {
        match self.what {
            What::PrimaryKey(_) => 0,
            What::Unique(_) => 1,
            What::Check(_) => 2,
            What::ForeignKey(_) => 3,
        }
    }

    /// Adds it to a definition.
    pub(super) fn add(&self, env: &Env, def: &mut CollectionDef) -> Result<(), EngineError> {
        match &self.what {
            What::PrimaryKey(key) => {
                plain(key.characteristics.as_ref(), "PRIMARY KEY")?;
                self.add_primary(env, def, &key.columns)
            }
            What::Unique(key) => {
                plain(key.characteristics.as_ref(), "UNIQUE")?;
                if key.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
                    return Err(EngineError::unsupported("UNIQUE NULLS NOT DISTINCT"));
                }
                let columns = self.key_columns(def, &key.columns)?;
                add_key(env, def, self.name, columns, KeyKind::Unique)
            }
            What::Check(check) => self.add_check(env, def, check),
            What::ForeignKey(key) => self.add_foreign_key(env, def, key),
        }
    }

    fn key_columns(&self, def: &CollectionDef, columns: &[ast::IndexColumn]) -> Result<Vec<u32>, EngineError> {
        match self.column {
            Some(column) => Ok(vec![column]),
            None => index_ordinals(def, columns),
        }
    }

    fn add_primary(&self, env: &Env, def: &mut CollectionDef, columns: &[ast::IndexColumn]) -> Result<(), EngineError> {
        if !def.key.is_empty() {
            return Err(EngineError::definition(
                format!("`{}` would have two primary keys, and a table has one", def.name),
                "42P16",
            ));
        }
        def.key = self.key_columns(def, columns)?;
        def.key_name = name_for(env, def, self.name, &[], "pkey")?;
        for ordinal in def.key.clone() {
            def.columns[ordinal as usize].nullable = false;
        }
        Ok(())
    }

    fn add_check(&self, env: &Env, def: &mut CollectionDef, check: &ast::CheckConstraint) -> Result<(), EngineError> {
        if check.enforced == Some(false) {
            return Err(EngineError::unsupported("CHECK … NOT ENFORCED"));
        }
        super::columns::no_subquery(&check.expr, "CHECK")?;
        let used = columns_in(&check.expr);
        let used: Vec<&str> = match used.len() {
            1 => used.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let name = name_for(env, def, self.name.or(check.name.as_ref()), &used, "check")?;
        def.checks.push(CheckDef {
            name,
            sql: check.expr.to_string(),
        });
        Ok(())
    }

    fn add_foreign_key(
        &self,
        env: &Env,
        def: &mut CollectionDef,
        key: &ast::ForeignKeyConstraint,
    ) -> Result<(), EngineError> {
        plain(key.characteristics.as_ref(), "FOREIGN KEY")?;
        let columns = match self.column {
            Some(column) => vec![column],
            None => ordinals(def, key.columns.iter())?,
        };
        let parent = parent_of(env, def, &key.foreign_table)?;
        let (columns, parent_columns) = matched(def, &columns, &parent, &key.referred_columns)?;
        let names = def.column_names(&columns);
        let name = name_for(env, def, self.name.or(key.name.as_ref()), &names, "fkey")?;
        def.foreign_keys.push(ForeignKeyDef {
            name,
            columns,
            parent: parent.id,
            parent_columns: parent.column_ids(&parent_columns),
            on_delete: action(key.on_delete.as_ref()),
            on_update: action(key.on_update.as_ref()),
        });
        Ok(())
    }
}

fn action(written: Option<&ast::ReferentialAction>) -> ForeignAction {
    match written {
        None | Some(ast::ReferentialAction::NoAction) => ForeignAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ForeignAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ForeignAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ForeignAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ForeignAction::SetDefault,
    }
}

fn parent_of(env: &Env, def: &CollectionDef, name: &ast::ObjectName) -> Result<Arc<CollectionDef>, EngineError> {
    let parts = folded_parts(name).ok_or_else(|| EngineError::plan(format!("`{name}` is not a name")))?;
    let (database, table) = env.split(&parts, None)?;
    if (&database, &table) == (&def.database, &def.name) {
        return Ok(Arc::new(def.clone()));
    }
    env.collection(name)
}

/// The columns of a foreign key, and those of the parent that they point to, in the order of the parent's key.
fn matched(
    def: &CollectionDef,
    columns: &[u32],
    parent: &CollectionDef,
    referred: &[ast::Ident],
) -> Result<(Vec<u32>, Vec<u32>), EngineError> {
    let referred = match referred {
        [] if parent.key.is_empty() => {
            return Err(EngineError::definition(
                format!("`{}` has no primary key that a foreign key could point to", parent.name),
                "42830",
            ));
        }
        [] => parent.key.clone(),
        names => ordinals(parent, names.iter())?,
    };
    if referred.len() != columns.len() {
        return Err(EngineError::definition(
            format!(
                "a foreign key of {} columns points to {}",
                columns.len(),
                referred.len()
            ),
            "42830",
        ));
    }
    let unique = parent.keys.iter().filter(|key| key.is_unique()).map(|key| &key.columns);
    let same = |list: &&Vec<u32>| list.len() == referred.len() && list.iter().all(|column| referred.contains(column));
    let Some(list) = std::iter::once(&parent.key).chain(unique).find(same) else {
        return Err(EngineError::definition(
            format!(
                "no primary or unique key of `{}` has exactly these columns",
                parent.name
            ),
            "42830",
        ));
    };
    let place = |column: &u32| referred.iter().position(|referred| referred == column);
    let ordered: Vec<u32> = list.iter().filter_map(place).map(|at| columns[at]).collect();
    for (child, other) in ordered.iter().zip(list) {
        check_comparable(&def.columns[*child as usize], &parent.columns[*other as usize], parent)?;
    }
    Ok((ordered, list.clone()))
}

/// Refuses a foreign key whose columns have got another type than those that they point to.
pub(super) fn check_foreign_types(env: &Env, def: &CollectionDef) -> Result<(), EngineError> {
    for key in &def.foreign_keys {
        let parent = if key.parent == def.id {
            Some(def)
        } else {
            env.names.definitions().collection_by_id(key.parent).map(AsRef::as_ref)
        };
        let Some(parent) = parent else { continue };
        for (child, id) in key.columns.iter().zip(&key.parent_columns) {
            if let Some(ordinal) = parent.ordinal_of(*id) {
                check_comparable(&def.columns[*child as usize], &parent.columns[ordinal], parent)?;
            }
        }
    }
    Ok(())
}

fn check_comparable(child: &ColumnDef, other: &ColumnDef, parent: &CollectionDef) -> Result<(), EngineError> {
    if comparable(child.ty, other.ty) {
        return Ok(());
    }
    Err(EngineError::definition(
        format!(
            "column `{}` is {}, and `{}` of `{}` is {}: a foreign key needs types that compare",
            child.name, child.ty, other.name, parent.name, other.ty
        ),
        "42804",
    ))
}

fn comparable(child: ColumnType, parent: ColumnType) -> bool {
    let (child, parent) = (child.arrow(), parent.arrow());
    let number = |ty: &DataType| ty.is_integer() || matches!(ty, DataType::Decimal128(..));
    child == parent || (number(&child) && number(&parent))
}

/// Adds a unique key or an index.
pub(super) fn add_key(
    env: &Env,
    def: &mut CollectionDef,
    name: Option<&ast::Ident>,
    columns: Vec<u32>,
    kind: KeyKind,
) -> Result<(), EngineError> {
    let names = def.column_names(&columns);
    let suffix = if kind == KeyKind::Unique { "key" } else { "idx" };
    let name = name_for(env, def, name, &names, suffix)?;
    def.keys.push(KeyDef { name, columns, kind });
    Ok(())
}

/// The name that was given, or one that is free.
fn name_for(
    env: &Env,
    def: &CollectionDef,
    given: Option<&ast::Ident>,
    columns: &[&str],
    suffix: &str,
) -> Result<String, EngineError> {
    let catalog = env.names.definitions();
    let of_index = matches!(suffix, "pkey" | "key" | "idx");
    let taken = |name: &str| {
        let has_index = |other: &CollectionDef| {
            other.id != def.id
                && (other.key_name == name && !other.key.is_empty() || other.keys.iter().any(|key| key.name == name))
        };
        def.has_constraint(name) || (of_index && catalog.collections(&def.database).any(|other| has_index(other)))
    };
    if let Some(given) = given {
        let name = folded(given);
        check_name("constraint", &name)?;
        return if taken(&name) {
            Err(EngineError::AlreadyExists {
                what: if suffix == "idx" { "index" } else { "constraint" },
                name,
            })
        } else {
            Ok(name)
        };
    }
    let mut parts = vec![def.name.as_str()];
    parts.extend(columns);
    parts.push(suffix);
    let base = parts.join("_");
    let numbered = (1..).map(|number: u32| format!("{base}{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    names
        .find(|name| !taken(name))
        .ok_or_else(|| EngineError::internal("there is no free name"))
}

fn plain(characteristics: Option<&ast::ConstraintCharacteristics>, what: &str) -> Result<(), EngineError> {
    match characteristics {
        None => Ok(()),
        Some(_) => Err(EngineError::unsupported(format!(
            "DEFERRABLE or NOT ENFORCED on {what}"
        ))),
    }
}

/// The ordinals of the columns of a key or an index.
pub(super) fn index_ordinals(def: &CollectionDef, columns: &[ast::IndexColumn]) -> Result<Vec<u32>, EngineError> {
    let names = columns.iter().map(|column| match &column.column.expr {
        ast::Expr::Identifier(ident) => Ok(ident),
        _ => Err(EngineError::unsupported("an expression in a key")),
    });
    ordinals(def, names.collect::<Result<Vec<_>, _>>()?.into_iter())
}

fn ordinals<'a>(def: &CollectionDef, names: impl Iterator<Item = &'a ast::Ident>) -> Result<Vec<u32>, EngineError> {
    let mut ordinals = Vec::new();
    for ident in names {
        let name = folded(ident);
        let ordinal = def.column(&name).ok_or_else(|| {
            EngineError::definition(
                format!("the key names `{name}`, which is no column of `{}`", def.name),
                "42703",
            )
        })?;
        if ordinals.contains(&(ordinal as u32)) {
            return Err(EngineError::plan(format!("the key names `{name}` twice")));
        }
        ordinals.push(ordinal as u32);
    }
    Ok(ordinals)
}

/// Checks that cannot be evaluated are refused now, not at the first row.
pub(super) fn check_checks(env: &Env, def: &CollectionDef) -> Result<(), EngineError> {
    let columns =
        DFSchema::try_from_qualified_schema(def.name.as_str(), &def.schema()).map_err(|error| env.error(error))?;
    for check in &def.checks {
        let expr = env.expression(parse_expr(&check.sql)?, &columns)?;
        let ty = expr.data_type(&def.schema()).map_err(|error| env.error(error))?;
        if !matches!(ty, DataType::Boolean | DataType::Null) {
            return Err(EngineError::plan(format!(
                "the check `{}` is {ty}, not a condition",
                check.name
            )));
        }
    }
    Ok(())
}

/// The names of columns that an expression of a definition uses.
pub(super) fn columns_in(expr: &ast::Expr) -> BTreeSet<String> {
    struct Finder(BTreeSet<String>);
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Identifier(ident) => self.0.insert(folded(ident)),
                ast::Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|last| self.0.insert(folded(last))),
                _ => false,
            };
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder(BTreeSet::new());
    // Looking cannot stop early.
    let _ = expr.visit(&mut finder);
    finder.0
}

/// The expression with another name for a column, and without the table's name before any.
pub(super) fn renamed(sql: &str, old: &str, new: &str) -> Result<String, EngineError> {
    struct Renamer<'a>(&'a str, &'a str);
    impl VisitorMut for Renamer<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::CompoundIdentifier(parts) = expr
                && let Some(last) = parts.last()
            {
                *expr = ast::Expr::Identifier(last.clone());
            }
            if let ast::Expr::Identifier(ident) = expr
                && folded(ident) == self.0
            {
                *ident = quoted(self.1);
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = parse_expr(sql)?;
    // Renaming cannot stop early.
    let _ = VisitMut::visit(&mut expr, &mut Renamer(old, new));
    Ok(expr.to_string())
}
