//! A disk in memory that loses power, tears writes, fails to sync and fills up, all from a seed.
//!
//! After [`CrashDisk::restart`] a file holds what it held when it was last synced, plus any part of what was written
//! since: none of it, all of it, a piece from the start, or any set of its sectors with zeros in between (a sector is
//! written whole or not at all; a file system that grew the file before the data arrived shows zeros). Names that were
//! made, renamed or removed since their folder was synced are as they were then, or as they were at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, DiskFile};

/// The unit that is written whole or not at all, bytes.
const SECTOR: usize = 512;

/// What goes wrong, and when. The counts run from the moment they are set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Power goes after this many operations that write: the next one, and all after it, fail and leave nothing certain.
    pub power_lasts: Option<u64>,
    /// Syncs fail after this many that succeed.
    pub syncs_last: Option<u64>,
    /// Bytes that still fit.
    pub bytes_free: Option<u64>,
}

/// A disk in memory; clones share it.
#[derive(Clone)]
pub struct CrashDisk(Arc<Mutex<State>>);

struct State {
    random: u64,
    /// Grows with every restart: files opened before it are dead.
    boots: u64,
    writes: u64,
    faults: Faults,
    files: BTreeMap<u64, File>,
    next_file: u64,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    dirs: BTreeSet<PathBuf>,
}

#[derive(Clone, Default)]
struct File {
    content: Vec<u8>,
    durable: Vec<u8>,
}

struct Handle {
    disk: CrashDisk,
    file: u64,
    boot: u64,
}

impl CrashDisk {
    /// An empty disk whose accidents follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: seed,
            boots: 0,
            writes: 0,
            faults: Faults::default(),
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dirs: BTreeSet::new(),
        })))
    }

    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// How many operations that write there have been.
    pub fn writes(&self) -> u64 {
        self.0.lock().writes
    }

    /// Loses what was not synced, as far as chance has it, and clears the faults. Open files are dead afterwards.
    pub fn restart(&self) {
        let mut state = self.0.lock();
        state.boots += 1;
        state.faults = Faults::default();
        if state.chance(2) {
            state.names = state.durable_names.clone();
        }
        state.durable_names = state.names.clone();
        let named: BTreeSet<u64> = state.names.values().copied().collect();
        let mut files = std::mem::take(&mut state.files);
        files.retain(|id, _| named.contains(id));
        for file in files.values_mut() {
            let survivor = state.survivor(file);
            file.content.clone_from(&survivor);
            file.durable = survivor;
        }
        state.files = files;
    }

    /// The content of a file, if there is one.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.0.lock();
        let id = state.names.get(path)?;
        Some(state.files[id].content.clone())
    }

    /// Replaces the content of a file, durably: a bit that rots, a tail that somebody cuts.
    pub fn set_content(&self, path: &Path, content: Vec<u8>) {
        let mut state = self.0.lock();
        if let Some(id) = state.names.get(path).copied() {
            let file = File {
                durable: content.clone(),
                content,
            };
            state.files.insert(id, file);
        }
    }
}

impl State {
    /// One step of the generator `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.next().is_multiple_of(one_in)
    }

    fn survivor(&mut self, file: &File) -> Vec<u8> {
        let (old, new) = (&file.durable, &file.content);
        match self.next() % 4 {
            0 => old.clone(),
            1 => new.clone(),
            2 if new.len() > old.len() => {
                let kept = old.len() + self.next() as usize % (new.len() - old.len() + 1);
                new[..kept].to_vec()
            }
            _ => {
                let mut mixed = old.clone();
                mixed.resize(new.len(), 0);
                for at in (0..new.len()).step_by(SECTOR) {
                    if self.chance(2) {
                        let end = new.len().min(at + SECTOR);
                        mixed[at..end].copy_from_slice(&new[at..end]);
                    }
                }
                mixed
            }
        }
    }

    /// Counts one operation that writes, unless power is gone.
    fn write(&mut self) -> io::Result<()> {
        if self.faults.power_lasts == Some(0) {
            return Err(io::Error::other("the power is gone"));
        }
        if let Some(left) = &mut self.faults.power_lasts {
            *left -= 1;
        }
        self.writes += 1;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        match &mut self.faults.syncs_last {
            Some(0) => Err(io::Error::other("the device did not sync")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn take_space(&mut self, wanted: u64) -> u64 {
        match &mut self.faults.bytes_free {
            None => wanted,
            Some(free) => {
                let taken = wanted.min(*free);
                *free -= taken;
                taken
            }
        }
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no {}", path.display()))
}

impl Disk for CrashDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.write()?;
        state.dirs.insert(dir.to_owned());
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        if !state.dirs.contains(dir) {
            return Err(not_found(dir));
        }
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names
            .filter_map(|path| path.file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.write()?;
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(file, File::default());
        state.names.insert(path.to_owned(), file);
        let boot = state.boots;
        drop(state);
        Ok(Arc::new(Handle {
            disk: self.clone(),
            file,
            boot,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.0.lock();
        let file = *state.names.get(path).ok_or_else(|| not_found(path))?;
        let boot = state.boots;
        drop(state);
        Ok(Arc::new(Handle {
            disk: self.clone(),
            file,
            boot,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.write()?;
        let file = state.names.remove(from).ok_or_else(|| not_found(from))?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.write()?;
        state.names.remove(path).map(drop).ok_or_else(|| not_found(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.sync()?;
        let inside = |path: &Path| path.parent() == Some(dir);
        let mut durable = std::mem::take(&mut state.durable_names);
        durable.retain(|path, _| !inside(path));
        durable.extend(
            state
                .names
                .iter()
                .filter(|(path, _)| inside(path))
                .map(|(path, id)| (path.clone(), *id)),
        );
        state.durable_names = durable;
        Ok(())
    }
}

impl Handle {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        if state.boots != self.boot || !state.files.contains_key(&self.file) {
            return Err(io::Error::other("the file was opened before the crash"));
        }
        act(&mut state)
    }
}

impl State {
    fn file(&mut self, id: u64) -> &mut File {
        self.files.entry(id).or_default()
    }
}

impl DiskFile for Handle {
    fn size(&self) -> io::Result<u64> {
        self.with(|state| Ok(state.file(self.file).content.len() as u64))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.with(|state| {
            let content = &state.file(self.file).content;
            let start = offset as usize;
            match content.get(start..start + buf.len()) {
                Some(bytes) => {
                    buf.copy_from_slice(bytes);
                    Ok(())
                }
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|state| {
            state.write()?;
            let end = offset + bytes.len() as u64;
            let grown = end.saturating_sub(state.file(self.file).content.len() as u64);
            let missing = grown - state.take_space(grown);
            let fits = &bytes[..bytes.len() - (missing as usize).min(bytes.len())];
            let content = &mut state.file(self.file).content;
            let start = offset as usize;
            content.resize(content.len().max(start + fits.len()), 0);
            content[start..start + fits.len()].copy_from_slice(fits);
            if missing > 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.with(|state| {
            state.write()?;
            state.file(self.file).content.resize(size as usize, 0);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state| {
            state.sync()?;
            let file = state.file(self.file);
            file.durable.clone_from(&file.content);
            Ok(())
        })
    }
}
