//! CREATE SEQUENCE and DROP SEQUENCE, and the sequences of SERIAL and identity columns.

use std::ops::ControlFlow;
use std::sync::Arc;

use candor_storage::{CollectionDef, ColumnType, SchemaChange, SequenceDef, SequencePlace};
use sqlparser::ast::{self, VisitMut as _, VisitorMut};

use super::{check_name, exists, own_database, split_ast};
use crate::env::Env;
use crate::error::EngineError;
use crate::parse::parse_expr;
use crate::prepare::{folded_parts, quoted};
use crate::types::of_column;
use crate::write::Evaluated;

/// Evaluates a statement about sequences.
pub(crate) fn define_sequence(env: &Env, statement: &ast::Statement) -> Result<Evaluated, EngineError> {
    match statement {
        ast::Statement::CreateSequence {
            temporary: false,
            if_not_exists,
            name,
            data_type,
            sequence_options,
            owned_by: None,
        } => create(env, name, data_type.as_ref(), sequence_options, *if_not_exists),
        ast::Statement::Drop {
            object_type: ast::ObjectType::Sequence,
            if_exists,
            names,
            cascade,
            ..
        } => remove(env, names, *if_exists, *cascade),
        other => Err(EngineError::unsupported(format!("`{other}`"))),
    }
}

fn create(
    env: &Env,
    name: &ast::ObjectName,
    ty: Option<&ast::DataType>,
    options: &[ast::SequenceOptions],
    if_not_exists: bool,
) -> Result<Evaluated, EngineError> {
    let (database, name) = split_ast(env, name)?;
    check_name("sequence", &name)?;
    own_database(env, &database)?;
    let definitions = env.names.definitions();
    if definitions.sequence_named(&database, &name).is_some() || env.names.has_table(&database, &name) {
        return exists("sequence", &name, if_not_exists);
    }
    let ty = match ty {
        None => ColumnType::Int64,
        Some(ty) => of_column(env, ty)?,
    };
    let mut def = sequence((database, name), ty, options)?;
    def.id = definitions.next_sequence_id();
    Ok(Evaluated::schema(vec![SchemaChange::DefineSequence(def)]))
}

/// A sequence with these options; what is not said is as in PostgreSQL.
fn sequence(
    (database, name): (String, String),
    ty: ColumnType,
    options: &[ast::SequenceOptions],
) -> Result<SequenceDef, EngineError> {
    use ast::SequenceOptions as Option_;
    let (lowest, highest) = match ty {
        ColumnType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        ColumnType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        ColumnType::Int64 => (i64::MIN, i64::MAX),
        other => {
            return Err(wrong(format!(
                "a sequence gives SMALLINT, INTEGER or BIGINT, and no {other}"
            )));
        }
    };
    let (mut increment, mut min, mut max, mut start, mut cycle) = (1, None, None, None, false);
    for option in options {
        match option {
            Option_::IncrementBy(value, _) => increment = number(value)?,
            Option_::MinValue(value) => min = value.as_ref().map(number).transpose()?,
            Option_::MaxValue(value) => max = value.as_ref().map(number).transpose()?,
            Option_::StartWith(value, _) => start = Some(number(value)?),
            Option_::Cycle(no) => cycle = !no,
            // How many are reserved at once is found out by how fast they go.
            Option_::Cache(value) if number(value)? > 0 => {}
            Option_::Cache(_) => return Err(wrong("CACHE takes a positive number".to_owned())),
        }
    }
    let up = increment > 0;
    let min = min.unwrap_or(if up { 1 } else { lowest });
    let max = max.unwrap_or(if up { highest } else { -1 });
    let start = start.unwrap_or(if up { min } else { max });
    if increment == 0 {
        return Err(wrong("INCREMENT is not 0".to_owned()));
    }
    if min < lowest || max > highest || min >= max {
        return Err(wrong(format!(
            "`{name}` has {min} as its least and {max} as its greatest value, which is no range of {ty}"
        )));
    }
    if !(min..=max).contains(&start) {
        return Err(wrong(format!("START is {start}, which is not between {min} and {max}")));
    }
    Ok(SequenceDef {
        id: candor_storage::SequenceId::default(),
        database,
        name,
        ty,
        start,
        increment,
        min,
        max,
        cycle,
        owner: None,
        place: SequencePlace {
            next: Some(start),
            generation: 0,
        },
    })
}

fn wrong(message: String) -> EngineError {
    EngineError::definition(message, "22023")
}

fn number(expr: &ast::Expr) -> Result<i64, EngineError> {
    let text = expr.to_string().replace(' ', "");
    text.parse()
        .map_err(|_| wrong(format!("`{expr}` is no number that a sequence can hold")))
}

/// The sequence of a column, which goes with it, and the default that draws from it.
pub(super) fn of_column_at(
    env: &Env,
    def: &CollectionDef,
    (column, column_id): (&str, u32),
    ty: ColumnType,
    options: &[ast::SequenceOptions],
    before: &[SequenceDef],
) -> Result<(SequenceDef, String), EngineError> {
    let definitions = env.names.definitions();
    let base = format!("{}_{column}_seq", def.name);
    let numbered = (1..).map(|number: u32| format!("{base}{number}"));
    let is_free = |name: &String| {
        definitions.sequence_named(&def.database, name).is_none()
            && !env.names.has_table(&def.database, name)
            && !before.iter().any(|other| other.name == *name)
    };
    let name = std::iter::once(base.clone()).chain(numbered).find(is_free);
    let name = name.ok_or_else(|| EngineError::internal("there is no free name"))?;
    let mut made = sequence((def.database.clone(), name), ty, options)?;
    made.id = candor_storage::SequenceId(definitions.next_sequence_id().0 + before.len() as u32);
    made.owner = Some((def.id, column_id));
    let default = call(&made);
    Ok((made, default))
}

/// The name of a sequence as `nextval` reads it, whatever database is selected.
fn written(def: &SequenceDef) -> String {
    format!("{}.{}", quoted(&def.database), quoted(&def.name))
}

/// The call that draws from a sequence, as a default has it.
fn call(def: &SequenceDef) -> String {
    format!("nextval('{}')", written(def).replace('\'', "''"))
}

/// The expression with the database before the name of each sequence that it draws from: a default is evaluated
/// whatever database is selected.
pub(super) fn with_whole_names(env: &Env, expr: &ast::Expr) -> ast::Expr {
    struct Namer<'a>(&'a Env);
    impl VisitorMut for Namer<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let Some(def) = drawn_from(expr).and_then(|name| named(self.0, &name))
                && let Ok(whole) = parse_expr(&call(&def))
            {
                *expr = whole;
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    // Naming cannot stop early.
    let _ = expr.visit(&mut Namer(env));
    expr
}

/// The text that `nextval('name')` names, with or without `::regclass` behind it.
fn drawn_from(expr: &ast::Expr) -> Option<String> {
    let ast::Expr::Function(function) = expr else {
        return None;
    };
    if folded_parts(&function.name)?.last()? != "nextval" {
        return None;
    }
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))] = list.args.as_slice() else {
        return None;
    };
    let text = match arg {
        ast::Expr::Cast { expr, .. } => expr,
        other => other,
    };
    match text {
        ast::Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    }
}

fn named(env: &Env, text: &str) -> Option<Arc<SequenceDef>> {
    let name = match parse_expr(text).ok()? {
        ast::Expr::Identifier(name) => ast::ObjectName::from(vec![name]),
        ast::Expr::CompoundIdentifier(parts) => ast::ObjectName::from(parts),
        _ => return None,
    };
    let (database, name) = split_ast(env, &name).ok()?;
    env.names.definitions().sequence_named(&database, &name).map(Arc::clone)
}

/// The type of a SERIAL column.
pub(super) fn serial(ty: &ast::DataType) -> Option<ColumnType> {
    let ast::DataType::Custom(name, modifiers) = ty else {
        return None;
    };
    let parts = folded_parts(name)?;
    match parts.as_slice() {
        [name] if modifiers.is_empty() => match name.as_str() {
            "serial" | "serial4" => Some(ColumnType::Int32),
            "bigserial" | "serial8" => Some(ColumnType::Int64),
            "smallserial" | "serial2" => Some(ColumnType::Int16),
            _ => None,
        },
        _ => None,
    }
}

fn remove(env: &Env, names: &[ast::ObjectName], if_exists: bool, cascade: bool) -> Result<Evaluated, EngineError> {
    let mut changes = super::changes::Changes::new(env);
    for name in names {
        let (database, name) = split_ast(env, name)?;
        let Some(def) = changes.catalog.sequence_named(&database, &name).cloned() else {
            if if_exists {
                continue;
            }
            return Err(EngineError::UnknownName {
                what: "sequence",
                name,
                help: None,
                span: None,
            });
        };
        let draws = call(&def).to_lowercase();
        let uses = |column: &candor_storage::ColumnDef| {
            let default = column.default.as_ref().map(|default| default.to_lowercase());
            default.is_some_and(|default| default.contains(&draws))
        };
        let tables: Vec<_> = changes.catalog.all_collections().cloned().collect();
        for table in tables {
            let Some(column) = table.columns.iter().find(|column| uses(column)) else {
                continue;
            };
            if !cascade || column.generated.is_some() {
                return Err(super::changes::depends(
                    &format!("the sequence `{name}`"),
                    &format!("the column `{}` of `{}`", column.name, table.name),
                ));
            }
            let mut after = CollectionDef::clone(&table);
            for column in after.columns.iter_mut().filter(|column| uses(column)) {
                column.default = None;
            }
            changes.alter(after, false)?;
        }
        changes.push(SchemaChange::RemoveSequence { id: def.id })?;
    }
    Ok(Evaluated::schema(changes.schema))
}
