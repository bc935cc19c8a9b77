//! Power fails, syncs fail and the disk fills up at every operation of commits, checkpoints, compactions, cuts of the log
//! and the removal of garbage. What comes back is what was acknowledged, perhaps with entries behind it that were
//! appended and never acknowledged, at every version from the horizon on; and it goes on from there.
//!
//! `CANDOR_CRASHES` says how many accidents of each kind are tried (by default a few hundred); the test says how many
//! there were.

use std::collections::BTreeMap;
use std::sync::Arc;

use candor_proto::LogIndex;
use candor_storage::disk::{CrashDisk, Faults};
use candor_storage::{ContentHash, RangeStore, Record, SchemaChange, StorageError, TransactionPart};

use crate::support::*;

/// Accidents of each kind that are tried by default: all places of the first scripts.
const ACCIDENTS: u64 = 250;

fn accidents() -> u64 {
    let wanted = std::env::var("CANDOR_CRASHES").ok();
    wanted.map_or(ACCIDENTS, |count| count.parse().expect("CANDOR_CRASHES is a number"))
}

/// One thing that a node does.
enum Op {
    /// Appends the entry of this index, makes it durable and applies it.
    Commit(u64),
    Checkpoint,
    Compact,
    TruncateLog,
}

/// What a node does, and what its range is after each entry.
struct Script {
    records: Vec<Record>,
    ops: Vec<Op>,
    /// By version: the content, and the horizon.
    expected: BTreeMap<u64, (ContentHash, LogIndex)>,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let schema = vec![
            SchemaChange::DefineDatabase { name: "d".into() },
            SchemaChange::DefineCollection(people()),
            SchemaChange::DefineCollection(notes()),
        ];
        let mut script = Self {
            records: vec![elected(), schema_change(schema)],
            ops: vec![Op::Commit(1), Op::Commit(2)],
            expected: BTreeMap::new(),
        };
        let mut notes = 0;
        for _ in 0..14 {
            let index = script.records.len() as u64 + 1;
            match random.below(9) {
                0 => script.commit(Record::Horizon {
                    index: LogIndex(index.saturating_sub(random.below(4) + 1)),
                }),
                1 => script.parts(&mut random),
                _ => {
                    let ids: Vec<i64> = (0..random.below(3)).map(|_| random.below(6) as i64).collect();
                    let rows: Vec<Person> = ids.iter().map(|id| person(*id, None, random.below(9) as i64)).collect();
                    let ended: Vec<i64> = if random.below(2) == 0 { ids.clone() } else { vec![] };
                    let begun: Vec<i64> = (0..random.below(4) as i64).collect();
                    let gone: Vec<u64> = (notes > 0 && random.below(3) == 0)
                        .then(|| random.below(notes))
                        .into_iter()
                        .collect();
                    notes += begun.len() as u64;
                    // Many of them are refused, which is a state as well.
                    script.commit(transaction(
                        LogIndex(index - 1),
                        vec![people_change(&ended, &rows), notes_change(&gone, &begun)],
                    ));
                }
            }
            match random.below(6) {
                0 | 1 => script.ops.push(Op::Checkpoint),
                2 => script.ops.extend([Op::Checkpoint, Op::Compact]),
                3 => script.ops.push(Op::TruncateLog),
                _ => {}
            }
        }
        script.ops.extend([Op::Checkpoint, Op::Compact, Op::TruncateLog]);
        script.expect();
        script
    }

    fn commit(&mut self, record: Record) {
        self.records.push(record);
        self.ops.push(Op::Commit(self.records.len() as u64));
    }

    /// A transaction in parts, with a checkpoint between them.
    fn parts(&mut self, random: &mut Random) {
        let txn = u128::from(random.below(1 << 30));
        let change = notes_change(&[], &[7, 8]);
        let mut parts = vec![Record::Part(TransactionPart { txn, change })];
        if random.below(3) > 0 {
            let id = random.below(6) as i64;
            parts.extend(people_run(txn, &[person(id + 1, None, 1), person(id, None, 2)]));
        }
        for part in &parts {
            self.commit(part.clone());
            if random.below(2) == 0 {
                self.ops.push(Op::Checkpoint);
            }
        }
        let mut last = transaction(LogIndex(2), vec![]);
        if let Record::Transaction(transaction) = &mut last {
            transaction.parts = Some((txn, parts.len() as u32));
        }
        self.commit(last);
    }

    /// What a store without any checkpoint shows.
    fn expect(&mut self) {
        let store = create(&CrashDisk::new(1));
        for record in &self.records {
            run(&store, record);
            let hash = store.snapshot(None).expect("there").content_hash().expect("hashes");
            self.expected.insert(now(&store).0, (hash, store.horizon()));
        }
    }

    /// Does what is left to do, up to the first error. Returns how far the log was acknowledged before.
    fn go_on(&self, store: &RangeStore, from: usize, acknowledged: &mut u64) -> Result<(), (usize, StorageError)> {
        for (at, op) in self.ops.iter().enumerate().skip(from) {
            let done = match op {
                Op::Commit(index) if *index <= store.last().0.index.0 => Ok(()),
                Op::Commit(index) => store
                    .append(EPOCH, &[encoded(&self.records[*index as usize - 1])])
                    .and_then(|_| store.sync())
                    .and_then(|()| {
                        *acknowledged = *index;
                        store.apply_to(LogIndex(*index)).map(drop)
                    }),
                Op::Checkpoint => store.checkpoint().map(drop),
                Op::Compact => store.compact().map(drop),
                Op::TruncateLog => store.truncate_before(now(store)),
            };
            done.map_err(|error| (at, error))?;
        }
        Ok(())
    }

    /// The op that appends the entry behind the last one.
    fn op_after(&self, last: u64) -> usize {
        let found = self
            .ops
            .iter()
            .position(|op| matches!(op, Op::Commit(index) if *index > last));
        found.unwrap_or(self.ops.len())
    }

    /// Compares versions with what they should be: the newest, the oldest, and each between them one time in three.
    fn check(&self, store: &RangeStore, what: &str) {
        let newest = now(store).0;
        let Some((_, horizon)) = self.expected.get(&newest) else {
            assert_eq!(newest, 0, "{what}");
            return;
        };
        assert_eq!(store.horizon(), *horizon, "{what}");
        let oldest = horizon.0.max(1);
        let mut random = named(what);
        for version in oldest..=newest {
            if version != oldest && version != newest && random.below(3) > 0 {
                continue;
            }
            let hash = at(store, version)
                .content_hash()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(hash, self.expected[&version].0, "{what}: version {version}");
        }
    }

    /// Opens what an accident left, applies the log and compares.
    fn come_back(&self, disk: &CrashDisk, acknowledged: u64, what: &str) -> Arc<RangeStore> {
        let store = match open(disk) {
            Err(StorageError::NoRange { .. }) if acknowledged == 0 => create(disk),
            opened => opened.unwrap_or_else(|error| panic!("{what}: {error}")),
        };
        let last = store.last().0.index;
        assert!(last.0 >= acknowledged, "{what}: {last} of {acknowledged} came back");
        store.apply_to(last).unwrap_or_else(|error| panic!("{what}: {error}"));
        self.check(&store, what);
        store
    }

    fn finish(&self, store: &RangeStore, from: usize, what: &str) {
        let done = self.go_on(store, from, &mut 0);
        done.unwrap_or_else(|(at, error)| panic!("{what}, op {at}: {error}"));
        self.check(store, what);
        assert_eq!(now(store).0, self.records.len() as u64, "{what}");
    }
}

/// Runs scripts with one accident each, at the first, second … operation of the disk, until there were enough; `faults`
/// says what happens at the `nth`. Returns how many there were.
fn with_accidents(faults: impl Fn(u64) -> Faults, after: impl Fn(&Script, &CrashDisk, &RangeStore, usize, u64, &str)) {
    let wanted = accidents();
    let mut count = 0;
    for seed in 0.. {
        let script = Script::new(seed);
        for nth in 0.. {
            let what = format!("script {seed}, accident {nth}");
            let disk = CrashDisk::new(seed * 1_000_003 + nth);
            let store = create(&disk);
            disk.set_faults(faults(nth));
            let mut acknowledged = 0;
            let Err((op, _)) = script.go_on(&store, 0, &mut acknowledged) else {
                break;
            };
            after(&script, &disk, &store, op, acknowledged, &what);
            count += 1;
            if count == wanted {
                println!("{count} accidents in {} scripts", seed + 1);
                return;
            }
        }
    }
}

/// Whether the rest of the script is done after an accident, one in three: what an accident left is compared after each.
fn goes_on(what: &str) -> bool {
    named(what).below(3) == 0
}

/// The same numbers for the same accident.
fn named(what: &str) -> Random {
    Random(
        what.bytes()
            .fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into())),
    )
}

fn restarts(script: &Script, disk: &CrashDisk, _store: &RangeStore, _op: usize, acknowledged: u64, what: &str) {
    disk.restart();
    let store = script.come_back(disk, acknowledged, what);
    if !goes_on(what) {
        return;
    }
    script.finish(&store, script.op_after(now(&store).0), what);
    drop(store);
    // And once more, from what the rest left.
    disk.restart();
    script.come_back(disk, script.records.len() as u64, what);
}

#[test]
fn power_fails_at_every_operation_of_upkeep() {
    let faults = |nth| Faults {
        power_lasts: Some(nth),
        ..Faults::default()
    };
    with_accidents(faults, restarts);
}

#[test]
fn every_sync_of_upkeep_fails_once() {
    let faults = |nth| Faults {
        syncs_last: Some(nth),
        ..Faults::default()
    };
    with_accidents(faults, restarts);
}

#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let faults = |nth| Faults {
        bytes_free: Some(nth * 301),
        ..Faults::default()
    };
    with_accidents(faults, |script, disk, store, op, _, what| {
        store.apply_to(store.last().0.index).expect("applies");
        script.check(store, what);
        disk.set_faults(Faults::default());
        if !goes_on(what) {
            return;
        }
        script.finish(store, op, what);
        store.sync().expect("syncs");
        disk.restart();
        script.come_back(disk, script.records.len() as u64, what);
    });
}

#[test]
fn power_fails_while_a_range_is_opened() {
    let script = Script::new(77);
    for nth in 0..40 {
        let what = format!("accident {nth}");
        let disk = CrashDisk::new(nth);
        let store = create(&disk);
        script.finish(&store, 0, &what);
        drop(store);
        disk.restart();
        disk.set_faults(Faults {
            power_lasts: Some(nth),
            ..Faults::default()
        });
        drop(open(&disk));
        disk.restart();
        script.come_back(&disk, script.records.len() as u64, &what);
    }
}
