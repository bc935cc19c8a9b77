//! How fast single-row transactions are applied, how long a point read takes, and how fast a scan is.
//!
//! Each rate is given by the clock and, where the system tells (Linux), by the time on the processor, which does not
//! count what other processes took.
//!
//! `cargo run --release -p candor-storage --example apply_rate [transactions]`

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use candor_proto::{Epoch, LogIndex, RangeId};
use candor_storage::{
    CollectionDef, CollectionId, ColumnDef, ColumnType, PartRead, RangeStore, Record, SchemaChange, TableChange,
    Transaction,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const TABLE: CollectionId = CollectionId(0);
/// Transactions per append, as a busy leader groups them.
const GROUP: i64 = 256;

fn main() -> Result<()> {
    let count: i64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let root = std::env::temp_dir().join(format!("candor-apply-rate-{}", std::process::id()));
    let dir = root.join("main");
    std::fs::create_dir_all(&root)?;
    let result = measure(&dir, count);
    std::fs::remove_dir_all(&root)?;
    result
}

fn measure(dir: &std::path::Path, count: i64) -> Result<()> {
    let store = RangeStore::create(dir, &"main".into(), RangeId(1))?;
    store.append(Epoch(1), &[schema().encode()?])?;
    store.apply_to(LogIndex(1))?;

    let encoding = Stopwatch::start();
    let records = (0..count)
        .map(|id| insert(id)?.encode().map_err(Into::into))
        .collect::<Result<Vec<_>>>()?;
    per_second("encode", count, &encoding);
    let bytes: usize = records.iter().map(|(_, payload)| payload.len()).sum();
    println!(
        "{:<28}{:>12.0} bytes",
        "payload of one row",
        bytes as f64 / count as f64
    );

    let appending = Stopwatch::start();
    for group in records.chunks(GROUP as usize) {
        store.append(Epoch(1), group)?;
    }
    per_second("append", count, &appending);
    let syncing = Instant::now();
    store.sync()?;
    println!("{:<28}{:>12.1} ms", "sync", syncing.elapsed().as_secs_f64() * 1e3);

    let applying = Stopwatch::start();
    for index in (1..=count).step_by(GROUP as usize) {
        store.apply_to(LogIndex((index + GROUP).min(count + 1) as u64))?;
    }
    per_second("apply", count, &applying);

    point_reads(&store, count)?;
    scan(&store, count)?;
    updates(&store, count)?;

    let opening = Stopwatch::start();
    let again = RangeStore::open(dir)?;
    per_second("recover the log", count, &opening);
    let replaying = Stopwatch::start();
    again.apply_to(again.last().0.index)?;
    per_second("replay", again.last().0.index.0 as i64, &replaying);
    Ok(())
}

fn point_reads(store: &Arc<RangeStore>, count: i64) -> Result<()> {
    let table = store.snapshot(None)?.table(TABLE).ok_or("the table is there")?;
    let keys = (0..100_000)
        .map(|i: i64| key(i * 7_919 % count))
        .collect::<Result<Vec<_>>>()?;
    let mut times = Vec::with_capacity(keys.len());
    for key in &keys {
        let start = Instant::now();
        let row = table.get(key, None)?;
        times.push(start.elapsed());
        assert_eq!(row.num_rows(), 1);
    }
    times.sort_unstable();
    let at = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e6;
    println!(
        "{:<28}p50 {:.2}  p90 {:.2}  p99 {:.2} µs",
        "point read",
        at(0.5),
        at(0.9),
        at(0.99)
    );
    let snapshots = Instant::now();
    for _ in 0..100_000 {
        std::hint::black_box(store.snapshot(None)?.table(TABLE));
    }
    println!(
        "{:<28}{:>12.2} µs",
        "snapshot and table",
        snapshots.elapsed().as_secs_f64() * 10.0
    );
    Ok(())
}

fn scan(store: &Arc<RangeStore>, count: i64) -> Result<()> {
    let table = store.snapshot(None)?.table(TABLE).ok_or("the table is there")?;
    let scanning = Instant::now();
    let parts = table.parts();
    let request = PartRead {
        projection: vec![0, 1, 2],
        with_row_id: false,
        batch_rows: 8192,
        filter: None,
    };
    let mut rows = 0;
    for part in &parts {
        for batch in part.read(&request)? {
            rows += batch?.num_rows();
        }
    }
    let took = scanning.elapsed();
    assert_eq!(rows as i64, count);
    println!(
        "{:<28}{:>12.2} ms for {} parts",
        "scan",
        took.as_secs_f64() * 1e3,
        parts.len()
    );
    Ok(())
}

/// Updates every tenth row, one transaction each.
fn updates(store: &Arc<RangeStore>, count: i64) -> Result<()> {
    let snapshot = store.applied().0.index;
    let records = (0..count).step_by(10).map(|id| {
        let change = TableChange {
            ended: Some(key(id)?),
            ..insert_change(id)?
        };
        let transaction = Transaction {
            snapshot,
            changes: vec![change],
            ..Transaction::default()
        };
        Ok(Record::Transaction(transaction).encode()?)
    });
    let records = records.collect::<Result<Vec<_>>>()?;
    store.append(Epoch(1), &records)?;
    let applying = Stopwatch::start();
    store.apply_to(store.last().0.index)?;
    per_second("apply updates", records.len() as i64, &applying);
    Ok(())
}

fn per_second(what: &str, count: i64, watch: &Stopwatch) {
    let clock = count as f64 / watch.clock.elapsed().as_secs_f64();
    let processor = match (watch.processor, on_processor()) {
        (Some(start), Some(end)) => format!("{:>12.0} on the processor", count as f64 * 1e9 / (end - start) as f64),
        _ => String::new(),
    };
    println!("{what:<28}{clock:>12.0} per second{processor}");
}

struct Stopwatch {
    clock: Instant,
    processor: Option<u64>,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            clock: Instant::now(),
            processor: on_processor(),
        }
    }
}

/// How long this thread has run, nanoseconds.
fn on_processor() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn column(name: &str, ty: ColumnType) -> ColumnDef {
    ColumnDef {
        nullable: false,
        ..ColumnDef::new(name, ty)
    }
}

fn schema() -> Record {
    let columns = [
        column("id", ColumnType::Int64),
        column("customer", ColumnType::Text),
        column("total", ColumnType::Int64),
    ];
    let def = CollectionDef {
        key: vec![0],
        ..CollectionDef::new(TABLE, "main", "orders", columns)
    };
    Record::Transaction(Transaction {
        schema: vec![
            SchemaChange::DefineDatabase { name: "main".into() },
            SchemaChange::DefineCollection(def),
        ],
        ..Transaction::default()
    })
}

fn key(id: i64) -> Result<RecordBatch> {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    Ok(RecordBatch::try_from_iter([("id", ids)])?)
}

fn insert_change(id: i64) -> Result<TableChange> {
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from(vec![id]))),
        (
            "customer",
            Arc::new(StringViewArray::from(vec![format!("customer number {}", id % 1000)])),
        ),
        ("total", Arc::new(Int64Array::from(vec![id * 3]))),
    ];
    Ok(TableChange {
        collection: TABLE,
        ended: None,
        begun: Some(RecordBatch::try_from_iter(columns)?),
    })
}

fn insert(id: i64) -> Result<Record> {
    Ok(Record::Transaction(Transaction {
        snapshot: LogIndex(1),
        changes: vec![insert_change(id)?],
        ..Transaction::default()
    }))
}
