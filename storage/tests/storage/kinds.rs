//! A range with a file of each kind and a value of each type, and all that it shows.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Builder, ListBuilder, RecordBatch, StringViewArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field};
use arrow::util::display::array_value_to_string;
use candor_proto::{LogIndex, RangeId};
use candor_storage::disk::{CrashDisk, Disk as _};
use candor_storage::{
    CollectionDef, CollectionId, ColumnType, ElementType, RangeStore, ReadError, Record, SchemaChange, StorageError,
    TableChange, Transaction, TypeDef, TypeId, ViewDef,
};

use crate::support::*;

const TYPES: CollectionId = CollectionId(2);
const MOOD: TypeId = TypeId(0);

/// The transaction that has not come yet.
const PENDING: u128 = 77;

/// The log in several files, its mark, two manifests, segments with key files that both of these name, that only the older
/// one names, and that belong to a transaction which has not come yet.
pub(crate) fn with_every_kind_of_file() -> CrashDisk {
    let (disk, store) = with_collections();
    let write = |rows: &[Person]| {
        let change = people_change(&[], rows);
        run(
            &store,
            &transaction(now(&store), vec![change, notes_change(&[], &[7, 8])]),
        );
    };
    define_types(&store);
    for id in 0..4 {
        write(&[person(
            id,
            Some("somebody@somewhere.example.org").filter(|_| id == 1),
            id,
        )]);
        store.checkpoint().expect("writes");
    }
    for piece in people_run(PENDING, &[person(11, Some("b"), 1), person(10, Some("a"), 2)]) {
        run(&store, &piece);
    }
    run(&store, &transaction(now(&store), vec![people_change(&[2], &[])]));
    run(&store, &Record::Discard { txn: 5 });
    run(&store, &Record::Horizon { index: LogIndex(3) });
    store.checkpoint().expect("writes");
    assert!(store.compact().expect("writes"));
    write(&[person(5, None, 5)]);
    store.sync().expect("syncs");
    assert_eq!(store.id(), RangeId(0xfeed_0000_0000_0001));
    disk
}

/// A collection with a column of each type, and rows with a value and with NULL in each.
fn define_types(store: &RangeStore) {
    let columns = each_type();
    let defs = columns.iter().map(|(name, ty, _)| column(name, *ty, true));
    let schema = vec![
        SchemaChange::DefineType(TypeDef {
            id: MOOD,
            database: "d".into(),
            name: "mood".into(),
            labels: vec!["happy".into(), "sad".into()],
        }),
        SchemaChange::DefineCollection(CollectionDef::new(TYPES, "d", "types", defs)),
        SchemaChange::DefineView(ViewDef {
            database: "d".into(),
            name: "v".into(),
            sql: "SELECT 1".into(),
        }),
    ];
    let columns = columns.iter().map(|(name, _, array)| {
        let null = arrow::array::new_null_array(array.data_type(), 1);
        let both = concat(&[array.as_ref(), null.as_ref()]).expect("one type");
        (name.as_str(), both)
    });
    let change = TableChange {
        collection: TYPES,
        ended: None,
        begun: Some(batch(columns.collect())),
    };
    run(
        store,
        &Record::Transaction(Transaction {
            snapshot: now(store),
            schema,
            changes: vec![change],
            ..Transaction::default()
        }),
    );
}

/// A column of each type with one value.
fn each_type() -> Vec<(String, ColumnType, ArrayRef)> {
    let decimal = ColumnType::Decimal {
        precision: 20,
        scale: 3,
    };
    let array = ColumnType::Array {
        element: ElementType::Int64,
        depth: 1,
    };
    let texts = [
        (ColumnType::Bool, "true"),
        (ColumnType::Int16, "-7"),
        (ColumnType::Int32, "70000"),
        (ColumnType::Int64, "-9007199254740993"),
        (ColumnType::Float32, "0.25"),
        (ColumnType::Float64, "-1e300"),
        (decimal, "12345678901234567.125"),
        (ColumnType::Text, "a text of more than twelve bytes"),
        (ColumnType::Varchar(9), "nine or so"),
        (ColumnType::Bytes, "bytes"),
        (ColumnType::Date, "2024-02-29"),
        (ColumnType::Time, "23:59:58.123456"),
        (ColumnType::Timestamp, "1999-12-31T23:59:59.5"),
        (ColumnType::TimestampTz, "1999-12-31T23:59:59.5Z"),
        (ColumnType::Interval, "1 year 2 months 3 days 4 hours"),
        (ColumnType::Uuid, "00112233-4455-6677-8899-aabbccddeeff"),
        (ColumnType::Json, r#"{"a": [1]}"#),
        (ColumnType::Jsonb, r#"{"a": [1]}"#),
        (ColumnType::Enum(MOOD), "sad"),
    ];
    let read = |text: &str, ty: ColumnType| {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        cast(&text, &ty.arrow()).expect("reads")
    };
    let columns = texts.into_iter().map(|(ty, text)| (ty, read(text, ty)));
    let mut columns: Vec<(ColumnType, ArrayRef)> = columns.collect();
    let field = Field::new("item", DataType::Int64, true);
    let mut list = ListBuilder::new(Int64Builder::new()).with_field(field);
    list.append_value([Some(1), None, Some(3)]);
    columns.push((array, Arc::new(list.finish())));
    let named = columns.into_iter().enumerate();
    named.map(|(at, (ty, array))| (format!("c{at}"), ty, array)).collect()
}

/// All that a range shows: the rows of all its collections, found by scans and by keys, at the horizon and at the newest
/// version, before and after the pending transaction comes.
pub(crate) fn everything(disk: &CrashDisk) -> Result<Vec<String>, StorageError> {
    let store = open(disk)?;
    store.apply_to(store.last().0.index)?;
    let mut all = Vec::new();
    let storage = |error| match error {
        ReadError::Storage(error) => error,
        other => panic!("not the disk's: {other}"),
    };
    show(&store, store.horizon(), &mut all).map_err(storage)?;
    show(&store, now(&store), &mut all).map_err(storage)?;
    let before = LogIndex(store.log_start().0 - 1);
    let log = store.read(before, store.last().0.index, usize::MAX)?;
    let pieces = log.iter().filter(|entry| entry.kind == Record::RUN).count();
    let last = Transaction {
        snapshot: now(&store),
        parts: Some((PENDING, pieces as u32)),
        ..Transaction::default()
    };
    store.append(EPOCH, &[encoded(&Record::Transaction(last))])?;
    let outcomes = store.apply_to(store.last().0.index)?;
    all.push(format!("{:?}", outcomes[0].1));
    show(&store, now(&store), &mut all).map_err(storage)?;
    Ok(all)
}

fn show(store: &RangeStore, version: LogIndex, all: &mut Vec<String>) -> Result<(), ReadError> {
    let snapshot = at(store, version.0);
    all.push(format!("version {version}, horizon {}", store.horizon()));
    for def in snapshot.catalog().all_collections() {
        let names = def
            .columns
            .iter()
            .map(|column| format!("{} {}", column.name, column.ty));
        all.push(format!("{}: {}", def.name, names.collect::<Vec<_>>().join(", ")));
        let table = snapshot.table(def.id).expect("there");
        let projection: Vec<usize> = (0..def.columns.len()).collect();
        let mut rows = Vec::new();
        for part in table.parts() {
            let request = candor_storage::PartRead {
                projection: projection.clone(),
                with_row_id: true,
                batch_rows: 1000,
                filter: None,
            };
            for batch in part.read(&request)? {
                rows.extend(lines(&batch?));
            }
        }
        rows.sort();
        all.extend(rows);
    }
    let Some(people) = snapshot.table(PEOPLE) else {
        return Ok(());
    };
    let ids = people.find(&keys(&(0..13).collect::<Vec<_>>()))?;
    let emails: ArrayRef = Arc::new(StringViewArray::from(vec!["somebody@somewhere.example.org", "a", "b"]));
    let by_email = people.find_by(&[1], &batch(vec![("email", emails)]))?;
    all.push(format!("{ids:?} {by_email:?}"));
    for row in ids.into_iter().flatten() {
        all.extend(lines(&people.rows(&[row], None)?));
    }
    Ok(())
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let value = |column: &ArrayRef, row: usize| {
        if column.is_valid(row) {
            array_value_to_string(column, row).expect("displays")
        } else {
            "NULL".to_owned()
        }
    };
    let line = |row: usize| {
        let values = batch.columns().iter().map(|column| value(column, row));
        format!("  {}", values.collect::<Vec<_>>().join(" | "))
    };
    (0..batch.num_rows()).map(line).collect()
}

/// The files of a range, by path, in order.
pub(crate) fn files(disk: &CrashDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for dir in [dir(), dir().join("segments")] {
        for name in disk.list(&dir).expect("lists") {
            let path = dir.join(name);
            if let Some(content) = disk.content(&path) {
                files.push((path, content));
            }
        }
    }
    files.sort();
    files
}

/// A disk with these files.
pub(crate) fn disk_with(files: &[(PathBuf, Vec<u8>)]) -> CrashDisk {
    let disk = CrashDisk::new(1);
    for folder in [dir(), dir().join("segments")] {
        disk.make_dir(&folder).expect("makes");
    }
    for (path, content) in files {
        disk.create(path).expect("creates");
        disk.set_content(path, content.clone());
    }
    disk
}
