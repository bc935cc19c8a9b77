//! The range log and the multi-version tables behind it

mod batch;
mod catalog;
pub mod disk;
mod entry;
mod error;
mod record;
mod schema;

pub use catalog::Catalog;
pub use entry::{Entry, chain};
pub use error::{ApplyRefusal, ReadError, RecordError, SnapshotError, StorageError};
pub use record::{Mutation, Record, TableChange, Transaction, TransactionPart};
pub use schema::{
    CheckDef, CollectionDef, CollectionId, ColumnDef, ColumnType, ROW_ID_COLUMN, ReplicaDef, SchemaChange, ViewDef,
};
