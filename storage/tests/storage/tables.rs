//! How tables are read.

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use candor_proto::{ErrorCode, LogIndex};
use candor_storage::{CollectionDef, CollectionId, ColumnType, Outcome, RowId, SchemaChange, TableChange, TablePart};

use crate::support::*;

#[test]
fn single_rows_are_scanned_in_large_blocks_and_keep_their_ids() {
    let (_disk, store) = with_collections();
    let records: Vec<_> = (0..5000)
        .map(|note| encoded(&transaction(LogIndex(2), vec![notes_change(&[], &[note])])))
        .collect();
    store.append(EPOCH, &records).expect("appends");
    store.apply_to(store.last().0.index).expect("applies");
    let snapshot = store.snapshot(None).expect("there");
    let wanted: Vec<_> = (0..5000).map(|note| (note as u64, note)).collect();
    assert_eq!(scan_notes(&snapshot), wanted);
    let parts = snapshot.table(NOTES).expect("there").parts();
    assert_eq!(parts.iter().map(TablePart::len).collect::<Vec<_>>(), [4096, 904]);
    // A version in the middle of a block sees its start.
    assert_eq!(scan_notes(&at(&store, 2 + 4500)), wanted[..4500]);
    let ended: Vec<u64> = (0..5000).step_by(2).collect();
    let outcome = run(&store, &transaction(now(&store), vec![notes_change(&ended, &[])]));
    assert_eq!(outcome, Outcome::Applied { ended: 2500, begun: 0 });
    let odd: Vec<_> = wanted.iter().copied().filter(|(row, _)| row % 2 == 1).collect();
    assert_eq!(scan_notes(&store.snapshot(None).expect("there")), odd);
    assert_eq!(scan_notes(&snapshot), wanted, "an older snapshot is as it was");
}

#[test]
fn a_block_without_a_visible_row_is_passed_over() {
    let (_disk, store) = with_collections();
    run(&store, &transaction(LogIndex(2), vec![notes_change(&[], &[1, 2])]));
    run(&store, &transaction(LogIndex(3), vec![notes_change(&[0, 1], &[])]));
    let table = store.snapshot(None).expect("there").table(NOTES).expect("there");
    assert!(scan(&table, &[0], true).is_empty());
    let before = at(&store, 3).table(NOTES).expect("there");
    let batch = scan(&before, &[], false).remove(0);
    assert_eq!(
        (batch.num_rows(), batch.num_columns()),
        (2, 0),
        "rows are counted without columns too"
    );
}

#[test]
fn a_large_batch_is_cut_into_blocks() {
    let (_disk, store) = with_collections();
    let values: Vec<i64> = (0..20_000).collect();
    run(&store, &transaction(LogIndex(2), vec![notes_change(&[], &values)]));
    let snapshot = store.snapshot(None).expect("there");
    let parts = snapshot.table(NOTES).expect("there").parts();
    let sizes: Vec<usize> = parts.iter().map(TablePart::len).collect();
    assert_eq!(sizes, [8192, 8192, 3616]);
    assert_eq!(scan_notes(&snapshot).len(), 20_000);
}

#[test]
fn point_reads_answer_in_the_order_of_the_keys_at_their_version() {
    let (_disk, store) = with_collections();
    let rows: Vec<_> = (0..100)
        .map(|id| person(id, Some(&format!("{id}@some.example.org")), id))
        .collect();
    run(&store, &transaction(LogIndex(2), vec![people_change(&[], &rows)]));
    for score in 1000..1010 {
        run(
            &store,
            &transaction(now(&store), vec![people_change(&[7], &[person(7, None, score)])]),
        );
    }
    run(&store, &transaction(now(&store), vec![people_change(&[7], &[])]));
    let get = |version, ids: &[i64]| {
        let table = at(&store, version).table(PEOPLE).expect("there");
        people_of(&table.get(&keys(ids), None).expect("reads"))
    };
    assert_eq!(
        get(3, &[99, 7, 500, 0]),
        [rows[99].clone(), rows[7].clone(), rows[0].clone()]
    );
    for version in 4..14 {
        assert_eq!(get(version, &[7]), [person(7, None, 996 + version as i64)]);
    }
    assert_eq!(get(14, &[7]), []);
    let table = at(&store, 14).table(PEOPLE).expect("there");
    assert_eq!(table.find(&keys(&[7, 8])).expect("finds"), [None, Some(RowId(8))]);
    let projected = table.get(&keys(&[8]), Some(&[2])).expect("reads");
    assert_eq!(projected.schema().field(0).name(), "score");
    assert!(table.get(&keys(&[8]), Some(&[3])).is_err());
    assert!(table.rows(&[RowId(111)], None).is_err());
    let text: ArrayRef = Arc::new(arrow::array::StringViewArray::from(vec!["8"]));
    let wrong = table.find(&batch(vec![("id", text)])).expect_err("text is no id");
    assert_eq!(wrong.code(), ErrorCode::BadValue);
}

#[test]
fn numbers_that_are_equal_in_sql_are_equal_as_keys() {
    let (_disk, store) = with_collections();
    let id = CollectionId(2);
    let def = CollectionDef {
        key: vec![0],
        ..CollectionDef::new(id, "d", "floats", [column("f", ColumnType::Float64, false)])
    };
    run(&store, &schema_change(vec![SchemaChange::DefineCollection(def)]));
    let insert = |value: f64| {
        let begun = batch(vec![("f", Arc::new(Float64Array::from(vec![value])) as ArrayRef)]);
        let change = TableChange {
            collection: id,
            ended: None,
            begun: Some(begun),
        };
        matches!(
            run(&store, &transaction(now(&store), vec![change])),
            Outcome::Applied { .. }
        )
    };
    assert!(insert(0.0));
    assert!(!insert(-0.0));
    assert!(insert(f64::NAN));
    assert!(!insert(-f64::NAN));
    let table = store.snapshot(None).expect("there").table(id).expect("there");
    assert_eq!(scan(&table, &[0], false).remove(0).num_rows(), 2);
}

#[test]
fn the_content_hash_tells_values_apart_but_not_their_order() {
    let hash = |orders: &[&[Person]]| {
        let (_disk, store) = with_collections();
        for rows in orders {
            run(&store, &transaction(now(&store), vec![people_change(&[], rows)]));
        }
        store.snapshot(None).expect("there").content_hash().expect("hashes")
    };
    let (a, b, c) = (person(1, None, 1), person(2, Some("x"), 2), person(2, Some("x"), 3));
    let both = hash(&[&[a.clone(), b.clone()], &[]]);
    assert_eq!(both, hash(&[from_ref(&b), from_ref(&a)]));
    assert_ne!(both, hash(&[&[a.clone(), c], &[]]));
    assert_ne!(both, hash(&[&[a], &[]]));
}
