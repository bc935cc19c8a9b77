//! WITH queries of one name inside each other: the inner one hides the outer. DataFusion refuses the second name, so it
//! gets another one before planning.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{self, VisitMut as _, VisitorMut};

use crate::prepare::{folded, quoted};

/// Gives each WITH query that has the name of another one a name of its own.
pub(crate) fn tell_with_queries_apart(statement: &mut ast::Statement) {
    let mut names = Names(HashMap::new());
    let _ = statement.visit(&mut names);
    names.0.retain(|_, count| *count > 1);
    if !names.0.is_empty() {
        let _ = statement.visit(&mut Apart {
            left: names.0,
            number: 0,
        });
    }
}

struct Names(HashMap<String, usize>);

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let of_query: Vec<String> = query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .map(|cte| folded(&cte.alias.name))
            .collect();
        for (at, name) in of_query.iter().enumerate() {
            // Two of one WITH are for the planner to refuse.
            if of_query[..at].contains(name) {
                self.0.clear();
                return ControlFlow::Break(());
            }
            *self.0.entry(name.clone()).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

struct Apart {
    /// How many WITH queries of each name have not been reached; the last one keeps it.
    left: HashMap<String, usize>,
    number: usize,
}

impl VisitorMut for Apart {
    type Break = ();

    /// From the inside: what is inside has its own names already, so that every other use of a name is of this one.
    fn post_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let Some(with) = query.with.as_mut() else {
            return ControlFlow::Continue(());
        };
        let recursive = with.recursive;
        for at in 0..with.cte_tables.len() {
            let name = folded(&with.cte_tables[at].alias.name);
            match self.left.get_mut(&name) {
                Some(left) if *left > 1 => *left -= 1,
                _ => continue,
            }
            self.number += 1;
            let mut renamed = Renamed {
                from: &name,
                to: format!("{name}\0{}", self.number),
            };
            let first_use = if recursive { at } else { at + 1 };
            for cte in &mut with.cte_tables[first_use..] {
                let _ = cte.query.visit(&mut renamed);
            }
            with.cte_tables[at].alias.name = quoted(&renamed.to);
            let _ = query.body.visit(&mut renamed);
            let _ = query.order_by.visit(&mut renamed);
            let _ = query.limit_clause.visit(&mut renamed);
        }
        ControlFlow::Continue(())
    }
}

struct Renamed<'a> {
    from: &'a str,
    to: String,
}

impl VisitorMut for Renamed<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
            && let [ast::ObjectNamePart::Identifier(part)] = name.0.as_mut_slice()
            && folded(part) == self.from
        {
            let shown = std::mem::replace(part, quoted(&self.to));
            alias.get_or_insert_with(|| ast::TableAlias {
                explicit: true,
                name: shown,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}
