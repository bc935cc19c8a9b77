//! Which rows began and ended at which version.
//!
//! Row ids are given in the order of the log, so the rows that had begun at a version are exactly those below some
//! number: one step per transaction says which, and no row needs a begin version of its own.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The state of a table after one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The version of that transaction.
    pub(crate) version: u64,
    /// Rows that had begun by then: ids below this number.
    pub(crate) rows: u64,
    /// Rows that had ended by then.
    pub(crate) ended: u64,
}

/// The steps of a table, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    steps: VecDeque<Step>,
    /// Ids of ended rows in the order they ended; the first of them is the `forgotten`th of all.
    ended: VecDeque<u64>,
    forgotten: u64,
}

impl History {
    /// The state at `version`: that of the last step at or before it. Before the oldest step kept: nothing.
    pub(crate) fn at(&self, version: u64) -> Step {
        match self.steps.back() {
            Some(newest) if newest.version <= version => *newest,
            _ => {
                let after = self.steps.partition_point(|step| step.version <= version);
                after
                    .checked_sub(1)
                    .map_or_else(Step::default, |place| self.steps[place])
            }
        }
    }

    /// The rows that began, and those that ended, at exactly `version`.
    pub(crate) fn changes(&self, version: u64) -> (Range<u64>, Vec<u64>) {
        let now = self.at(version);
        if now.version != version {
            return (now.rows..now.rows, Vec::new());
        }
        let before = self.at(version.saturating_sub(1));
        let from = before.ended.max(self.forgotten) - self.forgotten;
        let ended = self.ended.range(from as usize..(now.ended - self.forgotten) as usize);
        (before.rows..now.rows, ended.copied().collect())
    }

    /// Whether steps and ended rows, which were read from somewhere, fit together.
    pub(crate) fn holds_together(&self) -> bool {
        let grows = |(before, after): (&Step, &Step)| {
            before.version < after.version && before.rows <= after.rows && before.ended <= after.ended
        };
        let newest = self.at(u64::MAX);
        self.steps.iter().zip(self.steps.iter().skip(1)).all(grows)
            && newest.ended <= newest.rows
            && self.forgotten + self.ended.len() as u64 == newest.ended
            && self.steps.front().is_none_or(|oldest| oldest.ended >= self.forgotten)
            && self.ended.iter().all(|row| *row < newest.rows)
    }

    /// Adds a step: `begun` new rows, and these rows ended.
    pub(crate) fn push(&mut self, version: u64, begun: u64, ended: &[u64]) {
        let before = self.at(u64::MAX);
        assert!(before.version < version, "versions grow");
        self.ended.extend(ended);
        self.steps.push_back(Step {
            version,
            rows: before.rows + begun,
            ended: before.ended + ended.len() as u64,
        });
    }

    /// Forgets what no version from `horizon` on needs.
    pub(crate) fn forget_before(&mut self, horizon: u64) {
        while self.steps.get(1).is_some_and(|step| step.version <= horizon) {
            self.steps.pop_front();
        }
        let Some(oldest) = self.steps.front() else { return };
        if oldest.version <= horizon {
            let gone = oldest.ended - self.forgotten;
            self.ended.drain(..gone as usize);
            self.forgotten = oldest.ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> History {
        let mut history = History::default();
        history.push(3, 10, &[]);
        history.push(5, 2, &[1, 4]);
        history.push(9, 0, &[11]);
        history
    }

    #[test]
    fn each_version_sees_the_last_step_before_it() {
        let history = filled();
        let at = |version| {
            let step = history.at(version);
            (step.rows, step.ended)
        };
        assert_eq!(
            [at(2), at(3), at(4), at(5), at(8), at(9), at(99)],
            [(0, 0), (10, 0), (10, 0), (12, 2), (12, 2), (12, 3), (12, 3)]
        );
        assert_eq!(history.changes(3), (0..10, vec![]));
        assert_eq!(history.changes(5), (10..12, vec![1, 4]));
        assert_eq!(history.changes(9), (12..12, vec![11]));
        assert_eq!(history.changes(6), (12..12, vec![]));
    }

    #[test]
    fn the_horizon_takes_only_what_no_version_needs() {
        for horizon in 0..12 {
            let mut history = filled();
            history.forget_before(horizon);
            for version in horizon..12 {
                assert_eq!(history.at(version), filled().at(version), "{version} of {horizon}");
            }
            for version in horizon + 1..12 {
                assert_eq!(
                    history.changes(version),
                    filled().changes(version),
                    "{version} of {horizon}"
                );
            }
        }
    }
}
