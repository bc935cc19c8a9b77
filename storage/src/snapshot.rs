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
use crate::readers::Reader;
use crate::schema::CollectionId;
use crate::segments::PartRead;
use crate::table::TableSnapshot;

/// Rows that are hashed together.
const HASHED_ROWS: usize = 8192;

/// A range as it was at one version. Cheap to make and to clone: it copies no data and holds no lock, and what it shows
/// does not change whatever is applied meanwhile.
#[derive(Clone)]
pub struct Snapshot(Arc<Inner>);

struct Inner {
    version: LogIndex,
    epoch: Epoch,
    catalog: Arc<Catalog>,
    tables: Arc<Tables>,
    reader: Arc<Reader>,
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
    pub(crate) fn new(
        (version, epoch): (LogIndex, Epoch),
        catalog: Arc<Catalog>,
        tables: Arc<Tables>,
        reader: Reader,
    ) -> Self {
        Self(Arc::new(Inner {
            version,
            epoch,
            catalog,
            tables,
            reader: Arc::new(reader),
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
        let reader = Arc::clone(&self.0.reader);
        Some(TableSnapshot::new(table, (def, layout), self.0.version.0, reader))
    }

    /// A hash over the catalog and the visible rows. The order of rows and their ids do not count, so it tells whether
    /// two copies hold the same, not whether they store it alike.
    ///
    /// # Errors
    /// A row of more than 2 GiB; a segment that cannot be read.
    pub fn content_hash(&self) -> Result<ContentHash, ReadError> {
        let mut hash = Context::new(&SHA256);
        let catalog = postcard::to_allocvec(&self.0.catalog.image()).expect("plain data encodes");
        hash.update(&catalog);
        for def in self.0.catalog.all_collections() {
            let Some(table) = self.table(def.id) else { continue };
            let rows = rows_hash(&table)?;
            hash.update(&def.id.0.to_be_bytes());
            hash.update(&(table.row_count() as u64).to_be_bytes());
            hash.update(&rows.to_be_bytes());
        }
        Ok(ContentHash(truncated(&hash.finish())))
    }
}

/// The sum of the hashes of the rows.
fn rows_hash(table: &TableSnapshot) -> Result<u128, ReadError> {
    let arrow = |error: ArrowError| ReadError::Arrow(error.to_string());
    let schema = table.schema();
    let fields = schema
        .fields()
        .iter()
        .map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).map_err(arrow)?;
    let mut sum = 0_u128;
    let request = PartRead {
        projection: (0..schema.fields().len()).collect(),
        with_row_id: false,
        batch_rows: HASHED_ROWS,
        filter: None,
    };
    if request.projection.is_empty() {
        return Ok(sum);
    }
    for part in table.parts() {
        for batch in part.read(&request)? {
            for row in &converter.convert_columns(batch?.columns()).map_err(arrow)? {
                sum = sum.wrapping_add(truncated(&ring::digest::digest(&SHA256, row.data())));
            }
        }
    }
    Ok(sum)
}
