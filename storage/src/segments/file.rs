//! Where segment files lie: a folder of a [`Disk`], or a prefix in an object store.
//!
//! A file is written once, under a passing name, and gets its own name when it is whole and durable. From then on it
//! never changes, so readers need no lock and an object store needs no more than `put` and ranged `get`.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// Bytes gathered before they are handed to the disk.
const WRITE_BYTES: usize = 1 << 20;

/// A place for segment files.
pub trait SegmentFiles: Send + Sync {
    /// Opens the file of this name.
    ///
    /// # Errors
    /// There is none, or the place refuses.
    fn open(&self, name: &str) -> Result<Arc<dyn SegmentFile>, StorageError>;

    /// Starts a file that has no name yet. Dropped before it was published, it leaves nothing behind; after a crash
    /// something may be left under a name that ends in `.tmp`.
    ///
    /// # Errors
    /// The place refuses.
    fn create(&self) -> Result<Box<dyn NewFile>, StorageError>;

    /// Makes files durable that were shown ([`NewFile::show`]).
    ///
    /// # Errors
    /// The place refuses.
    fn sync(&self, names: &[String]) -> Result<(), StorageError>;

    /// Removes the file of this name; fine if there is none.
    ///
    /// # Errors
    /// The place refuses.
    fn remove(&self, name: &str) -> Result<(), StorageError>;

    /// Where the file of this name is, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// An open file; it never changes.
pub trait SegmentFile: Send + Sync {
    /// Where it is, for messages.
    fn path(&self) -> &Path;

    /// Its size, bytes.
    fn size(&self) -> u64;

    /// The bytes of `range`.
    ///
    /// # Errors
    /// The file ends before, or the place refuses.
    fn read(&self, range: Range<u64>) -> Result<Bytes, StorageError>;
}

/// A file that is being written.
pub trait NewFile: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The place refuses, or is full.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    /// Makes the file durable under `name`, which it replaces: names are hashes of the content.
    ///
    /// # Errors
    /// The place refuses.
    fn publish(self: Box<Self>, name: &str) -> Result<(), StorageError>;

    /// As [`NewFile::publish`], but durable only once [`SegmentFiles::sync`] has been told of the name: for what can be
    /// made again until then.
    ///
    /// # Errors
    /// The place refuses.
    fn show(self: Box<Self>, name: &str) -> Result<(), StorageError> {
        self.publish(name)
    }
}

/// A folder of a [`Disk`].
pub struct DiskFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl DiskFiles {
    /// The folder `dir`, which is made with the first file.
    pub fn new(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>) -> Self {
        Self { disk, dir: dir.into() }
    }
}

impl SegmentFiles for DiskFiles {
    fn open(&self, name: &str) -> Result<Arc<dyn SegmentFile>, StorageError> {
        let path = self.dir.join(name);
        let open = |path: &Path| {
            let file = self.disk.open(path)?;
            let size = file.size()?;
            Ok((file, size))
        };
        let (file, size) = open(&path).map_err(|error| StorageError::io("open", &path, error))?;
        Ok(Arc::new(DiskSegmentFile { file, path, size }))
    }

    fn create(&self) -> Result<Box<dyn NewFile>, StorageError> {
        // Two writers of one process never share a passing name; one left by another process is written over.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("new-{}.tmp", NEXT.fetch_add(1, Ordering::Relaxed));
        let path = self.dir.join(name);
        let create = || {
            self.disk.make_dir(&self.dir)?;
            self.disk.create(&path)
        };
        let file = create().map_err(|error| write_error("create", &path, error))?;
        Ok(Box::new(NewDiskFile {
            disk: Arc::clone(&self.disk),
            dir: self.dir.clone(),
            path,
            file,
            written: 0,
            pending: Vec::with_capacity(WRITE_BYTES),
            is_published: false,
        }))
    }

    fn sync(&self, names: &[String]) -> Result<(), StorageError> {
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            let path = self.dir.join(name);
            let sync = || self.disk.open(&path)?.sync();
            sync().map_err(|error| write_error("sync", &path, error))?;
        }
        sync_names(&*self.disk, &self.dir).map_err(|error| write_error("sync", &self.dir, error))
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        let path = self.dir.join(name);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path, error)),
            _ => Ok(()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

struct DiskSegmentFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    size: u64,
}

impl SegmentFile for DiskSegmentFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, StorageError> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file
            .read_at(range.start, &mut bytes)
            .map_err(|error| StorageError::io("read", &self.path, error))?;
        Ok(bytes.into())
    }
}

struct NewDiskFile {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    written: u64,
    pending: Vec<u8>,
    is_published: bool,
}

impl NewDiskFile {
    fn flush(&mut self) -> Result<(), StorageError> {
        self.file
            .write_at(self.written, &self.pending)
            .map_err(|error| write_error("write", &self.path, error))?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

impl NewFile for NewDiskFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn publish(mut self: Box<Self>, name: &str) -> Result<(), StorageError> {
        self.flush()?;
        let to = self.dir.join(name);
        // The content is durable before the name shows it, and the name before anybody is told of it.
        let publish = || {
            self.file.sync()?;
            self.disk.rename(&self.path, &to)?;
            sync_names(&*self.disk, &self.dir)
        };
        publish().map_err(|error| write_error("publish", &to, error))?;
        self.is_published = true;
        Ok(())
    }

    fn show(mut self: Box<Self>, name: &str) -> Result<(), StorageError> {
        let to = self.dir.join(name);
        if self.disk.open(&to).is_ok() {
            // The same content is there already, and may be relied on: a crash must not put less in its place.
            return self.publish(name);
        }
        self.flush()?;
        let renamed = self.disk.rename(&self.path, &to);
        renamed.map_err(|error| write_error("publish", &to, error))?;
        self.is_published = true;
        Ok(())
    }
}

/// Makes the names in a folder durable, and that of the folder itself, which may be new.
fn sync_names(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.sync_dir(dir)?;
    dir.parent().map_or(Ok(()), |above| disk.sync_dir(above))
}

impl Drop for NewDiskFile {
    fn drop(&mut self) {
        if !self.is_published {
            // What is left is removed with the next garbage.
            let _ = self.disk.remove(&self.path);
        }
    }
}

fn write_error(action: &'static str, path: &Path, error: io::Error) -> StorageError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::DiskFull { path: path.to_owned() },
        _ => StorageError::io(action, path, error),
    }
}

/// A future that an object store made.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs a future to its end on the calling thread.
pub type Waiter = dyn for<'a> Fn(Waiting<'a>) + Send + Sync;

/// A prefix in an object store.
pub struct ObjectFiles {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    waiter: Arc<Waiter>,
}

impl ObjectFiles {
    /// Files below `prefix`. The calling thread sleeps while the store works: right for stores in memory and on disk.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: ObjectPath) -> Self {
        Self::with_waiter(store, prefix, Arc::new(|future| sleep_until_done(future)))
    }

    /// As [`ObjectFiles::new`]; `waiter` runs the store's futures, for stores that need a runtime around them.
    pub fn with_waiter(store: Arc<dyn ObjectStore>, prefix: ObjectPath, waiter: Arc<Waiter>) -> Self {
        Self { store, prefix, waiter }
    }

    fn location(&self, name: &str) -> ObjectPath {
        self.prefix.clone().join(name)
    }
}

/// What the future gives, once it is done.
fn wait<T: Send>(
    waiter: &Waiter,
    future: impl Future<Output = object_store::Result<T>> + Send,
) -> object_store::Result<T> {
    let mut result = None;
    waiter(Box::pin(async { result = Some(future.await) }));
    result.unwrap_or_else(|| {
        Err(object_store::Error::Generic {
            store: "waiter",
            source: "it gave up before the store was done".into(),
        })
    })
}

fn sleep_until_done(mut future: Waiting<'_>) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while future.as_mut().poll(&mut context).is_pending() {
        thread::park();
    }
}

impl SegmentFiles for ObjectFiles {
    fn open(&self, name: &str) -> Result<Arc<dyn SegmentFile>, StorageError> {
        let location = self.location(name);
        let path = self.path(name);
        let meta = wait(&*self.waiter, self.store.head(&location));
        let size = meta.map_err(|error| object_error("open", &path, error))?.size;
        Ok(Arc::new(ObjectFile {
            store: Arc::clone(&self.store),
            waiter: Arc::clone(&self.waiter),
            location,
            path,
            size,
        }))
    }

    fn create(&self) -> Result<Box<dyn NewFile>, StorageError> {
        Ok(Box::new(NewObject {
            store: Arc::clone(&self.store),
            waiter: Arc::clone(&self.waiter),
            prefix: self.prefix.clone(),
            parts: Vec::new(),
        }))
    }

    fn sync(&self, _names: &[String]) -> Result<(), StorageError> {
        // What was put is durable.
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        let location = self.location(name);
        match wait(&*self.waiter, self.store.delete(&location)) {
            Err(object_store::Error::NotFound { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(object_error("remove", &self.path(name), error)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.location(name).as_ref().into()
    }
}

struct ObjectFile {
    store: Arc<dyn ObjectStore>,
    waiter: Arc<Waiter>,
    location: ObjectPath,
    path: PathBuf,
    size: u64,
}

impl SegmentFile for ObjectFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, StorageError> {
        let size = range.end - range.start;
        let bytes = wait(&*self.waiter, self.store.get_range(&self.location, range));
        let bytes = bytes.map_err(|error| object_error("read", &self.path, error))?;
        if bytes.len() as u64 != size {
            let short = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(StorageError::io("read", &self.path, short));
        }
        Ok(bytes)
    }
}

/// An object is put as a whole, so it is gathered in memory; a segment has a bounded size.
struct NewObject {
    store: Arc<dyn ObjectStore>,
    waiter: Arc<Waiter>,
    prefix: ObjectPath,
    parts: Vec<Bytes>,
}

impl NewFile for NewObject {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.parts.push(Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn publish(mut self: Box<Self>, name: &str) -> Result<(), StorageError> {
        let location = self.prefix.clone().join(name);
        let payload = PutPayload::from_iter(std::mem::take(&mut self.parts));
        wait(&*self.waiter, self.store.put(&location, payload))
            .map(drop)
            .map_err(|error| object_error("write", Path::new(location.as_ref()), error))
    }
}

fn object_error(action: &'static str, path: &Path, error: object_store::Error) -> StorageError {
    let kind = match error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    StorageError::io(action, path, io::Error::new(kind, error))
}
