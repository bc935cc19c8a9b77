//! The load: single rows, transactions, batches, now and then a transaction larger than a log entry, and updates.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::ledger::Ledger;
use crate::harness::Door;

/// Rows and bytes of each in the large transaction: 1.5 MiB in all, and log entries are about 1 MiB.
const LARGE_ROWS: u64 = 24;
const LARGE_NOTE_BYTES: usize = 64 << 10;

/// Every which round has a large transaction.
const LARGE_EVERY: usize = 5;

pub(super) async fn define(door: &Door) {
    door.run("CREATE TABLE log (id BIGINT PRIMARY KEY, twice BIGINT NOT NULL, note TEXT)")
        .await;
    door.run("CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT NOT NULL); INSERT INTO counters VALUES (1, 0)")
        .await;
}

/// Starts the writers of one round; each writes until the node is gone.
pub(super) fn spawn(tasks: &mut JoinSet<()>, door: &Door, ledger: &Arc<Mutex<Ledger>>, round: usize) {
    for shape in [
        Shape::Row,
        Shape::Row,
        Shape::Transaction,
        Shape::Batch {
            large: round.is_multiple_of(LARGE_EVERY),
        },
    ] {
        tasks.spawn(insert(door.clone(), ledger.clone(), shape));
    }
    tasks.spawn(count(door.clone(), ledger.clone()));
}

#[derive(Clone, Copy)]
enum Shape {
    Row,
    /// Two inserts in one transaction.
    Transaction,
    /// Growing batches; the first one of a round may be large.
    Batch {
        large: bool,
    },
}

async fn insert(door: Door, ledger: Arc<Mutex<Ledger>>, shape: Shape) {
    for turn in 0.. {
        let (count, note) = match shape {
            Shape::Row => (1, 10),
            Shape::Transaction => (2, 10),
            Shape::Batch { large: true } if turn == 0 => (LARGE_ROWS, LARGE_NOTE_BYTES),
            Shape::Batch { .. } => (1 + turn * 7 % 40, 100),
        };
        let (batch, keys) = ledger.lock().sending(count);
        let sql = match shape {
            Shape::Transaction => {
                let middle = keys.start + 1;
                format!(
                    "BEGIN; {}; {}; COMMIT",
                    values(keys.start..middle, note),
                    values(middle..keys.end, note)
                )
            }
            Shape::Row | Shape::Batch { .. } => values(keys, note),
        };
        if !answered(&door, &sql).await {
            return;
        }
        ledger.lock().acknowledged(batch);
    }
}

async fn count(door: Door, ledger: Arc<Mutex<Ledger>>) {
    loop {
        let value = ledger.lock().counting();
        if !answered(&door, &format!("UPDATE counters SET n = {value} WHERE id = 1")).await {
            return;
        }
        ledger.lock().counted();
    }
}

/// Whether an answer came, which is then a success.
async fn answered(door: &Door, sql: &str) -> bool {
    match door.try_ask(sql).await {
        Ok(answer) => {
            assert_eq!(answer.status, 200, "{}: {answer:?}", &sql[..sql.len().min(100)]);
            true
        }
        Err(_) => false,
    }
}

fn values(keys: Range<u64>, note_bytes: usize) -> String {
    let note = "n".repeat(note_bytes);
    let mut sql = String::from("INSERT INTO log VALUES ");
    for key in keys.clone() {
        let comma = if key == keys.start { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(sql, "{comma}({key}, {}, '{note}')", key * 2);
    }
    sql
}
