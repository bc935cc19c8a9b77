//! Scripts that sort NULLs in another way than PostgreSQL.
//!
//! DuckDB sorts NULLs last, under DESC too, and first after `SET default_null_order = 'nulls_first'`; RisingLight sorts
//! them as the smallest values. Candor sorts them
//! as PostgreSQL does: last, and first under DESC. Where a query leaves the place of NULLs open, the order of its rows
//! says nothing then; where the order decides *which* rows there are, the record is left out.

use super::origins::Nulls;
use super::record::{Query, QueryExpected, Record};

const REASON: &str = "its rows depend on where NULLs are sorted by default, which differs from PostgreSQL";

/// What the order of a query's rows says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// What the query says about it.
    AsSaid,
    /// As said, but some rows from one end may stand at the other: those whose key is a NULL that is not shown.
    Turned,
    /// Nothing.
    Any,
}

/// What the script has said about NULLs so far.
pub(crate) struct NullOrder {
    /// The origin has another default than PostgreSQL.
    differs: bool,
    first: bool,
}

impl NullOrder {
    pub(crate) fn new(nulls: Nulls) -> Self {
        Self {
            differs: nulls != Nulls::Largest,
            first: nulls == Nulls::Smallest,
        }
    }

    /// Takes note of a statement.
    pub(crate) fn note(&mut self, sql: &str) {
        if !self.differs || sql.len() > 200 {
            return;
        }
        let lower = sql.to_ascii_lowercase();
        if lower.contains("default_null_order") || lower.contains("null_order") && lower.contains("pragma") {
            self.first = lower.contains("first");
        }
    }

    /// What the order of the rows says.
    pub(crate) fn row_order(&self, query: &Query) -> RowOrder {
        let QueryExpected::Lines(lines) = &query.expected else {
            return RowOrder::AsSaid;
        };
        let lower = query.sql.to_ascii_lowercase();
        let last = lower.rfind("order by").map_or("", |at| &lower[at..]);
        if !self.sorts_otherwise(last) {
            RowOrder::AsSaid
        } else if lines.iter().any(|line| line.contains("NULL")) {
            RowOrder::Any
        } else {
            RowOrder::Turned
        }
    }

    /// Why a record is left out.
    pub(crate) fn reason(&self, record: &Record) -> Option<String> {
        if record.wants_error() || !self.sorts_otherwise(record.sql()) {
            return None;
        }
        let lower = record.sql().to_ascii_lowercase();
        let chooses = [
            "limit",
            "over (",
            "over(",
            "over w",
            "first(",
            "last(",
            "list(",
            "array_agg(",
            "string_agg(",
        ]
        .iter()
        .any(|word| lower.contains(word));
        let holds_nulls = match &record.action {
            super::record::Action::Query(Query {
                expected: QueryExpected::Lines(lines),
                ..
            }) => lines.iter().any(|line| line.contains("NULL")),
            _ => false,
        };
        (chooses && holds_nulls).then(|| REASON.to_owned())
    }

    /// Whether `sql` sorts, leaves the place of NULLs open, and would have them elsewhere than PostgreSQL.
    fn sorts_otherwise(&self, sql: &str) -> bool {
        if !self.differs {
            return false;
        }
        let lower = sql.to_ascii_lowercase();
        let sorts = lower.contains("order by") && !lower.contains("nulls first") && !lower.contains("nulls last");
        sorts && (self.first || lower.contains("desc"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(sql: &str, lines: &[&str]) -> Query {
        Query {
            sql: sql.to_owned(),
            letters: "I".to_owned(),
            sort: None,
            one_value_a_line: false,
            expected: QueryExpected::Lines(lines.iter().map(|line| (*line).to_owned()).collect()),
        }
    }

    #[test]
    fn only_an_open_place_of_nulls_unsettles_the_order() {
        let mut nulls = NullOrder::new(Nulls::Last);
        let order = |nulls: &NullOrder, sql: &str, lines: &[&str]| nulls.row_order(&query(sql, lines));
        let ascending = "SELECT a FROM t ORDER BY a";
        assert_eq!(order(&nulls, ascending, &["1", "NULL"]), RowOrder::AsSaid);
        assert_eq!(
            order(&nulls, "SELECT a FROM t ORDER BY a DESC", &["1", "NULL"]),
            RowOrder::Any
        );
        nulls.note("SET default_null_order='nulls_first'");
        assert_eq!(order(&nulls, ascending, &["NULL", "1"]), RowOrder::Any);
        assert_eq!(
            order(&nulls, "SELECT a FROM t ORDER BY a NULLS FIRST", &["NULL", "1"]),
            RowOrder::AsSaid
        );
        let inside = "SELECT (SELECT b FROM u ORDER BY b NULLS LAST LIMIT 1) FROM t ORDER BY a";
        assert_eq!(order(&nulls, inside, &["NULL", "1"]), RowOrder::Any);
        assert_eq!(order(&nulls, ascending, &["1"]), RowOrder::Turned);
        let nulls = NullOrder::new(Nulls::Smallest);
        assert_eq!(order(&nulls, ascending, &["NULL", "1"]), RowOrder::Any);
        let nulls = NullOrder::new(Nulls::Largest);
        assert_eq!(order(&nulls, ascending, &["NULL", "1"]), RowOrder::AsSaid);
    }
}
