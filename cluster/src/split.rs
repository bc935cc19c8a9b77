//! Cuts a transaction that is too large for one log entry into parts.
//!
//! Large entries would make answers of collection, batches of the log and memory of everybody large. So rows beyond
//! 1 MiB travel as part records in front of their transaction, which names their count; they take effect with it, or
//! not at all. All stand next to each other in the log, because they are proposed together.

use bytes::Bytes;
use candor_proto::limits;
use candor_storage::{ApplyRefusal, Record, RecordError, RunError, TableChange, Transaction, TransactionPart};

/// What one entry should hold at most, bytes. A single row may take more, up to [`limits::ENTRY_BYTES_MAX`].
const PART_BYTES: usize = 1 << 20;

/// Why a transaction cannot stand in the log.
#[derive(Debug)]
pub(crate) enum SplitError {
    Encode(RecordError),
    TooLarge(usize),
    Refused(ApplyRefusal),
}

impl From<RunError> for SplitError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Refused(refusal) => Self::Refused(refusal),
            RunError::Encode(error) => Self::Encode(error),
            other => Self::Encode(RecordError::Malformed(other.to_string())),
        }
    }
}

/// The records of a transaction in log order; `txn` marks its parts, should there be any.
pub(crate) fn records(mut transaction: Transaction, txn: u128) -> Result<Vec<(u8, Bytes)>, SplitError> {
    let changes = std::mem::take(&mut transaction.changes);
    let whole = Record::Transaction(Transaction { changes, ..transaction });
    let encoded = encode(&whole)?;
    let Record::Transaction(mut transaction) = whole else {
        unreachable!("made two lines above");
    };
    if encoded.1.len() <= PART_BYTES {
        return Ok(vec![encoded]);
    }
    let mut records = Vec::new();
    for change in std::mem::take(&mut transaction.changes) {
        split(change, encoded.1.len(), txn, &mut records)?;
    }
    let count = u32::try_from(records.len()).map_err(|_| SplitError::TooLarge(encoded.1.len()))?;
    transaction.parts = (count > 0).then_some((txn, count));
    records.push(encode(&Record::Transaction(transaction))?);
    Ok(records)
}

/// The part records of one change.
pub(crate) fn parts(change: TableChange, txn: u128) -> Result<Vec<(u8, Bytes)>, SplitError> {
    let memory = |batch: &arrow::array::RecordBatch| batch.get_array_memory_size();
    let bytes = change.ended.iter().chain(&change.begun).map(memory).sum();
    let mut records = Vec::new();
    split(change, bytes, txn, &mut records)?;
    Ok(records)
}

/// The record that forgets the parts of a transaction that will not come.
pub(crate) fn discard(txn: u128) -> Result<(u8, Bytes), SplitError> {
    encode(&Record::Discard { txn })
}

/// Pieces of one change, its ended rows first. The whole transaction took `bytes`, which says how many rows to try.
fn split(change: TableChange, bytes: usize, txn: u128, records: &mut Vec<(u8, Bytes)>) -> Result<(), SplitError> {
    let collection = change.collection;
    let rows = |batch: &Option<_>| {
        batch
            .as_ref()
            .map_or(0, |batch: &arrow::array::RecordBatch| batch.num_rows())
    };
    let per_row = (bytes / (rows(&change.ended) + rows(&change.begun)).max(1)).max(1);
    // Rows differ; three quarters leave most pieces within the bound at the first try.
    let step = (PART_BYTES * 3 / 4 / per_row).max(1);
    for (batch, ends) in [(change.ended, true), (change.begun, false)] {
        let Some(batch) = batch else { continue };
        let mut at = 0;
        while at < batch.num_rows() {
            let count = step.min(batch.num_rows() - at);
            let piece = batch.slice(at, count);
            let (ended, begun) = if ends { (Some(piece), None) } else { (None, Some(piece)) };
            let change = TableChange {
                collection,
                ended,
                begun,
            };
            push_part(change, txn, records)?;
            at += count;
        }
    }
    Ok(())
}

/// One part, or its halves where it is too large and has more than one row.
fn push_part(change: TableChange, txn: u128, records: &mut Vec<(u8, Bytes)>) -> Result<(), SplitError> {
    let rows = change
        .ended
        .iter()
        .chain(&change.begun)
        .map(arrow::array::RecordBatch::num_rows)
        .sum::<usize>();
    let part = Record::Part(TransactionPart { txn, change });
    let encoded = encode(&part)?;
    if encoded.1.len() <= PART_BYTES || rows < 2 {
        records.push(encoded);
        return Ok(());
    }
    let Record::Part(TransactionPart { change, .. }) = part else {
        unreachable!("made four lines above");
    };
    // Depth is at most the logarithm of the rows.
    for half in halves(&change, rows / 2) {
        push_part(half, txn, records)?;
    }
    Ok(())
}

fn halves(change: &TableChange, at: usize) -> [TableChange; 2] {
    let cut = |batch: &Option<arrow::array::RecordBatch>, first: bool| {
        batch.as_ref().map(|batch| {
            if first {
                batch.slice(0, at)
            } else {
                batch.slice(at, batch.num_rows() - at)
            }
        })
    };
    [true, false].map(|first| TableChange {
        collection: change.collection,
        ended: cut(&change.ended, first),
        begun: cut(&change.begun, first),
    })
}

fn encode(record: &Record) -> Result<(u8, Bytes), SplitError> {
    let (kind, payload) = record.encode().map_err(SplitError::Encode)?;
    if payload.len() > limits::ENTRY_BYTES_MAX {
        // The whole may be larger; it is cut then. Only what cannot be cut is too large.
        let splittable = matches!(record, Record::Transaction(transaction) if !transaction.changes.is_empty());
        if !splittable {
            return Err(SplitError::TooLarge(payload.len()));
        }
    }
    Ok((kind, payload))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use candor_proto::LogIndex;
    use candor_storage::CollectionId;

    use super::*;

    fn rows(ids: std::ops::Range<i64>, width: impl Fn(i64) -> usize) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
        ]);
        let text = StringViewArray::from_iter_values(ids.clone().map(|id| pseudo_text(id, width(id))));
        let ids = Int64Array::from_iter_values(ids);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(text)]).expect("batch")
    }

    /// Text that does not compress.
    fn pseudo_text(seed: i64, width: usize) -> String {
        let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
        (0..width)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                char::from(b' ' + ((state >> 33) % 90) as u8)
            })
            .collect()
    }

    fn transaction(ended: Option<RecordBatch>, begun: RecordBatch) -> Transaction {
        Transaction {
            snapshot: LogIndex(3),
            changes: vec![TableChange {
                collection: CollectionId(1),
                ended,
                begun: Some(begun),
            }],
            ..Transaction::default()
        }
    }

    #[test]
    fn a_small_transaction_is_one_record() {
        let transaction = transaction(None, rows(0..10, |_| 10));
        let records = records(transaction.clone(), 7).expect("fits");
        assert_eq!(records.len(), 1);
        let (kind, payload) = &records[0];
        assert_eq!(
            Record::decode(*kind, payload).expect("decodes"),
            Record::Transaction(transaction)
        );
    }

    #[test]
    fn a_large_one_becomes_parts_that_together_hold_every_row_once() {
        let ended = rows(0..2000, |_| 30).project(&[0]).expect("keys");
        // The first rows are far larger than the rest, so the first guess at a piece is wrong.
        let begun = rows(0..3000, |id| if id < 20 { 200_000 } else { 300 });
        let records = records(transaction(Some(ended), begun.clone()), 7).expect("fits");
        assert!(records.len() > 4);
        let (last, parts) = records.split_last().expect("some");
        let Record::Transaction(last) = Record::decode(last.0, &last.1).expect("decodes") else {
            panic!("the transaction comes last");
        };
        assert_eq!(last.parts, Some((7, parts.len() as u32)));
        assert!(last.changes.is_empty());
        let (mut ended_rows, mut begun_rows) = (0, Vec::new());
        for (kind, payload) in parts {
            assert!(payload.len() <= PART_BYTES, "{} bytes", payload.len());
            let Record::Part(part) = Record::decode(*kind, payload).expect("decodes") else {
                panic!("parts come first");
            };
            assert_eq!(part.txn, 7);
            ended_rows += part.change.ended.map_or(0, |batch| batch.num_rows());
            begun_rows.extend(part.change.begun);
        }
        assert_eq!(ended_rows, 2000);
        let together = arrow::compute::concat_batches(&begun.schema(), &begun_rows).expect("one batch");
        assert_eq!(together, begun);
    }

    #[test]
    fn a_single_row_larger_than_a_part_stays_whole() {
        let records = records(transaction(None, rows(0..2, |_| 3 << 20)), 7).expect("fits");
        assert_eq!(records.len(), 3);
    }
}
