//! Transactions that read and append to lists, and what they tell about each other.
//!
//! Every item is appended once, so a list shows which versions of it there were and in which order, and a read shows
//! which of them it saw. That gives the edges of Adya's graph: write to next write, write to the read that saw it, read to
//! the next write it did not see. Snapshot isolation forbids a cycle of the first two kinds (G0, G1c) and one with a
//! single edge of the third (G-single: lost update, read skew); reads of what was taken back (G1a) or of the middle of
//! a transaction (G1b) show without a graph.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::books::Outcome;

/// A list as somebody saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) list: usize,
    pub(super) items: Vec<String>,
}

/// One step of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Read(Seen),
    Append { list: usize, item: String },
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) steps: Vec<Step>,
    pub(super) outcome: Outcome,
}

/// Finds what must not be, given the lists as they are at the end.
///
/// # Panics
/// With the first fault.
pub(super) fn check(history: &[Transaction], lists: &[Vec<String>]) {
    let writers = writers(history);
    check_lists(history, lists, &writers);
    for (number, transaction) in history.iter().enumerate() {
        check_reads(number, transaction, history, lists, &writers);
    }
    let graph = Graph::of(history, lists, &writers);
    graph.check();
}

/// Who appended an item.
fn writers(history: &[Transaction]) -> HashMap<&str, usize> {
    let mut writers = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for step in &transaction.steps {
            if let Step::Append { item, .. } = step {
                writers.insert(item.as_str(), number);
            }
        }
    }
    writers
}

/// Each item of a transaction that was committed is there once, none of one that was not; items of one stand together.
fn check_lists(history: &[Transaction], lists: &[Vec<String>], writers: &HashMap<&str, usize>) {
    let mut found = BTreeSet::new();
    for items in lists {
        for item in items {
            assert!(found.insert(item.as_str()), "{item} stands twice");
            let writer = writers.get(item.as_str());
            let outcome = writer.map(|number| history[*number].outcome);
            assert_ne!(outcome, Some(Outcome::Refused), "{item} was taken back");
        }
    }
    for transaction in history {
        let items = appended(transaction);
        let there = items.iter().filter(|item| found.contains(*item)).count();
        let whole = match transaction.outcome {
            Outcome::Done => there == items.len(),
            Outcome::Unknown => there == 0 || there == items.len(),
            Outcome::Refused => there == 0,
        };
        assert!(whole, "{there} items are there of {transaction:?}");
    }
}

fn appended(transaction: &Transaction) -> Vec<&str> {
    let items = transaction.steps.iter().filter_map(|step| match step {
        Step::Append { item, .. } => Some(item.as_str()),
        Step::Read(_) => None,
    });
    items.collect()
}

/// A read shows a list as it once was, plus the transaction's own items; nobody else's middle; the same when read again.
fn check_reads(
    number: usize,
    transaction: &Transaction,
    history: &[Transaction],
    lists: &[Vec<String>],
    writers: &HashMap<&str, usize>,
) {
    let mut own: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut seen: BTreeMap<usize, &[String]> = BTreeMap::new();
    for step in &transaction.steps {
        match step {
            Step::Append { list, item } => own.entry(*list).or_default().push(item),
            Step::Read(Seen { list, items }) => {
                let mine = own.get(list).map_or(&[][..], Vec::as_slice);
                let before = items
                    .len()
                    .checked_sub(mine.len())
                    .expect("a transaction sees its own items");
                assert!(
                    items[before..] == *mine,
                    "transaction {number} does not see its own items"
                );
                let others = &items[..before];
                assert!(
                    lists[*list].starts_with(others),
                    "transaction {number} saw a list that never was: {others:?}"
                );
                let first = seen.entry(*list).or_insert(others);
                assert!(*first == others, "transaction {number} saw two states of list {list}");
                check_last(others, *list, history, writers);
            }
        }
    }
}

/// The last item that is seen of a list is the last that its transaction appended there.
fn check_last(items: &[String], list: usize, history: &[Transaction], writers: &HashMap<&str, usize>) {
    let Some(last) = items.last() else { return };
    let Some(writer) = writers.get(last.as_str()) else {
        return;
    };
    let final_item = history[*writer].steps.iter().rev().find_map(|step| match step {
        Step::Append { list: at, item } if *at == list => Some(item),
        _ => None,
    });
    assert_eq!(final_item, Some(last), "somebody saw the middle of a transaction");
}

/// Which transactions must come before which.
struct Graph {
    /// By edges of writes: to the next write, to the reads that saw it.
    after: Vec<BTreeSet<usize>>,
    /// From a read to the next write, which it did not see.
    unseen: Vec<(usize, usize)>,
}

impl Graph {
    fn of(history: &[Transaction], lists: &[Vec<String>], writers: &HashMap<&str, usize>) -> Self {
        let mut graph = Self {
            after: vec![BTreeSet::new(); history.len()],
            unseen: Vec::new(),
        };
        let writer = |item: &String| writers.get(item.as_str()).copied();
        for items in lists {
            for pair in items.windows(2) {
                if let (Some(first), Some(second)) = (writer(&pair[0]), writer(&pair[1])) {
                    graph.add(first, second);
                }
            }
        }
        for (number, transaction) in history.iter().enumerate() {
            if transaction.outcome == Outcome::Refused {
                continue;
            }
            for step in &transaction.steps {
                let Step::Read(Seen { list, items }) = step else {
                    continue;
                };
                let others = items.iter().take_while(|item| writer(item) != Some(number)).count();
                if let Some(saw) = others.checked_sub(1).and_then(|last| writer(&items[last])) {
                    graph.add(saw, number);
                }
                let next = lists[*list].get(others).and_then(writer);
                if let Some(next) = next.filter(|next| *next != number) {
                    graph.unseen.push((number, next));
                }
            }
        }
        graph
    }

    fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.after[from].insert(to);
        }
    }

    fn check(&self) {
        let order = self.order();
        for (reader, writer) in &self.unseen {
            assert!(
                !self.reaches(*writer, *reader, &order),
                "a cycle with one read: {reader} did not see what {writer} wrote, and comes after it"
            );
        }
    }

    /// A place for each transaction that agrees with all edges of writes.
    fn order(&self) -> Vec<usize> {
        let mut before = vec![0_usize; self.after.len()];
        for to in self.after.iter().flatten() {
            before[*to] += 1;
        }
        let mut free: Vec<usize> = (0..before.len()).filter(|at| before[*at] == 0).collect();
        let mut place = vec![usize::MAX; before.len()];
        let mut next = 0;
        while let Some(at) = free.pop() {
            place[at] = next;
            next += 1;
            for to in &self.after[at] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        assert_eq!(next, place.len(), "a cycle of writes and reads of them");
        place
    }

    /// Whether there is a way along edges of writes.
    fn reaches(&self, from: usize, to: usize, order: &[usize]) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            // Beyond its place there is no way back to it.
            if order[at] < order[to] && seen.insert(at) {
                open.extend(&self.after[at]);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: usize, items: &[&str]) -> Step {
        Step::Read(Seen {
            list,
            items: items.iter().map(|item| (*item).to_owned()).collect(),
        })
    }

    fn append(list: usize, item: &str) -> Step {
        Step::Append {
            list,
            item: item.to_owned(),
        }
    }

    fn faulty(transactions: &[&[Step]], lists: &[&[&str]]) -> bool {
        let history: Vec<_> = transactions
            .iter()
            .map(|steps| Transaction {
                steps: steps.to_vec(),
                outcome: Outcome::Done,
            })
            .collect();
        let lists: Vec<Vec<String>> = lists
            .iter()
            .map(|items| items.iter().map(|item| (*item).to_owned()).collect())
            .collect();
        std::panic::catch_unwind(|| check(&history, &lists)).is_err()
    }

    #[test]
    fn write_skew_is_allowed_and_the_rest_is_found() {
        let skew: [&[Step]; 2] = [&[read(0, &[]), append(1, "a")], &[read(1, &[]), append(0, "b")]];
        assert!(!faulty(&skew, &[&["b"], &["a"]]));
        let lost: [&[Step]; 2] = [&[read(0, &[]), append(0, "a")], &[read(0, &[]), append(0, "b")]];
        assert!(faulty(&lost, &[&["a", "b"]]), "lost update");
        let read_skew: [&[Step]; 2] = [&[append(0, "a"), append(1, "b")], &[read(0, &["a"]), read(1, &[])]];
        assert!(faulty(&read_skew, &[&["a"], &["b"]]), "read skew");
        let dirty: [&[Step]; 2] = [&[append(0, "a"), append(1, "b")], &[append(1, "c"), append(0, "d")]];
        assert!(faulty(&dirty, &[&["a", "d"], &["c", "b"]]), "G0");
        let circular: [&[Step]; 2] = [&[append(0, "a"), read(1, &["b"])], &[append(1, "b"), read(0, &["a"])]];
        assert!(faulty(&circular, &[&["a"], &["b"]]), "G1c");
        let middle: [&[Step]; 2] = [&[append(0, "a"), append(0, "b")], &[read(0, &["a"])]];
        assert!(faulty(&middle, &[&["a", "b"]]), "G1b");
        let unlike: [&[Step]; 1] = [&[append(0, "a"), read(0, &[])]];
        assert!(faulty(&unlike, &[&["a"]]), "own writes");
    }
}
