//! Which files are still needed, and the removal of those that are not.
//!
//! A segment file is needed by the manifests that are kept, by whoever reads it, and by leases; a log file by the older
//! of the kept manifests, by leases, and by whoever the caller knows of. Nothing else is removed, and nothing is removed
//! before what replaces it is durable.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use candor_proto::{LogIndex, Position};

use super::manifest::{self, Manifest};
use super::open::SEGMENTS;
use super::{RangeStore, StorageError};
use crate::disk::Disk;

/// How the name of a file ends that is not finished.
const PASSING: &str = ".tmp";

/// Manifests that are kept.
const MANIFESTS: usize = 2;

/// What must not be removed.
#[derive(Default)]
pub(super) struct Kept {
    /// Oldest first.
    manifests: VecDeque<Arc<KeptManifest>>,
    /// Manifests that somebody copies.
    leases: Vec<(Weak<KeptManifest>, Instant)>,
}

/// A manifest, and what it needs.
#[derive(Debug)]
pub(super) struct KeptManifest {
    number: u64,
    pub(super) applied: Position,
    pub(super) horizon: LogIndex,
    first_needed: LogIndex,
    files: BTreeSet<String>,
    /// Segments of its tables, as [`SegmentInfo::identity`] names them.
    pub(super) segments: BTreeSet<(u128, u64)>,
}

/// Keeps a checkpoint's files, and the log behind it, from being removed: for as long as it lives, and no longer than it
/// was asked for.
#[derive(Debug)]
pub struct Lease(Arc<KeptManifest>);

impl Lease {
    /// The last entry that the checkpoint holds.
    pub fn applied(&self) -> Position {
        self.0.applied
    }

    /// The number of its manifest, which is the file `manifest-<number>`, the number with 20 digits.
    pub fn manifest(&self) -> u64 {
        self.0.number
    }

    /// Names of the files in the folder `segments` that it needs.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.files.iter().map(String::as_str)
    }
}

impl KeptManifest {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn new(number: u64, manifest: &Manifest) -> Arc<Self> {
        let segments = manifest.tables.iter().flat_map(|table| &table.segments);
        Arc::new(Self {
            number,
            applied: manifest.applied,
            horizon: manifest.horizon,
            first_needed: manifest.first_needed(),
            files: manifest.file_names().collect(),
            segments: segments.map(|segment| segment.info.identity()).collect(),
        })
    }
}

impl Kept {
    pub(super) fn is_full(&self) -> bool {
        self.manifests.len() == MANIFESTS
    }

    pub(super) fn newest(&self) -> Option<&Arc<KeptManifest>> {
        self.manifests.back()
    }

    /// Keeps a manifest that is older than all others.
    pub(super) fn push_older(&mut self, number: u64, manifest: &Manifest) {
        self.manifests.push_front(KeptManifest::new(number, manifest));
    }

    /// Keeps the newest manifest, and lets the oldest go if they are too many.
    pub(super) fn push(&mut self, number: u64, manifest: &Manifest) {
        self.manifests.push_back(KeptManifest::new(number, manifest));
        if self.manifests.len() > MANIFESTS {
            self.manifests.pop_front();
        }
    }

    /// All manifests that must stay; forgets leases that are over.
    fn needed(&mut self) -> Vec<Arc<KeptManifest>> {
        let now = Instant::now();
        self.leases
            .retain(|(leased, until)| *until > now && leased.strong_count() > 0);
        let leased = self.leases.iter().filter_map(|(leased, _)| leased.upgrade());
        leased.chain(self.manifests.iter().cloned()).collect()
    }
}

impl RangeStore {
    /// Keeps the newest checkpoint from being removed while the lease lives, for `at_most` in any case. `None` if there
    /// is no checkpoint yet.
    pub fn lease(&self, at_most: Duration) -> Option<Lease> {
        let mut kept = self.kept.lock();
        let newest = Arc::clone(kept.newest()?);
        kept.leases.push((Arc::downgrade(&newest), Instant::now() + at_most));
        Some(Lease(newest))
    }

    /// Drops whole files from the front of the log that hold nothing but entries before `index`, if no checkpoint that
    /// is kept needs them either. The caller answers for everybody else who may ask for those entries.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn truncate_before(&self, index: LogIndex) -> Result<(), StorageError> {
        let _number = self.maintenance.lock();
        if self.retired.load(Ordering::Relaxed) {
            return Ok(());
        }
        let needed = {
            let mut kept = self.kept.lock();
            // One manifest alone may rot: then the log is all there is.
            if !kept.is_full() {
                return Ok(());
            }
            kept.needed().iter().map(|manifest| manifest.first_needed).min()
        };
        self.log
            .truncate_before(needed.map_or(index, |needed| needed.min(index)))
    }

    /// Removes manifests and segment files that nobody needs. The caller holds the maintenance lock.
    ///
    /// Files that are being written have passing names, and are left alone.
    pub(super) fn sweep(&self) -> Result<(), StorageError> {
        let dir = self.dir.join(SEGMENTS);
        // Looked up first: a file that gets its name later is in use by then.
        let names = segment_names(&*self.disk, &dir)?;
        let needed = self.kept.lock().needed();
        let old = manifest::numbers(&*self.disk, &self.dir)?;
        let is_old = |number: &u64| needed.iter().all(|manifest| manifest.number != *number);
        let old: Vec<u64> = old.into_iter().filter(is_old).collect();
        for number in &old {
            let path = manifest::path(&self.dir, *number);
            self.disk
                .remove(&path)
                .map_err(|error| StorageError::io("remove", path, error))?;
        }
        if !old.is_empty() {
            // A manifest goes before its files do.
            self.disk
                .sync_dir(&self.dir)
                .map_err(|error| StorageError::io("sync", &self.dir, error))?;
        }
        let in_use = self.home.names_in_use();
        let is_needed = |name: &String| {
            name.ends_with(PASSING) || in_use.contains(name) || needed.iter().any(|kept| kept.files.contains(name))
        };
        names
            .iter()
            .filter(|name| !is_needed(name))
            .try_for_each(|name| self.home.files.remove(name))
    }
}

/// Removes segment files that were never finished. Nobody may be writing any.
pub(super) fn remove_unfinished(disk: &dyn Disk, dir: &Path) -> Result<(), StorageError> {
    let dir = dir.join(SEGMENTS);
    for name in segment_names(disk, &dir)? {
        if name.ends_with(PASSING) {
            let path = dir.join(name);
            disk.remove(&path)
                .map_err(|error| StorageError::io("remove", path, error))?;
        }
    }
    Ok(())
}

fn segment_names(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, StorageError> {
    match disk.list(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|error| StorageError::io("list", dir, error)),
    }
}
