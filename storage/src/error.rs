//! What can go wrong in storage, one enum per family of operations.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use candor_proto::{Epoch, ErrorCode, LogIndex, Position, Retry};

use crate::schema::CollectionId;

/// An error of the range log, or of the bytes in it. None of them is an outcome of an entry: the node that meets one
/// stops working on the range, while other replicas may well go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `read`, `write`, `sync` …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's own words.
        source: Arc<io::Error>,
    },
    /// The disk is full. The append that met it left nothing behind; others may follow once there is room.
    #[error("the disk is full: cannot write to {}", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// An earlier write or sync failed, so what the disk holds is not known: the process must stop and recover.
    #[error("the log takes no more writes, because an earlier one failed: {cause}")]
    Poisoned {
        /// The error that poisoned it.
        cause: String,
    },
    /// Bytes on disk are not what was written.
    #[error("{} is damaged at offset {offset}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged entry, or the damaged header, starts.
        offset: u64,
        /// What does not fit.
        why: String,
    },
    /// The folder holds no range.
    #[error("{} holds no range", path.display())]
    NoRange {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds a range already.
    #[error("{} holds a range already", path.display())]
    RangeExists {
        /// The folder.
        path: PathBuf,
    },
    /// Entries that do not continue this log.
    #[error("an entry at {got} does not continue a log that ends at {last}: {why}")]
    NotContinuous {
        /// The last entry of the log.
        last: Position,
        /// The entry that was handed in.
        got: Position,
        /// What does not fit.
        why: &'static str,
    },
    /// An epoch below the log's last one.
    #[error("epoch {got} is older than the log's last epoch {last}")]
    EpochStale {
        /// The epoch of the last entry.
        last: Epoch,
        /// The epoch handed in.
        got: Epoch,
    },
    /// An entry larger than the largest a log takes.
    #[error(
        "an entry of {bytes} bytes is larger than the largest of {}",
        candor_proto::limits::ENTRY_BYTES_MAX
    )]
    TooLarge {
        /// Its payload, bytes.
        bytes: usize,
    },
    /// An index outside the log.
    #[error("the log holds entries {first} to {last}, and {index} is not among them")]
    OutOfLog {
        /// The index asked for.
        index: LogIndex,
        /// The first entry.
        first: LogIndex,
        /// The last entry.
        last: LogIndex,
    },
    /// Entries that were applied are never cut.
    #[error("entries up to {applied} are applied, so the log is not cut after {index}")]
    AppliedAlready {
        /// Where the cut was asked for.
        index: LogIndex,
        /// The last applied entry.
        applied: LogIndex,
    },
    /// An entry whose checksums hold but whose record this version does not read.
    #[error("entry {index} holds a record that this version cannot read: {source}")]
    Record {
        /// The entry.
        index: LogIndex,
        /// Why not.
        source: RecordError,
    },
}

impl StorageError {
    /// The code an answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::DiskFull { .. } => ErrorCode::Overloaded,
            Self::Poisoned { .. } => ErrorCode::Stopping,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::EpochStale { .. } => ErrorCode::EpochStale,
            Self::RangeExists { .. } => ErrorCode::AlreadyExists,
            Self::NoRange { .. } => ErrorCode::UnknownNamespace,
            _ => ErrorCode::Internal,
        }
    }

    /// What a caller may do.
    pub fn retry(&self) -> Retry {
        self.code().retry()
    }

    /// Whether what the disk holds is no longer known, so that the process must stop.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Poisoned { .. } | Self::Io { .. })
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source: Arc::new(source),
        }
    }
}

/// A record that cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A kind of entry this version does not know.
    #[error("kind {0} is not known")]
    UnknownKind(u8),
    /// The frame of the record is not of its form.
    #[error("the record is malformed: {0}")]
    Malformed(String),
    /// A batch is not of its form.
    #[error("a batch of rows is malformed: {0}")]
    Batch(String),
    /// A column of a type that no column has.
    #[error("column `{column}` has the type {ty}, which is not stored")]
    ColumnType {
        /// The column.
        column: String,
        /// Its Arrow type.
        ty: String,
    },
}

impl RecordError {
    /// The code an answer carries.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::Internal
    }
}

/// Why a transaction had no effect. Decided alike on every replica, recorded as its outcome, returned to the writer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyRefusal {
    /// A row it ends was ended, or written anew, after its snapshot.
    #[error("a row of `{collection}` was changed by another transaction after this one began")]
    Conflict {
        /// The collection's name.
        collection: String,
    },
    /// A primary or unique key that a live row has already, or that two of its own rows share.
    #[error("a row of `{collection}` has the key ({columns}) = ({key}) already: `{constraint}`")]
    Unique {
        /// The collection's name.
        collection: String,
        /// The name of the constraint or index.
        constraint: String,
        /// The columns of the key.
        columns: String,
        /// The values of the key.
        key: String,
    },
    /// A row would be left without its parent, or has none.
    #[error("a row of `{collection}` with ({columns}) = ({key}) would have no parent in `{parent}`: `{constraint}`")]
    ForeignKey {
        /// The name of the collection with the foreign key.
        collection: String,
        /// The name of the foreign key.
        constraint: String,
        /// Its columns.
        columns: String,
        /// Their values.
        key: String,
        /// The name of the collection that it points to.
        parent: String,
    },
    /// A NULL, or nothing, where a column requires a value.
    #[error("column `{column}` of `{collection}` must have a value")]
    NotNull {
        /// The collection's name.
        collection: String,
        /// The column.
        column: String,
    },
    /// It was made for another schema than it met.
    #[error("the schema does not fit: {why}")]
    Schema {
        /// What does not fit.
        why: String,
    },
    /// Not all of its parts are in the log before it, as after a change of leader between them.
    #[error("{found} of the {expected} parts of the transaction are there")]
    Incomplete {
        /// Parts in the log.
        found: u32,
        /// Parts it was split into.
        expected: u32,
    },
}

impl ApplyRefusal {
    pub(crate) fn schema(why: impl fmt::Display) -> Self {
        Self::Schema { why: why.to_string() }
    }

    /// The code an answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Conflict { .. } | Self::Schema { .. } | Self::Incomplete { .. } => ErrorCode::Conflict,
            Self::Unique { .. } => ErrorCode::Unique,
            Self::NotNull { .. } | Self::ForeignKey { .. } => ErrorCode::Constraint,
        }
    }

    /// The finer SQLSTATE, where the code alone does not tell it.
    pub fn sqlstate(&self) -> Option<&'static str> {
        match self {
            Self::NotNull { .. } => Some("23502"),
            Self::ForeignKey { .. } => Some("23503"),
            _ => None,
        }
    }

    /// The constraint that refused it.
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Self::Unique { constraint, .. } | Self::ForeignKey { constraint, .. } => Some(constraint),
            _ => None,
        }
    }

    /// What a caller may do.
    pub fn retry(&self) -> Retry {
        self.code().retry()
    }
}

/// A version that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The version is not there yet.
    #[error("the newest version here is {newest}")]
    Ahead {
        /// The newest version.
        newest: LogIndex,
    },
    /// The version is gone.
    #[error("versions before {horizon} are gone")]
    Gone {
        /// The oldest version there is.
        horizon: LogIndex,
    },
}

impl SnapshotError {
    /// The code an answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Ahead { .. } => ErrorCode::VersionAhead,
            Self::Gone { .. } => ErrorCode::VersionGone,
        }
    }
}

/// A read that a table cannot answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The keys are not of the form of the primary key.
    #[error("the keys do not fit the primary key of collection {collection}: {why}")]
    KeyShape {
        /// The collection.
        collection: CollectionId,
        /// What does not fit.
        why: String,
    },
    /// A projection names a column that is not there.
    #[error("there is no column {0}")]
    NoColumn(usize),
    /// A row id that no row visible here has.
    #[error("there is no row {0}")]
    NoRow(u64),
    /// Arrow refused, for example because text of more than 2 GiB would stand in one batch.
    #[error("the rows do not make a batch: {0}")]
    Arrow(String),
    /// A segment cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReadError {
    /// The code an answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::KeyShape { .. } => ErrorCode::BadValue,
            Self::NoColumn(_) | Self::NoRow(_) | Self::Arrow(_) => ErrorCode::Internal,
            Self::Storage(error) => error.code(),
        }
    }
}
