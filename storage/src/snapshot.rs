//! A whole range as it was at one version.

use std::fmt;
use std::sync::Arc;

use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use candor_proto::{Epoch, LogIndex};
use ring::digest::{Context, SHA256};

use crate::apply::Tables;
use crate::catalog::Catalog;
use crate::entry::truncated;
use crate::error::ReadError;
use crate::schema::CollectionId;
use crate::table::TableSnapshot;

/// A range as it was at one version. Cheap to make and to clone: it copies no data and holds no lock, and what it shows
/// does not change whatever is applied meanwhile.
#[derive(Clone)]
pub struct Snapshot(Arc<Inner>);

struct Inner {
    version: LogIndex,
    epoch: Epoch,
    catalog: Arc<Catalog>,
    tables: Arc<Tables>,
}

/// A hash of everything a [`Snapshot`] shows; equal for copies that hold the same, however they came to store it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub u128);

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Snapshot {
    pub(crate) fn new(version: LogIndex, epoch: Epoch, catalog: Arc<Catalog>, tables: Arc<Tables>) -> Self {
        Self(Arc::new(Inner {
            version,
            epoch,
            catalog,
            tables,
        }))
    }

    /// The version: the index of the last entry whose effect it shows.
    pub fn version(&self) -> LogIndex {
        self.0.version
    }

    /// The epoch of that entry.
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// The catalog at this version.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.0.catalog
    }

    /// The collection of this id, if there was one at this version.
    pub fn table(&self, id: CollectionId) -> Option<TableSnapshot> {
        self.table_in(&self.0.catalog, id)
    }

    /// The same with the columns that `catalog` gives the collection: the snapshot's own catalog after changes that an
    /// open transaction has made, which sees the rows of the snapshot through them.
    pub fn table_in(&self, catalog: &Catalog, id: CollectionId) -> Option<TableSnapshot> {
        let def = Arc::clone(catalog.collection_by_id(id)?);
        let layout = Arc::clone(catalog.layout_of(id)?);
        let table = Arc::clone(self.0.tables.get(&id)?);
        Some(TableSnapshot::new(table, def, layout, self.0.version.0))
    }

    /// A hash over the catalog and the visible rows. The order of rows and their ids do not count, so it tells whether
    /// two copies hold the same, not whether they store it alike.
    ///
    /// # Errors
    /// A row of more than 2 GiB.
    pub fn content_hash(&self) -> Result<ContentHash, ReadError> {
        let mut hash = Context::new(&SHA256);
        let catalog = postcard::to_allocvec(&self.0.catalog.content()).expect("plain data encodes");
        hash.update(&catalog);
        for def in self.0.catalog.all_collections() {
            let Some(table) = self.table(def.id) else { continue };
            let rows = rows_hash(&table).map_err(|error| ReadError::Arrow(error.to_string()))?;
            hash.update(&def.id.0.to_be_bytes());
            hash.update(&(table.row_count() as u64).to_be_bytes());
            hash.update(&rows.to_be_bytes());
        }
        Ok(ContentHash(truncated(&hash.finish())))
    }
}

/// The sum of the hashes of the rows.
fn rows_hash(table: &TableSnapshot) -> Result<u128, ArrowError> {
    let schema = table.schema();
    let fields = schema
        .fields()
        .iter()
        .map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let mut sum = 0_u128;
    for batch in table.blocks().iter().filter_map(|block| block.read(None, false)) {
        if batch.num_columns() == 0 {
            continue;
        }
        for row in &converter.convert_columns(batch.columns())? {
            sum = sum.wrapping_add(truncated(&ring::digest::digest(&SHA256, row.data())));
        }
    }
    Ok(sum)
}
