//! Clauses that SQL has and that mean nothing where they stand: keys that are constants, an order inside a recursion.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Visit as _, Visitor};

use crate::error::ParseError;
use crate::lex::Words;

/// Refuses a text, a truth value, NULL or a fraction in ORDER BY, GROUP BY and DISTINCT ON: a whole number there is the
/// position of a column, and every other constant would sort or group nothing.
pub(super) fn constant_keys(query: &ast::Query, words: &Words<'_>) -> ControlFlow<ParseError> {
    if let Some(ast::OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order_by| &order_by.kind) {
        constant_in(keys.iter().map(|key| &key.expr), "ORDER BY", words)?;
    }
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return ControlFlow::Continue(());
    };
    if let ast::GroupByExpr::Expressions(keys, _) = &select.group_by {
        constant_in(keys.iter(), "GROUP BY", words)?;
    }
    if let Some(ast::Distinct::On(keys)) = &select.distinct {
        constant_in(keys.iter(), "DISTINCT ON", words)?;
    }
    ControlFlow::Continue(())
}

fn constant_in<'a>(
    mut keys: impl Iterator<Item = &'a ast::Expr>,
    clause: &str,
    words: &Words<'_>,
) -> ControlFlow<ParseError> {
    let is_constant = |expr: &&ast::Expr| match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => !digits.bytes().all(|byte| byte.is_ascii_digit()),
            ast::Value::Placeholder(_) => false,
            _ => true,
        },
        _ => false,
    };
    let Some(constant) = keys.find(is_constant) else {
        return ControlFlow::Continue(());
    };
    let clause_words: Vec<&str> = clause.split(' ').collect();
    ControlFlow::Break(ParseError::syntax_help(
        format!("{clause} has the constant {constant}, which is the same for all rows"),
        "write a column, an expression or the position of a column",
        words.locate(&clause_words),
    ))
}

/// Refuses ORDER BY, LIMIT and OFFSET of a WITH query that goes on from its own rows: it has no whole that could be sorted
/// or cut before it ends.
pub(super) fn recursion(with: &ast::With, words: &Words<'_>) -> ControlFlow<ParseError> {
    if !with.recursive {
        return ControlFlow::Continue(());
    }
    for cte in &with.cte_tables {
        let query = &cte.query;
        let ast::SetExpr::SetOperation { right, .. } = query.body.as_ref() else {
            continue;
        };
        let clause = match &query.limit_clause {
            _ if query.order_by.is_some() => "ORDER BY",
            Some(ast::LimitClause::LimitOffset { limit: None, .. }) => "OFFSET",
            Some(_) => "LIMIT",
            None if query.fetch.is_some() => "FETCH",
            None => continue,
        };
        if right.visit(&mut Speaks(&cte.alias.name)).is_break() {
            let clause_words: Vec<&str> = clause.split(' ').collect();
            return ControlFlow::Break(ParseError::unsupported(
                format!("{clause} in the recursive query {}", cte.alias.name),
                format!("write it where {} is read", cte.alias.name),
                words.locate(&clause_words),
            ));
        }
    }
    ControlFlow::Continue(())
}

/// Finds a table by its name.
struct Speaks<'a>(&'a ast::Ident);

impl Visitor for Speaks<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
        match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(part)] if part.value.eq_ignore_ascii_case(&self.0.value) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
