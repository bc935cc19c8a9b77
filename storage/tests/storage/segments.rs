//! Segments: what is written comes back, whatever the types, the place, the cache and the damage.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::ListBuilder;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch, StringViewArray,
    StringViewBuilder, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array, make_comparator,
};
use arrow::compute::{SortOptions, concat_batches, interleave};
use arrow::datatypes::{DataType, Field, Int64Type, IntervalMonthDayNano, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use candor_storage::disk::CrashDisk;
use candor_storage::segments::{
    DeletionVector, DiskFiles, ObjectFiles, PartRead, RowFilter, RowOrder, RowSorter, Segment, SegmentCache,
    SegmentColumn, SegmentFiles, SegmentInfo, SegmentKey, SegmentPart, SegmentSpec, SegmentView, SegmentWriter,
    fingerprint,
};
use candor_storage::{ReadError, StorageError};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use proptest::prelude::*;

use crate::support::Random;

const DIR: &str = "/data/segments";

/// How the values of the random columns are spread.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// One value of so many is NULL; 1: all are.
    null_one_in: u64,
    /// Distinct values.
    distinct: u64,
}

fn texts(random: &mut Random, value: u64) -> String {
    match value % 5 {
        0 => String::new(),
        1 => format!("{value}"),
        2 => format!("a text that does not stand in its view, {value}"),
        3 => "ü".repeat((value % 40) as usize),
        _ => "long ".repeat((random.below(3) * 100) as usize),
    }
}

/// A column of each type.
fn all_types(rows: usize, seed: u64, spread: Spread) -> Vec<ArrayRef> {
    let mut random = Random(seed);
    let values = |random: &mut Random| -> Vec<Option<u64>> {
        let value = |_| (random.below(spread.null_one_in) != 0).then(|| random.below(spread.distinct));
        (0..rows).map(value).collect()
    };
    let float = |value: u64| match value % 7 {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => f64::NEG_INFINITY,
        4 => -f64::NAN,
        _ => value as f64 / 3.0,
    };
    let list = |random: &mut Random| {
        let mut builder =
            ListBuilder::new(StringViewBuilder::new()).with_field(Field::new("item", DataType::Utf8View, true));
        for value in values(random) {
            for item in 0..value.unwrap_or(0) % 4 {
                builder.values().append_option((item != 2).then(|| texts(random, item)));
            }
            builder.append(value.is_some());
        }
        Arc::new(builder.finish()) as ArrayRef
    };
    let lists = list(&mut random);
    let interval_list = {
        let items = values(&mut random).into_iter().map(|value| value.map(interval));
        let items: IntervalMonthDayNanoArray = items.collect();
        let field = Arc::new(Field::new("item", items.data_type().clone(), true));
        let lengths = std::iter::repeat_n(1, rows);
        let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
        Arc::new(ListArray::new(field, offsets, Arc::new(items), None)) as ArrayRef
    };
    macro_rules! column {
        ($array:ty, $value:expr) => {
            Arc::new(
                values(&mut random)
                    .into_iter()
                    .map(|value| value.map($value))
                    .collect::<$array>(),
            ) as ArrayRef
        };
    }
    let long_texts: Vec<Option<u64>> = values(&mut random);
    let long_texts = long_texts
        .into_iter()
        .map(|value| value.map(|value| texts(&mut random, value)));
    let long_texts = Arc::new(long_texts.collect::<StringViewArray>()) as ArrayRef;
    vec![
        column!(BooleanArray, |value| value % 2 == 0),
        column!(Int16Array, |value| value as i16),
        column!(Int32Array, |value| value as i32 - 50),
        column!(Int64Array, |value| (value as i64).wrapping_mul(0x7000_0000_0000_0001)),
        column!(Float32Array, |value| float(value) as f32),
        column!(Float64Array, float),
        Arc::new(
            values(&mut random)
                .into_iter()
                .map(|value| value.map(|value| i128::from(value) * 7 - 90))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(15, 2)
                .expect("fits"),
        ),
        Arc::new(
            values(&mut random)
                .into_iter()
                .map(|value| value.map(|value| i128::from(value) << 64))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(38, 0)
                .expect("fits"),
        ),
        long_texts,
        column!(BinaryViewArray, |value| value.to_le_bytes()[..value as usize % 9]
            .to_vec()),
        column!(Date32Array, |value| value as i32 - 1000),
        column!(Time64MicrosecondArray, |value| value as i64 * 1_000_003
            % 86_400_000_000),
        column!(TimestampMicrosecondArray, |value| value as i64 - 40),
        Arc::new(
            values(&mut random)
                .into_iter()
                .map(|value| value.map(|value| value as i64))
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("+00:00"),
        ),
        column!(IntervalMonthDayNanoArray, interval),
        lists,
        interval_list,
    ]
}

fn interval(value: u64) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(value as i32 % 13 - 6, value as i32, -(value as i64) << 33)
}

fn columns_of(arrays: &[ArrayRef]) -> Vec<SegmentColumn> {
    let column = |(at, array): (usize, &ArrayRef)| SegmentColumn::new(10 + at as u32, array.data_type().clone(), true);
    arrays.iter().enumerate().map(column).collect()
}

fn spec(arrays: &[ArrayRef], key: &[usize]) -> SegmentSpec {
    SegmentSpec {
        columns: columns_of(arrays),
        key: key.iter().map(|at| 10 + *at as u32).collect(),
        indexed: vec![],
    }
}

fn schema_of(columns: &[SegmentColumn]) -> SchemaRef {
    let field = |column: &SegmentColumn| Field::new(format!("c{}", column.id), column.ty.clone(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn view(columns: Vec<SegmentColumn>, rows: u32) -> SegmentView {
    SegmentView {
        schema: schema_of(&columns),
        columns: columns.into(),
        deleted: Arc::new(DeletionVector::new(rows)),
        version: 100,
        row_limit: u64::MAX,
    }
}

fn disk_files(disk: &CrashDisk) -> Arc<dyn SegmentFiles> {
    Arc::new(DiskFiles::new(Arc::new(disk.clone()), DIR))
}

fn write(files: &Arc<dyn SegmentFiles>, spec: SegmentSpec, arrays: &[ArrayRef], ids: &[u64]) -> SegmentInfo {
    let mut sorter = RowSorter::new(spec);
    // Some batches of odd sizes.
    let mut at = 0;
    while at < ids.len() {
        let rows = (ids.len() - at).min(1 + at * 2 + 5);
        let part = arrays.iter().map(|array| array.slice(at, rows)).collect();
        sorter.push(part, UInt64Array::from(ids[at..at + rows].to_vec()));
        at += rows;
    }
    let mut infos = sorter.write(files, u32::MAX).expect("writes");
    assert_eq!(infos.len(), 1);
    infos.remove(0)
}

fn read_all(segment: &Arc<Segment>, view: SegmentView, request: &PartRead) -> Result<RecordBatch, ReadError> {
    let view = Arc::new(view);
    let mut fields: Vec<_> = request
        .projection
        .iter()
        .map(|at| Arc::clone(&view.schema.fields()[*at]))
        .collect();
    if request.with_row_id {
        fields.push(Arc::new(Field::new("_row", DataType::UInt64, false)));
    }
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::new();
    for part in SegmentPart::all(segment, &view) {
        for batch in part.read(request)? {
            let batch = batch?;
            assert!(batch.num_rows() > 0 && batch.num_rows() <= request.batch_rows);
            batches.push(batch);
        }
    }
    Ok(concat_batches(&schema, &batches).expect("one schema"))
}

fn everything(columns: usize) -> PartRead {
    PartRead {
        projection: (0..columns).collect(),
        with_row_id: true,
        batch_rows: 8192,
        filter: None,
    }
}

/// The order that a segment with this key has, found in another way.
fn sorted(arrays: &[ArrayRef], ids: &[u64], key: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    let options = SortOptions::default();
    let compare: Vec<_> = key
        .iter()
        .map(|at| make_comparator(&arrays[*at], &arrays[*at], options).expect("compares"))
        .collect();
    order.sort_by(|a, b| {
        let by_key = compare
            .iter()
            .map(|compare| compare(*a, *b))
            .find(|order| order.is_ne());
        by_key.unwrap_or_else(|| ids[*a].cmp(&ids[*b]))
    });
    order
}

fn taken(array: &ArrayRef, order: &[usize]) -> ArrayRef {
    let places: Vec<_> = order.iter().map(|row| (0, *row)).collect();
    interleave(&[array.as_ref()], &places).expect("takes")
}

fn same(left: &ArrayRef, right: &ArrayRef, what: &str) {
    assert_eq!(left.data_type(), right.data_type(), "{what}");
    assert!(left.to_data() == right.to_data(), "{what}: {left:?}\n{right:?}");
}

fn shuffled(rows: usize, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    let mut ids: Vec<u64> = (0..rows as u64).map(|row| row * 3 + 7).collect();
    for at in (1..rows).rev() {
        ids.swap(at, random.below(at as u64 + 1) as usize);
    }
    ids
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_type_comes_back(
        rows in 1_usize..400,
        seed in any::<u64>(),
        null_one_in in prop_oneof![Just(1_u64), Just(2), Just(u64::MAX)],
        distinct in prop_oneof![Just(1_u64), Just(5), Just(100_000)],
        key in prop_oneof![Just(vec![]), Just(vec![3]), Just(vec![8, 2]), Just(vec![6, 12])],
    ) {
        let arrays = all_types(rows, seed, Spread { null_one_in, distinct });
        let ids = shuffled(rows, seed);
        let disk = CrashDisk::new(seed);
        let files = disk_files(&disk);
        let info = write(&files, spec(&arrays, &key), &arrays, &ids);
        let order = sorted(&arrays, &ids, &key);
        for budget in [1 << 30, 0] {
            let segment = Segment::new(info.clone(), Arc::clone(&files), SegmentCache::new(budget));
            segment.check().expect("sound");
            let batch = read_all(&segment, view(columns_of(&arrays), info.rows()), &everything(arrays.len()))
                .expect("reads");
            for (at, array) in arrays.iter().enumerate() {
                same(batch.column(at), &taken(array, &order), &format!("column {at}"));
            }
            let read: Vec<u64> = batch.column(arrays.len()).as_primitive::<UInt64Type>().values().to_vec();
            prop_assert_eq!(&read, &order.iter().map(|row| ids[*row]).collect::<Vec<_>>());
            let step = if budget == 0 { 61 } else { 1 };
            for (ordinal, row) in read.iter().enumerate().step_by(step) {
                prop_assert_eq!(segment.ordinal(*row).expect("reads"), Some(ordinal as u32));
                prop_assert_eq!(segment.row_id(ordinal as u32).expect("reads"), *row);
                prop_assert_eq!(segment.ordinal(row + 1).expect("reads"), None);
            }
        }
    }
}

/// A segment of people: id (key), name (unique), score.
struct People {
    disk: CrashDisk,
    files: Arc<dyn SegmentFiles>,
    info: SegmentInfo,
    arrays: Vec<ArrayRef>,
    ids: Vec<u64>,
}

const ID: u32 = 10;
const NAME: u32 = 11;

fn people(rows: usize, seed: u64) -> People {
    let mut random = Random(seed);
    let mut keys: Vec<i64> = (0..rows as i64).map(|key| key * 2).collect();
    for at in (1..rows).rev() {
        keys.swap(at, random.below(at as u64 + 1) as usize);
    }
    let names: StringViewArray = keys
        .iter()
        .map(|key| (key % 3 != 0).then(|| format!("the name of the person {key}")))
        .collect();
    let scores: Int64Array = keys.iter().map(|key| Some(key % 100)).collect();
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(keys)), Arc::new(names), Arc::new(scores)];
    let disk = CrashDisk::new(seed);
    let files = disk_files(&disk);
    let ids: Vec<u64> = (0..rows as u64).collect();
    let spec = SegmentSpec {
        indexed: vec![vec![NAME]],
        ..spec(&arrays, &[0])
    };
    let info = write(&files, spec, &arrays, &ids);
    People {
        disk,
        files,
        info,
        arrays,
        ids,
    }
}

impl People {
    fn open(&self, budget: u64) -> Arc<Segment> {
        Segment::new(self.info.clone(), Arc::clone(&self.files), SegmentCache::new(budget))
    }

    fn view(&self) -> SegmentView {
        view(columns_of(&self.arrays), self.info.rows())
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.info
            .file_names()
            .iter()
            .map(|name| Path::new(DIR).join(name))
            .collect()
    }
}

/// Encodes keys as the tables in memory do.
fn fingerprints(column: &ArrayRef) -> Vec<u64> {
    use arrow::row::{RowConverter, SortField};
    let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())]).expect("has an order");
    let rows = converter.convert_columns(&[Arc::clone(column)]).expect("encodes");
    rows.iter().map(|row| fingerprint(row.data())).collect()
}

fn find(segment: &Segment, id: u32, column: &ArrayRef, row: usize) -> Result<Vec<u32>, StorageError> {
    segment.find(SegmentKey {
        ids: &[id],
        columns: std::slice::from_ref(column),
        row,
        fingerprint: fingerprints(&column.slice(row, 1))[0],
    })
}

/// Everything that can be asked of a segment of people.
type Answers = (RecordBatch, Vec<Vec<u32>>, Vec<Option<u32>>, Vec<u64>);

fn ask(people: &People) -> Result<Answers, ReadError> {
    let segment = people.open(1 << 30);
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(-1..people.ids.len() as i64 * 2));
    let mut found = Vec::new();
    for row in 0..keys.len() {
        found.push(find(&segment, ID, &keys, row)?);
    }
    for row in 0..people.arrays[1].len() {
        found.push(find(&segment, NAME, &people.arrays[1], row)?);
    }
    let places: Result<_, _> = people.ids.iter().map(|row| segment.ordinal(*row)).collect();
    let ids: Result<_, _> = (0..segment.rows()).map(|ordinal| segment.row_id(ordinal)).collect();
    let rows = read_all(&segment, people.view(), &everything(3))?;
    Ok((rows, found, places?, ids?))
}

#[test]
fn every_flipped_byte_is_reported_or_does_no_harm() {
    let people = people(20, 3);
    let right = ask(&people).expect("sound");
    for path in people.paths() {
        let content = people.disk.content(&path).expect("there");
        let mut reported = 0;
        // Of long stretches of zeros, with which blocks are filled up, some bytes stand for all.
        let is_filling = |at: usize| {
            !at.is_multiple_of(97)
                && content[at.saturating_sub(40)..content.len().min(at + 40)]
                    .iter()
                    .all(|byte| *byte == 0)
        };
        let bytes: Vec<usize> = (0..content.len()).filter(|at| !is_filling(*at)).collect();
        for at in bytes.iter().copied() {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            people.disk.set_content(&path, flipped);
            match ask(&people) {
                Ok(answers) => assert!(answers == right, "byte {at} of {}", path.display()),
                Err(ReadError::Storage(StorageError::Damaged {
                    path: named, offset, ..
                })) => {
                    assert_eq!(named, path, "byte {at}");
                    assert!(offset <= content.len() as u64);
                    reported += 1;
                }
                Err(other) => panic!("byte {at} of {}: {other}", path.display()),
            }
        }
        // A small file is one block, so there is no byte that nobody reads.
        assert_eq!(reported, bytes.len(), "{}", path.display());
        people.disk.set_content(&path, content);
    }
    assert!(ask(&people).expect("sound again") == right);
}

#[test]
fn a_damaged_block_is_named_and_the_others_are_read() {
    let people = people(30_000, 4);
    let path = &people.paths()[0];
    let mut content = people.disk.content(path).expect("there");
    let at = content.len() / 3;
    content[at] ^= 4;
    people.disk.set_content(path, content);
    let segment = people.open(1 << 30);
    segment.check().expect("the end is sound");
    let error = read_all(&segment, people.view(), &everything(3)).expect_err("damaged");
    let ReadError::Storage(StorageError::Damaged {
        path: named, offset, ..
    }) = error
    else {
        panic!("not damage: {error}");
    };
    assert_eq!((&named, offset), (path, at as u64 / 8192 * 8192));
    let scores = PartRead {
        projection: vec![2],
        with_row_id: false,
        ..everything(3)
    };
    assert_eq!(
        read_all(&segment, people.view(), &scores)
            .expect("not damaged")
            .num_rows(),
        30_000
    );
}

#[test]
fn a_file_that_ends_early_is_reported() {
    let people = people(150, 5);
    for path in people.paths() {
        let content = people.disk.content(&path).expect("there");
        for size in (0..content.len()).step_by(7) {
            people.disk.set_content(&path, content[..size].to_vec());
            let error = people.open(1 << 30).check().expect_err("too short");
            assert!(
                matches!(&error, StorageError::Damaged { path: named, .. } if *named == path),
                "{size} of {}: {error}",
                path.display()
            );
        }
        people.disk.set_content(&path, content);
    }
    people.open(1 << 30).check().expect("sound again");
}

#[test]
fn a_crash_leaves_whole_files_or_none() {
    for writes in 0..40 {
        let disk = CrashDisk::new(writes);
        let files = disk_files(&disk);
        let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..100))];
        disk.set_faults(candor_storage::disk::Faults {
            power_lasts: Some(writes),
            ..Default::default()
        });
        let mut sorter = RowSorter::new(spec(&arrays, &[0]));
        sorter.push(arrays.clone(), UInt64Array::from_iter_values(0..100));
        let written = sorter.write(&files, u32::MAX);
        disk.restart();
        if let Ok(infos) = written {
            let segment = Segment::new(infos[0].clone(), files, SegmentCache::new(1 << 20));
            segment.check().expect("what was said to be written is there");
            return;
        }
    }
    panic!("power always went");
}

#[test]
fn keys_are_found_where_they_are_and_nowhere_else() {
    let people = people(20_000, 6);
    let order = sorted(&people.arrays, &people.ids, &[0]);
    let keys = people.arrays[0].as_primitive::<Int64Type>();
    let names = people.arrays[1].as_string_view();
    let by_key: HashMap<i64, u32> = order
        .iter()
        .enumerate()
        .map(|(at, row)| (keys.value(*row), at as u32))
        .collect();
    let by_name: HashMap<&str, u32> = (order.iter().enumerate())
        .filter(|(_, row)| names.is_valid(**row))
        .map(|(at, row)| (names.value(*row), at as u32))
        .collect();
    // With everything in memory, and with next to nothing.
    for (budget, probes) in [(1 << 30, 400), (50_000, 60)] {
        let segment = people.open(budget);
        let mut random = Random(budget);
        for _ in 0..probes {
            let wanted = random.below(50_000) as i64 - 5000;
            let key: ArrayRef = Arc::new(Int64Array::from(vec![wanted]));
            let found = find(&segment, ID, &key, 0).expect("probes");
            assert_eq!(
                found,
                by_key.get(&wanted).copied().into_iter().collect::<Vec<_>>(),
                "{wanted}"
            );
            let name = format!("the name of the person {wanted}");
            let array: ArrayRef = Arc::new(StringViewArray::from(vec![name.as_str()]));
            let found = find(&segment, NAME, &array, 0).expect("probes");
            assert_eq!(
                found,
                by_name.get(name.as_str()).copied().into_iter().collect::<Vec<_>>(),
                "{name}"
            );
        }
        let nothing: ArrayRef = Arc::new(StringViewArray::from(vec![None::<&str>]));
        assert!(
            find(&segment, NAME, &nothing, 0).expect("probes").is_empty(),
            "NULL is no key"
        );
    }
}

#[test]
fn all_versions_of_a_key_are_found_and_a_younger_key_too() {
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, 7, 5, 5, 9]));
    let others: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 1, 1]));
    let arrays = vec![keys, others];
    let files = disk_files(&CrashDisk::new(7));
    let info = write(&files, spec(&arrays, &[0]), &arrays, &[0, 1, 2, 3, 4]);
    let segment = Segment::new(info, files, SegmentCache::new(1 << 20));
    assert_eq!(find(&segment, 10, &arrays[0], 0).expect("probes"), [0, 1, 2]);
    assert_eq!(segment.row_id(1).expect("reads"), 2);
    // There is no index on the second column.
    assert_eq!(find(&segment, 11, &arrays[1], 0).expect("scans"), [0, 2, 4]);
}

#[test]
fn zeros_and_nans_are_one_key_each() {
    let keys: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, 1.0]));
    let arrays = vec![keys];
    let files = disk_files(&CrashDisk::new(8));
    let info = write(&files, spec(&arrays, &[0]), &arrays, &[0, 1, 2]);
    let segment = Segment::new(info, files, SegmentCache::new(1 << 20));
    let other: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN, 2.0]));
    let as_stored: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, 2.0]));
    let prints = fingerprints(&as_stored);
    let found: Vec<_> = (0..3)
        .map(|row| {
            let key = SegmentKey {
                ids: &[10],
                columns: std::slice::from_ref(&other),
                row,
                fingerprint: prints[row],
            };
            segment.find(key).expect("probes").len()
        })
        .collect();
    assert_eq!(found, [1, 1, 0]);
}

#[test]
fn row_ids_lead_to_rows_however_they_are_ordered() {
    let rows = 20_000;
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..rows))];
    let dense: Vec<u64> = (500..500 + rows as u64).collect();
    let gaps: Vec<u64> = (0..rows as u64).map(|row| row * row / 3 + row).collect();
    for (ids, key, order) in [
        (dense.clone(), vec![], RowOrder::Dense),
        (gaps, vec![], RowOrder::Ascending),
        (dense, vec![0], RowOrder::Dense),
        (shuffled(rows as usize, 9), vec![0], RowOrder::Indexed),
    ] {
        let files = disk_files(&CrashDisk::new(9));
        let info = write(&files, spec(&arrays, &key), &arrays, &ids);
        assert_eq!(info.row_order, order);
        assert_eq!(info.keys.is_none(), key.is_empty(), "no file without need");
        for budget in [1 << 30, 0] {
            let segment = Segment::new(info.clone(), Arc::clone(&files), SegmentCache::new(budget));
            for ordinal in (0..rows as u32).step_by(1487) {
                let row = ids[ordinal as usize];
                assert_eq!(segment.ordinal(row).expect("reads"), Some(ordinal));
                assert_eq!(segment.row_id(ordinal).expect("reads"), row);
                let next = ids.iter().position(|id| *id == row + 1).map(|at| at as u32);
                assert_eq!(segment.ordinal(row + 1).expect("reads"), next);
            }
        }
    }
}

/// Keeps rows whose value leaves a remainder, or is in a range.
struct Kept {
    columns: Vec<usize>,
    divisor: i64,
    range: std::ops::Range<i64>,
}

impl RowFilter for Kept {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let values = batch.column(0).as_primitive::<Int64Type>();
        Ok(values
            .iter()
            .map(|value| value.map(|value| self.keeps(value)))
            .collect())
    }
}

impl Kept {
    fn keeps(&self, value: i64) -> bool {
        value % self.divisor == 0 && self.range.contains(&value)
    }
}

/// 20,000 people in pages of 8192 rows.
fn many() -> &'static People {
    static MANY: OnceLock<People> = OnceLock::new();
    MANY.get_or_init(|| people(20_000, 10))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_read_gives_what_a_full_read_filtered_gives(
        seed in any::<u64>(),
        divisor in prop_oneof![Just(2_i64), Just(14), Just(20_000)],
        range in prop_oneof![Just(0..100_000_i64), Just(20_000..21_000), Just(-5..0)],
        filter_column in prop_oneof![Just(None), Just(Some(0_usize)), Just(Some(2))],
        ended in prop_oneof![Just(0_usize), Just(3), Just(8_000)],
        row_limit in prop_oneof![Just(u64::MAX), Just(9_000_u64), Just(0)],
        batch_rows in prop_oneof![Just(8192_usize), Just(1000), Just(200_000)],
        budget in prop_oneof![Just(1_u64 << 30), Just(100_000), Just(0)],
        projection in prop_oneof![Just(vec![0, 1, 2]), Just(vec![1]), Just(vec![]), Just(vec![2, 0, 2])],
        with_row_id in any::<bool>(),
    ) {
        let people = many();
        let segment = people.open(budget);
        let mut view = people.view();
        let mut random = Random(seed);
        for _ in 0..ended {
            let ordinal = random.below(20_000) as u32;
            if view.deleted.lives_at(ordinal, u64::MAX) {
                // The version read is 100.
                view.deleted.end(ordinal, 50 + random.below(100));
            }
        }
        view.row_limit = row_limit;
        let filter = filter_column.map(|column| Arc::new(Kept { columns: vec![column], divisor, range }));
        let order = sorted(&people.arrays, &people.ids, &[0]);
        let left: Vec<usize> = (order.iter().enumerate())
            .filter(|(ordinal, row)| {
                let value = |column: usize| people.arrays[column].as_primitive::<Int64Type>().value(**row);
                view.deleted.lives_at(*ordinal as u32, 100)
                    && people.ids[**row] < row_limit
                    && filter.as_ref().is_none_or(|filter| filter.keeps(value(filter.columns[0])))
            })
            .map(|(_, row)| *row)
            .collect();
        let request = PartRead {
            filter: filter.map(|filter| filter as Arc<dyn RowFilter>),
            projection: projection.clone(),
            with_row_id,
            batch_rows,
        };
        let batch = read_all(&segment, view, &request).expect("reads");
        if !projection.is_empty() || with_row_id {
            prop_assert_eq!(batch.num_rows(), left.len());
        }
        for (place, column) in projection.iter().enumerate() {
            let (got, want) = (batch.column(place), taken(&people.arrays[*column], &left));
            prop_assert_eq!(got.as_ref(), want.as_ref());
        }
        if with_row_id {
            let ids: Vec<u64> = left.iter().map(|row| people.ids[*row]).collect();
            let got = batch.column(projection.len()).as_primitive::<UInt64Type>();
            prop_assert_eq!(got.values().as_ref(), ids.as_slice());
        }
    }
}

#[test]
fn a_point_read_touches_one_page_of_each_column() {
    let people = many();
    let segment = people.open(1 << 30);
    let key: ArrayRef = Arc::new(Int64Array::from(vec![30_000]));
    let ordinal = find(&segment, ID, &key, 0).expect("probes")[0];
    let before = segment_misses(&segment);
    let (scores, place) = segment.value(12, ordinal).expect("reads").expect("there");
    assert_eq!(scores.as_primitive::<Int64Type>().value(place), 30_000 % 100);
    assert_eq!(scores.len(), 8192, "a page");
    assert_eq!(segment_misses(&segment), before + 1);
    // All else is in memory now.
    assert_eq!(find(&segment, ID, &key, 0).expect("probes"), [ordinal]);
    segment.value(12, ordinal).expect("reads");
    assert_eq!(segment_misses(&segment), before + 1);
}

fn segment_misses(segment: &Segment) -> u64 {
    segment.cache().figures().misses
}

#[test]
fn the_cache_keeps_to_its_budget_and_reads_each_thing_once() {
    let people = many();
    for budget in [0, 10_000, 100_000, 1 << 30] {
        let segment = people.open(budget);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let batch = read_all(&segment, people.view(), &everything(3)).expect("reads");
                        assert_eq!(batch.num_rows(), 20_000);
                    }
                });
            }
        });
        let figures = segment.cache().figures();
        assert!(figures.used <= budget, "{figures:?}");
        if budget == 1 << 30 {
            // The footer and three columns; the row ids are dense only where the keys are in their order.
            assert_eq!(figures.misses, 5, "{figures:?}");
        }
        let cache = Arc::clone(segment.cache());
        drop(segment);
        assert_eq!(cache.figures().used, 0, "what is gone takes no room");
    }
}

#[test]
fn columns_are_found_by_id_and_missing_ones_have_their_value() {
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int32Array::from_iter_values(0..10))];
    let files = disk_files(&CrashDisk::new(11));
    let info = write(&files, spec(&arrays, &[]), &arrays, &(0..10).collect::<Vec<_>>());
    let segment = Segment::new(info, files, SegmentCache::new(1 << 20));
    let mut constant = SegmentColumn::new(90, DataType::Utf8View, false);
    constant.missing = Some(Arc::new(StringViewArray::from(vec!["as it was not there"])));
    let columns = vec![
        constant,
        SegmentColumn::new(91, DataType::Float64, true),
        // Wider than it was written.
        SegmentColumn::new(10, DataType::Int64, true),
    ];
    let batch = read_all(&segment, view(columns, 10), &everything(3)).expect("reads");
    assert!(
        batch
            .column(0)
            .as_string_view()
            .iter()
            .all(|text| text == Some("as it was not there"))
    );
    assert_eq!(batch.column(1).null_count(), 10);
    assert_eq!(
        batch.column(2).as_ref(),
        &Int64Array::from_iter_values(0..10) as &dyn Array
    );
}

#[test]
fn statistics_bound_the_values() {
    let arrays = all_types(
        3000,
        12,
        Spread {
            null_one_in: 4,
            distinct: 500,
        },
    );
    let files = disk_files(&CrashDisk::new(12));
    let ids: Vec<u64> = (0..3000).collect();
    let info = write(&files, spec(&arrays, &[]), &arrays, &ids);
    let segment = Segment::new(info.clone(), files, SegmentCache::new(1 << 30));
    for (at, array) in arrays.iter().enumerate() {
        let id = 10 + at as u32;
        let statistics = info.column(id).expect("there");
        assert_eq!(statistics.null_count, array.null_count() as u64);
        if let Some(distinct) = statistics.distinct {
            let sketch = segment.sketch(id).expect("reads").expect("there");
            assert_eq!(sketch.estimate(), distinct);
        }
        let of_group = segment.group_statistics(0, id).expect("reads").expect("there");
        let bounds = [statistics.bounds(array.data_type()), of_group.bounds(array.data_type())];
        let has_nan = matches!(array.data_type(), DataType::Float32 | DataType::Float64);
        let has_none = matches!(array.data_type(), DataType::Interval(_) | DataType::List(_));
        for bounds in bounds {
            assert_eq!(bounds.is_none(), has_nan || has_none, "column {at}");
            let Some(bounds) = bounds else { continue };
            assert_eq!(bounds.null_count, array.null_count() as u64);
            let low = make_comparator(&bounds.min, array, SortOptions::default()).expect("compares");
            let high = make_comparator(&bounds.max, array, SortOptions::default()).expect("compares");
            let valid = || (0..array.len()).filter(|row| array.is_valid(*row));
            assert!(
                valid().all(|row| low(0, row).is_le() && high(0, row).is_ge()),
                "column {at}"
            );
            assert!(valid().any(|row| low(0, row).is_eq()) && valid().any(|row| high(0, row).is_eq()));
        }
    }
}

#[test]
fn a_long_text_is_no_bound() {
    let long = "z".repeat(300);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from(vec!["a", long.as_str()])),
        Arc::new(StringViewArray::from(vec!["a", &long[..256]])),
    ];
    let info = write(&disk_files(&CrashDisk::new(20)), spec(&arrays, &[]), &arrays, &[0, 1]);
    let has_bounds = |id| {
        info.column(id)
            .is_some_and(|column| column.bounds(&DataType::Utf8View).is_some())
    };
    assert_eq!([has_bounds(10), has_bounds(11)], [false, true]);
}

#[test]
fn a_segment_lives_in_an_object_store_too() {
    let arrays = all_types(
        500,
        13,
        Spread {
            null_one_in: 5,
            distinct: 90,
        },
    );
    let ids = shuffled(500, 13);
    let dir = tempfile::tempdir().expect("a folder");
    let stores: [Arc<dyn object_store::ObjectStore>; 2] = [
        Arc::new(InMemory::new()),
        Arc::new(LocalFileSystem::new_with_prefix(dir.path()).expect("a store")),
    ];
    let order = sorted(&arrays, &ids, &[3]);
    for store in stores {
        let files: Arc<dyn SegmentFiles> = Arc::new(ObjectFiles::new(store, "ranges/main/segments".into()));
        let info = write(&files, spec(&arrays, &[3]), &arrays, &ids);
        let segment = Segment::new(info.clone(), Arc::clone(&files), SegmentCache::new(1 << 30));
        let batch = read_all(&segment, view(columns_of(&arrays), 500), &everything(arrays.len())).expect("reads");
        for (at, array) in arrays.iter().enumerate() {
            same(batch.column(at), &taken(array, &order), &format!("column {at}"));
        }
        assert_eq!(segment.ordinal(ids[order[7]]).expect("reads"), Some(7));
        for name in info.file_names() {
            files.remove(&name).expect("removes");
            files.remove(&name).expect("and again");
        }
        let segment = Segment::new(info, files, SegmentCache::new(1 << 30));
        let error = segment.check().expect_err("gone");
        assert!(matches!(error, StorageError::Io { action: "open", .. }), "{error}");
    }
}

#[test]
fn many_rows_make_several_segments_in_order() {
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values((0..10_000).rev()))];
    let files = disk_files(&CrashDisk::new(14));
    let mut sorter = RowSorter::new(spec(&arrays, &[0]));
    sorter.push(arrays, UInt64Array::from_iter_values(0..10_000));
    let infos = sorter.write(&files, 4000).expect("writes");
    assert_eq!(
        infos.iter().map(SegmentInfo::rows).collect::<Vec<_>>(),
        [4000, 4000, 2000]
    );
    let bounds: BTreeMap<usize, (i64, i64)> = (infos.iter().enumerate())
        .map(|(at, info)| {
            let bounds = info
                .column(10)
                .and_then(|column| column.bounds(&DataType::Int64))
                .expect("known");
            let value = |array: &ArrayRef| array.as_primitive::<Int64Type>().value(0);
            (at, (value(&bounds.min), value(&bounds.max)))
        })
        .collect();
    assert_eq!(
        bounds.into_values().collect::<Vec<_>>(),
        [(0, 3999), (4000, 7999), (8000, 9999)]
    );
}

#[test]
fn a_row_group_ends_when_it_is_large_enough() {
    let text = "x".repeat(1 << 20);
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(&text, 8)));
    let files = disk_files(&CrashDisk::new(15));
    let mut writer = SegmentWriter::new(Arc::clone(&files), spec(&[Arc::clone(&texts)], &[])).expect("starts");
    for at in 0..40 {
        writer
            .push(
                std::slice::from_ref(&texts),
                &UInt64Array::from_iter_values(at * 8..at * 8 + 8),
            )
            .expect("writes");
    }
    let info = writer.finish().expect("writes").expect("rows");
    assert_eq!(info.group_rows.len(), 3);
    assert_eq!(info.rows(), 320);
    let segment = Segment::new(info, files, SegmentCache::new(1 << 30));
    let (value, place) = segment.value(10, 319).expect("reads").expect("there");
    assert_eq!(value.as_string_view().value(place), text);
}

#[test]
fn files_from_elsewhere_are_compared_with_their_names() {
    let people = people(500, 17);
    people.info.verify(people.files.as_ref()).expect("as written");
    for path in people.paths() {
        let mut content = people.disk.content(&path).expect("there");
        people.disk.set_content(&path, content[..content.len() - 1].to_vec());
        people.info.verify(people.files.as_ref()).expect_err("cut");
        content[100] ^= 1;
        people.disk.set_content(&path, content.clone());
        people.info.verify(people.files.as_ref()).expect_err("flipped");
        content[100] ^= 1;
        people.disk.set_content(&path, content);
    }
}

#[test]
fn fingerprints_tell_which_keys_two_segments_may_share() {
    let (one, other) = (people(3000, 18), people(1000, 19));
    let prints = |people: &People, id: u32| {
        let prints = people
            .open(1 << 30)
            .fingerprints(&[id])
            .expect("reads")
            .expect("there is an index");
        assert!(prints.is_sorted());
        prints.into_iter().map(|(print, _)| print).collect::<Vec<_>>()
    };
    assert_eq!(prints(&one, ID).len(), 3000);
    assert_eq!(prints(&one, NAME).len(), 2000, "every third has no name");
    assert!(
        prints(&other, ID)
            .iter()
            .all(|print| prints(&one, ID).binary_search(print).is_ok())
    );
    assert_eq!(one.open(1 << 30).fingerprints(&[77]).expect("reads"), None);
}

/// What stands on disk depends on these bytes: with another encoding no key would be found any more.
#[test]
fn fingerprints_are_what_they_always_were() {
    let decimal = Decimal128Array::from(vec![-150])
        .with_precision_and_scale(12, 2)
        .expect("fits");
    let all: [(ArrayRef, u64); 13] = [
        (Arc::new(BooleanArray::from(vec![true])), 0x52fc_4823_a13c_997a),
        (Arc::new(Int16Array::from(vec![-2])), 0x49c5_9886_0d26_b7e8),
        (Arc::new(Int32Array::from(vec![-2])), 0x6173_feb2_f876_92ad),
        (Arc::new(Int64Array::from(vec![-2])), 0x0cce_2275_0070_f593),
        (Arc::new(Float32Array::from(vec![0.0])), 0xfbec_8f76_ec80_6d1f),
        (Arc::new(Float64Array::from(vec![f64::NAN])), 0xfc5f_77fd_5385_b307),
        (Arc::new(decimal), 0xcd44_cf33_f959_7496),
        (
            Arc::new(StringViewArray::from(vec![
                "a text that takes more than one block, \u{fc}",
            ])),
            0x7622_0173_b9e4_d3d7,
        ),
        (Arc::new(BinaryViewArray::from(vec![&b""[..]])), 0x8a41_2781_1b21_e730),
        (Arc::new(Date32Array::from(vec![20_000])), 0x4bdc_1ee0_5213_c652),
        (Arc::new(Time64MicrosecondArray::from(vec![1])), 0xd7cc_94ee_6eaa_6c1f),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("+00:00")),
            0xd7cc_94ee_6eaa_6c1f,
        ),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(
                1, -2, 3,
            )])),
            0x7e93_8290_0f76_da6c,
        ),
    ];
    let text = |array: &ArrayRef, print: u64| format!("{}: {print:#018x}", array.data_type());
    let found: Vec<String> = all
        .iter()
        .map(|(array, _)| text(array, fingerprints(array)[0]))
        .collect();
    let known: Vec<String> = all.iter().map(|(array, known)| text(array, *known)).collect();
    assert_eq!(found, known);
}

#[test]
fn no_rows_make_no_segment() {
    let files = disk_files(&CrashDisk::new(16));
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1]))];
    let writer = SegmentWriter::new(files, spec(&arrays, &[0])).expect("starts");
    assert_eq!(writer.finish().expect("nothing to write"), None);
}
