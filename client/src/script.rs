//! The little that a client must know about a script: may it write, and does it open or end a transaction.
//!
//! Not a parser: it skips quoted text and comments and looks at the words that are left. Where it cannot tell, it says
//! what is safe: a script that it does not know may write, so it is never sent twice.

/// Words that may begin a statement that only reads.
const READS: [&str; 13] = [
    "select", "with", "values", "table", "show", "explain", "info", "return", "use", "set", "reset", "begin", "start",
];

/// Words that make a statement a write, wherever they stand in it.
const WRITES: [&str; 7] = ["insert", "update", "delete", "merge", "truncate", "into", "analyze"];

/// Words that begin a statement about the transaction itself.
const TRANSACTION: [&str; 8] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
];

/// Words that begin a statement that may be run again without a second effect.
const HARMLESS: [&str; 4] = ["use", "set", "reset", "show"];

/// Whether the script may change something. `false` only if every statement is known to read.
pub(crate) fn may_write(script: &str) -> bool {
    let reads = |words: &Vec<String>| {
        READS.contains(&words[0].as_str()) && !words.iter().any(|word| WRITES.contains(&word.as_str()))
    };
    !statements(script).iter().all(reads)
}

/// Whether running the script again from its start repeats exactly the transaction that it leaves open: nothing before
/// `BEGIN` has an effect of its own, and nothing after it ends the transaction.
pub(crate) fn opens_replayable_transaction(script: &str) -> bool {
    let statements = statements(script);
    let mut rest = statements
        .iter()
        .skip_while(|words| HARMLESS.contains(&words[0].as_str()));
    let opens = rest
        .next()
        .is_some_and(|words| matches!(words[0].as_str(), "begin" | "start"));
    opens && rest.all(|words| !TRANSACTION.contains(&words[0].as_str()))
}

/// Whether the script, run inside an open transaction, leaves exactly that transaction open.
pub(crate) fn stays_in_transaction(script: &str) -> bool {
    statements(script)
        .iter()
        .all(|words| !TRANSACTION.contains(&words[0].as_str()))
}

/// The words of each statement that has any, in lower case, without quoted text and comments.
fn statements(script: &str) -> Vec<Vec<String>> {
    let mut statements = vec![Vec::new()];
    let mut rest = script;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ';' => {
                statements.push(Vec::new());
                1
            }
            '\'' | '"' => quoted(rest, first),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '$' => dollar_quoted(rest),
            _ if first == '_' || first.is_alphabetic() => {
                let word: String = rest.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect();
                let length = word.len();
                if let Some(words) = statements.last_mut() {
                    words.push(word.to_lowercase());
                }
                length
            }
            _ => first.len_utf8(),
        };
        rest = &rest[length..];
    }
    statements.retain(|words| !words.is_empty());
    statements
}

/// Length of a quoted stretch; a doubled quote is two stretches side by side, which comes to the same.
fn quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

/// Length of a block comment; they nest, as in PostgreSQL.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of `$tag$ … $tag$`, or of the lone `$` of a parameter.
fn dollar_quoted(text: &str) -> usize {
    let Some(tag_end) = text[1..].find('$') else { return 1 };
    let tag = &text[..tag_end + 2];
    let name = &tag[1..tag.len() - 1];
    if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(|c| c == '_' || c.is_alphanumeric()) {
        return 1;
    }
    text[tag.len()..]
        .find(tag)
        .map_or(text.len(), |end| end + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_that_are_known_to_read_may_be_sent_twice() {
        for reads in [
            "SELECT 1",
            "select 'insert into t', \"delete\" -- update\n from t /* merge /* into */ truncate */",
            "WITH a AS (SELECT 1) SELECT * FROM a STALENESS 30s; TABLE t; VALUES (1);;",
            "SELECT $$ delete $$, $q$; drop table t $q$ WHERE a = $1 AND b = $2",
            "EXPLAIN (ROUTE) SELECT 1; INFO FOR NODE; RETURN session::context(); USE NAMESPACE a; SET staleness = '5s'",
            "",
        ] {
            assert!(!may_write(reads), "{reads}");
        }
        for writes in [
            "INSERT INTO t VALUES (1)",
            "SELECT 1; DROP TABLE t",
            "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
            "SELECT * INTO u FROM t",
            "COMMIT",
            "DEFINE COLLECTION x",
            "select 'it''s'; copy t from 'x'",
            "something new",
        ] {
            assert!(may_write(writes), "{writes}");
        }
    }

    #[test]
    fn a_transaction_is_replayable_if_its_scripts_hold_nothing_else() {
        for yes in [
            "BEGIN",
            "start transaction; insert into t values (1)",
            "USE NAMESPACE a; BEGIN READ ONLY; SELECT 1;",
        ] {
            assert!(opens_replayable_transaction(yes), "{yes}");
        }
        for no in [
            "INSERT INTO t VALUES (1); BEGIN",
            "BEGIN; COMMIT; BEGIN",
            "SELECT 1",
            "BEGIN; SAVEPOINT a",
        ] {
            assert!(!opens_replayable_transaction(no), "{no}");
        }
        assert!(stays_in_transaction("INSERT INTO t VALUES ('commit'); SELECT 1"));
        assert!(!stays_in_transaction("INSERT INTO t VALUES (1); COMMIT; BEGIN"));
    }

    #[test]
    fn unfinished_quotes_and_comments_end_with_the_text() {
        for text in ["'", "\"", "/*", "/* é", "$a$ é", "$", "$é", "é'é", "--", "-", "/"] {
            assert!(statements(text).len() <= 1, "{text}");
        }
    }
}
