//! Readers beside the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use candor_proto::LogIndex;
use candor_storage::{Outcome, RangeStore};

use crate::support::*;

const ACCOUNTS: i64 = 64;

/// Moves one unit between two accounts, so that the sum never changes.
fn transfer(store: &RangeStore, round: i64) {
    let (from, to) = (round * 7 % ACCOUNTS, (round * 7 + 1 + round % 5) % ACCOUNTS);
    let version = now(store);
    let table = at(store, version.0).table(PEOPLE).expect("there");
    let mut rows = people_of(&table.get(&keys(&[from, to]), None).expect("reads"));
    rows[0].2 -= 1;
    rows[1].2 += 1;
    let outcome = run(store, &transaction(version, vec![people_change(&[from, to], &rows)]));
    assert_eq!(outcome, Outcome::Applied { ended: 2, begun: 2 });
}

/// Looks at random versions until told to stop; each must show all accounts and the same sum, however it is read.
fn watch(store: &RangeStore, stop: &AtomicBool, salt: u64) -> u64 {
    let mut looked = 0;
    while !stop.load(Ordering::Relaxed) || looked == 0 {
        let newest = now(store).0;
        let version = 3 + (looked * 31 + salt) % (newest - 2);
        let snapshot = at(store, version);
        let scanned = scan_people(&snapshot);
        assert_eq!(scanned.len() as i64, ACCOUNTS);
        assert_eq!(scanned.iter().map(|row| row.2).sum::<i64>(), 0, "version {version}");
        let ids: Vec<i64> = (0..ACCOUNTS).collect();
        let got = snapshot
            .table(PEOPLE)
            .expect("there")
            .get(&keys(&ids), None)
            .expect("reads");
        assert_eq!(people_of(&got), scanned, "version {version}");
        looked += 1;
    }
    looked
}

#[test]
fn every_version_is_whole_while_others_are_made() {
    let (_disk, store) = with_collections();
    let rows: Vec<_> = (0..ACCOUNTS).map(|id| person(id, None, 0)).collect();
    run(&store, &transaction(LogIndex(2), vec![people_change(&[], &rows)]));
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|salt| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            thread::spawn(move || watch(&store, &stop, salt))
        })
        .collect();
    for round in 0..3000 {
        transfer(&store, round);
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().expect("sound") > 0);
    }
}

#[test]
fn many_threads_share_one_log() {
    let (disk, store) = with_collections();
    let writers: Vec<_> = (0..4_i64)
        .map(|writer| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                for round in 0..100 {
                    let row = person(writer * 1000 + round, None, 0);
                    let record = transaction(LogIndex(2), vec![people_change(&[], &[row])]);
                    let entries = store.append(EPOCH, &[encoded(&record)]).expect("appends");
                    store.sync().expect("syncs");
                    let read = store.read(LogIndex(entries[0].position.index.0 - 1), entries[0].position.index, 1);
                    assert_eq!(read.expect("reads"), entries);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("sound");
    }
    disk.restart();
    let again = open(&disk).expect("opens");
    assert_eq!(again.last(), store.last());
    again.apply_to(again.last().0.index).expect("applies");
    assert_eq!(scan_people(&again.snapshot(None).expect("there")).len(), 400);
}
