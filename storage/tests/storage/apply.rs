//! What transactions do, and when they are refused.

use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch};
use candor_proto::{ErrorCode, LogIndex};
use candor_storage::{
    ApplyRefusal, CollectionId, ColumnType, Outcome, RangeStore, Record, SchemaChange, SnapshotError, TableChange,
    Transaction, TransactionPart,
};

use crate::support::*;

fn refusal(outcome: Outcome) -> ApplyRefusal {
    match outcome {
        Outcome::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn insert(store: &RangeStore, rows: &[Person]) -> Outcome {
    run(store, &transaction(now(store), vec![people_change(&[], rows)]))
}

fn applied(ended: u64, begun: u64) -> Outcome {
    Outcome::Applied { ended, begun }
}

#[test]
fn every_version_stays_as_it_was() {
    let (_disk, store) = with_collections();
    assert_eq!(
        insert(&store, &[person(1, Some("a"), 10), person(2, None, 20)]),
        applied(0, 2)
    );
    let update = people_change(&[1], &[person(1, Some("b"), 11)]);
    assert_eq!(run(&store, &transaction(LogIndex(3), vec![update])), applied(1, 1));
    assert_eq!(
        run(&store, &transaction(LogIndex(4), vec![people_change(&[2], &[])])),
        applied(1, 0)
    );
    assert_eq!(scan_people(&at(&store, 2)), []);
    assert_eq!(
        scan_people(&at(&store, 3)),
        [person(1, Some("a"), 10), person(2, None, 20)]
    );
    assert_eq!(
        scan_people(&at(&store, 4)),
        [person(1, Some("b"), 11), person(2, None, 20)]
    );
    assert_eq!(scan_people(&at(&store, 5)), [person(1, Some("b"), 11)]);
    assert_eq!(
        store.snapshot(Some(LogIndex(6))).err(),
        Some(SnapshotError::Ahead { newest: LogIndex(5) })
    );
    assert!(
        at(&store, 1).table(PEOPLE).is_none(),
        "the collection came with version 2"
    );
}

#[test]
fn the_first_to_commit_wins() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, None, 0)]);
    let snapshot = now(&store);
    let update = |score| transaction(snapshot, vec![people_change(&[1], &[person(1, None, score)])]);
    assert_eq!(run(&store, &update(5)), applied(1, 1));
    let lost = refusal(run(&store, &update(6)));
    assert_eq!(lost.code(), ErrorCode::Conflict);
    assert_eq!(
        scan_people(&at(&store, 5)),
        [person(1, None, 5)],
        "the loser left nothing behind"
    );
    let delete = |snapshot| transaction(snapshot, vec![people_change(&[1], &[])]);
    assert_eq!(refusal(run(&store, &delete(snapshot))).code(), ErrorCode::Conflict);
    let snapshot = now(&store);
    assert_eq!(run(&store, &delete(snapshot)), applied(1, 0));
    assert_eq!(
        refusal(run(&store, &delete(snapshot))).code(),
        ErrorCode::Conflict,
        "the row is gone"
    );
    let twice = transaction(now(&store), vec![people_change(&[7, 7], &[])]);
    assert_eq!(refusal(run(&store, &twice)).code(), ErrorCode::Conflict);
}

#[test]
fn keys_are_unique_among_live_rows() {
    let (_disk, store) = with_collections();
    insert(
        &store,
        &[person(1, Some("a"), 0), person(2, None, 0), person(3, None, 0)],
    );
    assert_eq!(
        refusal(insert(&store, &[person(1, None, 1)])).to_string(),
        "a row of `people` has the key (id) = (1) already: `people_pkey`"
    );
    assert_eq!(
        refusal(insert(&store, &[person(4, Some("a"), 1)])).to_string(),
        "a row of `people` has the key (email) = (a) already: `people_email_key`"
    );
    for twice in [
        [person(5, None, 0), person(5, None, 1)],
        [person(5, Some("x"), 0), person(6, Some("x"), 1)],
    ] {
        assert_eq!(refusal(insert(&store, &twice)).code(), ErrorCode::Unique);
    }
    // What the same transaction ends is out of the way, and two rows may swap their keys.
    let moved = people_change(&[1], &[person(4, Some("a"), 2)]);
    assert_eq!(run(&store, &transaction(now(&store), vec![moved])), applied(1, 1));
    insert(&store, &[person(1, Some("b"), 0)]);
    let swap = people_change(&[1, 4], &[person(1, Some("a"), 0), person(4, Some("b"), 0)]);
    assert_eq!(run(&store, &transaction(now(&store), vec![swap])), applied(2, 2));
    assert_eq!(
        insert(&store, &[person(8, None, 0)]),
        applied(0, 1),
        "NULL is exempt from a unique key"
    );
}

#[test]
fn a_value_is_required_where_the_definition_says_so() {
    let (_disk, store) = with_collections();
    let change = |columns| TableChange {
        collection: PEOPLE,
        ended: None,
        begun: Some(batch(columns)),
    };
    let null_key = change(vec![
        ("id", Arc::new(Int64Array::from(vec![None]))),
        ("score", ints(&[1])),
    ]);
    let no_score = change(vec![("id", ints(&[1]))]);
    for (change, column) in [(null_key, "id"), (no_score, "score")] {
        let refused = refusal(run(&store, &transaction(now(&store), vec![change])));
        let collection = "people".into();
        assert_eq!(
            refused,
            ApplyRefusal::NotNull {
                collection,
                column: column.into()
            }
        );
    }
}

#[test]
fn a_transaction_for_another_schema_is_refused_whole() {
    let (_disk, store) = with_collections();
    let wrong_type = TableChange {
        collection: NOTES,
        ended: None,
        begun: Some(batch(vec![(
            "note",
            Arc::new(arrow::array::StringViewArray::from(vec!["x"])),
        )])),
    };
    let unknown_column = TableChange {
        collection: NOTES,
        ended: None,
        begun: Some(batch(vec![("other", ints(&[1]))])),
    };
    let gone = TableChange {
        collection: CollectionId(77),
        ..notes_change(&[], &[1])
    };
    for broken in [wrong_type, unknown_column, gone] {
        let changes = vec![people_change(&[], &[person(1, None, 1)]), broken];
        let refused = refusal(run(&store, &transaction(now(&store), changes)));
        assert!(matches!(refused, ApplyRefusal::Schema { .. }), "{refused:?}");
    }
    assert_eq!(
        scan_people(&store.snapshot(None).expect("there")),
        [],
        "the part that fits had no effect either"
    );
    let taken = refusal(run(
        &store,
        &schema_change(vec![SchemaChange::DefineCollection(people())]),
    ));
    assert_eq!(taken.code(), ErrorCode::Conflict);
}

#[test]
fn a_collection_may_be_made_and_filled_at_once() {
    let disk = candor_storage::disk::CrashDisk::new(1);
    let store = create(&disk);
    let schema = vec![
        SchemaChange::DefineDatabase { name: "d".into() },
        SchemaChange::DefineCollection(people()),
    ];
    let filled = Record::Transaction(Transaction {
        schema: schema.clone(),
        changes: vec![people_change(&[], &[person(1, None, 1)])],
        ..Transaction::default()
    });
    let broken = Record::Transaction(Transaction {
        schema,
        changes: vec![people_change(&[], &[person(1, None, 1), person(1, None, 2)])],
        ..Transaction::default()
    });
    assert_eq!(refusal(run(&store, &broken)).code(), ErrorCode::Unique);
    assert!(
        store
            .snapshot(None)
            .expect("there")
            .catalog()
            .collection("d", "people")
            .is_none()
    );
    assert_eq!(run(&store, &filled), applied(0, 1));
    let snapshot = store.snapshot(None).expect("there");
    assert_eq!(snapshot.catalog().changed_at(), LogIndex(2));
    assert_eq!(scan_people(&snapshot), [person(1, None, 1)]);
}

#[test]
fn parts_wait_for_their_transaction_and_go_with_their_leader() {
    let (_disk, store) = with_collections();
    let part = |txn, change| Record::Part(TransactionPart { txn, change });
    let end = |txn, count, changes| {
        Record::Transaction(Transaction {
            snapshot: LogIndex(2),
            changes,
            parts: Some((txn, count)),
            ..Transaction::default()
        })
    };
    run(&store, &part(7, people_change(&[], &[person(1, None, 1)])));
    run(&store, &part(8, people_change(&[], &[person(9, None, 9)])));
    run(&store, &part(7, notes_change(&[], &[5])));
    assert_eq!(
        scan_people(&store.snapshot(None).expect("there")),
        [],
        "parts alone have no effect"
    );
    let whole = end(7, 2, vec![people_change(&[], &[person(2, None, 2)])]);
    assert_eq!(run(&store, &whole), applied(0, 3));
    assert_eq!(
        scan_people(&store.snapshot(None).expect("there")),
        [person(1, None, 1), person(2, None, 2)]
    );
    assert_eq!(
        refusal(run(&store, &whole)),
        ApplyRefusal::Incomplete { found: 0, expected: 2 }
    );
    run(&store, &elected());
    assert_eq!(
        refusal(run(&store, &end(8, 1, vec![]))),
        ApplyRefusal::Incomplete { found: 0, expected: 1 }
    );
}

#[test]
fn grown_columns_are_null_before_and_unknown_to_older_versions() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, None, 1)]);
    let grow = SchemaChange::GrowColumns {
        id: PEOPLE,
        columns: vec![column("town", ColumnType::Text, true)],
    };
    run(&store, &schema_change(vec![grow]));
    let row = batch(vec![
        ("town", Arc::new(arrow::array::StringViewArray::from(vec!["Ulm"]))),
        ("score", ints(&[2])),
        ("id", ints(&[2])),
    ]);
    let change = TableChange {
        collection: PEOPLE,
        ended: None,
        begun: Some(row),
    };
    assert_eq!(run(&store, &transaction(now(&store), vec![change])), applied(0, 1));
    let table = store.snapshot(None).expect("there").table(PEOPLE).expect("there");
    let rows = table.get(&keys(&[2, 1]), Some(&[0, 3])).expect("reads");
    assert_eq!(rows.num_rows(), 2);
    assert!(rows.column(1).is_valid(0) && rows.column(1).is_null(1));
    let scanned = scan(&table, &[0, 1, 2, 3], false);
    assert!(scanned.iter().all(|batch| batch.num_columns() == 4));
    assert_eq!(scanned.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert_eq!(at(&store, 3).table(PEOPLE).expect("there").schema().fields().len(), 3);
    assert_eq!(scan_people(&at(&store, 3)), [person(1, None, 1)]);
}

#[test]
fn the_horizon_moves_by_the_log_alone() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, None, 1)]);
    run(
        &store,
        &transaction(LogIndex(3), vec![people_change(&[1], &[person(1, None, 2)])]),
    );
    let remove = SchemaChange::RemoveCollection { id: NOTES };
    run(&store, &schema_change(vec![remove]));
    assert!(at(&store, 4).table(NOTES).is_some());
    assert!(at(&store, 5).table(NOTES).is_none());
    run(&store, &Record::Horizon { index: LogIndex(4) });
    assert_eq!(store.horizon(), LogIndex(4));
    assert_eq!(
        store.snapshot(Some(LogIndex(3))).err(),
        Some(SnapshotError::Gone { horizon: LogIndex(4) })
    );
    assert!(at(&store, 4).table(NOTES).is_some(), "still within the horizon");
    assert_eq!(scan_people(&at(&store, 4)), [person(1, None, 2)]);
    run(&store, &Record::Horizon { index: LogIndex(99) });
    assert_eq!(store.horizon(), LogIndex(7), "never ahead of its own entry");
    run(&store, &Record::Horizon { index: LogIndex(2) });
    assert_eq!(store.horizon(), LogIndex(7), "never back");
    // A transaction that read a version from before the horizon can no longer be judged by it.
    let old = transaction(LogIndex(3), vec![people_change(&[1], &[])]);
    assert_eq!(refusal(run(&store, &old)).code(), ErrorCode::Conflict);
}

#[test]
fn each_version_tells_which_rows_it_ended_and_began() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, None, 1), person(2, None, 2)]);
    run(
        &store,
        &transaction(
            LogIndex(3),
            vec![people_change(&[2], &[person(2, None, 3), person(3, None, 4)])],
        ),
    );
    let table = at(&store, 4).table(PEOPLE).expect("there");
    let changes = table.changes();
    let begun: Vec<_> = changes.begun.clone().map(candor_storage::RowId).collect();
    let rows = |ids: &[_]| people_of(&table.rows(ids, None).expect("reads"));
    assert_eq!(rows(&changes.ended), [person(2, None, 2)]);
    assert_eq!(rows(&begun), [person(2, None, 3), person(3, None, 4)]);
    let quiet = run(&store, &elected());
    assert_eq!(quiet, Outcome::Other);
    let changes = at(&store, 5).table(PEOPLE).expect("there").changes();
    assert!(changes.ended.is_empty() && changes.begun.is_empty());
}

#[test]
fn subscribers_hear_of_each_apply() {
    let (_disk, store) = with_collections();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    store.subscribe(Box::new(move |version| ear.lock().expect("sound").push(version)));
    insert(&store, &[person(1, None, 1)]);
    store.apply_to(now(&store)).expect("nothing to do");
    insert(&store, &[person(2, None, 1)]);
    assert_eq!(*heard.lock().expect("sound"), [LogIndex(3), LogIndex(4)]);
}
