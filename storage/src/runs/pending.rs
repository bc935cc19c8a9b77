//! What has come of a transaction whose own entry has not.

use std::collections::BTreeMap;
use std::sync::Arc;

use candor_proto::LogIndex;
use serde::{Deserialize, Serialize};

use super::{RunPiece, RunStart};
use crate::error::StorageError;
use crate::record::TableChange;
use crate::schema::{CollectionId, ColumnType};
use crate::segments::{FileRef, Segment, SegmentInfo};
use crate::table::freeze::SegmentHome;

/// The parts of a transaction that has not come yet: changes, which are kept in memory, and runs, which stand in files.
#[derive(Default)]
pub(crate) struct PendingParts {
    changes: Vec<TableChange>,
    /// The entry of the first of them.
    first_change: Option<LogIndex>,
    runs: Vec<PendingRun>,
    /// Entries that brought the runs, and the last of them.
    run_pieces: u32,
    runs_upto: LogIndex,
    incoming: Option<IncomingRun>,
}

/// A run that is there as a whole.
#[derive(Clone)]
pub(crate) struct PendingRun {
    pub(crate) collection: CollectionId,
    /// Ids and types of the columns that it was made for.
    pub(crate) columns: Vec<(u32, ColumnType)>,
    /// Its rows, with ids from 0 on.
    pub(crate) segment: Arc<Segment>,
}

/// A run whose pieces are coming.
struct IncomingRun {
    first: LogIndex,
    pieces: u32,
    run: PendingRun,
    /// What has come of the file that is on its way, its name, and its size. It is written when it is whole: 64 MiB of
    /// rows make less than that.
    file: Vec<u8>,
    name: String,
    size: u64,
    writes_keys: bool,
}

/// The runs of a transaction that has not come yet, in a manifest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PendingImage {
    pub(crate) txn: u128,
    run_pieces: u32,
    runs_upto: LogIndex,
    pub(crate) runs: Vec<RunImage>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunImage {
    collection: CollectionId,
    columns: Vec<(u32, ColumnType)>,
    pub(crate) info: SegmentInfo,
}

/// All that came of a transaction, once its own entry is there.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Entries that brought it; those of a run that lacks some do not count.
    pub(crate) count: u32,
    pub(crate) changes: Vec<TableChange>,
    pub(crate) runs: BTreeMap<CollectionId, Vec<PendingRun>>,
}

impl PendingParts {
    /// What a manifest tells of.
    pub(crate) fn restored(image: &PendingImage, home: &SegmentHome) -> Self {
        let run = |run: &RunImage| PendingRun {
            collection: run.collection,
            columns: run.columns.clone(),
            segment: home.open(run.info.clone()),
        };
        Self {
            runs: image.runs.iter().map(run).collect(),
            run_pieces: image.run_pieces,
            runs_upto: image.runs_upto,
            ..Self::default()
        }
    }

    /// What a manifest is to tell; `None` if there is no run.
    pub(crate) fn image(&self, txn: u128) -> Option<PendingImage> {
        let run = |run: &PendingRun| RunImage {
            collection: run.collection,
            columns: run.columns.clone(),
            info: run.segment.info().clone(),
        };
        (!self.runs.is_empty()).then(|| PendingImage {
            txn,
            run_pieces: self.run_pieces,
            runs_upto: self.runs_upto,
            runs: self.runs.iter().map(run).collect(),
        })
    }

    /// The first entry that has to be read again to have what [`PendingParts::image`] leaves out.
    pub(crate) fn first_needed(&self) -> Option<LogIndex> {
        let incoming = self.incoming.as_ref().map(|incoming| incoming.first);
        self.first_change.into_iter().chain(incoming).min()
    }

    pub(crate) fn gathered(self) -> Gathered {
        let mut runs: BTreeMap<_, Vec<PendingRun>> = BTreeMap::new();
        for run in self.runs {
            runs.entry(run.collection).or_default().push(run);
        }
        Gathered {
            count: self.changes.len() as u32 + self.run_pieces,
            changes: self.changes,
            runs,
        }
    }

    pub(crate) fn take_change(&mut self, index: LogIndex, change: TableChange) {
        self.first_change.get_or_insert(index);
        self.changes.push(change);
    }

    /// Writes a piece of a run. One that does not follow what came before does not count, nor does its run: then parts of
    /// the transaction are missing, and it will have no effect.
    ///
    /// # Errors
    /// The disk refuses; not if it is full.
    pub(crate) fn take_piece(
        &mut self,
        index: LogIndex,
        piece: RunPiece,
        home: &SegmentHome,
    ) -> Result<(), StorageError> {
        if index <= self.runs_upto {
            // Its run came back with the manifest.
            return Ok(());
        }
        let incoming = match (self.incoming.take(), piece.start) {
            (Some(incoming), None) if incoming.run.collection == piece.collection => incoming,
            (None, Some(start)) => match IncomingRun::start(index, piece.collection, start, home) {
                Some(incoming) => incoming,
                None => return broken(index, "a run has no rows"),
            },
            _ => return broken(index, "a piece of a run does not follow the one before it"),
        };
        match incoming.take(&piece.bytes, home)? {
            Taken::More(incoming) => self.incoming = Some(*incoming),
            Taken::Whole(run, pieces) => {
                self.runs.push(run);
                self.run_pieces += pieces;
                self.runs_upto = index;
            }
            Taken::TooMuch => return broken(index, "a run is longer than it says"),
        }
        Ok(())
    }
}

/// A piece that does not count. Nothing that this node could mend, nor a reason for it to stop.
#[allow(clippy::unnecessary_wraps, reason = "the end of what may fail otherwise")]
fn broken(index: LogIndex, why: &'static str) -> Result<(), StorageError> {
    tracing::error!(%index, "a transaction will have no effect: {why}");
    Ok(())
}

enum Taken {
    More(Box<IncomingRun>),
    Whole(PendingRun, u32),
    TooMuch,
}

impl IncomingRun {
    /// `None` if there is nothing to come.
    fn start(first: LogIndex, collection: CollectionId, start: RunStart, home: &SegmentHome) -> Option<Self> {
        let RunStart { columns, info } = start;
        let sizes = [Some(info.file), info.keys].into_iter().flatten();
        let is_empty = info.rows() == 0 || sizes.map(|file: FileRef| file.size).any(|size| size == 0);
        if is_empty || info.row_base != 0 {
            return None;
        }
        let (name, size) = (info.parquet_name(), info.file.size);
        Some(Self {
            first,
            pieces: 0,
            // It is known before its files have their names, so nobody takes them for garbage.
            run: PendingRun {
                collection,
                columns,
                segment: home.open(info),
            },
            file: Vec::new(),
            name,
            size,
            writes_keys: false,
        })
    }

    fn take(mut self, mut bytes: &[u8], home: &SegmentHome) -> Result<Taken, StorageError> {
        self.pieces += 1;
        while !bytes.is_empty() {
            let left = usize::try_from(self.size).unwrap_or(usize::MAX) - self.file.len();
            let (now, later) = bytes.split_at(bytes.len().min(left));
            self.file.extend_from_slice(now);
            bytes = later;
            if now.len() < left {
                continue;
            }
            home.show(std::mem::take(&mut self.file), std::mem::take(&mut self.name))?;
            let info = self.run.segment.info();
            let Some((keys, name)) = info.keys.zip(info.keys_name()).filter(|_| !self.writes_keys) else {
                return Ok(if bytes.is_empty() {
                    Taken::Whole(self.run, self.pieces)
                } else {
                    Taken::TooMuch
                });
            };
            (self.name, self.size) = (name, keys.size);
            self.writes_keys = true;
        }
        Ok(Taken::More(Box::new(self)))
    }
}
