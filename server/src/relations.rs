//! Which collections a statement names: enough to know the range it concerns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use candor_parser::QualifiedName;
use candor_proto::RangeName;
use sqlparser::ast::{Ident, ObjectName, Query, Visit, Visitor};

/// The collections that a statement names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relations {
    /// Namespaces that are spelled out.
    pub(crate) namespaces: BTreeSet<String>,
    /// It names a table of this node's own: `system.…`.
    pub(crate) system: bool,
    /// It names anything else.
    others: bool,
}

impl Relations {
    /// The one collection of this name.
    pub(crate) fn of(name: &QualifiedName) -> Self {
        let mut relations = Self::default();
        relations.add(name.namespace.clone(), name.database.as_deref());
        relations
    }

    /// The collections that a syntax tree names, without the names that its own WITH defines.
    pub(crate) fn in_tree<T: Visit>(tree: &T) -> Self {
        let mut collector = Collector::default();
        let _ = tree.visit(&mut collector);
        let mut relations = Self::default();
        for parts in collector.named {
            match parts.as_slice() {
                [name] if collector.defined.contains(name) => {}
                [_] | [] => relations.add(None, None),
                [database, _] => relations.add(None, Some(database)),
                [namespace, database, ..] => relations.add(Some(namespace.clone()), Some(database)),
            }
        }
        relations
    }

    fn add(&mut self, namespace: Option<String>, database: Option<&str>) {
        if database == Some(RangeName::SYSTEM) && namespace.is_none() {
            self.system = true;
        } else {
            self.others = true;
            self.namespaces.extend(namespace);
        }
    }

    /// It can be answered without any range.
    pub(crate) fn only_local(&self) -> bool {
        !self.others
    }
}

#[derive(Default)]
struct Collector {
    /// Names that a WITH defines somewhere in the statement.
    defined: BTreeSet<String>,
    /// The parts of every relation's name.
    named: Vec<Vec<String>>,
}

impl Visitor for Collector {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(with.map(|cte| folded(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.named
            .push(name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect());
        ControlFlow::Continue(())
    }
}

/// A name as PostgreSQL folds it: lower case unless quoted.
fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use candor_parser::{Body, parse_script};

    use super::*;

    fn of(sql: &str) -> Relations {
        let script = parse_script(sql).expect("a statement");
        let Body::Query(query) = &script.statements[0].body else {
            panic!("{sql} is no query")
        };
        Relations::in_tree(&**query)
    }

    #[test]
    fn a_range_is_asked_only_where_a_collection_is_named() {
        assert!(of("SELECT 1").only_local());
        assert!(of("WITH x AS (SELECT 1 AS a) SELECT * FROM x").only_local());
        assert!(of("SELECT * FROM system.peers").only_local());
        for sql in [
            "SELECT * FROM orders",
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM d.orders)",
            "SELECT * FROM system.peers, orders",
            "WITH x AS (SELECT * FROM orders) SELECT * FROM x",
        ] {
            assert!(!of(sql).only_local(), "{sql}");
        }
    }

    #[test]
    fn a_third_part_names_the_namespace() {
        assert_eq!(
            of("SELECT * FROM shop.main.orders").namespaces,
            BTreeSet::from(["shop".to_owned()])
        );
        assert_eq!(
            of("SELECT * FROM \"Shop\".main.orders").namespaces,
            BTreeSet::from(["Shop".to_owned()])
        );
        assert!(of("SELECT * FROM main.orders").namespaces.is_empty());
    }
}
