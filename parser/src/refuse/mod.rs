//! What sqlparser reads and nobody would honour.
//!
//! sqlparser reads every dialect's clauses, and DataFusion drops some of them without a word: locks, samples, table
//! versions, hints, settings. An answer that ignored a clause is wrong in a way nobody notices, so each is refused
//! here by name, pointing at it. Structs are taken apart field by field, so a clause that a newer sqlparser adds does
//! not compile until somebody has decided about it.

mod alter;
mod clauses;
mod ddl;
mod read;
mod write;

use std::ops::ControlFlow;

use sqlparser::ast::{self, Visit, VisitMut, Visitor};
use sqlparser::tokenizer::Location;

use crate::error::ParseError;
use crate::lex::Words;

pub(crate) use alter::{alter_table, create_index};
pub(crate) use ddl::{create_table, create_view};
pub(crate) use write::{is_write, write};

/// Checks a statement that has to be a query, and brings FETCH FIRST into the form of LIMIT.
///
/// # Errors
/// [`ParseError::Unsupported`] for each clause that would be ignored.
pub(crate) fn query(mut statement: ast::Statement, words: &Words<'_>) -> Result<ast::Statement, ParseError> {
    if !matches!(statement, ast::Statement::Query(_)) {
        return Err(ParseError::syntax("a query is expected here", words.whole()));
    }
    reads(&mut statement, words)?;
    Ok(statement)
}

/// Checks every query inside anything.
fn reads(node: &mut impl VisitMut, words: &Words<'_>) -> Result<(), ParseError> {
    flow(node.visit(&mut read::Reads { words }))
}

fn flow(flow: ControlFlow<ParseError>) -> Result<(), ParseError> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Checks joins that stand outside a SELECT.
fn joins(tables: &[ast::TableWithJoins], words: &Words<'_>) -> Result<(), ParseError> {
    flow(tables.iter().try_for_each(|table| read::Reads { words }.joins(table)))
}

/// Whether the word at `location` is an alias without AS.
pub(crate) fn is_bare_alias(statement: &ast::Statement, location: Location) -> bool {
    struct Aliases(Location);
    impl Visitor for Aliases {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
            let alias = match factor {
                ast::TableFactor::Table { alias, .. }
                | ast::TableFactor::Derived { alias, .. }
                | ast::TableFactor::TableFunction { alias, .. }
                | ast::TableFactor::Function { alias, .. }
                | ast::TableFactor::UNNEST { alias, .. }
                | ast::TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
                _ => None,
            };
            match alias {
                Some(alias) if !alias.explicit && alias.name.span.start == self.0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
        fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<()> {
            let found = select
                .projection
                .iter()
                .any(|item| matches!(item, ast::SelectItem::ExprWithAlias { alias, .. } if alias.span.start == self.0));
            if found {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    statement.visit(&mut Aliases(location)).is_break()
}
