//! Counts of a run, and the table they are printed in.

use std::collections::BTreeMap;
use std::fmt;

use super::record::Record;

/// How a record fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// With what came instead.
    Wrong(String),
    /// With the reason.
    Skipped(String),
    /// Not chosen for a sample.
    NotChosen,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) right: u64,
    pub(crate) wrong: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Right => self.right += 1,
            Verdict::Wrong(_) => self.wrong += 1,
            Verdict::Skipped(_) => self.skipped += 1,
            Verdict::NotChosen => {}
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            skipped: self.skipped + other.skipped,
        }
    }

    /// Right ones among those that were sent, in percent.
    fn percent(self) -> Percent {
        Percent(self.right, self.right + self.wrong)
    }
}

struct Percent(u64, u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 == 0 {
            return f.pad("-");
        }
        // Rounded down: 100.0 stands for all of them.
        let tenths = self.0 * 1000 / self.1;
        f.pad(&format!("{}.{} %", tenths / 10, tenths % 10))
    }
}

/// Queries and statements of an origin or of one of its topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) queries: Counts,
    pub(crate) statements: Counts,
}

impl Row {
    fn add(&mut self, record: &Record, verdict: &Verdict) {
        if record.is_query() {
            self.queries.add(verdict);
        } else {
            self.statements.add(verdict);
        }
    }
}

/// What a run of one origin found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) origin: &'static str,
    pub(crate) all: Row,
    pub(crate) topics: BTreeMap<String, Row>,
    /// Records left out, by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Records left out because their script says so for this engine.
    pub(crate) labelled: u64,
    /// Records judged by another answer than the script's, by reason.
    pub(crate) corrected: BTreeMap<String, u64>,
    /// How often the server ended under a record.
    pub(crate) deaths: u64,
    /// Records that were sent.
    pub(crate) sent: u64,
    pub(crate) seconds: f64,
}

impl Tally {
    pub(crate) fn add(&mut self, topic: Option<&str>, record: &Record, verdict: &Verdict) {
        self.all.add(record, verdict);
        if let Some(topic) = topic {
            self.topics.entry(topic.to_owned()).or_default().add(record, verdict);
        }
        match verdict {
            Verdict::Skipped(reason) => {
                *self.reasons.entry(reason.clone()).or_default() += 1;
                self.labelled += u64::from(record.label.is_some());
            }
            Verdict::Right | Verdict::Wrong(_) => {
                self.sent += 1;
                if let Some(reason) = &record.corrected {
                    *self.corrected.entry(reason.clone()).or_default() += 1;
                }
            }
            Verdict::NotChosen => {}
        }
    }
}

/// The table of several origins, and what was left out of each.
pub(crate) struct Table<'a>(pub(crate) &'a [Tally]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {:<26} | {HEAD} | {HEAD} | {:>7} |", "", "of all")?;
        writeln!(
            f,
            "| {:<26} | {:<33} | {:<33} | {:>7} |",
            "origin", "queries", "statements", "right"
        )?;
        writeln!(
            f,
            "|{}|{}|{}|{}:|",
            "-".repeat(28),
            "-".repeat(35),
            "-".repeat(35),
            "-".repeat(8)
        )?;
        for tally in self.0 {
            line(f, tally.origin, &tally.all)?;
            for (topic, row) in &tally.topics {
                line(f, &format!("  {topic}"), row)?;
            }
        }
        for tally in self.0 {
            reasons(f, tally)?;
        }
        Ok(())
    }
}

const HEAD: &str = " right   wrong  left out   right %";

fn line(f: &mut fmt::Formatter<'_>, name: &str, row: &Row) -> fmt::Result {
    let all = row.queries.plus(row.statements);
    writeln!(
        f,
        "| {name:<26} | {} | {} | {:>7} |",
        Columns(row.queries),
        Columns(row.statements),
        all.percent()
    )
}

struct Columns(Counts);

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { right, wrong, skipped } = self.0;
        write!(f, "{right:>6} {wrong:>7} {skipped:>9} {:>8}", self.0.percent())
    }
}

fn reasons(f: &mut fmt::Formatter<'_>, tally: &Tally) -> fmt::Result {
    let all = tally.all.queries.plus(tally.all.statements);
    let total = all.right + all.wrong + all.skipped;
    writeln!(
        f,
        "\n{}: {} records sent in {:.0} s ({:.0} a second); {} of {total} left out, {} of them by a label of the script",
        tally.origin,
        tally.sent,
        tally.seconds,
        tally.sent as f64 / tally.seconds.max(0.001),
        all.skipped,
        tally.labelled,
    )?;
    if tally.deaths > 0 {
        writeln!(f, "  THE SERVER ENDED {} TIMES under a record", tally.deaths)?;
    }
    by_count(f, &tally.reasons)?;
    let corrected: u64 = tally.corrected.values().sum();
    if corrected > 0 {
        writeln!(
            f,
            "  {corrected:>6}  judged by PostgreSQL's answer where the script expects another:"
        )?;
        by_count(f, &tally.corrected)?;
    }
    Ok(())
}

/// The reasons with most records first.
fn by_count(f: &mut fmt::Formatter<'_>, reasons: &BTreeMap<String, u64>) -> fmt::Result {
    let mut reasons: Vec<_> = reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, count) in reasons {
        writeln!(f, "  {count:>6}  {reason}")?;
    }
    Ok(())
}
