//! Files that are held in memory while the disk has no room for them.
//!
//! Applying the log must not fail because the disk is full: what it brings stands in the log. So a file that cannot be
//! written is read from memory until a checkpoint, which needs it on disk, finds room for it. The log cannot grow either
//! meanwhile, so there is never much of this.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::file::{NewFile, SegmentFile, SegmentFiles};
use crate::error::StorageError;

/// A place for segment files that holds what does not fit into another one.
pub(crate) struct HeldFiles {
    inner: Arc<dyn SegmentFiles>,
    held: Mutex<BTreeMap<String, Bytes>>,
}

impl HeldFiles {
    pub(crate) fn new(inner: Arc<dyn SegmentFiles>) -> Self {
        Self {
            inner,
            held: Mutex::default(),
        }
    }

    /// Gives a file its name; it is durable after [`SegmentFiles::sync`].
    ///
    /// # Errors
    /// The place refuses; not if it is full.
    pub(crate) fn show(&self, name: &str, content: Vec<u8>) -> Result<(), StorageError> {
        let write = || {
            let mut file = self.inner.create()?;
            file.write(&content)?;
            file.show(name)
        };
        match write() {
            Err(error @ StorageError::DiskFull { .. }) => {
                tracing::warn!(%error, "rows stand in memory until there is room for them");
                self.held.lock().insert(name.to_owned(), content.into());
                Ok(())
            }
            written => written,
        }
    }

    fn write_held(&self, name: &str, content: &[u8]) -> Result<(), StorageError> {
        let mut file = self.inner.create()?;
        file.write(content)?;
        file.publish(name)
    }
}

impl SegmentFiles for HeldFiles {
    fn open(&self, name: &str) -> Result<Arc<dyn SegmentFile>, StorageError> {
        if let Some(content) = self.held.lock().get(name) {
            return Ok(Arc::new(HeldFile {
                path: self.path(name),
                content: content.clone(),
            }));
        }
        self.inner.open(name)
    }

    fn create(&self) -> Result<Box<dyn NewFile>, StorageError> {
        self.inner.create()
    }

    fn sync(&self, names: &[String]) -> Result<(), StorageError> {
        for name in names {
            let held = self.held.lock().get(name).cloned();
            if let Some(content) = held {
                self.write_held(name, &content)?;
                self.held.lock().remove(name);
            }
        }
        self.inner.sync(names)
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.held.lock().remove(name);
        self.inner.remove(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.inner.path(name)
    }
}

struct HeldFile {
    path: PathBuf,
    content: Bytes,
}

impl SegmentFile for HeldFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> u64 {
        self.content.len() as u64
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, StorageError> {
        let range = range.start as usize..range.end as usize;
        if range.start > range.end || range.end > self.content.len() {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(StorageError::io("read", &self.path, short));
        }
        Ok(self.content.slice(range))
    }
}
