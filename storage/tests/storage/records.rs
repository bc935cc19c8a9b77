//! The encoding of records.

use std::panic::catch_unwind;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::IntervalMonthDayNano;
use candor_proto::{LogIndex, NodeName, PeerRole};
use candor_storage::{
    CollectionId, Mutation, Record, RecordError, ReplicaDef, SchemaChange, TableChange, Transaction, TransactionPart,
    ViewDef,
};
use proptest::prelude::*;

use crate::support::*;

/// `rows` rows of every type that is stored, a third of the values NULL.
fn every_type(rows: usize) -> RecordBatch {
    fn column<T>(rows: usize, value: impl Fn(i64) -> T) -> Vec<Option<T>> {
        (0..rows as i64).map(|row| (row % 3 != 1).then(|| value(row))).collect()
    }
    let text = |row: i64| "long enough to need a buffer ".repeat(row as usize % 4);
    let decimals = Decimal128Array::from(column(rows, i128::from))
        .with_precision_and_scale(38, 10)
        .expect("fits");
    let intervals = column(rows, |row| IntervalMonthDayNano::new(row as i32, -1, row));
    batch(vec![
        (
            "bool",
            Arc::new(BooleanArray::from(column(rows, |row| row % 2 == 0))) as ArrayRef,
        ),
        ("int16", Arc::new(Int16Array::from(column(rows, |row| row as i16)))),
        ("int32", Arc::new(Int32Array::from(column(rows, |row| row as i32)))),
        ("int64", Arc::new(Int64Array::from(column(rows, |row| row)))),
        ("float32", Arc::new(Float32Array::from(column(rows, |row| row as f32)))),
        ("float64", Arc::new(Float64Array::from(column(rows, |row| row as f64)))),
        ("decimal", Arc::new(decimals)),
        ("text", Arc::new(StringViewArray::from_iter(column(rows, text)))),
        (
            "bytes",
            Arc::new(BinaryViewArray::from_iter(column(rows, |row| text(row).into_bytes()))),
        ),
        ("date", Arc::new(Date32Array::from(column(rows, |row| row as i32)))),
        ("time", Arc::new(Time64MicrosecondArray::from(column(rows, |row| row)))),
        (
            "stamp",
            Arc::new(TimestampMicrosecondArray::from(column(rows, |row| row))),
        ),
        (
            "stamptz",
            Arc::new(TimestampMicrosecondArray::from(column(rows, |row| row)).with_timezone("+00:00")),
        ),
        ("interval", Arc::new(IntervalMonthDayNanoArray::from(intervals))),
        ("numbers", numbers(rows)),
        ("texts", texts(rows)),
        ("nested", nested(rows)),
        ("_row", Arc::new(UInt64Array::from(column(rows, |row| row as u64)))),
    ])
}

/// Lists of none to three numbers, some of them NULL.
fn numbers(rows: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..rows {
        let values = (0..row % 4).map(|at| (at != 1).then_some((row * 10 + at) as i32));
        values.for_each(|value| lists.values().append_option(value));
        lists.append(row % 3 != 1);
    }
    Arc::new(lists.finish())
}

fn texts(rows: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in 0..rows {
        let values = (0..row % 3).map(|at| (at != 1).then(|| "an element that needs a buffer ".repeat(row % 4)));
        values.for_each(|value| lists.values().append_option(value));
        lists.append(row % 3 != 1);
    }
    Arc::new(lists.finish())
}

fn nested(rows: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(ListBuilder::new(BooleanBuilder::new()));
    for row in 0..rows {
        for at in 0..row % 3 {
            let values = (0..at).map(|value| (value != 1).then_some(row % 2 == 0));
            values.for_each(|value| lists.values().values().append_option(value));
            lists.values().append(at != 1);
        }
        lists.append(row % 5 != 4);
    }
    Arc::new(lists.finish())
}

fn part(begun: RecordBatch) -> Record {
    Record::Part(TransactionPart {
        txn: 1 << 100,
        change: TableChange {
            collection: CollectionId(5),
            ended: Some(keys(&[1, 2])),
            begun: Some(begun),
        },
    })
}

fn decoded(record: &Record) -> Record {
    let (kind, bytes) = encoded(record);
    Record::decode(kind, &bytes).expect("decodes")
}

#[test]
fn every_record_comes_back_and_encodes_alike() {
    let full = Record::Transaction(Transaction {
        snapshot: LogIndex(9),
        schema: vec![
            SchemaChange::DefineCollection(people()),
            SchemaChange::DefineView(ViewDef {
                database: "d".into(),
                name: "v".into(),
                sql: "SELECT 1".into(),
            }),
            SchemaChange::DefineReplica(ReplicaDef {
                name: NodeName::new("n2"),
                at: "127.0.0.1:7502".into(),
                clients_at: None,
                http_at: Some("http://127.0.0.1:7402".into()),
                roles: vec![PeerRole::Readable, PeerRole::Writable],
                region: None,
            }),
        ],
        changes: vec![people_change(&[1], &[person(1, Some("x"), 2)]), notes_change(&[4], &[])],
        parts: Some((77, 3)),
        mutation: Some(Mutation {
            client: "c".into(),
            mid: 4,
        }),
    });
    let horizon = Record::Horizon { index: LogIndex(3) };
    for record in [
        elected(),
        horizon,
        full,
        part(every_type(1)),
        part(every_type(0)),
        part(every_type(200)),
    ] {
        let again = decoded(&record);
        assert_eq!(again, record);
        assert_eq!(
            encoded(&again),
            encoded(&record),
            "the encoding is a function of the record"
        );
    }
}

#[test]
fn a_slice_travels_without_what_it_is_cut_from() {
    let whole = every_type(1000);
    let slice = part(whole.slice(500, 3));
    assert_eq!(decoded(&slice), slice);
    let (_, bytes) = encoded(&slice);
    assert!(bytes.len() < 5000, "{} bytes", bytes.len());
}

#[test]
fn rows_are_compressed_when_there_are_many() {
    let many = part(batch(vec![("n", ints(&vec![7; 100_000]))]));
    assert!(encoded(&many).1.len() < 20_000);
    assert_eq!(decoded(&many), many);
}

#[test]
fn a_type_that_is_not_stored_is_named() {
    let list = batch(vec![("n", Arc::new(Int8Array::from(vec![1])) as ArrayRef)]);
    let refused = part(list).encode().expect_err("a byte is not a column type");
    assert_eq!(refused.to_string(), "column `n` has the type Int8, which is not stored");
}

#[test]
fn damaged_records_are_refused_or_read_but_never_more() {
    for rows in [2, 80] {
        let (kind, bytes) = encoded(&part(every_type(rows)));
        for size in 0..bytes.len() {
            assert!(Record::decode(kind, &bytes[..size]).is_err(), "cut at {size}");
        }
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80] {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= mask;
                let outcome = catch_unwind(|| drop(Record::decode(kind, &flipped)));
                assert!(outcome.is_ok(), "byte {at} of {rows} rows, flipped by {mask:#x}");
            }
        }
    }
    assert_eq!(Record::decode(200, &[]), Err(RecordError::UnknownKind(200)));
    assert!(
        Record::decode(Record::HORIZON, &[1, 2]).is_err(),
        "bytes behind a record"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_come_back(rows in prop::collection::vec((any::<i64>(), prop::option::of(".{0,40}"), any::<i64>()), 1..120)) {
        let rows: Vec<Person> = rows;
        let record = transaction(LogIndex(1), vec![people_change(&[], &rows)]);
        let Record::Transaction(read) = decoded(&record) else { panic!("another record") };
        let begun = read.changes[0].begun.as_ref().expect("rows");
        prop_assert_eq!(people_of(begun), rows);
    }
}
