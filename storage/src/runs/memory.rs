//! Segment files that are gathered in memory, on their way into the log.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::StorageError;
use crate::segments::{NewFile, SegmentFile, SegmentFiles};

/// Files by name, in the order they were finished.
#[derive(Clone, Default)]
pub(super) struct MemoryFiles(Arc<Mutex<Vec<(String, Bytes)>>>);

impl MemoryFiles {
    /// The file of this name.
    pub(super) fn take(&self, name: &str) -> Option<Bytes> {
        let mut files = self.0.lock();
        let place = files.iter().position(|(known, _)| known == name)?;
        Some(files.swap_remove(place).1)
    }
}

impl SegmentFiles for MemoryFiles {
    fn open(&self, name: &str) -> Result<Arc<dyn SegmentFile>, StorageError> {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(StorageError::io("open", self.path(name), missing))
    }

    fn create(&self) -> Result<Box<dyn NewFile>, StorageError> {
        Ok(Box::new(NewMemoryFile {
            files: self.clone(),
            content: Vec::new(),
        }))
    }

    fn sync(&self, _names: &[String]) -> Result<(), StorageError> {
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        drop(self.take(name));
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        name.into()
    }
}

struct NewMemoryFile {
    files: MemoryFiles,
    content: Vec<u8>,
}

impl NewFile for NewMemoryFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.content.extend_from_slice(bytes);
        Ok(())
    }

    fn publish(self: Box<Self>, name: &str) -> Result<(), StorageError> {
        let file = (name.to_owned(), self.content.into());
        self.files.0.lock().push(file);
        Ok(())
    }
}
