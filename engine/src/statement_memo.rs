//! What is kept of a statement between its runs: an application sends the same few texts over and over.

use std::sync::{Arc, Weak};

use candor_storage::Catalog;
use parking_lot::Mutex;

use crate::point::PointRead;

/// What the engine knows of one statement from the last time it ran. It belongs to that statement's syntax tree alone: with
/// another one, the answer would be the first one's.
#[derive(Default)]
pub struct StatementMemo(Mutex<Option<Known>>);

/// What the statement means under these definitions, with this database selected.
struct Known {
    /// Weak, so that definitions which nobody uses any more go; their place in memory is not given to others meanwhile.
    catalog: Weak<Catalog>,
    database: Option<String>,
    read: Option<Arc<PointRead>>,
}

impl StatementMemo {
    /// The statement as a read by key, if it is one; `plan` finds out where that is not known.
    pub(crate) fn point_read(
        &self,
        catalog: &Arc<Catalog>,
        database: Option<&String>,
        plan: impl FnOnce() -> Option<Arc<PointRead>>,
    ) -> Option<Arc<PointRead>> {
        let mut kept = self.0.lock();
        if let Some(known) = &*kept
            && std::ptr::eq(known.catalog.as_ptr(), Arc::as_ptr(catalog))
            && known.database.as_ref() == database
        {
            return known.read.clone();
        }
        let read = plan();
        *kept = Some(Known {
            catalog: Arc::downgrade(catalog),
            database: database.cloned(),
            read: read.clone(),
        });
        read
    }
}
