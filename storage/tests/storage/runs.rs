//! Rows of large transactions that come in segments of their own.

use std::sync::Arc;

use arrow::array::Int64Array;
use candor_proto::LogIndex;
use candor_storage::disk::Disk as _;
use candor_storage::{
    ApplyRefusal, CollectionDef, CollectionId, ColumnType, ForeignAction, ForeignKeyDef, Outcome, RangeStore, Record,
    RunBuilder, RunError, SchemaChange, Transaction,
};

use crate::support::*;

/// Brings runs as parts of a transaction and ends it.
fn commit(store: &RangeStore, txn: u128, runs: &[Vec<Record>], rest: Transaction) -> Outcome {
    let pieces: Vec<&Record> = runs.iter().flatten().collect();
    for piece in &pieces {
        assert_eq!(run(store, piece), Outcome::Other);
    }
    let last = Transaction {
        parts: Some((txn, pieces.len() as u32)),
        ..rest
    };
    run(store, &Record::Transaction(last))
}

fn load(store: &RangeStore, txn: u128, runs: &[&[Person]]) -> Outcome {
    let runs: Vec<_> = runs.iter().map(|rows| people_run(txn, rows)).collect();
    let snapshot = now(store);
    commit(
        store,
        txn,
        &runs,
        Transaction {
            snapshot,
            ..Transaction::default()
        },
    )
}

/// The end of a transaction that read the newest version.
fn reading(store: &RangeStore) -> Transaction {
    Transaction {
        snapshot: now(store),
        ..Transaction::default()
    }
}

fn people_from(ids: impl Iterator<Item = i64>) -> Vec<Person> {
    ids.map(|id| person(id, Some(&format!("{id}@somewhere.example.org")), id * 2))
        .collect()
}

fn newest(store: &RangeStore) -> Vec<Person> {
    scan_people(&store.snapshot(None).expect("there"))
}

fn unique(columns: &str, key: &str) -> Outcome {
    let def = people();
    let ordinal = def.column(columns).expect("there") as u32;
    Outcome::Refused(ApplyRefusal::Unique {
        collection: "people".into(),
        constraint: def.unique_on(&[ordinal]).expect("a key").to_owned(),
        columns: columns.into(),
        key: key.into(),
    })
}

#[test]
fn rows_take_effect_together_and_take_no_memory() {
    let (_disk, store) = with_collections();
    let rows = people_from((0..3000).rev());
    let pieces = people_run(7, &rows);
    assert!(pieces.len() > 1, "a piece for each file at least");
    for piece in &pieces {
        run(&store, piece);
        assert_eq!(newest(&store), []);
    }
    let last = Transaction {
        snapshot: now(&store),
        parts: Some((7, pieces.len() as u32)),
        ..Transaction::default()
    };
    let before = now(&store).0;
    assert_eq!(
        run(&store, &Record::Transaction(last)),
        Outcome::Applied { ended: 0, begun: 3000 }
    );
    assert_eq!(newest(&store), people_from(0..3000));
    assert_eq!(scan_people(&at(&store, before)), [], "no version before shows them");
    let info = store.info();
    assert_eq!((info.segment_rows, info.delta_rows), (3000, 0));
    // They can be looked up, ended and written anew like any others.
    let table = store.snapshot(None).expect("there").table(PEOPLE).expect("there");
    assert_eq!(
        people_of(&table.get(&keys(&[17, 5000]), None).expect("reads")),
        people_from(17..18)
    );
    let change = people_change(&[17], &[person(17, None, 1)]);
    assert_eq!(
        run(&store, &transaction(now(&store), vec![change])),
        Outcome::Applied { ended: 1, begun: 1 }
    );
    assert_eq!(newest(&store)[17], person(17, None, 1));
}

#[test]
fn ids_are_counted_on_from_the_rows_before() {
    let (disk, store) = with_collections();
    let def = Arc::new(notes());
    let notes_run = |txn, rows: &[i64]| {
        let mut builder = RunBuilder::new(Arc::clone(&def)).expect("sound");
        builder.push(&batch(vec![("note", ints(rows))])).expect("fits");
        let pieces = builder.finish(txn).expect("no key");
        let decode = |(kind, payload): &(u8, bytes::Bytes)| Record::decode(*kind, payload).expect("decodes");
        pieces.iter().map(decode).collect::<Vec<_>>()
    };
    run(&store, &transaction(now(&store), vec![notes_change(&[], &[10, 11])]));
    // The same rows twice make the same file twice.
    let runs = [notes_run(7, &[5, 6]), notes_run(7, &[5, 6])];
    let rest = Transaction {
        snapshot: now(&store),
        changes: vec![notes_change(&[1], &[12])],
        ..Transaction::default()
    };
    assert_eq!(commit(&store, 7, &runs, rest), Outcome::Applied { ended: 1, begun: 5 });
    let expected = [(0, 10), (2, 5), (3, 6), (4, 5), (5, 6), (6, 12)];
    assert_eq!(scan_notes(&store.snapshot(None).expect("there")), expected);
    store.checkpoint().expect("writes");
    run(&store, &transaction(now(&store), vec![notes_change(&[3], &[])]));
    let expected = [(0, 10), (2, 5), (4, 5), (5, 6), (6, 12)];
    assert_eq!(scan_notes(&store.snapshot(None).expect("there")), expected);
    store.sync().expect("syncs");
    drop(store);
    disk.restart();
    let store = open(&disk).expect("opens");
    store.apply_to(store.last().0.index).expect("applies");
    assert_eq!(scan_notes(&store.snapshot(None).expect("there")), expected);
}

#[test]
fn a_key_that_another_row_has_refuses_all() {
    let (_disk, store) = with_collections();
    let primary = |key: &str| unique("id", key);
    // Among the runs of one transaction, whether their keys lie apart or not.
    let (even, odd) = (people_from((0..4000).step_by(2)), people_from((1..4000).step_by(2)));
    let again = [person(2001, None, 0)];
    assert_eq!(load(&store, 1, &[&even, &odd, &again]), primary("2001"));
    assert_eq!(
        load(&store, 2, &[&people_from(0..10), &people_from(9..20)]),
        primary("9")
    );
    assert_eq!(newest(&store), []);
    assert_eq!(
        load(&store, 3, &[&even, &odd]),
        Outcome::Applied { ended: 0, begun: 4000 }
    );
    // With rows in segments.
    assert_eq!(load(&store, 4, &[&people_from(3999..4005)]), primary("3999"));
    // With rows in memory.
    let change = people_change(&[], &people_from(5000..5001));
    run(&store, &transaction(now(&store), vec![change]));
    assert_eq!(load(&store, 5, &[&people_from(4990..5010)]), primary("5000"));
    // With rows of the same transaction that came another way.
    let rest = Transaction {
        snapshot: now(&store),
        changes: vec![people_change(&[], &people_from(7000..7001))],
        ..Transaction::default()
    };
    assert_eq!(
        commit(&store, 6, &[people_run(6, &people_from(6990..7010))], rest),
        primary("7000")
    );
    assert_eq!(newest(&store).len(), 4001);
}

#[test]
fn a_unique_key_that_another_row_has_refuses_all() {
    let (_disk, store) = with_collections();
    let email = |key: &str| unique("email", key);
    let rows = [person(1, Some("a"), 0), person(2, None, 0), person(3, None, 0)];
    assert_eq!(
        load(&store, 1, &[&rows, &[person(4, Some("b"), 0), person(5, Some("b"), 0)]]),
        email("b")
    );
    assert_eq!(load(&store, 2, &[&rows, &[person(4, Some("a"), 0)]]), email("a"));
    assert_eq!(
        load(&store, 3, &[&rows, &[person(4, Some("b"), 0)]]),
        Outcome::Applied { ended: 0, begun: 4 }
    );
    assert_eq!(load(&store, 4, &[&[person(9, Some("b"), 0)]]), email("b"));
}

#[test]
fn keys_of_rows_that_end_are_free() {
    let (_disk, store) = with_collections();
    assert_eq!(
        load(&store, 1, &[&people_from(0..10)]),
        Outcome::Applied { ended: 0, begun: 10 }
    );
    let change = people_change(&[3], &[]);
    run(&store, &transaction(now(&store), vec![change]));
    let rest = Transaction {
        snapshot: now(&store),
        changes: vec![people_change(&[4], &[])],
        ..Transaction::default()
    };
    let outcome = commit(&store, 2, &[people_run(2, &people_from(3..5))], rest);
    assert_eq!(outcome, Outcome::Applied { ended: 1, begun: 2 });
    assert_eq!(newest(&store), people_from(0..10));
    assert_eq!(load(&store, 3, &[&people_from(4..5)]), unique("id", "4"));
}

#[test]
fn a_row_in_memory_that_ended_hides_none_in_a_segment() {
    let (_disk, store) = with_collections();
    run(
        &store,
        &transaction(now(&store), vec![people_change(&[], &people_from(1..2))]),
    );
    run(&store, &transaction(now(&store), vec![people_change(&[1], &[])]));
    assert_eq!(
        load(&store, 1, &[&people_from(1..3)]),
        Outcome::Applied { ended: 0, begun: 2 }
    );
    let table = store.snapshot(None).expect("there").table(PEOPLE).expect("there");
    assert_eq!(
        people_of(&table.get(&keys(&[1]), None).expect("reads")),
        people_from(1..2)
    );
    let outcome = run(
        &store,
        &transaction(now(&store), vec![people_change(&[], &people_from(1..2))]),
    );
    assert_eq!(outcome, unique("id", "1"));
}

#[test]
fn equal_keys_in_one_run_are_refused_before_anything_is_written() {
    let mut builder = RunBuilder::new(Arc::new(people())).expect("sound");
    builder
        .push(&people_batch(&[person(8, None, 1), person(3, None, 1)]))
        .expect("fits");
    builder.push(&people_batch(&[person(3, None, 2)])).expect("fits");
    match builder.finish(1) {
        Err(RunError::Refused(refusal)) => assert_eq!(Outcome::Refused(refusal), unique("id", "3")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_definition_that_changed_meanwhile_is_a_conflict() {
    let (_disk, store) = with_collections();
    let pieces = people_run(1, &people_from(0..3));
    let grow = SchemaChange::GrowColumns {
        id: PEOPLE,
        columns: vec![column("extra", ColumnType::Int64, true)],
    };
    run(&store, &schema_change(vec![grow]));
    let outcome = commit(&store, 1, &[pieces], reading(&store));
    let conflict = ApplyRefusal::Conflict {
        collection: "people".into(),
    };
    assert_eq!(outcome, Outcome::Refused(conflict));
}

#[test]
fn a_null_where_a_value_is_required_refuses_all() {
    let (_disk, store) = with_collections();
    // Whoever made the run believed in another definition.
    let mut lenient = people();
    lenient.columns[2].nullable = true;
    let mut builder = RunBuilder::new(Arc::new(lenient)).expect("sound");
    builder.push(&keys(&[1])).expect("fits");
    let pieces = builder.finish(1).expect("one row");
    let pieces = pieces
        .iter()
        .map(|(kind, payload)| Record::decode(*kind, payload).expect("decodes"));
    let outcome = commit(&store, 1, &[pieces.collect()], reading(&store));
    let missing = ApplyRefusal::NotNull {
        collection: "people".into(),
        column: "score".into(),
    };
    assert_eq!(outcome, Outcome::Refused(missing));
}

#[test]
fn pieces_that_make_no_run_are_missing_parts() {
    let whole = people_run(1, &people_from(0..3));
    let count = whole.len() as u32;
    let mut cases = vec![whole[1..].to_vec(), whole[..whole.len() - 1].to_vec()];
    let mut longer = whole.clone();
    if let Some(Record::Run(piece)) = longer.last_mut() {
        piece.bytes = [&piece.bytes[..], b"more"].concat().into();
    }
    let twice = [&whole[..1], &whole[..]].concat();
    cases.extend([longer, twice]);
    for (at, pieces) in cases.into_iter().enumerate() {
        let (_disk, store) = with_collections();
        for piece in &pieces {
            run(&store, piece);
        }
        let last = Transaction {
            parts: Some((1, count.max(pieces.len() as u32))),
            ..Transaction::default()
        };
        let outcome = run(&store, &Record::Transaction(last));
        assert!(
            matches!(outcome, Outcome::Refused(ApplyRefusal::Incomplete { .. })),
            "case {at}: {outcome:?}"
        );
        assert_eq!(newest(&store), []);
    }
}

#[test]
fn a_run_that_nobody_ends_is_garbage() {
    let (disk, store) = with_collections();
    for piece in people_run(1, &people_from(0..3)) {
        run(&store, &piece);
    }
    let segments = || disk.list(&dir().join("segments")).expect("lists").len();
    store.checkpoint().expect("writes");
    assert_eq!(segments(), 2, "a checkpoint keeps it");
    run(&store, &Record::Discard { txn: 1 });
    // Two manifests are kept, so it goes with the second that does not know it.
    for _ in 0..2 {
        run(&store, &Record::Horizon { index: LogIndex(1) });
        store.checkpoint().expect("writes");
    }
    assert_eq!(segments(), 0);
}

#[test]
fn children_in_a_run_have_their_parents() {
    let (_disk, store) = with_collections();
    let children = CollectionId(7);
    let mut def = CollectionDef::new(
        children,
        "d",
        "children",
        [
            column("id", ColumnType::Int64, false),
            column("parent", ColumnType::Int64, true),
        ],
    );
    def.key = vec![0];
    def.key_name = "children_pkey".into();
    def.foreign_keys = vec![ForeignKeyDef {
        name: "children_parent_fkey".into(),
        columns: vec![1],
        parent: PEOPLE,
        parent_columns: vec![0],
        on_delete: ForeignAction::NoAction,
        on_update: ForeignAction::NoAction,
    }];
    let outcome = run(
        &store,
        &Record::Transaction(Transaction {
            snapshot: now(&store),
            schema: vec![SchemaChange::DefineCollection(def.clone())],
            ..Transaction::default()
        }),
    );
    assert_eq!(outcome, Outcome::Applied { ended: 0, begun: 0 });
    let children_run = |txn, rows: &[(i64, Option<i64>)]| {
        let mut builder = RunBuilder::new(Arc::new(def.clone())).expect("sound");
        let parents: Int64Array = rows.iter().map(|(_, parent)| *parent).collect();
        let ids = ints(&rows.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let rows = batch(vec![("id", ids), ("parent", Arc::new(parents))]);
        builder.push(&rows).expect("fits");
        let pieces = builder.finish(txn).expect("distinct");
        let decode = |(kind, payload): &(u8, bytes::Bytes)| Record::decode(*kind, payload).expect("decodes");
        pieces.iter().map(decode).collect::<Vec<_>>()
    };
    let load = |txn, runs: &[Vec<Record>]| {
        let rest = Transaction {
            snapshot: now(&store),
            ..Transaction::default()
        };
        commit(&store, txn, runs, rest)
    };
    let missing = |outcome| matches!(outcome, Outcome::Refused(ApplyRefusal::ForeignKey { key, .. }) if key == "3");
    assert!(missing(load(1, &[children_run(1, &[(1, None), (2, Some(3))])])));
    assert_eq!(
        load(2, &[children_run(2, &[(1, None)])]),
        Outcome::Applied { ended: 0, begun: 1 }
    );
    // Parent and child together.
    let both = [children_run(3, &[(2, Some(3))]), people_run(3, &people_from(3..5))];
    assert_eq!(load(3, &both), Outcome::Applied { ended: 0, begun: 3 });
    let change = people_change(&[3], &[]);
    assert!(missing(run(&store, &transaction(now(&store), vec![change]))));
}
