//! Segments: the rows of a table that do not stand in memory.
//!
//! A segment is an immutable Parquet file of up to a million rows, sorted by primary key (by row id where there is none),
//! and a key file beside it. Both are named after a hash of their content, both can be read by whoever knows
//! [`SegmentInfo`], and every byte of both is checked when it is read.
//!
//! * Writing: [`RowSorter`] brings rows into order, [`SegmentWriter`] makes the files: [`SegmentSpec`] in,
//!   [`SegmentInfo`] out. The info is what a manifest keeps.
//! * Reading: [`Segment::new`] opens by info without reading anything. [`SegmentPart`] reads row groups at a version
//!   ([`SegmentView`]) for scans, [`Segment::find`] finds rows by key, [`Segment::ordinal`] by row id,
//!   [`Segment::value`] gives single values.
//! * [`SegmentCache`] holds what was decoded, for all segments of a process.
//! * [`DeletionVector`] holds when rows of a segment ended. It lives in memory; a manifest keeps its pairs.
//!
//! A row of a segment is named by its ordinal there. Which versions see it is decided by its row id and its end, as for
//! rows in memory, and is not the segment's business: the same row under the same id is in whichever segment a
//! compaction put it.
//!
//! | module | what |
//! |---|---|
//! | `file`, `held` | places for files: a folder, an object store; memory, when a folder is full |
//! | `sealed` | checksums of every block of a file |
//! | `column`, `scalar`, `sketch`, `stats` | columns, their types, what is known of their values |
//! | `keys` | fingerprints of keys, sorted |
//! | `info`, `writer`, `sort` | making a segment |
//! | `footer`, `segment`, `part`, `vector`, `cache` | reading it |

mod cache;
mod column;
mod file;
mod footer;
mod held;
mod info;
mod keys;
mod part;
mod scalar;
mod sealed;
mod segment;
mod sketch;
mod sort;
mod stats;
mod vector;
mod writer;

pub use cache::{CacheFigures, SegmentCache};
pub use column::SegmentColumn;
pub(crate) use column::from_stored;
pub use file::{DiskFiles, NewFile, ObjectFiles, SegmentFile, SegmentFiles, Waiter, Waiting};
pub(crate) use held::HeldFiles;
pub use info::{FileRef, RowOrder, SegmentInfo};
pub use keys::fingerprint;
pub use part::{PartRead, PartRows, RowFilter, SegmentPart, SegmentView};
pub use segment::{Segment, SegmentKey};
pub use sketch::Sketch;
pub use sort::RowSorter;
pub(crate) use stats::array_size;
pub use stats::{ColumnBounds, ColumnStatistics};
pub use vector::DeletionVector;
pub use writer::{GROUP_ROWS_MAX, SEGMENT_ROWS_MAX, SegmentSpec, SegmentWriter};
