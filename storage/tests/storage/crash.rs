//! Power fails at every operation that writes, from many seeds. What comes back is what was acknowledged, perhaps
//! with entries behind it that were appended and never acknowledged; nothing less, nothing else.

use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{Epoch, LogIndex};
use candor_storage::disk::{CrashDisk, Faults};
use candor_storage::{Entry, RangeStore, StorageError};

use crate::support::*;

/// What the outside world knows of a log.
#[derive(Default)]
struct Model {
    /// Everything appended and not cut, acknowledged or not.
    appended: Vec<Entry>,
    /// How many of them were acknowledged: synced, or kept by a cut that came back.
    acknowledged: usize,
    /// A cut that was asked for and did not come back: either side of it may be there.
    cut_back_to: Option<usize>,
}

impl Model {
    /// Whether a log with these entries may come back.
    fn check(&self, found: &[Entry], what: &str) {
        let least = self.cut_back_to.unwrap_or(self.acknowledged).min(self.acknowledged);
        assert!(
            found.len() >= least,
            "{what}: {} of {least} acknowledged entries came back",
            found.len()
        );
        assert!(
            found.len() <= self.appended.len(),
            "{what}: more came back than was appended"
        );
        assert_eq!(found, &self.appended[..found.len()], "{what}: other entries came back");
    }
}

/// One step of a workload: append, sync or cut.
fn step(store: &RangeStore, random: &mut Random, model: &mut Model) -> Result<(), StorageError> {
    match random.below(10) {
        0 if !model.appended.is_empty() => {
            let kept = model.appended.len() - random.below(5).min(model.appended.len() as u64) as usize;
            model.cut_back_to = Some(kept);
            store.truncate_after(LogIndex(kept as u64))?;
            model.cut_back_to = None;
            model.appended.truncate(kept);
            model.acknowledged = model.acknowledged.min(kept);
            Ok(())
        }
        0..=5 => {
            let (last, chain) = store.last();
            let epoch = Epoch(last.epoch.0.max(1) + random.below(8) / 7);
            let records: Vec<_> = (0..=random.below(4))
                .map(|_| {
                    (
                        9,
                        Bytes::from(vec![random.below(3) as u8 * 7; random.below(900) as usize]),
                    )
                })
                .collect();
            // A write that fails may still have reached the disk.
            let (mut position, mut chain) = (last, chain);
            for (kind, payload) in &records {
                position = candor_proto::Position::new(epoch, position.index.next());
                let entry = Entry::chained(chain, position, *kind, payload.clone());
                chain = entry.chain;
                model.appended.push(entry);
            }
            store.append(epoch, &records).map(drop)
        }
        _ => {
            let acknowledged = model.appended.len();
            store.sync()?;
            model.acknowledged = acknowledged;
            Ok(())
        }
    }
}

fn all(store: &RangeStore) -> Vec<Entry> {
    store
        .read(LogIndex::ZERO, LogIndex(u64::MAX), usize::MAX)
        .expect("reads")
}

/// Opens what a crash left; a range whose making was interrupted is made again.
fn reopen(disk: &CrashDisk, model: &Model, what: &str) -> Result<Arc<RangeStore>, StorageError> {
    match open(disk) {
        Err(StorageError::NoRange { .. }) if model.appended.is_empty() => try_create(disk, 2048),
        Err(error @ StorageError::Damaged { .. }) => panic!("{what}: {error}"),
        opened => opened,
    }
}

/// Runs several lives on one disk, each ended by a power failure, the next one even while it recovers.
fn lives(seed: u64, power_lasts: impl Fn(u64) -> u64) {
    let disk = CrashDisk::new(seed);
    let mut random = Random(seed);
    let mut model = Model::default();
    for life in 0..6 {
        let what = format!("seed {seed}, life {life}");
        disk.set_faults(Faults {
            power_lasts: Some(power_lasts(life)),
            ..Faults::default()
        });
        if let Ok(store) = reopen(&disk, &model, &what) {
            let found = all(&store);
            model.check(&found, &what);
            // What came back is durable, so from here on it counts as acknowledged.
            model = Model {
                acknowledged: found.len(),
                appended: found,
                cut_back_to: None,
            };
            while step(&store, &mut random, &mut model).is_ok() {}
        }
        disk.restart();
    }
    let what = format!("seed {seed}, the end");
    let store = reopen(&disk, &model, &what).expect("opens");
    model.check(&all(&store), &what);
}

#[test]
fn power_fails_at_every_operation() {
    for power in 0..120 {
        for seed in 0..5 {
            lives(seed * 1000 + power, |life| if life == 0 { power } else { 40 });
        }
    }
}

#[test]
fn power_fails_while_recovering() {
    for seed in 0..200 {
        // Short lives: most of the operations are those of opening.
        lives(seed, |life| (seed + life * 7) % 11);
    }
}

#[test]
fn the_state_after_a_crash_is_that_of_its_log() {
    for seed in 0..60 {
        let (disk, store) = with_collections();
        disk.set_faults(Faults {
            power_lasts: Some(10 + seed),
            ..Faults::default()
        });
        let mut acknowledged = now(&store);
        for id in 0.. {
            let record = transaction(now(&store), vec![people_change(&[], &[person(id, None, id)])]);
            if store.append(EPOCH, &[encoded(&record)]).is_err() {
                break;
            }
            store.apply_to(store.last().0.index).expect("applies");
            if id % 3 == 0 {
                match store.sync() {
                    Ok(()) => acknowledged = now(&store),
                    Err(_) => break,
                }
            }
        }
        disk.restart();
        let again = open(&disk).expect("opens");
        let last = again.last().0.index;
        assert!(last >= acknowledged);
        again.apply_to(last).expect("applies");
        let hash = |store: &RangeStore| {
            let version = last.min(now(store));
            at(store, version.0).content_hash().expect("hashes")
        };
        if last <= now(&store) {
            assert_eq!(hash(&again), hash(&store), "seed {seed}");
        }
        assert_eq!(
            scan_people(&again.snapshot(None).expect("there")).len() as u64,
            last.0 - 2
        );
    }
}
