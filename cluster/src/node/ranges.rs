//! Ranges come and go: defined here, discovered at a peer, set aside, removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_proto::{NodeName, Position, RangeId, RangeName};
use candor_storage::{RangeStore, StorageError, StoreOptions};

use super::slot::{Collected, Led, Slot, SlotKind};
use super::{Inner, random_u128};
use crate::awareness::Offer;
use crate::error::{ClusterError, ProposeError};
use crate::frame::RANGES_MAX;
use crate::link::collect_range;
use crate::names;
use crate::raft_group::{Group, RangeHandle, VoteFile, sync_folder};

/// Folders in the data directory.
const RANGES: &str = "ranges";
const SET_ASIDE: &str = "set-aside";
const REMOVED: &str = "removed";

/// The folder that holds a range.
pub(super) fn folder_of(data: &Path, range: &RangeName) -> PathBuf {
    data.join(RANGES).join(names::folder(range))
}

/// All folders that hold a range.
pub(super) fn folders(data: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let ranges = data.join(RANGES);
    fs::create_dir_all(&ranges).map_err(io_error("create", &ranges))?;
    let mut folders = fs::read_dir(&ranges)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(io_error("list", &ranges))?;
    folders.sort();
    Ok(folders)
}

/// Moves a folder without a range out of the way, in case it means something to somebody.
pub(super) fn clear_away(data: &Path, folder: &Path) -> Result<(), ClusterError> {
    let away = move_away(
        data,
        folder,
        SET_ASIDE,
        &format!("no-range-{:08x}", random_u128() as u32),
    )?;
    tracing::warn!(folder = %folder.display(), kept = %away.display(), "the folder holds no range; moved aside");
    Ok(())
}

/// Deletes what an interrupted removal left.
pub(super) fn sweep(data: &Path) -> Result<(), ClusterError> {
    let removed = data.join(REMOVED);
    match fs::remove_dir_all(&removed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("delete", &removed)(error)),
        _ => Ok(()),
    }
}

/// A range on disk, opened and level with its log.
pub(super) enum Opened {
    Led(Box<Group>, Arc<RangeStore>),
    Collected(Arc<RangeStore>),
    /// Made, and then the process ended before anything was in it.
    Empty,
    /// Not a range, or not yet.
    Nothing,
}

/// Opens the range in a folder. It is led by this node if this node voted in it.
pub(super) fn open(folder: &Path, node: &NodeName, options: &StoreOptions) -> Result<Opened, ClusterError> {
    let name = || {
        RangeName::new(
            folder
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into()),
        )
    };
    let store = match RangeStore::open_with(options.clone(), folder) {
        Err(StorageError::NoRange { .. }) => return Ok(Opened::Nothing),
        opened => opened.map_err(|source| storage(&name(), source))?,
    };
    if VoteFile::of(folder).read()?.is_some() {
        let group = Group::start(Arc::clone(&store), folder, node.clone())?;
        return Ok(Opened::Led(Box::new(group), store));
    }
    let last = store.last().0;
    if last == Position::ZERO {
        return Ok(Opened::Empty);
    }
    // Everything a follower wrote to its log was committed at its leader.
    store
        .sync()
        .and_then(|()| store.apply_to(last.index))
        .map_err(|source| storage(store.name(), source))?;
    Ok(Opened::Collected(store))
}

/// Makes a range that this node leads, with the leader-elected entry of its first epoch.
pub(super) fn make_led(
    folder: &Path,
    range: &RangeName,
    node: &NodeName,
    options: &StoreOptions,
) -> Result<(Group, Arc<RangeStore>), ClusterError> {
    let store = make(folder, range, RangeId(random_u128()), options)?;
    VoteFile::of(folder).write(crate::raft_group::Vote::default())?;
    let group = Group::start(Arc::clone(&store), folder, node.clone())?;
    Ok((group, store))
}

fn make(
    folder: &Path,
    range: &RangeName,
    id: RangeId,
    options: &StoreOptions,
) -> Result<Arc<RangeStore>, ClusterError> {
    let store = RangeStore::create_with(options.clone(), folder, range, id).map_err(|source| storage(range, source))?;
    if let Some(ranges) = folder.parent() {
        sync_folder(ranges)?;
    }
    Ok(store)
}

impl Inner {
    pub(crate) fn slot(&self, range: &RangeName) -> Option<Arc<Slot>> {
        if range.as_str() == RangeName::SYSTEM {
            return Some(Arc::clone(&self.system));
        }
        self.slots.read().get(range).cloned()
    }

    /// The range, if this node leads it.
    pub(crate) fn led(&self, range: &RangeName) -> Option<(Arc<Slot>, Arc<Led>)> {
        let slot = self.slot(range)?;
        let led = Arc::clone(slot.led()?);
        Some((slot, led))
    }

    /// Every range but `system`.
    pub(super) fn all_slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().values().cloned().collect()
    }

    pub(super) async fn define(self: &Arc<Self>, range: RangeName) -> Result<(), ProposeError> {
        names::check_range(&range)?;
        let _changing = self.changing.lock().await;
        if self.stop.is_cancelled() {
            return Err(ProposeError::Stopping);
        }
        let held = self.slots.read().contains_key(&range);
        if held || self.awareness.read().knows(&range) {
            return Err(ProposeError::Exists(range));
        }
        if self.slots.read().len() >= RANGES_MAX {
            return Err(ProposeError::TooMany { limit: RANGES_MAX });
        }
        let folder = folder_of(&self.cfg.data_dir, &range);
        let (group, store) = {
            let (folder, range, node) = (folder.clone(), range.clone(), self.cfg.node.clone());
            let options = self.store_options.clone();
            blocking(move || make_led(&folder, &range, &node, &options)).await?
        };
        let slot = self.led_slot(group, store, folder)?;
        self.slots.write().insert(range, slot);
        Ok(())
    }

    pub(super) async fn remove(self: &Arc<Self>, range: &RangeName) -> Result<(), ProposeError> {
        let _changing = self.changing.lock().await;
        let led = self.led(range).filter(|_| range.as_str() != RangeName::SYSTEM);
        let Some((slot, _)) = led else {
            return Err(self.not_leader(range).into());
        };
        self.slots.write().remove(range);
        slot.end().await;
        let (data, folder) = (self.cfg.data_dir.clone(), slot.folder.clone());
        blocking(move || {
            // Moved first, so that a removal is whole or not at all, whenever the process ends.
            let away = move_away(&data, &folder, REMOVED, &format!("{:032x}", random_u128()))?;
            fs::remove_dir_all(&away).map_err(io_error("delete", &away))
        })
        .await?;
        Ok(())
    }

    /// Makes an empty copy of a range that a peer leads, to be collected.
    pub(super) async fn discover(self: &Arc<Self>, range: &RangeName, offer: &Offer) {
        let _changing = self.changing.lock().await;
        let full = self.slots.read().len() >= RANGES_MAX;
        let skip = full || self.slots.read().contains_key(range) || names::check_range(range).is_err();
        if skip || self.stop.is_cancelled() {
            return;
        }
        match self.make_copy(range, offer.range_id).await {
            Ok(()) => tracing::info!(%range, leader = %offer.node, "discovered; collecting"),
            Err(error) => tracing::error!(%range, "a copy cannot be made: {}", chain_of(&error)),
        }
    }

    /// A copy that holds applied entries which the leader's log does not have can never become the leader's again. It
    /// is kept under another name for whoever wants to know what was in it, and collected anew.
    pub(crate) fn set_aside(self: &Arc<Self>, slot: &Arc<Slot>, agreed: Position) {
        let (node, slot) = (Arc::clone(self), Arc::clone(slot));
        // A task of its own: it ends the one that calls.
        self.spawn("set-aside", async move {
            let _changing = node.changing.lock().await;
            let current = node
                .slots
                .read()
                .get(&slot.name)
                .is_some_and(|held| Arc::ptr_eq(held, &slot));
            if !current || node.stop.is_cancelled() {
                return;
            }
            slot.end().await;
            let (data, folder) = (node.cfg.data_dir.clone(), slot.folder.clone());
            let kept = format!("after-{}-{}-{:08x}", agreed.epoch, agreed.index, random_u128() as u32);
            let moved = blocking(move || move_away(&data, &folder, SET_ASIDE, &kept)).await;
            let made = match moved {
                Ok(away) => {
                    tracing::warn!(range = %slot.name, held = %slot.store.applied().0, %agreed, kept = %away.display(),
                        "the copy and the leader's log part; the copy is kept aside and collected anew");
                    node.make_copy(&slot.name, slot.store.id()).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = made {
                // It is gone from the list, and discovered again with the next greeting.
                node.slots.write().remove(&slot.name);
                tracing::error!(range = %slot.name, "the copy cannot be replaced: {}", chain_of(&error));
            }
        });
    }

    async fn make_copy(self: &Arc<Self>, range: &RangeName, id: RangeId) -> Result<(), ClusterError> {
        let folder = folder_of(&self.cfg.data_dir, range);
        let store = {
            let (folder, range, options) = (folder.clone(), range.clone(), self.store_options.clone());
            blocking(move || make(&folder, &range, id, &options)).await?
        };
        let slot = self.collected_slot(store, folder);
        self.slots.write().insert(range.clone(), slot);
        self.news.notify_one();
        Ok(())
    }

    pub(super) fn led_slot(
        &self,
        group: Group,
        store: Arc<RangeStore>,
        folder: PathBuf,
    ) -> Result<Arc<Slot>, ClusterError> {
        led_slot(group, store, folder, &self.stop)
    }

    /// A slot for a copy, and the task that collects it.
    pub(super) fn collected_slot(self: &Arc<Self>, store: Arc<RangeStore>, folder: PathBuf) -> Arc<Slot> {
        let copy = Collected::new();
        let kind = SlotKind::Collected(Arc::clone(&copy));
        let slot = Slot::new(store, folder, self.stop.child_token(), kind);
        if self.links.is_some() {
            self.spawn("collect", collect_range(Arc::clone(self), Arc::clone(&slot), copy));
        }
        slot
    }
}

/// A slot for a range that this node leads, and the thread that performs it.
pub(super) fn led_slot(
    group: Group,
    store: Arc<RangeStore>,
    folder: PathBuf,
    stop: &tokio_util::sync::CancellationToken,
) -> Result<Arc<Slot>, ClusterError> {
    let handle = RangeHandle::spawn(group, Arc::clone(&store))?;
    let kind = SlotKind::Led(Led::new(handle));
    Ok(Slot::new(store, folder, stop.child_token(), kind))
}

/// Moves a range's folder to `<data>/<place>/<folder>-<suffix>`.
fn move_away(data: &Path, folder: &Path, place: &str, suffix: &str) -> Result<PathBuf, ClusterError> {
    let place = data.join(place);
    fs::create_dir_all(&place).map_err(io_error("create", &place))?;
    let name = folder
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let away = place.join(format!("{name}-{suffix}"));
    fs::rename(folder, &away).map_err(io_error("move away", folder))?;
    sync_folder(&place)?;
    Ok(away)
}

/// Work on the disk, off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ClusterError> + Send + 'static,
) -> Result<T, ClusterError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("work on the disk is never cancelled"),
        },
    }
}

pub(super) fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ClusterError {
    let path = path.to_owned();
    move |source| ClusterError::Io { doing, path, source }
}

fn storage(range: &RangeName, source: StorageError) -> ClusterError {
    ClusterError::Storage {
        range: range.clone(),
        source,
    }
}

/// An error with its causes in one line.
fn chain_of(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        words = format!("{words}: {deeper}");
        source = deeper.source();
    }
    words
}
