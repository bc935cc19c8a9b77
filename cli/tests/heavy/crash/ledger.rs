//! What was sent, what was acknowledged, and what became of the rest.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

/// What is known about one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Sent; no answer came. Whole or nothing, as the next start shows.
    Unknown,
    /// Acknowledged, or found after a crash: there for ever.
    Kept,
    /// Not found after a crash: gone for ever.
    Lost,
}

/// One insert of the rows with these keys.
#[derive(Debug)]
struct Batch {
    keys: Range<u64>,
    fate: Fate,
}

/// The books of all writers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    batches: Vec<Batch>,
    /// The counter's last value that is known to be there, and the one that was sent.
    counter: (u64, u64),
    acks: usize,
    next_key: u64,
}

impl Ledger {
    pub(super) fn shared() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            next_key: 1,
            ..Self::default()
        }))
    }

    /// Notes an insert of `count` rows before it is sent; gives its number and keys.
    pub(super) fn sending(&mut self, count: u64) -> (usize, Range<u64>) {
        let keys = self.next_key..self.next_key + count;
        self.next_key = keys.end;
        self.batches.push(Batch {
            keys: keys.clone(),
            fate: Fate::Unknown,
        });
        (self.batches.len() - 1, keys)
    }

    pub(super) fn acknowledged(&mut self, batch: usize) {
        self.batches[batch].fate = Fate::Kept;
        self.acks += 1;
    }

    /// The counter's next value, noted before it is sent.
    pub(super) fn counting(&mut self) -> u64 {
        self.counter.1 = self.counter.0 + 1;
        self.counter.1
    }

    pub(super) fn counted(&mut self) {
        self.counter.0 = self.counter.1;
        self.acks += 1;
    }

    /// How many statements were acknowledged.
    pub(super) fn acks(&self) -> usize {
        self.acks
    }

    /// Holds what a node has after a crash against the books, and settles what was unknown.
    pub(super) fn check(&mut self, rows: &BTreeMap<u64, u64>, counter: u64) -> Result<(), String> {
        let mut expected = 0;
        for batch in &mut self.batches {
            let there = rows.range(batch.keys.clone()).count();
            let size = usize::try_from(batch.keys.end - batch.keys.start).unwrap_or(usize::MAX);
            batch.fate = match (batch.fate, there) {
                (Fate::Kept | Fate::Unknown, there) if there == size => Fate::Kept,
                (Fate::Unknown | Fate::Lost, 0) => Fate::Lost,
                (fate, there) => {
                    return Err(format!(
                        "{there} of {size} rows of {:?} are there, known as {fate:?}",
                        batch.keys
                    ));
                }
            };
            expected += there;
        }
        if rows.len() != expected {
            return Err(format!(
                "{} rows are there, and {expected} of them were sent",
                rows.len()
            ));
        }
        if let Some((id, twice)) = rows.iter().find(|(id, twice)| **twice != *id * 2) {
            return Err(format!("row {id} holds {twice}"));
        }
        let (kept, sent) = self.counter;
        if counter != kept && counter != sent {
            return Err(format!(
                "the counter is {counter}, acknowledged was {kept}, sent was {sent}"
            ));
        }
        self.counter = (counter, counter);
        Ok(())
    }

    pub(super) fn summary(&self) -> String {
        let count = |fate| self.batches.iter().filter(|batch| batch.fate == fate).count();
        let rows: u64 = self
            .batches
            .iter()
            .filter(|batch| batch.fate == Fate::Kept)
            .map(|batch| batch.keys.end - batch.keys.start)
            .sum();
        format!(
            "{} writes acknowledged, {rows} rows kept; of what was in flight {} inserts were lost whole",
            self.acks,
            count(Fate::Lost)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
        keys.map(|key| (key, key * 2)).collect()
    }

    #[test]
    fn the_books_find_every_kind_of_fault() {
        let ledger = Ledger::shared();
        let mut ledger = ledger.lock();
        let (first, _) = ledger.sending(3);
        ledger.acknowledged(first);
        ledger.sending(2);
        ledger.counting();
        assert_eq!(
            ledger.check(&rows(1..3), 0),
            Err("2 of 3 rows of 1..4 are there, known as Kept".to_owned()),
            "lost"
        );
        assert_eq!(
            ledger.check(&rows(1..5), 0),
            Err("1 of 2 rows of 4..6 are there, known as Unknown".to_owned()),
            "torn"
        );
        assert!(ledger.check(&rows((1..4).chain(9..10)), 0).is_err(), "invented");
        let mut wrong = rows(1..4);
        wrong.insert(2, 5);
        assert!(ledger.check(&wrong, 0).is_err(), "changed");
        assert!(ledger.check(&rows(1..4), 2).is_err(), "a counter that nobody sent");
        assert_eq!(ledger.check(&rows(1..4), 1), Ok(()));
        assert!(ledger.check(&rows(1..6), 1).is_err(), "what was lost came back");
        assert!(ledger.check(&rows(1..4), 0).is_err(), "the counter went back");
    }
}
