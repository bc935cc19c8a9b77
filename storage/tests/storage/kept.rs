//! Checkpoints, and what they let go and keep.

use std::path::PathBuf;
use std::time::Duration;

use candor_proto::{Chain, LogIndex, Position};
use candor_storage::disk::{CrashDisk, Disk};
use candor_storage::{
    Agreement, MaintainLimits, Maintained, Outcome, RangeStore, Record, SnapshotError, StorageError, StoreInfo,
};

use crate::support::*;

fn insert(store: &RangeStore, ids: std::ops::Range<i64>) {
    let rows: Vec<Person> = ids.map(|id| person(id, Some(&format!("{id}@x")), id)).collect();
    let outcome = run(store, &transaction(now(store), vec![people_change(&[], &rows)]));
    assert!(matches!(outcome, Outcome::Applied { ended: 0, .. }));
}

fn move_horizon(store: &RangeStore) {
    let index = now(store);
    run(store, &Record::Horizon { index });
}

fn segment_files(disk: &CrashDisk) -> Vec<String> {
    let mut names = disk.list(&dir().join("segments")).unwrap_or_default();
    names.retain(|name| name.ends_with(".parquet"));
    names
}

fn manifests(disk: &CrashDisk) -> Vec<PathBuf> {
    let mut names = disk.list(&dir()).expect("lists");
    names.retain(|name| name.starts_with("manifest-"));
    names.sort();
    names.into_iter().map(|name| dir().join(name)).collect()
}

#[test]
fn rows_move_to_segments_and_nothing_else_changes() {
    let (_disk, store) = with_collections();
    insert(&store, 0..100);
    run(&store, &transaction(now(&store), vec![notes_change(&[], &[1, 2, 3])]));
    let before: Vec<_> = (3..=4)
        .map(|version| at(&store, version).content_hash().expect("hashes"))
        .collect();
    assert!(store.checkpoint().expect("writes"));
    assert!(!store.checkpoint().expect("nothing to do"));
    let StoreInfo {
        segments,
        segment_rows,
        delta_rows,
        checkpoint,
        ..
    } = store.info();
    assert_eq!(
        (segments, segment_rows, delta_rows, checkpoint),
        (2, 103, 0, LogIndex(4))
    );
    let after: Vec<_> = (3..=4)
        .map(|version| at(&store, version).content_hash().expect("hashes"))
        .collect();
    assert_eq!(before, after);

    // Keys are found, taken, and given free, wherever their row stands.
    let same_key = transaction(now(&store), vec![people_change(&[], &[person(5, None, 0)])]);
    assert!(matches!(run(&store, &same_key), Outcome::Refused(_)));
    let same_email = transaction(now(&store), vec![people_change(&[], &[person(500, Some("5@x"), 0)])]);
    assert!(matches!(run(&store, &same_email), Outcome::Refused(_)));
    let update = transaction(now(&store), vec![people_change(&[5], &[person(5, Some("5@x"), 77)])]);
    assert_eq!(run(&store, &update), Outcome::Applied { ended: 1, begun: 1 });
    assert_eq!(
        run(&store, &transaction(now(&store), vec![notes_change(&[1], &[])])),
        Outcome::Applied { ended: 1, begun: 0 }
    );
    let snapshot = store.snapshot(None).expect("there");
    let table = snapshot.table(PEOPLE).expect("there");
    assert_eq!(
        people_of(&table.get(&keys(&[5, 6]), None).expect("reads"))
            .iter()
            .map(|row| row.2)
            .collect::<Vec<_>>(),
        [77, 6]
    );
    let changes = at(&store, 7).table(PEOPLE).expect("there").changes();
    assert_eq!(
        (changes.ended.iter().map(|row| row.0).collect::<Vec<_>>(), changes.begun),
        (vec![5], 100..101)
    );
    let ended = people_of(&table.rows(&changes.ended, None).expect("reads"));
    assert_eq!(
        ended,
        [person(5, Some("5@x"), 5)],
        "a row that ended can still be looked at"
    );
    assert_eq!(scan_notes(&snapshot), [(0, 1), (2, 3)]);
    assert_eq!(scan_notes(&at(&store, 4)).len(), 3);
}

#[test]
fn a_restart_begins_at_the_checkpoint_and_needs_no_log_before_it() {
    let (disk, store) = with_collections();
    for block in 0..40 {
        insert(&store, block * 10..block * 10 + 10);
    }
    store.checkpoint().expect("writes");
    store.truncate_before(now(&store)).expect("cuts");
    assert_eq!(store.log_start(), LogIndex(1), "one checkpoint alone may rot");
    insert(&store, 400..410);
    store.checkpoint().expect("writes");
    insert(&store, 410..420);
    store.truncate_before(now(&store)).expect("cuts");
    let start = store.log_start();
    assert!(start > LogIndex(20) && start <= LogIndex(43), "{start}");
    store.sync().expect("syncs");
    disk.restart();

    let again = open(&disk).expect("opens");
    assert_eq!((again.log_start(), again.applied().0.index), (start, LogIndex(43)));
    again.apply_to(again.last().0.index).expect("applies");
    assert_eq!(
        scan_people(&again.snapshot(None).expect("there")),
        scan_people(&store.snapshot(None).expect("there"))
    );
    // Who is behind the cut cannot go on from this log.
    let foreign = again.agreement(Position::ZERO, Chain(ID.0)).expect("reads");
    assert_eq!(foreign, Agreement::Foreign);
    assert!(matches!(
        again.read(LogIndex(3), LogIndex(9), 100),
        Err(StorageError::OutOfLog { .. })
    ));
}

#[test]
fn old_entries_are_read_from_files_that_are_not_in_memory() {
    let (disk, store) = with_collections();
    for block in 0..40 {
        insert(&store, block * 10..block * 10 + 10);
    }
    let all = store
        .read(LogIndex::ZERO, LogIndex(u64::MAX), usize::MAX)
        .expect("reads");
    store.checkpoint().expect("writes");
    let check = |store: &RangeStore| {
        assert_eq!(store.applied(), (all[41].position, all[41].chain));
        for after in 0..42 {
            let index = LogIndex(after);
            let chunk = store.read(index, LogIndex(42), 1000).expect("reads");
            assert!(!chunk.is_empty());
            assert_eq!(chunk, all[after as usize..after as usize + chunk.len()]);
            assert_eq!(
                store.read(index, LogIndex(42), usize::MAX).expect("reads"),
                all[after as usize..]
            );
            let entry = &all[after as usize];
            assert_eq!(store.position_of(entry.position.index), Some(entry.position));
            assert_eq!(
                store.agreement(entry.position, entry.chain).expect("reads"),
                Agreement::Fits
            );
        }
    };
    check(&store);
    store.sync().expect("syncs");
    disk.restart();
    check(&open(&disk).expect("opens"));
}

#[test]
fn damage_in_an_old_file_is_named_when_it_is_read() {
    let (disk, store) = with_collections();
    for block in 0..40 {
        insert(&store, block * 10..block * 10 + 10);
    }
    store.checkpoint().expect("writes");
    store.sync().expect("syncs");
    disk.restart();
    let first = log_files(&disk).remove(0);
    let mut bytes = disk.content(&first).expect("there");
    bytes[300] ^= 1;
    disk.set_content(&first, bytes);
    let again = open(&disk).expect("opens without it");
    let error = again.read(LogIndex::ZERO, LogIndex(9), 100).expect_err("damaged");
    assert!(
        matches!(&error, StorageError::Damaged { path, .. } if *path == first),
        "{error}"
    );
    assert_eq!(again.position_of(LogIndex(2)), None);
}

#[test]
fn the_checkpoint_before_stands_in_for_one_that_rotted() {
    let (disk, store) = with_collections();
    insert(&store, 0..10);
    store.checkpoint().expect("writes");
    insert(&store, 10..20);
    store.checkpoint().expect("writes");
    insert(&store, 20..30);
    store.truncate_before(now(&store)).expect("cuts");
    store.sync().expect("syncs");
    let wanted = scan_people(&store.snapshot(None).expect("there"));
    disk.restart();
    let rot = |path: &PathBuf| {
        let mut bytes = disk.content(path).expect("there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        disk.set_content(path, bytes);
    };
    let files = manifests(&disk);
    assert_eq!(files.len(), 2);
    rot(&files[1]);
    let again = open(&disk).expect("opens");
    again.apply_to(again.last().0.index).expect("applies");
    assert_eq!(scan_people(&again.snapshot(None).expect("there")), wanted);
    // The next one takes the place of the damaged one.
    again.checkpoint().expect("writes");
    assert_eq!(manifests(&disk).len(), 2);
    let third = open(&disk).expect("opens");
    third.apply_to(third.last().0.index).expect("applies");
    assert_eq!(scan_people(&third.snapshot(None).expect("there")), wanted);
}

#[test]
fn compaction_drops_what_ended_before_the_horizon_and_nothing_else() {
    let (disk, store) = with_collections();
    for round in 0..4 {
        insert(&store, round * 10..round * 10 + 10);
        store.checkpoint().expect("writes");
    }
    let ended: Vec<i64> = (0..20).collect();
    run(&store, &transaction(now(&store), vec![people_change(&ended, &[])]));
    let full = store.snapshot(Some(LogIndex(now(&store).0 - 1))).expect("there");
    move_horizon(&store);
    store.checkpoint().expect("writes");
    assert!(store.compact().expect("writes"), "two segments have ended");
    while store.compact().expect("writes") {}
    assert_eq!(store.info().segment_rows, 40, "a reader still sees the old version");
    assert_eq!(scan_people(&full).len(), 40);
    drop(full);
    run(&store, &elected());
    store.checkpoint().expect("writes");
    while store.compact().expect("writes") {}
    assert_eq!(store.info().segment_rows, 20);
    assert_eq!(scan_people(&store.snapshot(None).expect("there")).len(), 20);
    // Files of both manifests are kept; two checkpoints later only what is needed.
    for _ in 0..2 {
        run(&store, &elected());
        store.checkpoint().expect("writes");
    }
    assert_eq!(segment_files(&disk).len() as u64, store.info().segments);
}

#[test]
fn a_lease_keeps_files_and_log() {
    let (disk, store) = with_collections();
    assert!(
        store.lease(Duration::from_hours(1)).is_none(),
        "there is nothing to lease"
    );
    insert(&store, 0..200);
    store.checkpoint().expect("writes");
    let lease = store.lease(Duration::from_hours(1)).expect("a checkpoint");
    let files: Vec<String> = lease.files().map(str::to_owned).collect();
    assert_eq!(lease.applied().index, LogIndex(3));
    let ended: Vec<i64> = (0..200).collect();
    run(&store, &transaction(now(&store), vec![people_change(&ended, &[])]));
    let go_on = || {
        for id in 1000..1003 {
            insert(&store, id..id + 1);
            move_horizon(&store);
            store.checkpoint().expect("writes");
            while store.compact().expect("writes") {}
        }
        store.truncate_before(now(&store)).expect("cuts");
    };
    go_on();
    let there = |name: &String| disk.content(&dir().join("segments").join(name)).is_some();
    assert!(files.iter().all(there));
    assert!(store.log_start() <= LogIndex(4));
    assert!(manifests(&disk).len() > 2);
    drop(lease);
    let over = store.lease(Duration::ZERO).expect("a checkpoint");
    for id in 2000..2003 {
        insert(&store, id..id + 1);
        store.checkpoint().expect("writes");
    }
    store.truncate_before(now(&store)).expect("cuts");
    assert!(!files.iter().any(there), "a lease that is over keeps nothing");
    assert_eq!(manifests(&disk).len(), 2);
    drop(over);
}

#[test]
fn maintenance_does_what_is_due() {
    let (_disk, store) = with_collections();
    let limits = MaintainLimits {
        delta_bytes: 4000,
        log_bytes: u64::MAX,
    };
    assert_eq!(store.maintain(limits).expect("fine"), Maintained::Nothing);
    let mut seen = Vec::new();
    for round in 0..6 {
        insert(&store, round * 100..round * 100 + 100);
        seen.push(store.maintain(limits).expect("fine"));
        assert!(store.delta_bytes() < 4000 + 100 * 200, "{}", store.delta_bytes());
    }
    while let done @ (Maintained::Checkpoint | Maintained::Compaction) = store.maintain(limits).expect("fine") {
        seen.push(done);
    }
    assert!(
        seen.contains(&Maintained::Checkpoint) && seen.contains(&Maintained::Compaction),
        "{seen:?}"
    );
    let by_log = MaintainLimits {
        delta_bytes: u64::MAX,
        log_bytes: 1,
    };
    insert(&store, 900..901);
    assert_eq!(store.maintain(by_log).expect("fine"), Maintained::Checkpoint);
}

#[test]
fn a_snapshot_below_the_horizon_stays_whole_while_it_is_held() {
    let (_disk, store) = with_collections();
    insert(&store, 0..10);
    let held = store.snapshot(None).expect("there");
    let ended: Vec<i64> = (0..10).collect();
    run(&store, &transaction(now(&store), vec![people_change(&ended, &[])]));
    move_horizon(&store);
    for _ in 0..3 {
        run(&store, &elected());
        store.checkpoint().expect("writes");
    }
    let gone = store.snapshot(Some(held.version())).err();
    assert_eq!(
        gone,
        Some(SnapshotError::Gone {
            horizon: store.horizon()
        })
    );
    assert_eq!(scan_people(&held).len(), 10);
    let table = held.table(PEOPLE).expect("there");
    drop(held);
    run(&store, &elected());
    store.checkpoint().expect("writes");
    assert_eq!(table.row_count(), 10);
    assert_eq!(
        people_of(&table.get(&keys(&[3]), None).expect("reads")),
        [person(3, Some("3@x"), 3)]
    );
}
