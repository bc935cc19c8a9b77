//! Indexes over rows in memory: from the bytes of the values of some columns to the rows that have, or had, them.
//!
//! Keys are encoded with `arrow-row`, so equal values are equal bytes. Each key stands once, however many versions of
//! its row there are; the ids of the older ones are kept in order, so the row at a version is found by halving. The
//! index is split into shards, each behind its own lock: a writer and a reader seldom meet, and the table of a shard
//! grows without holding up the others.
//!
//! A row that begins is added before its version can be read. A reader passes over ids it may not see yet.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::RwLock;

use crate::layout::Layout;
use crate::schema::CollectionDef;
use crate::segments::{SegmentKey, fingerprint};

const SHARDS: usize = 32;

/// What a key takes beside its bytes, and what an older row of it takes, bytes, about: tables and lists grow by doubling.
const SLOT_SIZE: usize = size_of::<Slot>() * 3 / 2 + 1;
const OLDER_SIZE: usize = 16;

/// Some columns of a collection that rows are found by.
pub(crate) struct KeySpec {
    /// Ids of its columns.
    columns: Vec<u32>,
    types: Vec<DataType>,
    /// For columns that rows were not found by from the start: the rows that were there when they became that.
    late: Option<Late>,
    converter: RowConverter,
    hasher: RandomState,
}

/// The rows that were visible when a list of columns was indexed, wherever they stand. It goes when the node starts anew;
/// then segments that do not know the key are searched.
pub(crate) struct Late {
    /// The version that they were visible at.
    pub(crate) version: u64,
    /// They have ids below this number.
    pub(crate) row_end: u64,
    pub(crate) index: KeyIndex,
}

/// What the rows of a table are found by: one for each list of [`CollectionDef::indexed`], in that order.
pub(crate) type KeyList = Arc<[Arc<KeySpec>]>;

/// The rows in memory by one key.
pub(crate) struct KeyIndex {
    hasher: RandomState,
    shards: [RwLock<Shard>; SHARDS],
    size: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    slots: HashTable<Slot>,
    /// The bytes of all keys, one after another.
    bytes: Vec<u8>,
}

struct Slot {
    newest: u64,
    /// Ids of rows that had the key before, ascending. Boxed: most keys never have any.
    #[allow(clippy::box_collection)]
    older: Option<Box<Vec<u64>>>,
    at: usize,
    size: u32,
}

/// The encoded keys of some rows.
pub(crate) struct Keys {
    rows: Rows,
    hashes: Vec<u64>,
    /// Rows with a NULL in the key.
    incomplete: Vec<bool>,
    /// The values.
    columns: Vec<ArrayRef>,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The hash and the bytes of the key of one row; `None` if it holds a NULL.
    pub(crate) fn key(&self, row: usize) -> Option<(u64, &[u8])> {
        let complete = self.incomplete.is_empty() || !self.incomplete[row];
        complete.then(|| (self.hashes[row], self.rows.row(row).data()))
    }

    /// The bytes of the key of one row.
    pub(crate) fn bytes(&self, row: usize) -> &[u8] {
        self.rows.row(row).data()
    }

    /// What to look for in segments for the key of one row; `None` if it holds a NULL.
    pub(crate) fn wanted<'a>(&'a self, spec: &'a KeySpec, row: usize) -> Option<SegmentKey<'a>> {
        let (_, key) = self.key(row)?;
        Some(SegmentKey {
            ids: spec.columns(),
            columns: self.columns(),
            row,
            fingerprint: fingerprint(key),
        })
    }

    /// The values, a column for each of the key.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }
}

impl KeySpec {
    /// Columns of `def`.
    pub(crate) fn new(def: &CollectionDef, ordinals: &[u32]) -> Self {
        let types = ordinals.iter().map(|ordinal| def.columns[*ordinal as usize].ty.arrow());
        let types: Vec<DataType> = types.collect();
        let columns = def.column_ids(ordinals);
        let fields = types.iter().cloned().map(SortField::new);
        let converter = RowConverter::new(fields.collect()).expect("every column type has an order");
        Self {
            late: None,
            types,
            columns,
            converter,
            hasher: RandomState::new(),
        }
    }

    /// All that the rows of a new table are found by.
    pub(crate) fn all(def: &CollectionDef) -> KeyList {
        let lists = def.indexed().into_iter();
        lists.map(|list| Arc::new(Self::new(def, list))).collect()
    }

    /// Takes in the rows that are there when the columns are indexed, which are visible at `version`.
    pub(crate) fn set_late(&mut self, late: Late) {
        self.late = Some(late);
    }

    pub(crate) fn late(&self) -> Option<&Late> {
        self.late.as_ref()
    }

    /// Whether the rows that are visible at `version` can all be found.
    pub(crate) fn is_complete_at(&self, version: u64) -> bool {
        self.late.as_ref().is_none_or(|late| late.version <= version)
    }

    /// Ids of its columns.
    pub(crate) fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// An index in memory, empty.
    pub(crate) fn index(&self) -> KeyIndex {
        KeyIndex {
            hasher: self.hasher.clone(),
            shards: Default::default(),
            size: AtomicUsize::new(0),
        }
    }

    /// The Arrow types of its columns.
    pub(crate) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Ordinals of its columns in a definition that has them all.
    pub(crate) fn ordinals(&self, layout: &Layout) -> Vec<usize> {
        let ordinal = |id: &u32| {
            layout
                .ordinal(*id)
                .expect("no column of a key is dropped before the key is")
        };
        self.columns.iter().map(ordinal).collect()
    }

    /// Encodes keys, given the columns of the key in its order.
    ///
    /// # Errors
    /// A column of another type than the key's.
    pub(crate) fn encode(&self, columns: &[ArrayRef]) -> Result<Keys, ArrowError> {
        let values = columns.to_vec();
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        let rows = self.converter.convert_columns(&columns)?;
        let hashes = rows.iter().map(|row| self.hasher.hash_one(row.data())).collect();
        let mut incomplete = Vec::new();
        for column in columns.iter().filter(|column| column.null_count() > 0) {
            incomplete.resize(column.len(), false);
            for (row, incomplete) in incomplete.iter_mut().enumerate() {
                *incomplete |= column.is_null(row);
            }
        }
        Ok(Keys {
            rows,
            hashes,
            incomplete,
            columns: values,
        })
    }
}

impl KeyIndex {
    /// Bytes of memory it takes, about.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// The newest row with an id below `limit` that has or had the key.
    pub(crate) fn newest_below(&self, limit: u64, hash: u64, key: &[u8]) -> Option<u64> {
        let shard = self.shard(hash).read();
        let slot = shard.find(hash, key)?;
        if slot.newest < limit {
            return Some(slot.newest);
        }
        let older = slot.older.as_ref()?;
        let after = older.partition_point(|row| *row < limit);
        older.get(after.checked_sub(1)?).copied()
    }

    /// The rows with ids below `limit` that have or had the key, the newest first.
    pub(crate) fn rows_below(&self, limit: u64, hash: u64, key: &[u8]) -> Vec<u64> {
        let shard = self.shard(hash).read();
        let Some(slot) = shard.find(hash, key) else {
            return Vec::new();
        };
        let older = slot.older.iter().flat_map(|older| older.iter().rev());
        let all = std::iter::once(&slot.newest).chain(older);
        all.copied().filter(|row| *row < limit).collect()
    }

    /// The lowest row that shares its key with an earlier one, of those that `stays` says yes to.
    pub(crate) fn second(&self, stays: impl Fn(u64) -> bool) -> Option<u64> {
        let in_slot = |slot: &Slot| {
            let older = slot.older.iter().flat_map(|older| older.iter());
            let mut rows = older.chain([&slot.newest]).filter(|row| stays(**row));
            rows.nth(1).copied()
        };
        let shards = self.shards.iter();
        shards
            .filter_map(|shard| shard.read().slots.iter().filter_map(in_slot).min())
            .min()
    }

    /// Adds a row, whose id is larger than those of all rows that have had the key.
    pub(crate) fn insert(&self, hash: u64, key: &[u8], row: u64) {
        let mut shard = self.shard(hash).write();
        let Shard { slots, bytes } = &mut *shard;
        let rehash = |slot: &Slot| self.hasher.hash_one(slot.key(bytes));
        match slots.entry(hash, |slot| slot.key(bytes) == key, rehash) {
            Entry::Occupied(mut found) => {
                let slot = found.get_mut();
                debug_assert!(slot.newest < row, "ids grow");
                slot.older.get_or_insert_default().push(slot.newest);
                slot.newest = row;
                self.size.fetch_add(OLDER_SIZE, Ordering::Relaxed);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Slot {
                    newest: row,
                    older: None,
                    at: bytes.len(),
                    size: key.len() as u32,
                });
                bytes.extend_from_slice(key);
                self.size.fetch_add(SLOT_SIZE + key.len(), Ordering::Relaxed);
            }
        }
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        // The table inside takes the lowest and the highest bits.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

impl Shard {
    fn find(&self, hash: u64, key: &[u8]) -> Option<&Slot> {
        self.slots.find(hash, |slot| slot.key(&self.bytes) == key)
    }
}

impl Slot {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at..self.at + self.size as usize]
    }
}

/// The values of a key for a message.
pub(crate) fn key_text(columns: &[ArrayRef], row: usize) -> String {
    let value = |column: &ArrayRef| match array_value_to_string(column, row) {
        Ok(text) if column.is_valid(row) => text,
        _ => "NULL".into(),
    };
    columns.iter().map(value).collect::<Vec<_>>().join(", ")
}

/// Makes numbers that are equal in SQL equal in bytes: the two zeros, and all NaNs.
pub(crate) fn normalised(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => floats::<Float32Type>(column, |value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        DataType::Float64 => floats::<Float64Type>(column, |value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        _ => Arc::clone(column),
    }
}

fn floats<T: ArrowPrimitiveType>(column: &ArrayRef, plain: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    let plain: PrimitiveArray<T> = column.as_primitive::<T>().unary(plain);
    Arc::new(plain)
}
