//! Random transactions against a plain model that keeps every version as a map; the store must agree at each of them,
//! and so must a copy that collects the log in other steps, and the store recovered from disk. Checkpoints, compactions,
//! cuts of the log and restarts happen in between, and change nothing; snapshots that are held show what they showed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use candor_proto::LogIndex;
use candor_storage::disk::CrashDisk;
use candor_storage::{
    ApplyRefusal, ColumnType, Entry, Outcome, RangeStore, Record, RunBuilder, RunError, SchemaChange, Snapshot,
    SnapshotError, TableChange, Transaction, TransactionPart,
};
use proptest::prelude::*;

use crate::support::*;

/// A row of `people` with the column that may be added, and the version it began at.
#[derive(Clone, Debug, PartialEq)]
struct Live {
    person: Person,
    extra: Option<i64>,
    begun: u64,
}

/// One version of the range.
#[derive(Clone, Debug, Default)]
struct State {
    people: BTreeMap<i64, Live>,
    notes: BTreeMap<u64, (i64, u64)>,
    next_note: u64,
    grown: bool,
    horizon: u64,
}

#[derive(Clone, Debug)]
struct Write {
    /// How many versions ago it read.
    back: u64,
    ended: Vec<i64>,
    begun: Vec<Person>,
    notes_ended: Vec<u64>,
    notes_begun: Vec<i64>,
    /// Whether the changes travel in parts, and whether a leader is elected before the last.
    parts: Option<bool>,
    /// Whether rows in parts are runs.
    runs: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Write(Write),
    Grow,
    Horizon {
        back: u64,
    },
    Elected,
    /// A reader scans, which merges small blocks.
    Scan,
    Checkpoint,
    Compact,
    /// The log goes as far as no checkpoint needs it.
    TruncateLog,
    Reopen,
    /// A reader takes a snapshot and keeps it.
    Hold,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let email = prop::option::weighted(0.5, (0..5).prop_map(|n| format!("{n}@somewhere.example.org")));
    let row = (0..8_i64, email, 0..100_i64);
    let write = (
        0..3_u64,
        prop::collection::vec(0..8_i64, 0..3),
        prop::collection::vec(row, 0..3),
        prop::collection::vec(0..30_u64, 0..2),
        prop::collection::vec(any::<i64>(), 0..12),
        prop::option::weighted(0.4, prop::bool::weighted(0.3)),
        prop::bool::weighted(0.7),
    );
    let write = write.prop_map(|(back, ended, begun, notes_ended, notes_begun, parts, runs)| {
        Step::Write(Write {
            back,
            ended,
            begun,
            notes_ended,
            notes_begun,
            parts,
            runs,
        })
    });
    let step = prop_oneof![
        20 => write,
        1 => Just(Step::Grow),
        1 => (0..6_u64).prop_map(|back| Step::Horizon { back }),
        1 => Just(Step::Elected),
        2 => Just(Step::Scan),
        3 => Just(Step::Checkpoint),
        2 => Just(Step::Compact),
        1 => Just(Step::TruncateLog),
        1 => Just(Step::Reopen),
        2 => Just(Step::Hold),
    ];
    prop::collection::vec(step, 1..60)
}

impl State {
    /// The state after a write at `version` that read `snapshot`, decided in the plainest way.
    fn written(&self, write: &Write, snapshot: u64, version: u64, extra: bool) -> Result<Self, &'static str> {
        let mut next = self.clone();
        for id in &write.ended {
            match next.people.remove(id) {
                Some(row) if row.begun <= snapshot => {}
                _ => return Err("conflict"),
            }
        }
        for person in &write.begun {
            let taken = |other: &Live| person.1.is_some() && other.person.1 == person.1;
            if next.people.contains_key(&person.0) || next.people.values().any(taken) {
                return Err("unique");
            }
            let row = Live {
                person: person.clone(),
                extra: extra.then_some(person.2 * 2),
                begun: version,
            };
            next.people.insert(person.0, row);
        }
        for row in &write.notes_ended {
            match next.notes.remove(row) {
                Some((_, begun)) if begun <= snapshot => {}
                _ => return Err("conflict"),
            }
        }
        for note in &write.notes_begun {
            next.notes.insert(next.next_note, (*note, version));
            next.next_note += 1;
        }
        Ok(next)
    }
}

fn changes(write: &Write, extra: bool) -> Vec<TableChange> {
    let mut people = people_change(&write.ended, &write.begun);
    if extra && let Some(begun) = &people.begun {
        let doubled = write.begun.iter().map(|person| person.2 * 2).collect::<Int64Array>();
        let (schema, columns, _) = begun.clone().into_parts();
        let mut columns: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .zip(columns)
            .collect();
        columns.push(("extra", Arc::new(doubled)));
        people.begun = Some(batch(columns));
    }
    vec![people, notes_change(&write.notes_ended, &write.notes_begun)]
}

/// A store and what it should hold at every version.
struct Run {
    disk: CrashDisk,
    store: Arc<RangeStore>,
    versions: Vec<State>,
    /// The log as it was before any of it was cut.
    log: Vec<Entry>,
    held: Vec<Snapshot>,
}

impl Run {
    fn new() -> Self {
        let (disk, store) = with_collections();
        Self {
            disk,
            store,
            versions: vec![State::default(); 3],
            log: Vec::new(),
            held: Vec::new(),
        }
        .logged()
    }

    /// Takes down what was appended since the last time.
    fn logged(mut self) -> Self {
        self.take_log();
        self
    }

    fn take_log(&mut self) {
        let after = LogIndex(self.log.len() as u64);
        let entries = self.store.read(after, LogIndex(u64::MAX), usize::MAX);
        self.log.extend(entries.expect("reads"));
    }

    /// Loses power when everything is durable, and starts again.
    fn reopen(&mut self) {
        self.store.sync().expect("syncs");
        let last = self.store.last();
        self.held.clear();
        self.disk.restart();
        self.store = open(&self.disk).expect("opens");
        assert_eq!(self.store.last(), last);
        self.store.apply_to(last.0.index).expect("applies");
    }

    fn state(&self) -> &State {
        self.versions.last().expect("never empty")
    }

    /// Applies an entry after which the model is `next`.
    fn expect(&mut self, record: &Record, next: State) -> Outcome {
        self.versions.push(next);
        let outcome = run(&self.store, record);
        self.take_log();
        outcome
    }

    fn step(&mut self, step: &Step) {
        let state = self.state().clone();
        match step {
            Step::Write(write) => self.write(write),
            Step::Elected => drop(self.expect(&elected(), state)),
            Step::Scan => drop(scan_notes(&self.store.snapshot(None).expect("there"))),
            Step::Checkpoint => drop(self.store.checkpoint().expect("writes")),
            Step::Compact => drop(self.store.compact().expect("writes")),
            Step::TruncateLog => self.store.truncate_before(now(&self.store)).expect("cuts"),
            Step::Reopen => self.reopen(),
            Step::Hold => self.held.push(self.store.snapshot(None).expect("there")),
            Step::Horizon { back } => {
                let index = now(&self.store).0.saturating_sub(*back);
                let horizon = index.max(state.horizon);
                self.expect(&Record::Horizon { index: LogIndex(index) }, State { horizon, ..state });
            }
            Step::Grow => {
                let grow = SchemaChange::GrowColumns {
                    id: PEOPLE,
                    columns: vec![column("extra", ColumnType::Int64, true)],
                };
                let outcome = self.expect(&schema_change(vec![grow]), State { grown: true, ..state });
                assert_eq!(outcome, Outcome::Applied { ended: 0, begun: 0 });
            }
        }
    }

    fn write(&mut self, write: &Write) {
        let state = self.state().clone();
        // Every other write after the growth knows the new column.
        let extra = state.grown && write.notes_begun.len().is_multiple_of(2);
        let snapshot = now(&self.store).0.saturating_sub(write.back).max(state.horizon).max(2);
        let mut changes = changes(write, extra);
        let mut lost = false;
        let parts = write.parts.map(|elected_between| {
            let txn = u128::from(now(&self.store).0) << 64;
            let mut parts = vec![Record::Part(TransactionPart {
                txn,
                change: changes.remove(0),
            })];
            if write.runs {
                let Some(Record::Part(first)) = parts.pop() else {
                    unreachable!("pushed above")
                };
                changes.insert(0, first.change);
                parts = self.runs(txn, &mut changes);
            }
            for (at, part) in parts.iter().enumerate() {
                self.expect(part, state.clone());
                match (write.notes_begun.len() + at) % 5 {
                    0 => drop(self.store.checkpoint().expect("writes")),
                    1 => self.reopen(),
                    2 => drop(self.store.compact().expect("writes")),
                    _ => {}
                }
            }
            if elected_between && !parts.is_empty() {
                self.expect(&elected(), state.clone());
                lost = true;
            }
            (txn, parts.len() as u32)
        });
        let version = now(&self.store).0 + 1;
        let expected = if lost {
            Err("incomplete")
        } else {
            state.written(write, snapshot, version, extra)
        };
        let record = Record::Transaction(Transaction {
            snapshot: LogIndex(snapshot),
            changes,
            parts,
            ..Transaction::default()
        });
        let outcome = self.expect(&record, expected.clone().unwrap_or(state));
        let found = match outcome {
            Outcome::Applied { ended, begun } => {
                assert_eq!(ended as usize, write.ended.len() + write.notes_ended.len());
                assert_eq!(begun as usize, write.begun.len() + write.notes_begun.len());
                Ok(())
            }
            Outcome::Refused(ApplyRefusal::Conflict { .. }) => Err("conflict"),
            Outcome::Refused(ApplyRefusal::Unique { .. }) => Err("unique"),
            Outcome::Refused(ApplyRefusal::Incomplete { .. }) => Err("incomplete"),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            found,
            expected.map(drop),
            "{write:?} at {version}, having read {snapshot}"
        );
    }

    /// Makes runs of the rows that begin, and parts of what is left of a change if only rows end in it. Rows that make no
    /// run stay.
    fn runs(&self, txn: u128, changes: &mut Vec<TableChange>) -> Vec<Record> {
        let catalog = Arc::clone(self.store.snapshot(None).expect("there").catalog());
        let mut records = Vec::new();
        for change in changes.iter_mut() {
            let def = catalog.collection_by_id(change.collection).expect("there");
            let Some(rows) = &change.begun else { continue };
            let mut run = RunBuilder::new(Arc::clone(def)).expect("sound");
            run.push(rows).expect("fits");
            match run.finish(txn) {
                Ok(pieces) => {
                    records.extend(
                        pieces
                            .iter()
                            .map(|(kind, payload)| Record::decode(*kind, payload).expect("decodes")),
                    );
                    change.begun = None;
                }
                Err(error) => assert!(
                    matches!(error, RunError::Refused(ApplyRefusal::Unique { .. })),
                    "{error}"
                ),
            }
        }
        let (whole, ended): (Vec<_>, Vec<_>) = changes.drain(..).partition(|change| change.begun.is_some());
        *changes = whole;
        let ended = ended.into_iter().filter(|change| change.ended.is_some());
        records.extend(ended.map(|change| Record::Part(TransactionPart { txn, change })));
        records
    }

    /// Compares every version with the model.
    fn check(&self) {
        let horizon = self.state().horizon;
        for (version, state) in self.versions.iter().enumerate().skip(2) {
            match self.store.snapshot(Some(LogIndex(version as u64))) {
                Ok(snapshot) => check_version(&snapshot, state, &self.versions[version - 1], horizon),
                Err(error) => {
                    assert!((version as u64) < horizon);
                    let horizon = LogIndex(horizon);
                    assert_eq!(error, SnapshotError::Gone { horizon });
                }
            }
        }
        for snapshot in &self.held {
            let version = snapshot.version().0 as usize;
            // What a version below the horizon changed is not known any more, unless it is held; never below that.
            check_version(snapshot, &self.versions[version], &self.versions[version - 1], u64::MAX);
        }
    }
}

fn check_version(snapshot: &Snapshot, state: &State, before: &State, horizon: u64) {
    let version = snapshot.version();
    let people: Vec<Person> = state.people.values().map(|row| row.person.clone()).collect();
    assert_eq!(scan_people(snapshot), people, "version {version}");
    let notes: Vec<_> = state.notes.iter().map(|(row, (note, _))| (*row, *note)).collect();
    assert_eq!(scan_notes(snapshot), notes, "version {version}");
    let table = snapshot.table(PEOPLE).expect("there");
    assert_eq!(table.def().columns.len(), 3 + usize::from(state.grown));
    for id in 0..9 {
        let got = table.get(&keys(&[id]), None).expect("reads");
        let wanted: Vec<_> = state.people.get(&id).into_iter().collect();
        assert_eq!(
            people_of(&got),
            wanted.iter().map(|row| row.person.clone()).collect::<Vec<_>>()
        );
        if let (true, [row]) = (state.grown, &wanted[..]) {
            let extra = got.column(3).as_primitive::<Int64Type>();
            assert_eq!(
                extra.is_valid(0).then(|| extra.value(0)),
                row.extra,
                "version {version}"
            );
        }
    }
    // What the version changed is the difference between it and the one before.
    let ids = |state: &State| state.notes.keys().copied().collect::<BTreeSet<u64>>();
    if version.0 > horizon.max(2) {
        let changes = snapshot.table(NOTES).expect("there").changes();
        let ended: BTreeSet<u64> = changes.ended.iter().map(|row| row.0).collect();
        assert_eq!(ended, &ids(before) - &ids(state), "version {version}");
        assert_eq!(
            changes.begun.collect::<BTreeSet<u64>>(),
            &ids(state) - &ids(before),
            "version {version}"
        );
    }
}

/// Compares two stores that applied the same log.
fn check_equal(a: &RangeStore, b: &RangeStore) {
    assert_eq!(a.applied(), b.applied());
    assert_eq!(a.horizon(), b.horizon());
    for version in a.horizon().0..=now(a).0 {
        let hash = |store| at(store, version).content_hash().expect("hashes");
        assert_eq!(hash(a), hash(b), "version {version}");
        assert_eq!(
            scan_notes(&at(a, version)),
            scan_notes(&at(b, version)),
            "row ids are the same everywhere"
        );
    }
}

/// A copy that collects in steps of its own, and makes its checkpoints at other times.
fn collected(log: &[Entry], step: usize) -> Arc<RangeStore> {
    let copy = create(&CrashDisk::new(9));
    for (round, entries) in log.chunks(step).enumerate() {
        copy.append_collected(entries).expect("continues");
        let applied = copy.last().0.index.0.saturating_sub(step as u64 % 3);
        copy.apply_to(LogIndex(applied)).expect("applies");
        if step.is_multiple_of(2) {
            scan_people(&copy.snapshot(None).expect("there"));
        }
        if round % 5 == step % 5 {
            copy.checkpoint().expect("writes");
        }
    }
    copy.apply_to(copy.last().0.index).expect("applies");
    copy
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_agrees_with_the_model_at_every_version(steps in steps(), collect_step in 1..9_usize) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        run.check();
        check_equal(&run.store, &collected(&run.log, collect_step));
        run.reopen();
        run.check();
        check_equal(&run.store, &collected(&run.log, collect_step + 9));
    }
}
