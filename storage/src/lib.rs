#![doc = include_str!("../README.md")]

mod apply;
mod batch;
mod catalog;
mod constant;
pub mod disk;
mod element;
mod entry;
mod error;
mod layout;
mod log;
mod readers;
mod record;
mod runs;
mod schema;
pub mod segments;
mod sequence;
mod snapshot;
mod store;
mod table;

pub use apply::Outcome;
pub use catalog::{Catalog, enum_of};
pub use constant::Constant;
pub use entry::{Entry, chain};
pub use error::{ApplyRefusal, ReadError, RecordError, SnapshotError, StorageError};
pub use log::Agreement;
pub use record::{Mutation, Record, TableChange, Transaction, TransactionPart};
pub use runs::{RunBuilder, RunError, RunPiece, RunStart};
pub use schema::{
    ARRAY_DEPTH_MAX, Alteration, CheckDef, CollectionDef, CollectionId, ColumnDef, ColumnType, ElementType,
    ForeignAction, ForeignKeyDef, Generated, KeyDef, KeyKind, ROW_ID_COLUMN, ReplicaDef, SchemaChange, SequenceDef,
    SequenceId, SequencePlace, TypeDef, TypeId, ViewDef,
};
pub use segments::{CacheFigures, ColumnBounds, PartRead, PartRows, RowFilter, SegmentCache};
pub use sequence::Reserved;
pub use snapshot::{ContentHash, Snapshot};
pub use store::{Lease, MaintainLimits, Maintained, RangeStore, StoreInfo, StoreOptions, TableInfo};
pub use table::{ColumnSummary, RowChanges, RowId, TablePart, TableSnapshot, TableSummary};
