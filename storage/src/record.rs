//! What the payload of an entry holds, and its encoding.
//!
//! Every value in a record was fixed before it was proposed: no default, clock or random number is left to be
//! evaluated. Whether a transaction takes effect is not in the record: each replica decides that when it applies it.

use arrow::array::RecordBatch;
use bytes::Bytes;
use candor_proto::{LogIndex, NodeName};
use serde::{Deserialize, Serialize};

use crate::batch::{SchemaCache, WireBatch, WireBytes};
use crate::error::RecordError;
use crate::runs::{RunPiece, RunStart};
use crate::schema::{CollectionId, SchemaChange};

/// What one entry holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The first entry of each epoch: who leads at it.
    LeaderElected {
        /// The leader.
        node: NodeName,
    },
    /// One of the pieces that a large transaction was split into; it waits for its [`Transaction`].
    Part(TransactionPart),
    /// A piece of the rows of a large transaction, as they will stand in a file; it waits likewise.
    Run(RunPiece),
    /// Changes that take effect together, or not at all.
    Transaction(Transaction),
    /// The parts of a transaction that will not come are forgotten.
    Discard {
        /// The number drawn for them.
        txn: u128,
    },
    /// Versions before `index` need not be kept any longer.
    Horizon {
        /// The oldest version that stays readable.
        index: LogIndex,
    },
}

/// One piece of a large transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionPart {
    /// Drawn for the transaction; its other parts and its [`Transaction`] have the same.
    pub txn: u128,
    /// The changes in this piece.
    pub change: TableChange,
}

/// Changes that take effect together, or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    /// The version it read: a row it ends must not have changed since.
    pub snapshot: LogIndex,
    /// Changes of the catalog, in order, before the rows.
    pub schema: Vec<SchemaChange>,
    /// Changes of rows. All rows of the transaction are ended before any begins, whichever piece they stand in.
    pub changes: Vec<TableChange>,
    /// The number drawn for its parts and how many of them come before it in the log.
    pub parts: Option<(u128, u32)>,
    /// Which request of which client this is, kept with its effects so that a repeated one can be told.
    pub mutation: Option<Mutation>,
}

/// Names one mutation of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// The client.
    pub client: String,
    /// The client's number for it.
    pub mid: u64,
}

/// Rows of one collection that end and begin.
#[derive(Clone, Debug, PartialEq)]
pub struct TableChange {
    /// The collection.
    pub collection: CollectionId,
    /// Keys of the rows that end: the primary key's columns by name, or one column `_row` of row ids
    /// ([`crate::ROW_ID_COLUMN`], unsigned 64-bit), which is the only way where there is no primary key.
    pub ended: Option<RecordBatch>,
    /// Rows that begin, columns by name; a column that is missing is NULL in all of them.
    pub begun: Option<RecordBatch>,
}

#[derive(Serialize, Deserialize)]
struct WireChange<'a> {
    collection: CollectionId,
    #[serde(borrow)]
    ended: Option<WireBatch<'a>>,
    #[serde(borrow)]
    begun: Option<WireBatch<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WirePart<'a> {
    txn: u128,
    #[serde(borrow)]
    change: WireChange<'a>,
}

#[derive(Serialize, Deserialize)]
struct WireRun<'a> {
    txn: u128,
    collection: CollectionId,
    start: Option<RunStart>,
    #[serde(borrow)]
    bytes: WireBytes<'a>,
}

#[derive(Serialize, Deserialize)]
struct WireTransaction<'a> {
    snapshot: LogIndex,
    schema: Vec<SchemaChange>,
    #[serde(borrow)]
    changes: Vec<WireChange<'a>>,
    parts: Option<(u128, u32)>,
    mutation: Option<Mutation>,
}

impl Record {
    /// The kind of a [`Record::LeaderElected`] entry.
    pub const LEADER_ELECTED: u8 = 1;
    /// The kind of a [`Record::Part`] entry.
    pub const PART: u8 = 2;
    /// The kind of a [`Record::Transaction`] entry.
    pub const TRANSACTION: u8 = 3;
    /// The kind of a [`Record::Horizon`] entry.
    pub const HORIZON: u8 = 4;
    /// The kind of a [`Record::Discard`] entry.
    pub const DISCARD: u8 = 5;
    /// The kind of a [`Record::Run`] entry.
    pub const RUN: u8 = 6;

    /// The kind and the payload of an entry with this record. Equal records of equal layout encode to equal bytes.
    ///
    /// # Errors
    /// A batch with a column of a type that is not stored.
    pub fn encode(&self) -> Result<(u8, Bytes), RecordError> {
        let (kind, bytes) = match self {
            Self::LeaderElected { node } => (Self::LEADER_ELECTED, write(node)?),
            Self::Horizon { index } => (Self::HORIZON, write(index)?),
            Self::Discard { txn } => (Self::DISCARD, write(txn)?),
            Self::Part(part) => {
                let wire = WirePart {
                    txn: part.txn,
                    change: WireChange::new(&part.change)?,
                };
                (Self::PART, write(&wire)?)
            }
            Self::Run(piece) => {
                let wire = WireRun {
                    txn: piece.txn,
                    collection: piece.collection,
                    start: piece.start.clone(),
                    bytes: WireBytes::Borrowed(&piece.bytes),
                };
                (Self::RUN, write(&wire)?)
            }
            Self::Transaction(transaction) => {
                let wire = WireTransaction {
                    snapshot: transaction.snapshot,
                    schema: transaction.schema.clone(),
                    changes: transaction
                        .changes
                        .iter()
                        .map(WireChange::new)
                        .collect::<Result<_, _>>()?,
                    parts: transaction.parts,
                    mutation: transaction.mutation.clone(),
                };
                (Self::TRANSACTION, write(&wire)?)
            }
        };
        Ok((kind, bytes.into()))
    }

    /// The record in the payload of an entry of this kind.
    ///
    /// # Errors
    /// A kind that is not known, or bytes that are not of its form.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, RecordError> {
        Self::decode_with(kind, payload, &mut SchemaCache::default())
    }

    /// As [`Record::decode`], for many records in a row.
    pub(crate) fn decode_with(kind: u8, payload: &[u8], schemas: &mut SchemaCache) -> Result<Self, RecordError> {
        match kind {
            Self::LEADER_ELECTED => Ok(Self::LeaderElected { node: read(payload)? }),
            Self::HORIZON => Ok(Self::Horizon { index: read(payload)? }),
            Self::DISCARD => Ok(Self::Discard { txn: read(payload)? }),
            Self::PART => {
                let wire: WirePart<'_> = read(payload)?;
                Ok(Self::Part(TransactionPart {
                    txn: wire.txn,
                    change: wire.change.read(schemas)?,
                }))
            }
            Self::RUN => {
                let wire: WireRun<'_> = read(payload)?;
                Ok(Self::Run(RunPiece {
                    txn: wire.txn,
                    collection: wire.collection,
                    start: wire.start,
                    bytes: Bytes::copy_from_slice(wire.bytes.as_slice()),
                }))
            }
            Self::TRANSACTION => {
                let wire: WireTransaction<'_> = read(payload)?;
                Ok(Self::Transaction(Transaction {
                    snapshot: wire.snapshot,
                    schema: wire.schema,
                    changes: wire
                        .changes
                        .iter()
                        .map(|change| change.read(schemas))
                        .collect::<Result<_, _>>()?,
                    parts: wire.parts,
                    mutation: wire.mutation,
                }))
            }
            unknown => Err(RecordError::UnknownKind(unknown)),
        }
    }
}

impl<'a> WireChange<'a> {
    fn new(change: &'a TableChange) -> Result<Self, RecordError> {
        Ok(Self {
            collection: change.collection,
            ended: change.ended.as_ref().map(WireBatch::new).transpose()?,
            begun: change.begun.as_ref().map(WireBatch::new).transpose()?,
        })
    }

    fn read(&self, schemas: &mut SchemaCache) -> Result<TableChange, RecordError> {
        let mut read = |batch: &Option<WireBatch<'_>>| batch.as_ref().map(|batch| batch.read(schemas)).transpose();
        Ok(TableChange {
            collection: self.collection,
            ended: read(&self.ended)?,
            begun: read(&self.begun)?,
        })
    }
}

fn write(value: &impl Serialize) -> Result<Vec<u8>, RecordError> {
    postcard::to_allocvec(value).map_err(|error| RecordError::Malformed(error.to_string()))
}

fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, RecordError> {
    let (value, rest) =
        postcard::take_from_bytes(payload).map_err(|error| RecordError::Malformed(error.to_string()))?;
    if !rest.is_empty() {
        return Err(RecordError::Malformed(format!("{} bytes follow it", rest.len())));
    }
    Ok(value)
}
