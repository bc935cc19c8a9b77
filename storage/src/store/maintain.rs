//! What is due, one bounded step at a time, and figures of how a range is kept.

use std::sync::atomic::Ordering;

use candor_proto::LogIndex;

use super::RangeStore;
use crate::error::StorageError;
use crate::schema::CollectionId;

/// When maintenance is due.
#[derive(Clone, Copy, Debug)]
pub struct MaintainLimits {
    /// A checkpoint is due once rows in memory take so many bytes.
    pub delta_bytes: u64,
    /// A checkpoint is due once the log behind the last one has so many bytes, so that a restart is fast.
    pub log_bytes: u64,
}

/// What [`RangeStore::maintain`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintained {
    /// Nothing was due.
    Nothing,
    /// A checkpoint.
    Checkpoint,
    /// Some segments were written together.
    Compaction,
}

/// How a range is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreInfo {
    /// Segments of all tables.
    pub segments: u64,
    /// Rows in them, ended or not.
    pub segment_rows: u64,
    /// Bytes of their files.
    pub segment_bytes: u64,
    /// Rows in memory, ended or not.
    pub delta_rows: u64,
    /// Bytes of memory they take, about.
    pub delta_bytes: u64,
    /// The oldest version that can be read.
    pub horizon: LogIndex,
    /// The newest version that a checkpoint holds; zero if there is none.
    pub checkpoint: LogIndex,
    /// The first entry of the log.
    pub log_start: LogIndex,
    /// Bytes of the log's files.
    pub log_bytes: u64,
}

/// How one table is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableInfo {
    /// Segments.
    pub segments: u64,
    /// Rows in them, ended or not.
    pub segment_rows: u64,
    /// Rows of them that have ended.
    pub segment_ended: u64,
    /// Bytes of their files.
    pub segment_bytes: u64,
    /// Rows in memory, ended or not.
    pub delta_rows: u64,
    /// Bytes of memory they take, about.
    pub delta_bytes: u64,
}

impl RangeStore {
    /// Does one step of what is due. Called again and again by a thread of the node; waits for the disk.
    ///
    /// # Errors
    /// As [`RangeStore::checkpoint`] and [`RangeStore::compact`].
    pub fn maintain(&self, limits: MaintainLimits) -> Result<Maintained, StorageError> {
        let mut number = self.maintenance.lock();
        if self.retired.load(Ordering::Relaxed) {
            return Ok(Maintained::Nothing);
        }
        self.forget();
        let log_bytes = self.log_bytes_behind_checkpoint();
        let is_due = self.delta_bytes() >= limits.delta_bytes || log_bytes >= limits.log_bytes;
        if is_due && self.checkpoint_as(&mut number)? {
            return Ok(Maintained::Checkpoint);
        }
        if self.compact_as(&mut number)? {
            return Ok(Maintained::Compaction);
        }
        Ok(Maintained::Nothing)
    }

    /// Ends maintenance for good, and waits for a step that runs: before the folder is moved or removed.
    pub fn end_maintenance(&self) {
        self.retired.store(true, Ordering::Relaxed);
        drop(self.maintenance.lock());
    }

    /// Bytes of memory that rows take which stand in no segment yet, about.
    pub fn delta_bytes(&self) -> u64 {
        let tables = self.tables();
        tables.values().map(|table| table.delta_size().1 as u64).sum()
    }

    /// The oldest version that is being read here.
    pub fn oldest_read(&self) -> Option<LogIndex> {
        self.readers.oldest().map(LogIndex)
    }

    /// How the range is kept.
    pub fn info(&self) -> StoreInfo {
        let mut info = StoreInfo {
            horizon: self.horizon(),
            checkpoint: self.checkpointed(),
            log_start: self.log_start(),
            log_bytes: self
                .log
                .bytes_between(LogIndex(self.log_start().0 - 1), self.last().0.index),
            ..StoreInfo::default()
        };
        for id in self.tables().keys() {
            let table = self.table_info(*id).unwrap_or_default();
            info.segments += table.segments;
            info.segment_rows += table.segment_rows;
            info.segment_bytes += table.segment_bytes;
            info.delta_rows += table.delta_rows;
            info.delta_bytes += table.delta_bytes;
        }
        info
    }

    /// How one table is kept; `None` if no version has it.
    pub fn table_info(&self, id: CollectionId) -> Option<TableInfo> {
        let tables = self.tables();
        let table = tables.get(&id)?;
        let (delta_rows, delta_bytes) = table.delta_size();
        let mut info = TableInfo {
            delta_rows,
            delta_bytes: delta_bytes as u64,
            ..TableInfo::default()
        };
        for main in &table.layers().main {
            info.segments += 1;
            info.segment_rows += u64::from(main.segment.rows());
            info.segment_ended += main.ends.ended();
            info.segment_bytes += main.segment.info().size();
        }
        Some(info)
    }

    /// The newest version that a checkpoint holds; zero if there is none.
    pub fn checkpointed(&self) -> LogIndex {
        self.kept
            .lock()
            .newest()
            .map_or(LogIndex::ZERO, |newest| newest.applied.index)
    }

    fn log_bytes_behind_checkpoint(&self) -> u64 {
        self.log.bytes_between(self.checkpointed(), self.applied().0.index)
    }

    fn tables(&self) -> std::sync::Arc<crate::apply::Tables> {
        std::sync::Arc::clone(&self.published.read().state.tables)
    }
}
