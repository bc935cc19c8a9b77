//! The log as its callers see it.

use bytes::Bytes;
use candor_proto::{Chain, Epoch, LogIndex, Position};
use candor_storage::disk::{CrashDisk, Faults};
use candor_storage::{Agreement, Entry, RangeStore, StorageError};

use crate::support::*;

fn filled(disk: &CrashDisk, counts: &[u64]) -> std::sync::Arc<RangeStore> {
    let store = create(disk);
    for (epoch, count) in counts.iter().enumerate() {
        let mut records = vec![encoded(&elected())];
        records.extend((1..*count).map(|i| (9, Bytes::from(vec![i as u8; (i * 37 % 300) as usize]))));
        store.append(Epoch(1 + epoch as u64), &records).expect("appends");
    }
    store
}

fn all(store: &RangeStore) -> Vec<Entry> {
    store
        .read(LogIndex::ZERO, LogIndex(u64::MAX), usize::MAX)
        .expect("reads")
}

#[test]
fn reads_are_bounded_and_meet_across_files() {
    let disk = CrashDisk::new(1);
    let store = filled(&disk, &[100, 1, 60]);
    assert!(log_files(&disk).len() > 3, "several files");
    let entries = all(&store);
    assert_eq!(entries.len(), 161);
    let mut chain = Chain(ID.0);
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(entry.position.index, LogIndex(at as u64 + 1));
        assert!(entry.follows(chain));
        assert_eq!(store.position_of(entry.position.index), Some(entry.position));
        assert_eq!(store.chain_at(entry.position.index), Some(entry.chain));
        chain = entry.chain;
    }
    for max_bytes in [0, 1, 100, 341, 1000, 5000, 1 << 20] {
        let mut read: Vec<Entry> = Vec::new();
        loop {
            let after = read.last().map_or(LogIndex::ZERO, |entry| entry.position.index);
            let some = store.read(after, LogIndex(150), max_bytes).expect("reads");
            let bytes: usize = some.iter().map(|entry| entry.payload.len()).sum();
            assert!(some.len() <= 1 || bytes <= max_bytes, "{bytes} of {max_bytes}");
            if some.is_empty() {
                break;
            }
            read.extend(some);
        }
        assert_eq!(read, entries[..150]);
    }
    assert!(store.read(LogIndex(161), LogIndex(170), 10).expect("reads").is_empty());
}

#[test]
fn a_log_comes_back_as_it_was() {
    let disk = CrashDisk::new(1);
    let store = filled(&disk, &[80, 80]);
    store.sync().expect("syncs");
    let again = open(&disk).expect("opens");
    assert_eq!(all(&again), all(&store));
    assert_eq!(
        (again.name(), again.id(), again.last()),
        (store.name(), store.id(), store.last())
    );
    assert_eq!(again.applied(), (Position::ZERO, Chain(ID.0)), "nothing is applied yet");
    assert!(matches!(
        try_create(&disk, 4096).err(),
        Some(StorageError::RangeExists { .. })
    ));
    assert!(matches!(
        open(&CrashDisk::new(1)).err(),
        Some(StorageError::NoRange { .. })
    ));
}

#[test]
fn entries_that_do_not_continue_the_log_are_refused() {
    let (a, b) = (CrashDisk::new(1), CrashDisk::new(2));
    let leader = filled(&a, &[10, 10]);
    let copy = create(&b);
    let entries = all(&leader);
    copy.append_collected(&entries[..7]).expect("continues");
    let mut other = entries[7].clone();
    other.payload = Bytes::from_static(b"other");
    let mut wrong_epoch = entries[7].clone();
    wrong_epoch.position.epoch = Epoch::ZERO;
    for broken in [
        vec![entries[8].clone()],
        vec![entries[6].clone()],
        vec![other],
        vec![wrong_epoch],
    ] {
        assert!(matches!(
            copy.append_collected(&broken),
            Err(StorageError::NotContinuous { .. })
        ));
    }
    let gap = [entries[7].clone(), entries[9].clone()];
    assert!(copy.append_collected(&gap).is_err());
    assert_eq!(copy.last().0.index, LogIndex(7), "all or none");
    copy.append_collected(&entries[7..]).expect("continues");
    assert_eq!(copy.last(), leader.last());
    assert!(matches!(
        leader.append(Epoch(1), &[]),
        Err(StorageError::EpochStale { .. })
    ));
}

#[test]
fn a_copy_finds_back_to_the_history_it_shares() {
    // Both share epochs 1 and 2; then one goes on in epoch 3, the other in epoch 4.
    let (a, b) = (CrashDisk::new(1), CrashDisk::new(2));
    let leader = filled(&a, &[20, 20]);
    let copy = create(&b);
    copy.append_collected(&all(&leader)).expect("continues");
    let record = |text: &'static [u8]| (9, Bytes::from_static(text));
    copy.append(Epoch(3), &[record(b"lost"), record(b"lost"), record(b"lost")])
        .expect("appends");
    leader.append(Epoch(4), &[record(b"kept")]).expect("appends");
    let mut asked = copy.last();
    let agreed = loop {
        match leader.agreement(asked.0, asked.1).expect("reads") {
            Agreement::Fits => break asked.0,
            Agreement::Behind { newest } => {
                assert!(newest.index < asked.0.index, "each answer lies further back");
                let position = copy.position_of(newest.index).expect("there");
                asked = (position, copy.chain_at(newest.index).expect("there"));
            }
            Agreement::Foreign => panic!("the beginnings agree"),
        }
    };
    assert_eq!(agreed, Position::new(Epoch(2), LogIndex(40)));
    copy.truncate_after(agreed.index).expect("cuts");
    let missing = leader
        .read(agreed.index, LogIndex(u64::MAX), usize::MAX)
        .expect("reads");
    copy.append_collected(&missing).expect("continues");
    assert_eq!(copy.last(), leader.last());
    assert_eq!(
        leader.agreement(Position::ZERO, Chain(ID.0)).expect("reads"),
        Agreement::Fits
    );
    assert_eq!(
        leader.agreement(Position::ZERO, Chain(5)).expect("reads"),
        Agreement::Foreign
    );
    let ahead = Position::new(Epoch(4), LogIndex(99));
    assert_eq!(
        leader.agreement(ahead, Chain(5)).expect("reads"),
        Agreement::Behind {
            newest: leader.last().0
        }
    );
}

#[test]
fn what_is_cut_is_gone_for_good() {
    for kept in [0, 1, 30, 31, 99] {
        let disk = CrashDisk::new(1);
        let store = filled(&disk, &[100]);
        store.sync().expect("syncs");
        let before = all(&store);
        store.truncate_after(LogIndex(kept)).expect("cuts");
        assert_eq!(all(&store), before[..kept as usize]);
        store
            .append(Epoch(2), &[(9, Bytes::from_static(b"new"))])
            .expect("appends");
        store.sync().expect("syncs");
        let after = all(&store);
        disk.restart();
        let again = open(&disk).expect("opens");
        assert_eq!(all(&again), after, "cut behind {kept}");
        assert_eq!(again.last().0, Position::new(Epoch(2), LogIndex(kept + 1)));
    }
}

#[test]
fn applied_entries_are_never_cut() {
    let (_disk, store) = with_collections();
    store.append(EPOCH, &[encoded(&elected())]).expect("appends");
    assert!(matches!(
        store.truncate_after(LogIndex(1)),
        Err(StorageError::AppliedAlready { .. })
    ));
    store.truncate_after(LogIndex(2)).expect("cuts");
    assert!(matches!(
        store.truncate_after(LogIndex(3)),
        Err(StorageError::OutOfLog { .. })
    ));
    assert!(matches!(
        store.apply_to(LogIndex(3)),
        Err(StorageError::OutOfLog { .. })
    ));
}

#[test]
fn a_full_disk_refuses_whole_appends_and_recovers() {
    for free in (0..3000).step_by(61) {
        let disk = CrashDisk::new(free);
        let store = filled(&disk, &[3]);
        let before = all(&store);
        disk.set_faults(Faults {
            bytes_free: Some(free),
            ..Faults::default()
        });
        let records: Vec<_> = (0..20).map(|i| (9, Bytes::from(vec![i; 400]))).collect();
        let refused = store.append(EPOCH, &records).expect_err("the disk is full");
        assert!(matches!(refused, StorageError::DiskFull { .. }), "{refused}");
        assert_eq!(all(&store), before, "with {free} bytes free");
        disk.set_faults(Faults::default());
        store.append(EPOCH, &records).expect("there is room again");
        store.sync().expect("syncs");
        let after = all(&store);
        disk.restart();
        assert_eq!(all(&open(&disk).expect("opens")), after);
    }
}

#[test]
fn a_failed_sync_poisons_the_log_until_it_is_recovered() {
    let disk = CrashDisk::new(3);
    let store = filled(&disk, &[3]);
    store.sync().expect("syncs");
    let durable = all(&store);
    store.append(EPOCH, &[(9, Bytes::from_static(b"x"))]).expect("appends");
    disk.set_faults(Faults {
        syncs_last: Some(0),
        ..Faults::default()
    });
    assert!(store.sync().expect_err("fails").is_fatal());
    disk.set_faults(Faults::default());
    for refused in [
        store.sync().err(),
        store.append(EPOCH, &[]).err(),
        store.truncate_after(LogIndex(1)).err(),
    ] {
        assert!(matches!(refused, Some(StorageError::Poisoned { .. })), "{refused:?}");
    }
    disk.restart();
    let recovered = all(&open(&disk).expect("opens"));
    assert!(recovered.starts_with(&durable));
}

#[test]
fn an_entry_that_is_too_large_is_refused_before_it_is_written() {
    let disk = CrashDisk::new(1);
    let store = create(&disk);
    let payload = Bytes::from(vec![0; candor_proto::limits::ENTRY_BYTES_MAX + 1]);
    assert!(matches!(
        store.append(EPOCH, &[(9, payload)]),
        Err(StorageError::TooLarge { .. })
    ));
    assert_eq!(store.last().0, Position::ZERO);
}

#[test]
fn a_range_lives_in_real_files() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = root.path().join("ranges").join("main");
    std::fs::create_dir(root.path().join("ranges")).expect("made");
    let store = RangeStore::create(&dir, &"main".into(), ID).expect("creates");
    let records: Vec<_> = (0..2000)
        .map(|i: u32| (9, Bytes::from(i.to_le_bytes().to_vec())))
        .collect();
    store.append(EPOCH, &records).expect("appends");
    store.sync().expect("syncs");
    store.truncate_after(LogIndex(1500)).expect("cuts");
    let again = RangeStore::open(&dir).expect("opens");
    assert_eq!(all(&again), all(&store));
    assert_eq!(again.last().0.index, LogIndex(1500));
}

#[test]
fn space_that_was_reserved_goes_without_a_word() {
    let disk = CrashDisk::new(1);
    let store = try_create(&disk, 1 << 20).expect("creates");
    for index in 0..200 {
        let record = if index == 0 {
            encoded(&elected())
        } else {
            (9, Bytes::from_static(b"few bytes"))
        };
        store.append(Epoch(1), &[record]).expect("appends");
        store.sync().expect("syncs");
    }
    let [file] = &log_files(&disk)[..] else {
        panic!("one file is enough")
    };
    let content = disk.content(file).expect("is there");
    let entries = all(&store);
    let written: usize = 144 + entries.iter().map(|entry| 41 + entry.payload.len()).sum::<usize>();
    assert!(content.len() > written, "zeros stand behind the entries");
    assert!(content[written..].iter().all(|byte| *byte == 0));

    let again = open(&disk).expect("opens");
    assert_eq!(all(&again), entries);
    assert_eq!(disk.content(file).expect("is there").len(), written, "they went");
    assert_eq!(torn_files(&disk), 0, "and nothing was kept aside");

    // One byte that is none is the end of a write, and is kept.
    let mut rotten = content;
    *rotten.last_mut().expect("not empty") = 1;
    disk.set_content(file, rotten);
    assert_eq!(all(&open(&disk).expect("opens")), entries);
    assert_eq!(torn_files(&disk), 1);
}

fn torn_files(disk: &CrashDisk) -> usize {
    use candor_storage::disk::Disk;
    let names = disk.list(&dir()).expect("lists");
    names.iter().filter(|name| name.starts_with("torn-")).count()
}
