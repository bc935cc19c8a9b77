//! The syntax tree before it is planned: parameters filled in, and everything refused that DataFusion would read and
//! then leave out. (`parser` refuses most of it; trees from elsewhere pass here too.)

use std::ops::ControlFlow;

use sqlparser::ast::{self, VisitMut as _, VisitorMut};

use crate::catalog::Names;
use crate::context::Param;
use crate::error::EngineError;
use crate::grouping::write_out_groups;
use crate::names::{name_apart_from_wildcard, name_columns, name_columns_inside, order_by_names};
use crate::pg::rewrite;
use crate::shadow::tell_with_queries_apart;
use crate::tree::{call, two_arguments};
use crate::using::write_out_using;
use crate::write::has_subquery;
use crate::{array_query, rows, sequences, similar, tables, windows};

/// A query ready for planning: see [`prepared`].
pub(crate) fn prepared_query(
    mut statement: ast::Statement,
    params: &[Param],
    names: &Names,
) -> Result<ast::Statement, EngineError> {
    tell_with_queries_apart(&mut statement);
    write_out_using(&mut statement, names)?;
    prepared(statement, params)
}

/// The query of a view ready for planning: others speak of its columns by their names.
pub(crate) fn prepared_view(mut statement: ast::Statement, names: &Names) -> Result<ast::Statement, EngineError> {
    tell_with_queries_apart(&mut statement);
    write_out_using(&mut statement, names)?;
    if let ast::Statement::Query(query) = &mut statement {
        name_columns_inside(query);
    }
    written_out(&mut statement, &[])?;
    Ok(statement)
}

/// `statement` ready for planning.
pub(crate) fn prepared(mut statement: ast::Statement, params: &[Param]) -> Result<ast::Statement, EngineError> {
    written_out(&mut statement, params)?;
    name_apart_from_wildcard(&mut statement);
    Ok(statement)
}

fn written_out(statement: &mut ast::Statement, params: &[Param]) -> Result<(), EngineError> {
    match statement.visit(&mut Preparation { params }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// As [`prepared`], for an expression.
pub(crate) fn prepared_expr(expr: &ast::Expr, params: &[Param]) -> Result<ast::Expr, EngineError> {
    let mut expr = expr.clone();
    match expr.visit(&mut Preparation { params }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(expr),
    }
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
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            name_columns_inside(&mut cte.query);
        }
        or_break(windows::write_out_windows(query))?;
        match query.fetch.take() {
            None => ControlFlow::Continue(()),
            // FETCH FIRST n ROWS ONLY is LIMIT n by its other name.
            Some(fetch) if !fetch.percent && !fetch.with_ties => fetch_as_limit(query, fetch.quantity),
            Some(_) => ControlFlow::Break(EngineError::unsupported("FETCH … PERCENT / WITH TIES")),
        }
    }

    fn post_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<EngineError> {
        order_by_names(query);
        if let ast::SetExpr::Values(values) = query.body.as_mut() {
            rewrite::values(values);
            if values.rows.iter().any(|row| row.content.iter().any(has_subquery)) {
                *query.body = values_as_selects(values);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<EngineError> {
        if let Some(condition) = &mut select.selection {
            rows::look_up_rows(condition);
        }
        tables::rows_in_select(&mut select.projection);
        or_break(write_out_groups(select))?;
        group_all(select);
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
        name_columns(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<EngineError> {
        if let ast::TableFactor::Derived { subquery, .. } = factor {
            name_columns_inside(subquery);
        }
        tables::name_rows(factor);
        if let ast::TableFactor::Function { with_ordinality, .. } | ast::TableFactor::UNNEST { with_ordinality, .. } =
            factor
        {
            return refuse(&[(*with_ordinality, "WITH ORDINALITY of this function")]);
        }
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
            (*with_ordinality, "WITH ORDINALITY of this function"),
        ])
    }

    fn post_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<EngineError> {
        rewrite::table(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<EngineError> {
        or_break(rows::compare_columns(expr))?;
        array_query::as_aggregate(expr);
        similar::as_regex(expr);
        sequences::names_as_text(expr);
        ControlFlow::Continue(())
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
            // DataFusion looks for columns in the elements of an array where only those of its own query are.
            ast::Expr::Array(array) if array.elem.iter().any(tables::expr_speaks_of_columns) => {
                let elements = std::mem::take(&mut array.elem).into_iter();
                let elements = elements.map(|element| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(element)));
                *expr = call("make_array", elements.collect());
            }
            ast::Expr::Function(function) if function.name.0.len() > 1 => {
                lower_case(&mut function.name);
                // What PostgreSQL has built in, by its full name.
                if folded_parts(&function.name).is_some_and(|parts| parts.len() == 2 && parts[0] == "pg_catalog") {
                    function.name.0.remove(0);
                }
            }
            ast::Expr::Function(function) => {
                if let Some(modulo) = modulo(function) {
                    *expr = modulo;
                }
            }
            _ => {}
        }
        rewrite::expression(expr);
        ControlFlow::Continue(())
    }
}

/// `VALUES (a), (b)` as `SELECT a UNION ALL SELECT b`, for rows with subqueries, which DataFusion does not run there.
fn values_as_selects(values: &mut ast::Values) -> ast::SetExpr {
    let rows = std::mem::take(&mut values.rows).into_iter();
    let selects = rows.map(|row| {
        let items = row
            .content
            .into_iter()
            .zip(1..)
            .map(|(expr, at)| ast::SelectItem::ExprWithAlias {
                expr,
                alias: quoted(&format!("column{at}")),
            });
        *crate::tree::query(items.collect(), Vec::new(), None).body
    });
    let all = selects.reduce(|left, right| ast::SetExpr::SetOperation {
        op: ast::SetOperator::Union,
        set_quantifier: ast::SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    });
    all.unwrap_or_else(|| ast::SetExpr::Values(values.clone()))
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

fn or_break(done: Result<(), EngineError>) -> ControlFlow<EngineError> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// HAVING makes one group of all rows where GROUP BY does not say otherwise; DataFusion wants an aggregate for that.
fn group_all(select: &mut ast::Select) {
    let ungrouped = matches!(&select.group_by, ast::GroupByExpr::Expressions(groups, modifiers) if groups.is_empty() && modifiers.is_empty());
    if let Some(having) = select.having.take_if(|_| ungrouped) {
        let zero = ast::Expr::value(ast::Value::Number("0".to_owned(), false));
        let any_number = ast::Expr::BinaryOp {
            left: Box::new(call(
                "count",
                vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)],
            )),
            op: ast::BinaryOperator::GtEq,
            right: Box::new(zero),
        };
        select.having = Some(ast::Expr::BinaryOp {
            left: Box::new(ast::Expr::Nested(Box::new(having))),
            op: ast::BinaryOperator::And,
            right: Box::new(any_number),
        });
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

/// `mod(a, b)`, which DataFusion only knows as `a % b`.
fn modulo(function: &ast::Function) -> Option<ast::Expr> {
    if folded_parts(&function.name)? != ["mod"] {
        return None;
    }
    let (left, right) = two_arguments(function)?;
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
