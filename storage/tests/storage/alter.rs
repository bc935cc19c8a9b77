//! Definitions that change under rows, and foreign keys between tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use candor_proto::LogIndex;
use candor_storage::{
    Alteration, ApplyRefusal, CollectionDef, CollectionId, ColumnType, Constant, ForeignAction, ForeignKeyDef, KeyDef,
    KeyKind, Outcome, RangeStore, SchemaChange, TableChange, Transaction,
};

use crate::support::*;

const CHILDREN: CollectionId = CollectionId(2);

fn def_of(store: &RangeStore, id: CollectionId) -> CollectionDef {
    let snapshot = store.snapshot(None).expect("there");
    CollectionDef::clone(snapshot.catalog().collection_by_id(id).expect("there"))
}

/// The definition of a collection as it is, changed, as a transaction at `snapshot`.
fn altered(
    store: &RangeStore,
    snapshot: LogIndex,
    id: CollectionId,
    rows_unchanged: bool,
    change: impl FnOnce(&mut CollectionDef),
) -> Outcome {
    let mut def = def_of(store, id);
    change(&mut def);
    def.schema_version += 1;
    let schema = vec![SchemaChange::AlterCollection(Alteration { def, rows_unchanged })];
    run(store, &record(snapshot, schema, vec![]))
}

fn record(snapshot: LogIndex, schema: Vec<SchemaChange>, changes: Vec<TableChange>) -> candor_storage::Record {
    candor_storage::Record::Transaction(Transaction {
        snapshot,
        schema,
        changes,
        ..Transaction::default()
    })
}

fn insert(store: &RangeStore, rows: &[Person]) {
    fits(&run(store, &transaction(now(store), vec![people_change(&[], rows)])));
}

fn fits(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
}

fn refusal(outcome: Outcome) -> ApplyRefusal {
    match outcome {
        Outcome::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn change(collection: CollectionId, ended: Option<RecordBatch>, begun: Option<RecordBatch>) -> TableChange {
    TableChange {
        collection,
        ended,
        begun,
    }
}

fn column_of(store: &RangeStore, id: CollectionId, name: &str) -> Vec<Option<i64>> {
    let table = store.snapshot(None).expect("there").table(id).expect("there");
    let ordinal = table.def().column(name).expect("a column");
    let batches = scan(&table, &[ordinal], false);
    let values = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter());
    values.collect()
}

#[test]
fn a_name_that_comes_back_does_not_show_the_old_values() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, Some("a"), 7)]);
    let before = now(&store);
    fits(&altered(&store, now(&store), PEOPLE, false, |def| def.remove_column(2)));
    let nine: ArrayRef = ints(&[9]);
    fits(&altered(&store, now(&store), PEOPLE, false, |def| {
        let missing = Some(Constant::new(&nine).expect("one value"));
        def.push_column(candor_storage::ColumnDef {
            missing,
            ..column("score", ColumnType::Int64, false)
        });
        def.columns[1].name = "mail".into();
    }));
    assert_eq!(column_of(&store, PEOPLE, "score"), [Some(9)]);
    let table = store.snapshot(None).expect("there").table(PEOPLE).expect("there");
    let row = table.get(&keys(&[1]), None).expect("reads");
    assert_eq!(
        row.column(1).as_string_view().value(0),
        "a",
        "a renamed column keeps its values"
    );
    assert_eq!(
        scan_people(&at(&store, before.0)),
        [person(1, Some("a"), 7)],
        "older versions are as they were"
    );
    let twice = altered(&store, now(&store), PEOPLE, false, |def| {
        def.columns[2].ty = ColumnType::Text;
    });
    assert!(
        matches!(refusal(twice), ApplyRefusal::Schema { .. }),
        "an id has one type"
    );
}

#[test]
fn values_are_required_of_the_rows_that_are_there_when_it_is_applied() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, Some("a"), 1)]);
    let snapshot = now(&store);
    insert(&store, &[person(2, None, 1)]);
    let strict = |def: &mut CollectionDef| def.columns[1].nullable = false;
    assert!(matches!(
        refusal(altered(&store, snapshot, PEOPLE, false, strict)),
        ApplyRefusal::NotNull { column, .. } if column == "email"
    ));
    fits(&run(
        &store,
        &transaction(now(&store), vec![people_change(&[2], &[person(2, Some("b"), 1)])]),
    ));
    fits(&altered(&store, now(&store), PEOPLE, false, strict));
    let null = run(
        &store,
        &transaction(now(&store), vec![people_change(&[], &[person(3, None, 1)])]),
    );
    assert!(matches!(refusal(null), ApplyRefusal::NotNull { .. }));
    // The row that ended held a NULL, and stands in its block still.
    let rows = [person(1, Some("a"), 1), person(2, Some("b"), 1)];
    assert_eq!(scan_people(&store.snapshot(None).expect("there")), rows);
}

#[test]
fn a_write_that_was_made_for_another_definition_is_a_conflict() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, None, 1)]);
    let snapshot = now(&store);
    fits(&altered(&store, snapshot, PEOPLE, false, |def| {
        def.columns[2].name = "points".into();
    }));
    let late = run(&store, &transaction(snapshot, vec![people_change(&[1], &[])]));
    assert!(matches!(refusal(late), ApplyRefusal::Conflict { .. }));
    let other = altered(&store, snapshot, NOTES, false, |def| def.name = "remarks".into());
    assert!(
        matches!(refusal(other), ApplyRefusal::Schema { .. }),
        "other definitions have changed"
    );
    let elsewhere = run(&store, &transaction(snapshot, vec![notes_change(&[], &[5])]));
    fits(&elsewhere);
    fits(&altered(&store, now(&store), NOTES, false, |def| {
        def.name = "remarks".into();
    }));
    let snapshot = store.snapshot(None).expect("there");
    assert!(snapshot.catalog().collection("d", "notes").is_none());
    assert_eq!(snapshot.catalog().collection("d", "remarks").expect("there").id, NOTES);
}

#[test]
fn what_was_made_from_the_rows_does_not_fit_rows_that_came_since() {
    let (_disk, store) = with_collections();
    let snapshot = now(&store);
    insert(&store, &[person(1, None, 1)]);
    let check = |def: &mut CollectionDef| {
        def.checks.push(candor_storage::CheckDef {
            name: "c".into(),
            sql: "score > 5".into(),
        });
    };
    assert!(matches!(
        refusal(altered(&store, snapshot, PEOPLE, true, check)),
        ApplyRefusal::Conflict { .. }
    ));
    fits(&altered(&store, now(&store), PEOPLE, true, check));
}

#[test]
fn a_key_that_is_added_holds_for_the_rows_that_are_there() {
    let (_disk, store) = with_collections();
    let snapshot = now(&store);
    insert(&store, &[person(1, None, 7), person(2, None, 8)]);
    let unique = |def: &mut CollectionDef| {
        def.keys.push(KeyDef {
            name: "people_score_key".into(),
            columns: vec![2],
            kind: KeyKind::Unique,
        });
    };
    insert(&store, &[person(3, None, 7)]);
    let twice = refusal(altered(&store, snapshot, PEOPLE, false, unique));
    let ApplyRefusal::Unique { constraint, key, .. } = twice else {
        panic!("{twice}")
    };
    assert_eq!((constraint.as_str(), key.as_str()), ("people_score_key", "7"));
    fits(&run(&store, &transaction(now(&store), vec![people_change(&[3], &[])])));
    fits(&altered(&store, now(&store), PEOPLE, false, unique));
    let again = run(
        &store,
        &transaction(now(&store), vec![people_change(&[], &[person(4, None, 8)])]),
    );
    assert!(matches!(refusal(again), ApplyRefusal::Unique { .. }));
    fits(&run(
        &store,
        &transaction(now(&store), vec![people_change(&[1], &[person(4, None, 7)])]),
    ));
    let table = store.snapshot(None).expect("there").table(PEOPLE).expect("there");
    let found = table
        .find_all(&[2], &batch(vec![("score", ints(&[7]))]))
        .expect("indexed");
    assert_eq!(found.len(), 1);
    assert!(!at(&store, snapshot.0).table(PEOPLE).expect("there").is_indexed(&[2]));
}

#[test]
fn an_index_finds_all_rows_of_a_value_at_each_version() {
    let (_disk, store) = with_collections();
    fits(&altered(&store, now(&store), PEOPLE, false, |def| {
        def.keys.push(KeyDef {
            name: "by_score".into(),
            columns: vec![2],
            kind: KeyKind::Index,
        });
    }));
    insert(&store, &[person(1, None, 7), person(2, None, 7), person(3, None, 8)]);
    let before = now(&store);
    fits(&run(
        &store,
        &transaction(now(&store), vec![people_change(&[1], &[person(1, None, 8)])]),
    ));
    let count = |version: LogIndex, score: i64| {
        let table = at(&store, version.0).table(PEOPLE).expect("there");
        table
            .find_all(&[2], &batch(vec![("score", ints(&[score]))]))
            .expect("indexed")
            .len()
    };
    assert_eq!((count(before, 7), count(before, 8)), (2, 1));
    assert_eq!((count(now(&store), 7), count(now(&store), 8)), (1, 2));
}

/// `children (id, parent REFERENCES people)`.
fn children(on_delete: ForeignAction) -> CollectionDef {
    let columns = [
        column("id", ColumnType::Int64, false),
        column("parent", ColumnType::Int64, true),
    ];
    CollectionDef {
        key: vec![0],
        key_name: "children_pkey".into(),
        foreign_keys: vec![ForeignKeyDef {
            name: "children_parent_fkey".into(),
            columns: vec![1],
            parent: PEOPLE,
            parent_columns: vec![0],
            on_delete,
            on_update: ForeignAction::NoAction,
        }],
        ..CollectionDef::new(CHILDREN, "d", "children", columns)
    }
}

fn with_children(on_delete: ForeignAction) -> Arc<RangeStore> {
    let (_disk, store) = with_collections();
    let schema = vec![SchemaChange::DefineCollection(children(on_delete))];
    fits(&run(&store, &record(now(&store), schema, vec![])));
    store
}

fn born(rows: &[(i64, Option<i64>)]) -> TableChange {
    let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
    let parents: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<arrow::array::Int64Array>());
    change(
        CHILDREN,
        None,
        Some(batch(vec![("id", ints(&ids)), ("parent", parents)])),
    )
}

#[test]
fn a_child_has_its_parent_whatever_comes_first() {
    let store = with_children(ForeignAction::NoAction);
    let orphan = run(&store, &transaction(now(&store), vec![born(&[(1, Some(1))])]));
    let orphan = refusal(orphan);
    assert_eq!(orphan.sqlstate(), Some("23503"));
    assert_eq!(orphan.constraint(), Some("children_parent_fkey"));
    insert(&store, &[person(1, None, 1), person(2, None, 2)]);
    let snapshot = now(&store);
    fits(&run(
        &store,
        &transaction(snapshot, vec![born(&[(1, Some(1)), (2, None)])]),
    ));
    // Decided against the state it meets, not against the one it saw.
    let late = run(&store, &transaction(snapshot, vec![people_change(&[1], &[])]));
    assert!(matches!(refusal(late), ApplyRefusal::ForeignKey { .. }));
    let snapshot = now(&store);
    fits(&run(&store, &transaction(snapshot, vec![people_change(&[2], &[])])));
    let late = run(&store, &transaction(snapshot, vec![born(&[(3, Some(2))])]));
    assert!(matches!(refusal(late), ApplyRefusal::ForeignKey { .. }));
    // The same key again, and both sides together.
    fits(&run(
        &store,
        &transaction(now(&store), vec![people_change(&[1], &[person(1, None, 5)])]),
    ));
    let gone = change(CHILDREN, Some(batch(vec![("id", ints(&[1]))])), None);
    fits(&run(
        &store,
        &transaction(now(&store), vec![people_change(&[1], &[]), gone]),
    ));
    fits(&run(
        &store,
        &transaction(
            now(&store),
            vec![born(&[(4, Some(4))]), people_change(&[], &[person(4, None, 4)])],
        ),
    ));
}

#[test]
fn children_that_came_meanwhile_are_a_conflict_for_who_meant_to_take_all() {
    let store = with_children(ForeignAction::Cascade);
    insert(&store, &[person(1, None, 1)]);
    let snapshot = now(&store);
    fits(&run(&store, &transaction(snapshot, vec![born(&[(1, Some(1))])])));
    let late = run(&store, &transaction(snapshot, vec![people_change(&[1], &[])]));
    assert!(matches!(refusal(late), ApplyRefusal::Conflict { .. }));
}

#[test]
fn a_foreign_key_that_is_added_holds_for_the_rows_that_are_there() {
    let store = with_children(ForeignAction::NoAction);
    fits(&altered(&store, now(&store), CHILDREN, false, |def| {
        def.foreign_keys.clear();
    }));
    fits(&run(&store, &transaction(now(&store), vec![born(&[(1, Some(1))])])));
    let add = |def: &mut CollectionDef| def.foreign_keys = children(ForeignAction::NoAction).foreign_keys;
    assert!(matches!(
        refusal(altered(&store, now(&store), CHILDREN, false, add)),
        ApplyRefusal::ForeignKey { .. }
    ));
    insert(&store, &[person(1, None, 1)]);
    fits(&altered(&store, now(&store), CHILDREN, false, add));
    let unkeyed = altered(&store, now(&store), PEOPLE, false, |def| def.key.clear());
    assert!(
        matches!(refusal(unkeyed), ApplyRefusal::Schema { .. }),
        "children point to the key"
    );
    let remove = SchemaChange::RemoveCollection { id: PEOPLE };
    let removed = run(&store, &record(now(&store), vec![remove], vec![]));
    assert!(
        matches!(refusal(removed), ApplyRefusal::Schema { .. }),
        "children point to it"
    );
}

#[test]
fn rows_may_end_by_their_ids_where_there_is_a_key() {
    let (_disk, store) = with_collections();
    insert(&store, &[person(1, None, 1), person(2, None, 2)]);
    let ids: ArrayRef = Arc::new(arrow::array::UInt64Array::from(vec![0]));
    fits(&run(
        &store,
        &transaction(
            now(&store),
            vec![change(PEOPLE, Some(batch(vec![("_row", ids)])), None)],
        ),
    ));
    assert_eq!(scan_people(&store.snapshot(None).expect("there")), [person(2, None, 2)]);
}

#[test]
fn what_is_altered_after_a_checkpoint_holds_for_rows_in_segments() {
    let (disk, store) = with_collections();
    insert(
        &store,
        &[person(1, Some("a"), 7), person(2, None, 8), person(3, None, 7)],
    );
    store.checkpoint().expect("writes");
    let unique = |def: &mut CollectionDef| {
        def.keys.push(KeyDef {
            name: "people_score_key".into(),
            columns: vec![2],
            kind: KeyKind::Unique,
        });
    };
    let twice = refusal(altered(&store, now(&store), PEOPLE, false, unique));
    assert!(matches!(twice, ApplyRefusal::Unique { .. }), "{twice}");
    let strict = |def: &mut CollectionDef| def.columns[1].nullable = false;
    let null = refusal(altered(&store, now(&store), PEOPLE, false, strict));
    assert!(matches!(null, ApplyRefusal::NotNull { .. }), "{null}");
    fits(&run(
        &store,
        &transaction(now(&store), vec![people_change(&[2, 3], &[person(2, Some("b"), 8)])]),
    ));
    fits(&altered(&store, now(&store), PEOPLE, false, |def| {
        unique(def);
        strict(def);
    }));
    let again = |store: &RangeStore, id: i64, score: i64| {
        let row = person(id, Some("c"), score);
        run(store, &transaction(now(store), vec![people_change(&[], &[row])]))
    };
    let rows = [person(1, Some("a"), 7), person(2, Some("b"), 8)];
    let check = |store: &RangeStore| {
        assert!(matches!(refusal(again(store, 4, 7)), ApplyRefusal::Unique { .. }));
        assert!(matches!(refusal(again(store, 4, 8)), ApplyRefusal::Unique { .. }));
        let snapshot = store.snapshot(None).expect("there");
        assert_eq!(scan_people(&snapshot), rows);
        let table = snapshot.table(PEOPLE).expect("there");
        let found = table
            .find_all(&[2], &batch(vec![("score", ints(&[7, 8, 9]))]))
            .expect("indexed");
        assert_eq!(found.len(), 2);
    };
    check(&store);
    store.checkpoint().expect("writes");
    check(&store);
    store.sync().expect("syncs");
    drop(store);
    let store = open(&disk).expect("opens");
    store.apply_to(store.last().0.index).expect("applies");
    check(&store);
    fits(&again(&store, 4, 9));
}
