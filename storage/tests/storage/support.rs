//! A range on a disk in memory, and short words for what the tests write and read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, UInt64Array};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use candor_proto::{Epoch, LogIndex, NodeName, RangeId, RangeName};
use candor_storage::disk::CrashDisk;
use candor_storage::{
    CollectionDef, CollectionId, ColumnDef, ColumnType, KeyDef, KeyKind, Outcome, PartRead, RangeStore, Record,
    RunBuilder, SchemaChange, Snapshot, StorageError, StoreOptions, TableChange, TableSnapshot, Transaction,
};

pub(crate) const ID: RangeId = RangeId(0xfeed_0000_0000_0001);
pub(crate) const EPOCH: Epoch = Epoch(1);
/// The collection `people`: primary key `id`, unique key `email`.
pub(crate) const PEOPLE: CollectionId = CollectionId(0);
/// The collection `notes`, without a primary key.
pub(crate) const NOTES: CollectionId = CollectionId(1);

/// The generator `SplitMix64`, so that a seed names a run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/data/ranges/main")
}

pub(crate) fn options(disk: &CrashDisk, segment_size: u64) -> StoreOptions {
    StoreOptions {
        disk: Arc::new(disk.clone()),
        segment_size,
        ..StoreOptions::default()
    }
}

pub(crate) fn create(disk: &CrashDisk) -> Arc<RangeStore> {
    try_create(disk, 4096).expect("creates")
}

pub(crate) fn try_create(disk: &CrashDisk, segment_size: u64) -> Result<Arc<RangeStore>, StorageError> {
    RangeStore::create_with(options(disk, segment_size), &dir(), &RangeName::new("main"), ID)
}

pub(crate) fn open(disk: &CrashDisk) -> Result<Arc<RangeStore>, StorageError> {
    RangeStore::open_with(options(disk, 4096), &dir())
}

/// A store in memory that has the database `d` with both collections, at version 2.
pub(crate) fn with_collections() -> (CrashDisk, Arc<RangeStore>) {
    let disk = CrashDisk::new(1);
    let store = create(&disk);
    run(&store, &elected());
    let schema = vec![
        SchemaChange::DefineDatabase { name: "d".into() },
        SchemaChange::DefineCollection(people()),
        SchemaChange::DefineCollection(notes()),
    ];
    assert_eq!(
        run(&store, &schema_change(schema)),
        Outcome::Applied { ended: 0, begun: 0 }
    );
    (disk, store)
}

pub(crate) fn column(name: &str, ty: ColumnType, nullable: bool) -> ColumnDef {
    ColumnDef {
        nullable,
        ..ColumnDef::new(name, ty)
    }
}

pub(crate) fn people() -> CollectionDef {
    let columns = [
        column("id", ColumnType::Int64, true),
        column("email", ColumnType::Text, true),
        column("score", ColumnType::Int64, false),
    ];
    CollectionDef {
        open: true,
        key: vec![0],
        key_name: "people_pkey".into(),
        keys: vec![KeyDef {
            name: "people_email_key".into(),
            columns: vec![1],
            kind: KeyKind::Unique,
        }],
        ..CollectionDef::new(PEOPLE, "d", "people", columns)
    }
}

pub(crate) fn notes() -> CollectionDef {
    CollectionDef {
        open: true,
        ..CollectionDef::new(NOTES, "d", "notes", [column("note", ColumnType::Int64, true)])
    }
}

pub(crate) fn elected() -> Record {
    Record::LeaderElected {
        node: NodeName::new("n1"),
    }
}

pub(crate) fn schema_change(schema: Vec<SchemaChange>) -> Record {
    Record::Transaction(Transaction {
        schema,
        ..Transaction::default()
    })
}

pub(crate) fn transaction(snapshot: LogIndex, changes: Vec<TableChange>) -> Record {
    Record::Transaction(Transaction {
        snapshot,
        changes,
        ..Transaction::default()
    })
}

/// One row of `people`.
pub(crate) type Person = (i64, Option<String>, i64);

pub(crate) fn person(id: i64, email: Option<&str>, score: i64) -> Person {
    (id, email.map(str::to_owned), score)
}

pub(crate) fn keys(ids: &[i64]) -> RecordBatch {
    batch(vec![("id", ints(ids))])
}

pub(crate) fn people_batch(rows: &[Person]) -> RecordBatch {
    batch(vec![
        ("id", ints(&rows.iter().map(|row| row.0).collect::<Vec<_>>())),
        (
            "email",
            Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringViewArray>()),
        ),
        ("score", ints(&rows.iter().map(|row| row.2).collect::<Vec<_>>())),
    ])
}

pub(crate) fn people_change(ended: &[i64], begun: &[Person]) -> TableChange {
    TableChange {
        collection: PEOPLE,
        ended: (!ended.is_empty()).then(|| keys(ended)),
        begun: (!begun.is_empty()).then(|| people_batch(begun)),
    }
}

pub(crate) fn notes_change(ended: &[u64], begun: &[i64]) -> TableChange {
    let rows = || -> ArrayRef { Arc::new(UInt64Array::from(ended.to_vec())) };
    TableChange {
        collection: NOTES,
        ended: (!ended.is_empty()).then(|| batch(vec![("_row", rows())])),
        begun: (!begun.is_empty()).then(|| batch(vec![("note", ints(begun))])),
    }
}

/// The records of a run of `people`.
pub(crate) fn people_run(txn: u128, rows: &[Person]) -> Vec<Record> {
    let mut run = RunBuilder::new(Arc::new(people())).expect("sound");
    run.push(&people_batch(rows)).expect("fits");
    let records = run.finish(txn).expect("distinct");
    let decode = |(kind, payload): &(u8, Bytes)| Record::decode(*kind, payload).expect("decodes");
    records.iter().map(decode).collect()
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

pub(crate) fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub(crate) fn encoded(record: &Record) -> (u8, Bytes) {
    record.encode().expect("encodes")
}

/// Appends one record and applies it.
pub(crate) fn run(store: &RangeStore, record: &Record) -> Outcome {
    store.append(EPOCH, &[encoded(record)]).expect("appends");
    let mut outcomes = store.apply_to(store.last().0.index).expect("applies");
    assert_eq!(outcomes.len(), 1, "one record, one outcome");
    outcomes.remove(0).1
}

pub(crate) fn at(store: &RangeStore, version: u64) -> Snapshot {
    store.snapshot(Some(LogIndex(version))).expect("there")
}

pub(crate) fn now(store: &RangeStore) -> LogIndex {
    store.applied().0.index
}

/// The visible rows of a table, in batches of a few rows.
pub(crate) fn scan(table: &TableSnapshot, projection: &[usize], with_row_id: bool) -> Vec<RecordBatch> {
    let request = PartRead {
        projection: projection.to_vec(),
        with_row_id,
        batch_rows: 1000,
        filter: None,
    };
    let parts = table.parts();
    let rows = parts.iter().flat_map(|part| part.read(&request).expect("reads"));
    rows.map(|batch| batch.expect("reads")).collect()
}

/// The rows of `people` by id, found by a scan.
pub(crate) fn scan_people(snapshot: &Snapshot) -> Vec<Person> {
    let Some(table) = snapshot.table(PEOPLE) else {
        return vec![];
    };
    let batches = scan(&table, &[0, 1, 2], false);
    let mut rows: Vec<Person> = batches.iter().flat_map(people_of).collect();
    assert_eq!(rows.len(), table.row_count(), "the count is exact");
    rows.sort();
    rows
}

pub(crate) fn people_of(batch: &RecordBatch) -> Vec<Person> {
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let emails = batch.column(1).as_string_view();
    let scores = batch.column(2).as_primitive::<Int64Type>();
    (0..batch.num_rows())
        .map(|row| {
            let email = emails.is_valid(row).then(|| emails.value(row).to_owned());
            (ids.value(row), email, scores.value(row))
        })
        .collect()
}

/// The rows of `notes` with their ids, in that order.
pub(crate) fn scan_notes(snapshot: &Snapshot) -> Vec<(u64, i64)> {
    let Some(table) = snapshot.table(NOTES) else {
        return vec![];
    };
    let mut rows = Vec::new();
    for batch in &scan(&table, &[0], true) {
        let notes = batch.column(0).as_primitive::<Int64Type>();
        let ids = batch.column(1).as_primitive::<arrow::datatypes::UInt64Type>();
        rows.extend(ids.values().iter().copied().zip(notes.values().iter().copied()));
    }
    assert!(rows.is_sorted(), "parts come in the order of row ids");
    assert_eq!(rows.len(), table.row_count());
    rows
}

/// The files of the log and their sizes, in order.
pub(crate) fn log_files(disk: &CrashDisk) -> Vec<PathBuf> {
    use candor_storage::disk::Disk;
    let mut names = disk.list(&dir()).expect("lists");
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "log"));
    names.sort();
    names.into_iter().map(|name| dir().join(name)).collect()
}
