//! What was acknowledged, refused and left open, and what must therefore be there at the end.

use std::time::Duration;

use super::clients::TOTAL;
use super::history::{self, Transaction};

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// It had no effect.
    Refused,
    /// No answer came: whole or not at all.
    Unknown,
}

/// How many writes of one kind ended how.
#[derive(Debug, Default)]
pub(super) struct Count {
    done: i64,
    refused: i64,
    unknown: i64,
}

impl Count {
    pub(super) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.done += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }

    /// Each that was acknowledged has taken effect once, each that was refused not at all.
    fn check(&self, what: &str, found: i64) {
        assert!(
            (self.done..=self.done + self.unknown).contains(&found),
            "{what}: {found} found, {self:?}"
        );
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} done, {} refused, {} unknown",
            self.done, self.refused, self.unknown
        )
    }
}

/// What is there at the end.
#[derive(Debug)]
pub(super) struct Finals {
    pub(super) total: i64,
    /// Rows, different ids, different names.
    pub(super) tallies: (i64, i64, i64),
    pub(super) tallied: i64,
    pub(super) counters: Vec<i64>,
    pub(super) lists: Vec<Vec<String>>,
}

/// The books of all clients.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) transfers: Count,
    pub(super) upserts: Count,
    pub(super) counts: [Count; 2],
    pub(super) appends: Count,
    pub(super) looks: u64,
    pub(super) history: Vec<Transaction>,
}

impl Books {
    pub(super) fn check(&self, finals: &Finals) {
        assert_eq!(finals.total, TOTAL, "money was made or lost");
        let (rows, ids, names) = finals.tallies;
        assert_eq!((rows, rows), (ids, names), "a unique key stands twice");
        self.upserts.check("upserts", finals.tallied);
        for (count, found) in self.counts.iter().zip(&finals.counters) {
            count.check("a counter", *found);
        }
        history::check(&self.history, &finals.lists);
    }

    pub(super) fn summary(&self, time: Duration) -> String {
        format!(
            "in {time:?}: transfers {}; upserts {}; counts {} and {}; appending transactions {}; {} looks",
            self.transfers, self.upserts, self.counts[0], self.counts[1], self.appends, self.looks
        )
    }
}
