//! The line under an answer: how many rows, how long it took, who answered from how old a copy.

use std::fmt::Write;
use std::time::Duration;

use candor_client::{Answer, Hop, StatementResult};
use candor_proto::{Receipt, Role};

use super::commands::verb;

/// What the footer says, for example `3 rows  12 ms  answered by n2 (follower), 1.4 s behind, bound 30 s`.
pub(crate) fn footer(result: &StatementResult, shown: usize, answer: &Answer, asked: Asked<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(count) = count(result, shown, asked.statement) {
        parts.push(count);
    }
    parts.push(elapsed_text(answer.elapsed));
    if let Some(receipt) = &result.receipt {
        parts.push(answered(receipt, result.rows_affected.is_some()));
    }
    if let Some(route) = route(asked.from, &answer.hops) {
        parts.push(route);
    }
    parts.join("  ")
}

/// What was asked, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) statement: &'a str,
    /// The node that it was sent to first.
    pub(crate) from: Option<&'a str>,
}

fn count(result: &StatementResult, shown: usize, statement: &str) -> Option<String> {
    if result.columns.is_empty() {
        // Definitions count no rows; a write that found none to change does.
        let counted = result
            .rows_affected
            .filter(|count| *count > 0 || changes_rows(statement));
        return counted.map(|count| format!("{} written", plural(count, "row")));
    }
    let mut text = plural(result.rows.len() as u64, "row");
    if shown < result.rows.len() {
        let _ = write!(text, " ({shown} shown, `\\set rows all` shows every one)");
    }
    Some(text)
}

/// Whether a statement's count of rows means something when it is 0.
fn changes_rows(statement: &str) -> bool {
    let verb = verb(statement).to_uppercase();
    ["INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "TRUNCATE", "WITH"].contains(&verb.as_str())
}

/// `1 row`, `2 rows`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

fn answered(receipt: &Receipt, wrote: bool) -> String {
    let mut text = format!("{} by {}", if wrote { "written" } else { "answered" }, receipt.node);
    match receipt.role {
        Some(Role::Leader) => text.push_str(" (leader)"),
        Some(Role::Follower) => text.push_str(" (follower)"),
        None => {}
    }
    if receipt.role == Some(Role::Follower) {
        match receipt.copy_age_ms {
            Some(age) => {
                let _ = write!(text, ", {} behind", age_text(Duration::from_millis(age)));
            }
            None => text.push_str(", age unknown"),
        }
    }
    if let Some(bound) = receipt.bound_ms {
        let _ = write!(text, ", bound {}", span_text(Duration::from_millis(bound)));
    }
    text
}

/// `redirected n2 -> n1`, if it was.
pub(crate) fn route(from: Option<&str>, hops: &[Hop]) -> Option<String> {
    if hops.is_empty() {
        return None;
    }
    let mut nodes: Vec<&str> = from.into_iter().collect();
    nodes.extend(hops.iter().map(|hop| hop.node.as_str()));
    Some(format!("redirected {}", nodes.join(" -> ")))
}

/// A measured time: whole milliseconds, then seconds with two digits, then minutes.
pub(crate) fn elapsed_text(elapsed: Duration) -> String {
    let millis = elapsed.as_millis();
    if millis < 1000 {
        format!("{millis} ms")
    } else if millis < 60_000 {
        format!("{:.2} s", elapsed.as_secs_f64())
    } else {
        format!("{} min {} s", millis / 60_000, millis / 1000 % 60)
    }
}

/// An upper bound on an age, rounded up to a tenth of a second so that it stays one.
pub(crate) fn age_text(age: Duration) -> String {
    let tenths = age.as_millis().div_ceil(100);
    if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        span_text(Duration::from_secs(age.as_millis().div_ceil(1000) as u64))
    }
}

/// A span that somebody named, exactly: `30 s`, `1 min 30 s`, `250 ms`.
pub(crate) fn span_text(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let mut rest = millis;
    let mut parts = Vec::new();
    for (unit, size) in units {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            parts.push(format!("{count} {unit}"));
        }
    }
    if parts.is_empty() {
        "0 ms".to_owned()
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use candor_proto::{Epoch, LogIndex, NodeName, RangeName};

    use super::*;

    fn receipt(role: Role, age: Option<u64>, bound: Option<u64>) -> Receipt {
        Receipt {
            node: NodeName::new("n2"),
            role: Some(role),
            range: Some(RangeName::new("main")),
            epoch: Epoch(1),
            version: LogIndex(7),
            copy_age_ms: age,
            bound_ms: bound,
        }
    }

    #[test]
    fn a_follower_says_how_far_behind_it_may_be_and_which_bound_was_asked_for() {
        assert_eq!(
            answered(&receipt(Role::Follower, Some(1400), Some(30_000)), false),
            "answered by n2 (follower), 1.4 s behind, bound 30 s"
        );
        assert_eq!(
            answered(&receipt(Role::Follower, None, None), false),
            "answered by n2 (follower), age unknown"
        );
        assert_eq!(
            answered(&receipt(Role::Leader, Some(0), None), true),
            "written by n2 (leader)"
        );
    }

    #[test]
    fn ages_are_rounded_up_because_they_are_upper_bounds() {
        assert_eq!(age_text(Duration::from_millis(0)), "0.0 s");
        assert_eq!(age_text(Duration::from_millis(1)), "0.1 s");
        assert_eq!(age_text(Duration::from_millis(1401)), "1.5 s");
        assert_eq!(age_text(Duration::from_millis(89_001)), "1 min 30 s");
    }

    #[test]
    fn spans_are_exact() {
        assert_eq!(span_text(Duration::from_secs(30)), "30 s");
        assert_eq!(span_text(Duration::from_secs(90)), "1 min 30 s");
        assert_eq!(span_text(Duration::from_millis(250)), "250 ms");
        assert_eq!(span_text(Duration::ZERO), "0 ms");
    }
}
