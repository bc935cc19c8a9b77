//! `JOIN … USING` and `NATURAL JOIN`, written out as joins with ON.
//!
//! SQL gives each pair of equal columns one column: that of the left side, of the right side for RIGHT JOIN, and
//! whichever is there for FULL JOIN; `*` shows these columns first. DataFusion shows one of the two, whatever kind of
//! join it is. Tables whose columns are not known before planning are left as they are.
//!
//! Lists of names for columns are completed too: `t (a)` names the first column of `t`, and the others keep their names.

use std::collections::HashMap;
use std::ops::ControlFlow;

use candor_storage::ViewDef;
use sqlparser::ast::{self, Expr, JoinConstraint, JoinOperator, VisitMut as _, VisitorMut};

use crate::catalog::Names;
use crate::error::EngineError;
use crate::names::{item_name, shown_name};
use crate::parse::parse_query;
use crate::prepare::{folded, folded_parts, quoted};
use crate::tree::call;

/// Writes all such joins of a statement out.
pub(crate) fn write_out_using(statement: &mut ast::Statement, names: &Names) -> Result<(), EngineError> {
    let mut joins = Joins {
        names,
        queries: Vec::new(),
    };
    match statement.visit(&mut joins) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A column that `*` shows, and what it is.
#[derive(Clone)]
struct Shown {
    name: String,
    expr: Expr,
}

/// What FROM gives.
#[derive(Default)]
struct From {
    shown: Vec<Shown>,
    /// Columns that stand for two, by their name.
    merged: HashMap<String, Expr>,
}

struct Joins<'a> {
    names: &'a Names,
    /// Columns of the WITH queries around, innermost last.
    queries: Vec<HashMap<String, Option<Vec<String>>>>,
}

impl VisitorMut for Joins<'_> {
    type Break = EngineError;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<EngineError> {
        self.queries.push(HashMap::new());
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            self.define(cte);
            let columns = self.query_columns(&cte.query);
            complete(&mut cte.alias, columns);
        }
        let ast::SetExpr::Select(select) = query.body.as_mut() else {
            return ControlFlow::Continue(());
        };
        match self.select(select, &mut query.order_by) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<EngineError> {
        self.queries.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<EngineError> {
        match factor {
            ast::TableFactor::Table {
                name,
                alias: Some(alias),
                args: None,
                ..
            } if !alias.columns.is_empty() => {
                let columns = folded_parts(name).and_then(|parts| self.table_columns(&parts));
                complete(alias, columns);
            }
            ast::TableFactor::Derived {
                subquery,
                alias: Some(alias),
                ..
            } if !alias.columns.is_empty() => {
                let columns = self.query_columns(subquery);
                complete(alias, columns);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<EngineError> {
        // A SELECT of a set operation; those of queries are done.
        match self.select(select, &mut None) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Joins<'_> {
    /// Takes note of a WITH query's columns.
    fn define(&mut self, cte: &ast::Cte) {
        let columns = self.aliased_columns(&cte.alias, &cte.query);
        if let Some(known) = self.queries.last_mut() {
            known.insert(folded(&cte.alias.name), columns);
        }
    }

    fn select(&self, select: &mut ast::Select, order_by: &mut Option<ast::OrderBy>) -> Result<(), EngineError> {
        if !select.from.iter().any(has_merged_columns) {
            return Ok(());
        }
        let mut from = From::default();
        for table in &select.from {
            let Some(one) = self.table_with_joins(table)? else {
                return Ok(());
            };
            from.shown.extend(one.shown);
            from.merged.extend(one.merged);
        }
        for table in &mut select.from {
            self.write_out(table)?;
        }
        show_columns(&mut select.projection, &from);
        let outputs: Vec<String> = select.projection.iter().filter_map(item_name).collect();
        let mut merged = Merged {
            columns: &from.merged,
            depth: 0,
        };
        name_merged(&mut select.projection, &mut merged);
        let _ = select.selection.visit(&mut merged);
        let _ = select.group_by.visit(&mut merged);
        let _ = select.having.visit(&mut merged);
        if let Some(ast::OrderBy {
            kind: ast::OrderByKind::Expressions(keys),
            ..
        }) = order_by
        {
            let is_output = |expr: &Expr| matches!(expr, Expr::Identifier(name) if outputs.contains(&folded(name)));
            for key in keys.iter_mut().filter(|key| !is_output(&key.expr)) {
                let _ = key.expr.visit(&mut merged);
            }
        }
        Ok(())
    }

    /// What a table and its joins give; `None` where that is not known.
    fn table_with_joins(&self, table: &ast::TableWithJoins) -> Result<Option<From>, EngineError> {
        let Some(mut from) = self.factor(&table.relation)? else {
            return Ok(None);
        };
        for join in &table.joins {
            let Some(right) = self.factor(&join.relation)? else {
                return Ok(None);
            };
            from = match merged_names(&join.join_operator, &from, &right) {
                Some(names) => merge(&join.join_operator, &names, from, right)?.0,
                None => together(from, right),
            };
        }
        Ok(Some(from))
    }

    fn write_out(&self, table: &mut ast::TableWithJoins) -> Result<(), EngineError> {
        if let ast::TableFactor::NestedJoin { table_with_joins, .. } = &mut table.relation {
            self.write_out(table_with_joins)?;
        }
        let Some(mut from) = self.factor(&table.relation)? else {
            return Ok(());
        };
        for join in &mut table.joins {
            if let ast::TableFactor::NestedJoin { table_with_joins, .. } = &mut join.relation {
                self.write_out(table_with_joins)?;
            }
            let Some(right) = self.factor(&join.relation)? else {
                return Ok(());
            };
            let Some(names) = merged_names(&join.join_operator, &from, &right) else {
                if let Some(JoinConstraint::On(condition)) = constraint_mut(&mut join.join_operator) {
                    let columns = &from.merged;
                    let _ = condition.visit(&mut Merged { columns, depth: 0 });
                }
                from = together(from, right);
                continue;
            };
            let (merged, condition) = merge(&join.join_operator, &names, from, right)?;
            if let Some(constraint) = constraint_mut(&mut join.join_operator) {
                *constraint = JoinConstraint::On(condition);
            }
            from = merged;
        }
        Ok(())
    }

    fn factor(&self, factor: &ast::TableFactor) -> Result<Option<From>, EngineError> {
        let (name, columns) = match factor {
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => return self.table_with_joins(table_with_joins),
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let Some(parts) = folded_parts(name) else {
                    return Ok(None);
                };
                let own = alias
                    .as_ref()
                    .map(|alias| folded(&alias.name))
                    .or_else(|| parts.last().cloned());
                let columns = self
                    .table_columns(&parts)
                    .map(|columns| renamed(columns, alias.as_ref()));
                (own, columns)
            }
            ast::TableFactor::Derived {
                subquery,
                alias: Some(alias),
                ..
            } => (Some(folded(&alias.name)), self.aliased_columns(alias, subquery)),
            _ => (None, None),
        };
        let (Some(table), Some(columns)) = (name, columns) else {
            return Ok(None);
        };
        let shown = columns.into_iter().map(|name| Shown {
            expr: Expr::CompoundIdentifier(vec![quoted(&table), quoted(&name)]),
            name,
        });
        Ok(Some(From {
            shown: shown.collect(),
            merged: HashMap::new(),
        }))
    }

    fn table_columns(&self, parts: &[String]) -> Option<Vec<String>> {
        if let [name] = parts
            && let Some(columns) = self.queries.iter().rev().find_map(|queries| queries.get(name))
        {
            return columns.clone();
        }
        let (database, name) = match parts {
            [name] => (self.names.database()?, name),
            [database, name] | [_, database, name] => (database.as_str(), name),
            _ => return None,
        };
        if let Some(view) = self.names.definitions().view(database, name) {
            return self.view_columns(view);
        }
        let def = self.names.definitions().collection(database, name)?;
        if self.names.is_open(Some(database), name) {
            return None;
        }
        Some(def.schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    fn view_columns(&self, view: &ViewDef) -> Option<Vec<String>> {
        let ast::Statement::Query(query) = parse_query(&view.sql).ok()? else {
            return None;
        };
        let home = Joins {
            names: &self.names.in_database(&view.database),
            queries: Vec::new(),
        };
        home.query_columns(&query)
    }

    fn aliased_columns(&self, alias: &ast::TableAlias, query: &ast::Query) -> Option<Vec<String>> {
        Some(renamed(self.query_columns(query)?, Some(alias)))
    }

    /// The names of a query's columns, as far as they can be told without planning.
    fn query_columns(&self, query: &ast::Query) -> Option<Vec<String>> {
        if let Some(with) = &query.with {
            let mut inner = Joins {
                names: self.names,
                queries: self.queries.clone(),
            };
            inner.queries.push(HashMap::new());
            for cte in &with.cte_tables {
                inner.define(cte);
            }
            return inner.body_columns(&query.body);
        }
        self.body_columns(&query.body)
    }

    fn body_columns(&self, mut body: &ast::SetExpr) -> Option<Vec<String>> {
        let select = loop {
            body = match body {
                ast::SetExpr::Select(select) => break select,
                ast::SetExpr::SetOperation { left, .. } => left,
                ast::SetExpr::Query(query) => return self.query_columns(query),
                ast::SetExpr::Values(values) => {
                    let width = values.rows.first()?.content.len();
                    return Some((1..=width).map(|at| format!("column{at}")).collect());
                }
                _ => return None,
            };
        };
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                ast::SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                    for table in &select.from {
                        let from = self.table_with_joins(table).ok()??;
                        columns.extend(from.shown.into_iter().map(|shown| shown.name));
                    }
                }
                item => columns.push(shown_name(&item_name(item)?).to_owned()),
            }
        }
        Some(columns)
    }
}

fn has_merged_columns(table: &ast::TableWithJoins) -> bool {
    let nested = |factor: &ast::TableFactor| match factor {
        ast::TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => has_merged_columns(table_with_joins),
        _ => false,
    };
    nested(&table.relation)
        || table.joins.iter().any(|join| {
            nested(&join.relation)
                || matches!(
                    constraint(&join.join_operator),
                    Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
                )
        })
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// The names that a join merges; `None` for a join with ON or without a condition.
fn merged_names(operator: &JoinOperator, left: &From, right: &From) -> Option<Vec<String>> {
    match constraint(operator)? {
        JoinConstraint::Using(names) => names
            .iter()
            .map(|name| folded_parts(name).and_then(|mut parts| parts.pop()))
            .collect(),
        JoinConstraint::Natural => {
            let in_right = |name: &String| right.shown.iter().any(|shown| shown.name == *name);
            let names = left.shown.iter().map(|shown| shown.name.clone());
            Some(names.filter(in_right).collect())
        }
        _ => None,
    }
}

/// The columns of both sides, the merged ones first, and the condition that merges them.
fn merge(operator: &JoinOperator, names: &[String], left: From, right: From) -> Result<(From, Expr), EngineError> {
    let mut merged = left.merged;
    merged.extend(right.merged);
    let mut shown = Vec::with_capacity(left.shown.len() + right.shown.len());
    let mut condition: Option<Expr> = None;
    for name in names {
        let one = only(name, &left.shown)?;
        let other = only(name, &right.shown)?;
        let equal = binary(one.clone(), ast::BinaryOperator::Eq, other.clone());
        condition = Some(match condition {
            Some(condition) => binary(condition, ast::BinaryOperator::And, equal),
            None => equal,
        });
        let expr = match operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => other,
            JoinOperator::FullOuter(_) => {
                let either = [one, other].map(|expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)));
                call("coalesce", either.into())
            }
            _ => one,
        };
        merged.insert(name.clone(), expr.clone());
        shown.push(Shown {
            name: name.clone(),
            expr,
        });
    }
    let rest = left.shown.into_iter().chain(right.shown);
    shown.extend(rest.filter(|column| !names.contains(&column.name)));
    let always = || Expr::value(ast::Value::Boolean(true));
    Ok((From { shown, merged }, condition.unwrap_or_else(always)))
}

fn only(name: &str, columns: &[Shown]) -> Result<Expr, EngineError> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column.expr.clone()),
        (Some(_), Some(_)) => Err(EngineError::plan(format!(
            "column `{name}` of USING stands on one side more than once"
        ))),
        (None, _) => Err(EngineError::plan(format!(
            "column `{name}` of USING does not stand on both sides of the join"
        ))),
    }
}

fn together(left: From, right: From) -> From {
    let mut both = left;
    both.shown.extend(right.shown);
    both.merged.extend(right.merged);
    both
}

/// Names the columns that a shorter list of names leaves out.
fn complete(alias: &mut ast::TableAlias, columns: Option<Vec<String>>) {
    if alias.columns.is_empty() {
        return;
    }
    let rest = columns.into_iter().flatten().skip(alias.columns.len());
    alias.columns.extend(rest.map(|name| ast::TableAliasColumnDef {
        name: quoted(&name),
        data_type: None,
    }));
}

fn renamed(mut columns: Vec<String>, alias: Option<&ast::TableAlias>) -> Vec<String> {
    for (column, new) in columns.iter_mut().zip(alias.iter().flat_map(|alias| &alias.columns)) {
        *column = folded(&new.name);
    }
    columns
}

fn binary(left: Expr, op: ast::BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

/// Writes `*` out.
fn show_columns(projection: &mut Vec<ast::SelectItem>, from: &From) {
    let items = std::mem::take(projection);
    for item in items {
        match item {
            ast::SelectItem::Wildcard(options) if options == ast::WildcardAdditionalOptions::default() => {
                projection.extend(from.shown.iter().map(|shown| match &shown.expr {
                    Expr::CompoundIdentifier(_) => ast::SelectItem::UnnamedExpr(shown.expr.clone()),
                    expr => ast::SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: quoted(&shown.name),
                    },
                }));
            }
            other => projection.push(other),
        }
    }
}

fn name_merged(projection: &mut [ast::SelectItem], merged: &mut Merged<'_>) {
    for item in projection {
        let name = item_name(item);
        let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) = &mut *item else {
            continue;
        };
        let _ = expr.visit(merged);
        if let ast::SelectItem::UnnamedExpr(expr) = &*item
            && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            && let Some(name) = name
        {
            *item = ast::SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: quoted(&name),
            };
        }
    }
}

/// Puts what they stand for in the place of merged columns, in one query and not in those inside it.
struct Merged<'a> {
    columns: &'a HashMap<String, Expr>,
    depth: usize,
}

impl VisitorMut for Merged<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && let Some(column) = self.columns.get(&folded(name))
        {
            *expr = column.clone();
        }
        ControlFlow::Continue(())
    }
}
