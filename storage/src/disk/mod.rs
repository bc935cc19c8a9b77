//! The file operations that the log needs, behind two small traits, so that tests and simulations can lose power.
//!
//! What counts as durable: the content of a file after [`DiskFile::sync`], a name (made, renamed or removed) after
//! [`Disk::sync_dir`] of its folder. Nothing else survives a crash for certain.

mod crash;
mod real;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use crash::{CrashDisk, Faults};
pub use real::RealDisk;

/// A place for files.
pub trait Disk: Send + Sync {
    /// Makes the folder and those above it; fine if it is there.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Names of the files in the folder, in no order; an error of kind `NotFound` if there is no such folder.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes an empty file, or empties the one that is there, and opens it.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that is there.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name in the same folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in the folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Its size, bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills `buf` from `offset`; an error of kind `UnexpectedEof` if the file ends before.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, growing the file as needed. On an error any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to `size`.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Makes the content durable.
    fn sync(&self) -> io::Result<()>;
}
