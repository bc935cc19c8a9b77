//! Columns that an open collection does not have yet: they read as NULL.
//!
//! Planning finds an unknown column by itself and says where it stands. If the column can only belong to an open
//! collection, the word is replaced by NULL, and the statement is planned again. `SELECT *` is never touched, so it
//! shows only columns that are there.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::{Column, DataFusionError, SchemaError};
use sqlparser::ast::{self, Spanned as _, Visit as _, VisitMut as _, Visitor, VisitorMut};
use sqlparser::tokenizer::Location;

use crate::catalog::Names;
use crate::prepare::{folded, folded_parts};

/// Replaces the column that `error` says is unknown by NULL. False when the error is about something else, or the
/// column is not an open collection's.
pub(crate) fn read_as_null(statement: &mut ast::Statement, error: &DataFusionError, names: &Names) -> bool {
    let Some((column, scope)) = unknown_column(error) else {
        return false;
    };
    let open = open_qualifiers(statement, names);
    let belongs = match &column.relation {
        Some(relation) => open.contains(relation.table()),
        None => scope
            .iter()
            .filter_map(|valid| valid.relation.as_ref())
            .any(|table| open.contains(table.table())),
    };
    if !belongs {
        return false;
    }
    let span = error
        .diagnostic()
        .and_then(|diagnostic| diagnostic.span)
        .or_else(|| column.spans().first());
    let mut replacement = Replacement {
        column: &column,
        at: span.map(|span| Location::new(span.start.line, span.start.column)),
        replaced: false,
    };
    let _ = statement.visit(&mut replacement);
    replacement.replaced
}

/// The unknown column, and the columns that were there to choose from.
fn unknown_column(error: &DataFusionError) -> Option<(Column, Vec<Column>)> {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Some((field.as_ref().clone(), valid_fields.clone())),
            _ => None,
        },
        DataFusionError::Diagnostic(_, inner) => unknown_column(inner),
        DataFusionError::Collection(errors) => errors.first().and_then(unknown_column),
        _ => None,
    }
}

/// By which names the statement calls its open collections.
fn open_qualifiers(statement: &ast::Statement, names: &Names) -> BTreeSet<String> {
    let mut finder = OpenTables {
        names,
        found: BTreeSet::new(),
    };
    let _ = statement.visit(&mut finder);
    finder.found
}

struct OpenTables<'a> {
    names: &'a Names,
    found: BTreeSet<String>,
}

impl Visitor for OpenTables<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table { name, alias, .. } = factor
            && let Some(parts) = folded_parts(name)
            && let Some(table) = parts.last()
        {
            let is_open = match parts.as_slice() {
                [.., schema, table] => self.names.is_open(Some(schema), table),
                [table] => self.names.is_open(None, table),
                [] => false,
            };
            if is_open {
                self.found.insert(
                    alias
                        .as_ref()
                        .map_or_else(|| table.clone(), |alias| folded(&alias.name)),
                );
            }
        }
        ControlFlow::Continue(())
    }
}

struct Replacement<'a> {
    column: &'a Column,
    /// Where it stands; without a place every word of that name is meant.
    at: Option<Location>,
    replaced: bool,
}

impl Replacement<'_> {
    fn matches(&self, expr: &ast::Expr) -> bool {
        let parts: Vec<String> = match expr {
            ast::Expr::Identifier(ident) => vec![folded(ident)],
            ast::Expr::CompoundIdentifier(idents) => idents.iter().map(folded).collect(),
            _ => return false,
        };
        if parts.last() != Some(&self.column.name) {
            return false;
        }
        let start = expr.span().start;
        match self.at {
            Some(at) => start == at,
            None => true,
        }
    }
}

impl VisitorMut for Replacement<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let ast::SelectItem::UnnamedExpr(expr) = item
                && self.matches(expr)
            {
                self.replaced = true;
                *item = ast::SelectItem::ExprWithAlias {
                    expr: null(),
                    alias: crate::prepare::quoted(&self.column.name),
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(function) = expr
            && is_numeric_aggregate(&function.name)
            && let ast::FunctionArguments::List(list) = &mut function.args
        {
            for arg in &mut list.args {
                if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)) = arg
                    && self.matches(arg)
                {
                    self.replaced = true;
                    *arg = null_number();
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if self.matches(expr) {
            self.replaced = true;
            *expr = null();
        }
        ControlFlow::Continue(())
    }
}

/// Aggregates that want a number, and will not take a bare NULL for one.
fn is_numeric_aggregate(name: &ast::ObjectName) -> bool {
    const NAMES: [&str; 9] = [
        "sum",
        "avg",
        "mean",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "var",
        "var_pop",
        "var_samp",
    ];
    folded_parts(name).is_some_and(|parts| matches!(parts.as_slice(), [name] if NAMES.contains(&name.as_str())))
}

fn null_number() -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(null()),
        data_type: ast::DataType::DoublePrecision,
        format: None,
        array: false,
    }
}

fn null() -> ast::Expr {
    ast::Expr::Value(ast::Value::Null.into())
}
