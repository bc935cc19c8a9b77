//! What a checkpoint writes down: everything of a range but its rows, and which segments hold those.
//!
//! A manifest is written under a passing name, synced and renamed, so a file of the right name is whole unless it rotted.
//! The newest two are kept, with all files they refer to and the log behind the older one: if the newest cannot be read,
//! the one before and the log make the same range.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, CatalogImage};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::runs::PendingImage;
use crate::schema::CollectionId;
use crate::segments::SegmentInfo;
use crate::table::history::History;

const MAGIC: &[u8; 8] = b"CANDRMAN";
const FORMAT_VERSION: u16 = 1;
const HEADER_SIZE: usize = 24;
const PREFIX: &str = "manifest-";

/// A range at one version, without its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) range: RangeId,
    pub(crate) name: RangeName,
    /// The last entry whose effect it holds, and the chain there.
    pub(crate) applied: Position,
    pub(crate) chain: Chain,
    pub(crate) horizon: LogIndex,
    /// The first part of a transaction that had not come yet and is not among `pending`.
    pub(crate) first_part: Option<LogIndex>,
    /// The first version of each epoch that some version from the horizon on belongs to.
    pub(crate) epochs: Vec<(LogIndex, Epoch)>,
    /// Those that some version from the horizon on sees, oldest first.
    pub(crate) catalogs: Vec<CatalogImage>,
    pub(crate) tables: Vec<TableImage>,
    /// Rows of transactions that had not come yet.
    pub(crate) pending: Vec<PendingImage>,
}

/// A table, without its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableImage {
    pub(crate) id: CollectionId,
    pub(crate) history: History,
    pub(crate) segments: Vec<SegmentImage>,
}

/// A segment and the ends of its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SegmentImage {
    pub(crate) info: SegmentInfo,
    /// By ordinal, each as the difference to the one before, and the versions.
    ends: Vec<(u32, u64)>,
}

impl Manifest {
    /// The first entry of the log that is needed to go on from here.
    pub(crate) fn first_needed(&self) -> LogIndex {
        let next = self.applied.index.next();
        self.first_part.map_or(next, |part| part.min(next))
    }

    /// The catalogs.
    ///
    /// # Errors
    /// What does not hold together, in plain words.
    pub(crate) fn catalogs(&self) -> Result<Vec<Arc<Catalog>>, String> {
        let catalogs = self
            .catalogs
            .iter()
            .map(|image| Catalog::of(image.clone()).map(Arc::new));
        catalogs.collect()
    }

    /// Names of the segment files it refers to.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = String> {
        let segments = self.tables.iter().flat_map(|table| &table.segments);
        let runs = self
            .pending
            .iter()
            .flat_map(|pending| &pending.runs)
            .map(|run| &run.info);
        let infos = segments.map(|segment| &segment.info).chain(runs);
        infos.flat_map(SegmentInfo::file_names)
    }

    /// Writes it as the `number`th, durably.
    ///
    /// # Errors
    /// The disk refuses, or is full. Whether the manifest is there after a restart is not known then; either is sound.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path, number: u64) -> Result<(), StorageError> {
        let path = dir.join(file_name(number));
        let body = postcard::to_allocvec(self).expect("plain data encodes");
        let mut bytes = Vec::with_capacity(HEADER_SIZE + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        let passing = path.with_extension("tmp");
        let write = || {
            let file = disk.create(&passing)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            disk.rename(&passing, &path)?;
            disk.sync_dir(dir)
        };
        write().map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageError::DiskFull { path: path.clone() },
            _ => StorageError::io("write", &path, error),
        })
    }

    /// Reads the `number`th.
    ///
    /// # Errors
    /// It is damaged, or the disk refuses.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path, number: u64) -> Result<Self, StorageError> {
        let path = dir.join(file_name(number));
        let read = || {
            let file = disk.open(&path)?;
            let mut bytes = vec![0; file.size()? as usize];
            file.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        let bytes: Vec<u8> = read().map_err(|error| StorageError::io("read", &path, error))?;
        Self::decode(&bytes).map_err(|why| damaged(dir, number, why))
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (header, body) = bytes.split_at_checked(HEADER_SIZE).ok_or("it is cut short")?;
        if header[..8] != *MAGIC {
            return Err("this is not a manifest".into());
        }
        if header[12..16] != checksum(bytes).to_le_bytes() {
            return Err("its checksum does not hold".into());
        }
        if header[8..10] != FORMAT_VERSION.to_le_bytes() {
            return Err(format!("its format is not known, only {FORMAT_VERSION} is"));
        }
        if header[16..] != (body.len() as u64).to_le_bytes() {
            return Err("it is cut short".into());
        }
        postcard::from_bytes(body).map_err(|error| error.to_string())
    }
}

impl SegmentImage {
    /// `ends` are ordinals, ascending, and versions.
    pub(crate) fn new(info: SegmentInfo, ends: &[(u32, u64)]) -> Self {
        let mut before = 0;
        let differences = ends.iter().map(|(ordinal, version)| {
            let difference = ordinal - before;
            before = *ordinal;
            (difference, *version)
        });
        Self {
            info,
            ends: differences.collect(),
        }
    }

    /// The ends; `None` if they are none that [`SegmentImage::new`] takes.
    pub(crate) fn ends(&self) -> Option<Vec<(u32, u64)>> {
        let mut ordinal = 0_u32;
        let ends = self.ends.iter().map(|(difference, version)| {
            ordinal = ordinal.checked_add(*difference)?;
            Some((ordinal, *version))
        });
        ends.collect()
    }
}

/// The checksum of a whole manifest: of everything but its own four bytes.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[..12]);
    sum.update(&bytes[16..]);
    sum.finalize()
}

/// An error that names the `number`th manifest.
pub(crate) fn damaged(dir: &Path, number: u64, why: impl Into<String>) -> StorageError {
    StorageError::Damaged {
        path: path(dir, number),
        offset: 0,
        why: why.into(),
    }
}

pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(file_name(number))
}

fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:020}")
}

/// The numbers of the manifests in `dir`, ascending.
pub(crate) fn numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, StorageError> {
    let names = disk.list(dir).map_err(|error| match error.kind() {
        ErrorKind::NotFound => StorageError::NoRange { path: dir.to_owned() },
        _ => StorageError::io("list", dir, error),
    })?;
    let number = |name: &String| {
        let number = name.strip_prefix(PREFIX)?.parse().ok()?;
        (file_name(number) == *name).then_some(number)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::CrashDisk;

    fn manifest() -> Manifest {
        Manifest {
            range: RangeId(7),
            name: RangeName::new("main"),
            applied: Position::new(Epoch(2), LogIndex(9)),
            chain: Chain(5),
            horizon: LogIndex(3),
            first_part: Some(LogIndex(8)),
            epochs: vec![(LogIndex(1), Epoch(1)), (LogIndex(4), Epoch(2))],
            catalogs: vec![Catalog::default().image()],
            tables: vec![TableImage {
                id: CollectionId(0),
                history: History::default(),
                segments: Vec::new(),
            }],
            pending: Vec::new(),
        }
    }

    #[test]
    fn a_manifest_comes_back_and_every_flipped_byte_is_refused() {
        let disk = CrashDisk::new(1);
        let dir = Path::new("/range");
        disk.make_dir(dir).expect("makes");
        manifest().write(&disk, dir, 12).expect("writes");
        assert_eq!(numbers(&disk, dir).expect("lists"), [12]);
        let read = Manifest::read(&disk, dir, 12).expect("reads");
        assert_eq!((read.applied, read.first_needed()), (manifest().applied, LogIndex(8)));
        let path = path(dir, 12);
        let bytes = disk.content(&path).expect("there");
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x20;
            disk.set_content(&path, flipped);
            let error = Manifest::read(&disk, dir, 12).expect_err("damaged");
            assert!(error.to_string().contains("manifest-00000000000000000012"), "{error}");
        }
        for size in 0..bytes.len() {
            disk.set_content(&path, bytes[..size].to_vec());
            assert!(Manifest::read(&disk, dir, 12).is_err(), "{size} bytes");
        }
    }

    #[test]
    fn only_names_made_here_count() {
        let disk = CrashDisk::new(1);
        let dir = Path::new("/range");
        disk.make_dir(dir).expect("makes");
        for name in [
            "manifest-3",
            "manifest-00000000000000000004.tmp",
            "manifest-00000000000000000005",
        ] {
            disk.create(&dir.join(name)).expect("creates");
        }
        assert_eq!(numbers(&disk, dir).expect("lists"), [5]);
    }
}
