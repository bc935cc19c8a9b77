//! Making a range, and opening one: the newest checkpoint that can be read, and the log behind it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use candor_proto::{Chain, LogIndex, Position, RangeId, RangeName};
use parking_lot::{Mutex, RwLock};

use super::garbage::{Kept, remove_unfinished};
use super::manifest::{self, Manifest, TableImage};
use super::{APPLY_BYTES, Published, RangeStore, StoreOptions};
use crate::apply::{Applier, RangeState, Tables};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::log::RangeLog;
use crate::readers::Readers;
use crate::runs::PendingImage;
use crate::segments::{DiskFiles, SegmentInfo};
use crate::table::Table;
use crate::table::freeze::SegmentHome;

/// The folder of a range that holds its segments.
pub(super) const SEGMENTS: &str = "segments";

/// What a range starts from.
struct Start {
    state: RangeState,
    applied: (Position, Chain),
    first_part: Option<LogIndex>,
    pending: Vec<PendingImage>,
}

pub(super) fn create(
    options: StoreOptions,
    dir: &Path,
    name: &RangeName,
    id: RangeId,
) -> Result<Arc<RangeStore>, StorageError> {
    let log = RangeLog::create(Arc::clone(&options.disk), options.segment_size, dir, name, id)?;
    let start = empty(&log);
    let home = home(&options, dir);
    start.store(options, dir, log, home, Kept::default(), 1)
}

pub(super) fn open(options: StoreOptions, dir: &Path) -> Result<Arc<RangeStore>, StorageError> {
    let home = home(&options, dir);
    remove_unfinished(&*options.disk, dir)?;
    let mut found = Found::default();
    let numbers = manifest::numbers(&*options.disk, dir)?;
    let next_number = numbers.last().map_or(1, |newest| newest + 1);
    for number in numbers.into_iter().rev() {
        if found.kept.is_full() {
            break;
        }
        if let Err(error) = found.look_at(&*options.disk, dir, number, &home) {
            tracing::error!(%error, "a checkpoint cannot be used; the one before it and the log are");
            found.failure.get_or_insert(error);
        }
    }
    let covered = found
        .newest
        .as_ref()
        .map_or(LogIndex::ZERO, |newest| newest.start.applied.0.index);
    let log = match RangeLog::open(Arc::clone(&options.disk), options.segment_size, dir, covered) {
        Ok(log) => log,
        // Without its checkpoints the log may be too little to go on from.
        Err(error) => return Err(found.failure.filter(|_| found.newest.is_none()).unwrap_or(error)),
    };
    let start = match found.newest {
        None => empty(&log),
        Some(newest) => {
            newest.check(&log, dir)?;
            newest.start
        }
    };
    let store = start.store(options, dir, log, home, found.kept, next_number)?;
    // A full disk may need the room before the next checkpoint can be made.
    if found.failure.is_none()
        && let Err(error) = store.sweep()
    {
        tracing::warn!(range = %store.name(), %error, "what a stop left behind could not be removed");
    }
    Ok(store)
}

/// The checkpoints that were found.
#[derive(Default)]
struct Found {
    newest: Option<Newest>,
    kept: Kept,
    /// Why the newest of those that cannot be used cannot.
    failure: Option<StorageError>,
}

struct Newest {
    number: u64,
    range: RangeId,
    start: Start,
}

impl Found {
    fn look_at(&mut self, disk: &dyn Disk, dir: &Path, number: u64, home: &SegmentHome) -> Result<(), StorageError> {
        let manifest = Manifest::read(disk, dir, number)?;
        if self.newest.is_none() {
            self.newest = Some(Newest {
                number,
                range: manifest.range,
                start: restore(&manifest, dir, number, home)?,
            });
        }
        self.kept.push_older(number, &manifest);
        Ok(())
    }
}

fn home(options: &StoreOptions, dir: &Path) -> SegmentHome {
    let files = DiskFiles::new(Arc::clone(&options.disk), dir.join(SEGMENTS));
    SegmentHome::new(Arc::new(files), Arc::clone(&options.cache))
}

fn empty(log: &RangeLog) -> Start {
    let before = LogIndex(log.start().0 - 1);
    let applied = log.look_up(before).ok().flatten();
    Start {
        state: RangeState::default(),
        applied: applied.expect("a log knows what comes before its first entry"),
        first_part: None,
        pending: Vec::new(),
    }
}

/// The state that a manifest tells of. The files of its segments have to be there, as long as they should be.
fn restore(manifest: &Manifest, dir: &Path, number: u64, home: &SegmentHome) -> Result<Start, StorageError> {
    let damaged = |why: String| manifest::damaged(dir, number, why);
    let catalogs = manifest.catalogs().map_err(damaged)?;
    let mut tables = Tables::new();
    for image in &manifest.tables {
        let def = catalogs
            .iter()
            .rev()
            .find_map(|catalog| catalog.collection_by_id(image.id));
        let def = def.ok_or_else(|| damaged(format!("no catalog has collection {}", image.id)))?;
        if !image.history.holds_together() {
            return Err(damaged(format!(
                "the history of collection {} does not hold together",
                image.id
            )));
        }
        let main = segments(image, dir, number, home)?;
        tables.insert(image.id, Arc::new(Table::restored(def, main, image.history.clone())));
    }
    for run in manifest.pending.iter().flat_map(|pending| &pending.runs) {
        check_files(&run.info, home)?;
    }
    Ok(Start {
        state: RangeState {
            horizon: manifest.horizon,
            catalogs: Arc::new(catalogs),
            tables: Arc::new(tables),
            epochs: Arc::new(manifest.epochs.clone()),
        },
        applied: (manifest.applied, manifest.chain),
        first_part: manifest.first_part,
        pending: manifest.pending.clone(),
    })
}

fn segments(
    table: &TableImage,
    dir: &Path,
    number: u64,
    home: &SegmentHome,
) -> Result<Vec<Arc<crate::table::layers::MainSegment>>, StorageError> {
    let mut main = Vec::with_capacity(table.segments.len());
    for image in &table.segments {
        let info = &image.info;
        check_files(info, home)?;
        let segment = image.ends().and_then(|ends| home.segment(info.clone(), &ends));
        let segment = segment.ok_or_else(|| {
            manifest::damaged(
                dir,
                number,
                format!("the ends of a segment of collection {} do not fit it", table.id),
            )
        })?;
        main.push(segment);
    }
    Ok(main)
}

/// Whether the files of a segment are there, as long as they should be.
fn check_files(info: &SegmentInfo, home: &SegmentHome) -> Result<(), StorageError> {
    let sizes = [Some(info.file.size), info.keys.map(|keys| keys.size)];
    for (name, size) in info.file_names().iter().zip(sizes.into_iter().flatten()) {
        let found = home.files.open(name)?.size();
        if found != size {
            return Err(StorageError::Damaged {
                path: home.files.path(name),
                offset: found.min(size),
                why: format!("its size is {found}, not {size}"),
            });
        }
    }
    Ok(())
}

impl Newest {
    /// Whether the log is the one that the checkpoint was made of.
    fn check(&self, log: &RangeLog, dir: &Path) -> Result<(), StorageError> {
        let (position, chain) = self.start.applied;
        let damaged = |why: String| Err(manifest::damaged(dir, self.number, why));
        if self.range != log.id() {
            return damaged(format!(
                "it is one of range {}, and the log is one of range {}",
                self.range,
                log.id()
            ));
        }
        let last = log.last().0;
        if last.index < position.index {
            return damaged(format!("it holds entries up to {position}, and the log ends at {last}"));
        }
        if log.look_up(position.index)? != Some((position, chain)) {
            return damaged(format!("the log has another entry at {position}"));
        }
        let start = log.start();
        if self.start.first_part.is_some_and(|first| first < start) {
            return damaged(format!(
                "the log starts at {start}, and parts of a transaction before it are missing"
            ));
        }
        Ok(())
    }
}

impl Start {
    fn store(
        self,
        options: StoreOptions,
        dir: &Path,
        log: RangeLog,
        home: SegmentHome,
        kept: Kept,
        next_number: u64,
    ) -> Result<Arc<RangeStore>, StorageError> {
        Ok(Arc::new(RangeStore {
            applier: Mutex::new(self.applier(&log, &home)?),
            forgotten: AtomicU64::new(self.state.horizon.0),
            published: RwLock::new(Published {
                applied: self.applied,
                state: self.state,
            }),
            log,
            disk: options.disk,
            dir: dir.to_owned(),
            home,
            readers: Arc::new(Readers::default()),
            maintenance: Mutex::new(next_number),
            retired: AtomicBool::new(false),
            kept: Mutex::new(kept),
            subscribers: RwLock::default(),
        }))
    }

    /// The applier as it was, with the parts that wait for their transaction, which only the log holds.
    fn applier(&self, log: &RangeLog, home: &SegmentHome) -> Result<Applier, StorageError> {
        let mut applier = Applier::new(self.state.clone(), home.clone(), &self.pending);
        let upto = self.applied.0.index;
        let mut after = self.first_part.map_or(upto, |first| LogIndex(first.0 - 1));
        while after < upto {
            for entry in log.read(after, upto, APPLY_BYTES)? {
                applier.gather_again(&entry)?;
                after = entry.position.index;
            }
        }
        Ok(applier)
    }
}
