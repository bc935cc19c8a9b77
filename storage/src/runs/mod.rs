//! Runs: the rows of a large transaction, as segments that wait for it.
//!
//! The leader encodes rows once, as the files of a segment ([`RunBuilder`]), and the log carries those files in pieces
//! ([`RunPiece`]). Whoever applies the log writes the pieces into files as they come ([`PendingParts`]), so rows that wait
//! for their transaction take no memory, and the transaction takes effect by putting the segments into its tables. Until
//! then nothing refers to them: if the transaction does not come, they are garbage.
//!
//! Rows of a run have ids from 0 on, in the order they came; what they are counted from is known when the transaction
//! takes effect. The keys of one run are distinct, which the builder sees to; whether they are those of other rows is
//! decided by every replica when it applies the transaction.

mod builder;
mod memory;
mod pending;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::schema::{CollectionId, ColumnType};
use crate::segments::SegmentInfo;

pub use builder::{RunBuilder, RunError};
pub(crate) use pending::{Gathered, PendingImage, PendingParts, PendingRun};

/// A piece of the files of a run: those of its Parquet file, then those of its key file. The pieces of one run follow
/// each other among the parts of its transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPiece {
    /// Drawn for the transaction; its other parts have the same.
    pub txn: u128,
    /// The collection that gets the rows.
    pub collection: CollectionId,
    /// With the first piece: what the run is.
    pub start: Option<RunStart>,
    /// Bytes of the files.
    pub bytes: Bytes,
}

/// What a run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// Ids and types of the columns of the collection that the rows were made for.
    pub columns: Vec<(u32, ColumnType)>,
    /// The segment.
    pub info: SegmentInfo,
}
