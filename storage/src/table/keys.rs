//! The index of a primary or unique key over rows in memory: from the key's bytes to the rows that have, or had, it.
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

const SHARDS: usize = 32;

/// What a key takes beside its bytes, and what an older row of it takes, bytes, about: tables and lists grow by doubling.
const SLOT_SIZE: usize = size_of::<Slot>() * 3 / 2 + 1;
const OLDER_SIZE: usize = 16;

/// One key of a collection.
pub(crate) struct KeySpec {
    /// Ids of its columns.
    columns: Vec<u32>,
    types: Vec<DataType>,
    is_primary: bool,
    converter: RowConverter,
    hasher: RandomState,
}

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

    /// The values, a column for each of the key.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }
}

impl KeySpec {
    /// The key of `def` on these columns. `None` if there are none.
    pub(crate) fn new(def: &CollectionDef, ordinals: &[u32]) -> Option<Self> {
        let types = ordinals.iter().map(|ordinal| def.columns[*ordinal as usize].ty.arrow());
        let types: Vec<DataType> = types.collect();
        let columns = def.column_ids(ordinals);
        let fields = types.iter().cloned().map(SortField::new);
        let converter = RowConverter::new(fields.collect()).expect("every column type has an order");
        (!columns.is_empty()).then(|| Self {
            is_primary: def.key == ordinals,
            types,
            columns,
            converter,
            hasher: RandomState::new(),
        })
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

    /// Whether it is the key on the columns of these ids, in this order.
    pub(crate) fn is_on(&self, columns: &[u32]) -> bool {
        self.columns == columns
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

    /// How messages name it.
    pub(crate) fn constraint(&self, layout: &Layout) -> String {
        let kind = if self.is_primary { "primary key" } else { "unique key" };
        let fields = layout.schema.fields();
        let names = self
            .ordinals(layout)
            .into_iter()
            .map(|ordinal| fields[ordinal].name().as_str());
        format!("{kind} ({})", names.collect::<Vec<_>>().join(", "))
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
