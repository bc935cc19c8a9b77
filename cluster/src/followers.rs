//! What a leader knows about those who collect from it, without ever calling them.
//!
//! A pure table per led range: `now` is an argument. Each ask records where the follower stands, also when it is
//! level and receives nothing, and also when it stands earlier than before: asking backwards is what recovering
//! looks like, and a high-water mark would hide it. Nothing is persisted: after a restart the table is empty until
//! somebody asks.
//!
//! **Copy age.** Once per awareness interval the leader dates its confirmed tail: at instant `t` it asked for a proof
//! of leadership, which returned tail `T`, so everything committed before `t` is at or below `T`. A follower at
//! position `p` therefore lacks nothing committed before the newest dated `t` whose `T` is at or below `p`: its copy
//! is at most `now − t` old. The first entry it lacks is at or below the next dated tail, hence was committed before
//! that next instant, so the figure overstates by at most one interval (and the time a proof takes) and never
//! understates. Where no dated tail is at or below `p` there is no bound, which is not zero.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use candor_proto::{LogIndex, NodeName, Position, RangeName};

/// Dated tails kept per range: with the default interval and a write in each, more than an hour. A follower older
/// than all of them has no copy age.
const DATED_MAX: usize = 4096;

/// Followers kept per range; the quietest is forgotten first.
const FOLLOWERS_MAX: usize = 1024;

/// One follower of one range, as `system.followers` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerRow {
    /// Who collects.
    pub node: NodeName,
    /// Which range.
    pub range: RangeName,
    /// Where its latest ask said it stands.
    pub position: Position,
    /// Entries it has not collected yet.
    pub behind_entries: u64,
    /// Their size in the log, bytes.
    pub behind_bytes: u64,
    /// Time since its latest ask, also an empty one.
    pub quiet_for: Duration,
    /// Upper bound on the age of its copy; `None` is beyond every bound.
    pub copy_age: Option<Duration>,
}

/// The followers of one led range.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    rows: BTreeMap<NodeName, Row>,
    /// Instants with the tail that was confirmed after each, both ascending, one instant per tail: the newest.
    dated: VecDeque<(Duration, LogIndex)>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    position: Position,
    asked_at: Duration,
}

impl Followers {
    /// `node` asked from `position`.
    pub(crate) fn handle_ask(&mut self, now: Duration, node: &NodeName, position: Position) {
        if !self.rows.contains_key(node) && self.rows.len() >= FOLLOWERS_MAX {
            let quietest = self.rows.iter().min_by_key(|(_, row)| row.asked_at);
            if let Some(quietest) = quietest.map(|(name, _)| name.clone()) {
                self.rows.remove(&quietest);
            }
        }
        let row = Row {
            position,
            asked_at: now,
        };
        self.rows.insert(node.clone(), row);
    }

    /// A proof of leadership asked for at `asked_at` returned `tail`.
    pub(crate) fn handle_dated(&mut self, asked_at: Duration, tail: LogIndex) {
        if let Some((instant, newest)) = self.dated.back_mut() {
            // Proofs of one leader come in order; one that does not tells nothing new.
            if asked_at <= *instant || tail < *newest {
                return;
            }
            if tail == *newest {
                *instant = asked_at;
                return;
            }
        }
        if self.dated.len() == DATED_MAX {
            self.dated.pop_front();
        }
        self.dated.push_back((asked_at, tail));
    }

    /// Upper bound on the age of a copy that ends at `position`.
    pub(crate) fn copy_age(&self, now: Duration, position: Position) -> Option<Duration> {
        let beyond = self.dated.partition_point(|(_, tail)| *tail <= position.index);
        let (instant, _) = self.dated.get(beyond.checked_sub(1)?)?;
        Some(now.saturating_sub(*instant))
    }

    /// The table at `now`, when the log ends at `tail`; `bytes` measures the log between two indexes.
    pub(crate) fn rows(
        &self,
        now: Duration,
        range: &RangeName,
        tail: LogIndex,
        bytes: impl Fn(LogIndex, LogIndex) -> u64,
    ) -> Vec<FollowerRow> {
        self.rows
            .iter()
            .map(|(node, row)| FollowerRow {
                node: node.clone(),
                range: range.clone(),
                position: row.position,
                behind_entries: tail.0.saturating_sub(row.position.index.0),
                behind_bytes: bytes(row.position.index, tail),
                quiet_for: now.saturating_sub(row.asked_at),
                copy_age: self.copy_age(now, row.position),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use candor_proto::Epoch;
    use proptest::prelude::*;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);

    fn at(index: u64) -> Position {
        Position::new(Epoch(1), LogIndex(index))
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn row(table: &Followers, now: Duration, tail: u64) -> FollowerRow {
        let rows = table.rows(now, &RangeName::new("main"), LogIndex(tail), |from, to| {
            10 * (to.0 - from.0)
        });
        assert_eq!(rows.len(), 1);
        rows.into_iter().next().expect("one row")
    }

    #[test]
    fn s63_s64_a_row_has_position_behind_quiet_for_and_copy_age() {
        let mut table = Followers::default();
        table.handle_dated(s(1), LogIndex(5));
        table.handle_ask(s(2), &NodeName::new("n2"), at(5));
        let row = row(&table, s(9), 8);
        assert_eq!((row.position, row.behind_entries, row.behind_bytes), (at(5), 3, 30));
        assert_eq!((row.quiet_for, row.copy_age), (s(7), Some(s(8))));
    }

    #[test]
    fn s65_s70_a_level_follower_that_asks_and_receives_nothing_stays_fresh_and_is_not_quiet() {
        let mut table = Followers::default();
        for second in 1..=30 {
            table.handle_dated(s(second), LogIndex(5));
            table.handle_ask(s(second), &NodeName::new("n2"), at(5));
            let row = row(&table, s(second), 5);
            assert_eq!((row.quiet_for, row.copy_age), (s(0), Some(s(0))));
        }
        // Thirty dates of one tail take the room of one.
        assert_eq!(table.dated.len(), 1);
    }

    #[test]
    fn s68_a_copy_older_than_everything_dated_has_no_age_and_not_zero() {
        let mut table = Followers::default();
        table.handle_dated(s(1), LogIndex(5));
        table.handle_ask(s(1), &NodeName::new("n2"), at(4));
        assert_eq!(row(&table, s(1), 5).copy_age, None);
        for index in 6..6 + 2 * DATED_MAX as u64 {
            table.handle_dated(s(index), LogIndex(index));
        }
        assert_eq!(table.dated.len(), DATED_MAX);
        assert_eq!(table.copy_age(s(99_999), at(5)), None, "its date was forgotten");
    }

    #[test]
    fn s69_nobody_has_an_age_before_the_first_date() {
        let mut table = Followers::default();
        table.handle_ask(s(0), &NodeName::new("n2"), at(5));
        assert_eq!(row(&table, s(0), 5).copy_age, None);
    }

    #[test]
    fn s71_an_ask_from_an_earlier_position_is_recorded_there() {
        let mut table = Followers::default();
        table.handle_dated(s(1), LogIndex(3));
        table.handle_dated(s(2), LogIndex(9));
        table.handle_ask(s(3), &NodeName::new("n2"), at(9));
        table.handle_ask(s(4), &NodeName::new("n2"), at(3));
        let row = row(&table, s(4), 9);
        assert_eq!((row.position, row.behind_entries, row.copy_age), (at(3), 6, Some(s(3))));
    }

    #[test]
    fn the_quietest_of_too_many_followers_is_forgotten() {
        let mut table = Followers::default();
        for n in 0..=FOLLOWERS_MAX as u64 {
            table.handle_ask(s(n), &NodeName::new(format!("n{n}")), at(1));
        }
        assert_eq!(table.rows.len(), FOLLOWERS_MAX);
        assert!(!table.rows.contains_key(&NodeName::new("n0")));
    }

    proptest! {
        /// S66: against a log whose commit instants are known, for a follower anywhere in it.
        #[test]
        fn s66_copy_age_never_understates_and_overstates_by_at_most_one_interval(
            gaps_ms in prop::collection::vec(0u64..2500, 1..60),
            proof_ms in 0u64..50,
            position in 0u64..60,
            pause_ms in 0u64..3000,
        ) {
            let mut commits = Vec::new();
            let mut now = Duration::ZERO;
            for gap in &gaps_ms {
                now += Duration::from_millis(*gap);
                commits.push(now);
            }
            now += Duration::from_millis(pause_ms);
            let mut table = Followers::default();
            let proof = Duration::from_millis(proof_ms);
            let mut date = INTERVAL;
            while date + proof <= now {
                // The tail is read while the proof is on its way: later than asked, earlier than answered.
                let tail = commits.iter().filter(|commit| **commit <= date + proof).count() as u64;
                table.handle_dated(date, LogIndex(tail));
                date += INTERVAL;
            }
            let position = position.min(commits.len() as u64);
            let true_age = commits.get(position as usize).map_or(Duration::ZERO, |missing| now.saturating_sub(*missing));
            if let Some(age) = table.copy_age(now, at(position)) {
                prop_assert!(age >= true_age, "understated: {age:?} < {true_age:?}");
                prop_assert!(age <= true_age + INTERVAL + proof, "overstated: {age:?} > {true_age:?} + 1 interval");
            } else {
                let first = commits.iter().filter(|commit| **commit <= INTERVAL + proof).count() as u64;
                prop_assert!(now < INTERVAL + proof || position < first);
            }
        }
    }
}
