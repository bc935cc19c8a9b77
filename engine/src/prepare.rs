//! The syntax tree before it is planned: parameters filled in, and everything refused that DataFusion would read and
//! then leave out. (`parser` refuses most of it; trees from elsewhere pass here too.)

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{self, VisitMut as _, VisitorMut};

use crate::context::Param;
use crate::error::EngineError;

/// A copy of `statement` ready for planning.
pub(crate) fn prepared(statement: &ast::Statement, params: &[Param]) -> Result<ast::Statement, EngineError> {
    let mut statement = statement.clone();
    if let ControlFlow::Break(error) = statement.visit(&mut Preparation { params }) {
        return Err(error);
    }
    name_apart_from_wildcard(&mut statement);
    Ok(statement)
}

struct Preparation<'a> {
    params: &'a [Param],
}

impl VisitorMut for Preparation<'_> {
    type Break = EngineError;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<EngineError> {
        let ignored = [
            (!query.locks.is_empty(), "FOR UPDATE / FOR SHARE"),
            (query.for_clause.is_some(), "FOR XML / JSON / BROWSE"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "the pipe operator"),
        ];
        refuse(&ignored)?;
        match query.fetch.take() {
            None => ControlFlow::Continue(()),
            // FETCH FIRST n ROWS ONLY is LIMIT n by its other name.
            Some(fetch) if !fetch.percent && !fetch.with_ties => fetch_as_limit(query, fetch.quantity),
            Some(_) => ControlFlow::Break(EngineError::unsupported("FETCH … PERCENT / WITH TIES")),
        }
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<EngineError> {
        refuse(&[
            (select.into.is_some(), "SELECT INTO"),
            (!select.optimizer_hints.is_empty(), "an optimizer hint"),
            (select.select_modifiers.is_some(), "a MySQL select modifier"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (select.value_table_mode.is_some(), "SELECT AS VALUE / STRUCT"),
        ])
    }

    fn post_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<EngineError> {
        name_apart(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<EngineError> {
        let ast::TableFactor::Table {
            version,
            with_hints,
            partitions,
            json_path,
            sample,
            index_hints,
            with_ordinality,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        refuse(&[
            (version.is_some(), "a version on a table"),
            (!with_hints.is_empty() || !index_hints.is_empty(), "a table hint"),
            (!partitions.is_empty(), "PARTITION"),
            (json_path.is_some(), "a JSON path on a table"),
            (sample.is_some(), "TABLESAMPLE"),
            (*with_ordinality, "WITH ORDINALITY"),
        ])
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<EngineError> {
        match expr {
            ast::Expr::Value(value) => {
                if let ast::Value::Placeholder(name) = &value.value {
                    match self.parameter(name) {
                        Ok(literal) => *expr = literal,
                        Err(error) => return ControlFlow::Break(error),
                    }
                }
            }
            ast::Expr::Function(function) if function.name.0.len() > 1 => lower_case(&mut function.name),
            ast::Expr::Function(function) => {
                if let Some(modulo) = modulo(function) {
                    *expr = modulo;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Preparation<'_> {
    fn parameter(&self, name: &str) -> Result<ast::Expr, EngineError> {
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let Some(number) = number.filter(|number| *number > 0) else {
            return Err(EngineError::BadParameter {
                message: format!("parameters are written $1, $2 …, not {name}"),
            });
        };
        match self.params.get(number - 1) {
            Some(param) => param.literal(),
            None => Err(EngineError::BadParameter {
                message: format!(
                    "the statement has a parameter ${number}, and {} were given",
                    self.params.len()
                ),
            }),
        }
    }
}

fn refuse(ignored: &[(bool, &str)]) -> ControlFlow<EngineError> {
    match ignored.iter().find(|(present, _)| *present) {
        Some((_, what)) => ControlFlow::Break(EngineError::unsupported(*what)),
        None => ControlFlow::Continue(()),
    }
}

fn fetch_as_limit(query: &mut ast::Query, quantity: Option<ast::Expr>) -> ControlFlow<EngineError> {
    let one = || ast::Expr::Value(ast::Value::Number("1".to_owned(), false).into());
    let rows = quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(ast::LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
            ControlFlow::Continue(())
        }
        Some(ast::LimitClause::LimitOffset {
            limit: limit @ None, ..
        }) => {
            *limit = Some(rows);
            ControlFlow::Continue(())
        }
        Some(_) => ControlFlow::Break(EngineError::plan(
            "LIMIT and FETCH say the same thing: write one of them",
        )),
    }
}

/// Stands between a column's name and a number that tells it from another column of the same name.
const APART: char = '\0';

/// DataFusion refuses two columns of one name; SQL does not. The second gets a number, which [`shown_name`] takes off.
fn name_apart(projection: &mut [ast::SelectItem]) {
    let mut seen = HashSet::new();
    for (at, item) in projection.iter_mut().enumerate() {
        let (expr, name) = match &*item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, planned_name(expr)),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, folded(alias)),
            _ => continue,
        };
        if !seen.insert(name.clone()) {
            let shown = item_name(item).unwrap_or(name);
            *item = apart(expr.clone(), &shown, at);
        }
    }
}

/// `SELECT *, id`: only where nothing outside can speak of the column by its name.
fn name_apart_from_wildcard(statement: &mut ast::Statement) {
    let ast::Statement::Query(query) = statement else {
        return;
    };
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let is_wildcard = |item: &ast::SelectItem| {
        matches!(
            item,
            ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..)
        )
    };
    if !select.projection.iter().any(is_wildcard) {
        return;
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        if let ast::SelectItem::UnnamedExpr(expr) = item
            && let Some(name) = column_name(expr)
        {
            *item = apart(expr.clone(), &name, at);
        }
    }
}

fn apart(expr: ast::Expr, name: &str, at: usize) -> ast::SelectItem {
    ast::SelectItem::ExprWithAlias {
        expr,
        alias: quoted(&format!("{name}{APART}{at}")),
    }
}

/// What DataFusion would call the expression, as far as two expressions are called the same: it leaves casts out.
fn planned_name(expr: &ast::Expr) -> String {
    struct WithoutCasts;
    impl VisitorMut for WithoutCasts {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Cast { expr: inner, .. } | ast::Expr::Nested(inner) = expr {
                *expr = inner.as_ref().clone();
            }
            ControlFlow::Continue(())
        }
    }
    let mut bare = expr.clone();
    let _ = bare.visit(&mut WithoutCasts);
    bare.to_string()
}

/// The name of a column that is nothing but a column.
fn column_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(ident) => Some(folded(ident)),
        ast::Expr::CompoundIdentifier(idents) => idents.last().map(folded),
        _ => None,
    }
}

/// What a column of an answer is called: its alias, its own name, or the expression as it was written.
fn item_name(item: &ast::SelectItem) -> Option<String> {
    match item {
        ast::SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        ast::SelectItem::UnnamedExpr(expr) => Some(column_name(expr).unwrap_or_else(|| expr.to_string())),
        _ => None,
    }
}

/// Names for the columns of a query's answer; `None` where only planning knows them.
pub(crate) fn column_names(statement: &ast::Statement) -> Option<Vec<String>> {
    let ast::Statement::Query(query) = statement else {
        return None;
    };
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            ast::SetExpr::Select(select) => return select.projection.iter().map(item_name).collect(),
            ast::SetExpr::SetOperation { left, .. } => left,
            ast::SetExpr::Query(query) => &query.body,
            _ => return None,
        };
    }
}

/// A column's name as the statement gave it.
pub(crate) fn shown_name(name: &str) -> &str {
    match name.split_once(APART) {
        Some((shown, _)) if !shown.is_empty() => shown,
        _ => name,
    }
}

/// `mod(a, b)`, which DataFusion only knows as `a % b`.
fn modulo(function: &ast::Function) -> Option<ast::Expr> {
    if folded_parts(&function.name)? != ["mod"] {
        return None;
    }
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(left)),
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let nested = |expr: &ast::Expr| Box::new(ast::Expr::Nested(Box::new(expr.clone())));
    Some(ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
        left: nested(left),
        op: ast::BinaryOperator::Modulo,
        right: nested(right),
    })))
}

/// DataFusion looks functions of several names up as they are written.
fn lower_case(name: &mut ast::ObjectName) {
    for part in &mut name.0 {
        if let ast::ObjectNamePart::Identifier(ident) = part
            && ident.quote_style.is_none()
        {
            ident.value.make_ascii_lowercase();
        }
    }
}

/// The name as PostgreSQL folds it: lower case unless quoted.
pub(crate) fn folded(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a name, folded; `None` for names with something else than identifiers in them.
pub(crate) fn folded_parts(name: &ast::ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(folded)).collect()
}

/// A name that is never folded.
pub(crate) fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}
