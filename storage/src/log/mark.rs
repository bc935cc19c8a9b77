//! How far the log is known to be synced: a note of 20 bytes, written over itself after each sync, not synced itself.
//!
//! Damage before the mark can only be damage: those bytes were on the device. Without the mark a rotten byte in the
//! last entry would look like the torn end of a write that nobody was told about. A mark that is lost, or older than
//! the last sync, is harmless: it only leaves more to the judgement of `recover`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_proto::LogIndex;

use super::frame::array;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

const FILE_NAME: &str = "synced";
const SIZE: usize = 20;

/// The end of what is durable: a file, by its first index, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DurableEnd {
    pub(super) segment: LogIndex,
    pub(super) size: u64,
}

/// The open mark.
pub(super) struct SyncMark {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl SyncMark {
    /// Opens the mark in `dir`, makes it if it is not there, and reads it; `None` if it says nothing.
    pub(super) fn open(disk: &dyn Disk, dir: &Path) -> Result<(Self, Option<DurableEnd>), StorageError> {
        let path = dir.join(FILE_NAME);
        let file = match disk.open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => disk.create(&path),
            opened => opened,
        };
        let mark = Self {
            file: file.map_err(|error| StorageError::io("open", &path, error))?,
            path,
        };
        let mut bytes = [0; SIZE];
        // A mark that cannot be read says nothing, like one that is not there.
        let read = mark.file.read_at(0, &mut bytes).is_ok();
        let crc = u32::from_le_bytes(array(&bytes[16..]));
        let says = read && crc == crc32fast::hash(&bytes[..16]);
        let end = says.then(|| DurableEnd {
            segment: LogIndex(u64::from_le_bytes(array(&bytes[..8]))),
            size: u64::from_le_bytes(array(&bytes[8..16])),
        });
        Ok((mark, end))
    }

    /// Notes a new end. A failure leaves an older mark, which is harmless, so it is only logged.
    pub(super) fn note(&self, end: DurableEnd) {
        if let Err(error) = self.write(end) {
            tracing::warn!(path = %self.path.display(), %error, "the mark of the last sync was not written");
        }
    }

    /// Takes the end back before something durable is cut: this has to be on the device before the cut is.
    pub(super) fn lower(&self, end: DurableEnd) -> Result<(), StorageError> {
        self.write(end)
            .and_then(|()| self.file.sync())
            .map_err(|error| StorageError::io("sync", &self.path, error))
    }

    fn write(&self, end: DurableEnd) -> std::io::Result<()> {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&end.segment.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&end.size.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&crc.to_le_bytes());
        self.file.write_at(0, &bytes)
    }
}
