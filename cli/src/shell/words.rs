//! The keywords that the shell colours and completes. Nothing here is reserved: the parser decides.

/// Upper case, sorted.
pub(crate) const KEYWORDS: &[&str] = &[
    "ALL", "ALTER", "ANALYZE", "AND", "ANSWERED", "ANY", "AS", "ASC", "AT", "BEGIN", "BETWEEN", "BIGINT", "BOOLEAN", "BY",
    "BYTEA", "CASE", "CAST", "CHECK", "CLIENTS", "COLLECTION", "COMMIT", "CONFLICT", "COORDINATING", "COPY", "CREATE",
    "CROSS", "DATABASE", "DATE", "DEFAULT", "DEFINE", "DELETE", "DESC", "DISTINCT", "DO", "DOUBLE", "DROP", "ELSE", "END",
    "EXCEPT", "EXISTS", "EXPLAIN", "FALSE", "FETCH", "FILTER", "FIRST", "FOR", "FORMAT", "FROM", "FULL", "GROUP", "HAVING",
    "HTTP", "IF", "ILIKE", "IN", "INFO", "INNER", "INSERT", "INTEGER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "KEY",
    "LAST", "LATERAL", "LEADER", "LEAST", "LEFT", "LIKE", "LIMIT", "MERGE", "NAMESPACE", "NODE", "NOT", "NOTHING", "NULL",
    "NULLS", "NUMERIC", "OFFSET", "ON", "ONLY", "OR", "ORDER", "OUTER", "OVER", "OVERWRITE", "PARTITION", "PRECISION",
    "PRIMARY", "READ", "READABLE", "REAL", "REGION", "REMOVE", "REPLICA", "RESET", "RETURN", "RETURNING", "RIGHT", "ROLES",
    "ROLLBACK", "ROOT", "ROUTE", "SELECT", "SET", "SHOW", "SMALLINT", "STALENESS", "TABLE", "TEXT", "THEN", "TIME",
    "TIMESTAMP", "TIMESTAMPTZ", "TO", "TRUE", "TRUNCATE", "UNION", "UNIQUE", "UPDATE", "USE", "USING", "VALUES", "VARCHAR",
    "VERSION", "VIEW", "WAIT", "WHEN", "WHERE", "WINDOW", "WITH", "WRITABLE",
];

/// Whether `word` is one of them, in any case.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search(&word.to_ascii_uppercase().as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_so_that_it_can_be_searched() {
        assert!(KEYWORDS.is_sorted());
        assert!(is_keyword("staleness") && is_keyword("Select") && !is_keyword("orders"));
    }
}
