//! Where the rows of a COPY go: kept while they are few, handed on as they come once they are many.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use candor_storage::{CollectionId, TableChange};

use super::Copied;
use crate::error::EngineError;
use crate::pending::concat;
use crate::write::{Evaluated, Grown, RowCompleter};

/// Fewer rows than this, by the memory they take, are kept: they make one small write, bytes.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Takes rows of a collection while the file is still read; false ends the COPY.
pub type RowSink = Box<dyn FnMut(CollectionId, RecordBatch) -> bool + Send>;

/// The rows of one COPY.
pub(super) struct Inflow<'a> {
    /// Set once nobody waits for the rows.
    gone: &'a AtomicBool,
    sink: Option<RowSink>,
    kept: Vec<RecordBatch>,
    kept_bytes: usize,
    rows: u64,
    handed: bool,
}

impl<'a> Inflow<'a> {
    pub(super) fn new(sink: Option<RowSink>, gone: &'a AtomicBool) -> Self {
        Self {
            gone,
            sink,
            kept: Vec::new(),
            kept_bytes: 0,
            rows: 0,
            handed: false,
        }
    }

    /// Completes rows and takes them in.
    pub(super) fn take(
        &mut self,
        grown: &Grown,
        completer: &mut RowCompleter<'_>,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<(), EngineError> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(EngineError::Canceled);
        }
        if rows == 0 {
            return Ok(());
        }
        let batch = completer.complete(columns, rows)?;
        self.rows += rows as u64;
        self.kept_bytes += batch.get_array_memory_size();
        self.kept.push(batch);
        // Rows that bring new columns must come with them.
        if self.kept_bytes > KEPT_BYTES_MAX && grown.schema.is_empty() {
            self.hand_on(grown.def.id)?;
        }
        Ok(())
    }

    fn hand_on(&mut self, collection: CollectionId) -> Result<(), EngineError> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        for batch in self.kept.drain(..) {
            self.handed = true;
            if !sink(collection, batch) {
                return Err(EngineError::Canceled);
            }
        }
        self.kept_bytes = 0;
        Ok(())
    }

    /// What there is at the end of the file.
    pub(super) fn end(self, grown: Grown) -> Result<Copied, EngineError> {
        let begun = concat(&self.kept)?;
        let change = begun.map(|rows| TableChange {
            collection: grown.def.id,
            ended: None,
            begun: Some(rows),
        });
        Ok(Copied {
            evaluated: Evaluated {
                schema: if self.rows > 0 { grown.schema } else { Vec::new() },
                rows_affected: self.rows,
                changes: change.into_iter().collect(),
                ..Evaluated::nothing()
            },
            handed: self.handed,
        })
    }
}
