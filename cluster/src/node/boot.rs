//! From a data directory to a running node.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use candor_proto::{BootId, NodeName, RangeName, limits};
use candor_storage::{SegmentCache, StoreOptions};
use parking_lot::RwLock;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ranges::{self, Opened, blocking, io_error};
use super::{Inner, keeper, random_u128, upkeep};
use crate::awareness::Awareness;
use crate::certs;
use crate::clock::{Clock, wall_clock_ms};
use crate::config::ClusterConfig;
use crate::error::ClusterError;
use crate::link::{Links, listen};
use crate::names::check_node;
use crate::raft_group::Group;

/// Everything that was on disk.
struct Data {
    lock: File,
    system: (Group, Arc<candor_storage::RangeStore>),
    ranges: Vec<(std::path::PathBuf, Opened)>,
}

/// How often and how soon an address is tried again that is taken.
const BIND_TRIES_MAX: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// Takes the link address. A node that ended in this very process may hold its port a little longer, because quinn closes
/// a socket only when its last task has noticed; an address of somebody else is taken after a second, too.
async fn bind_links(cfg: &ClusterConfig, certs_dir: &Path) -> Result<Links, ClusterError> {
    for _ in 1..BIND_TRIES_MAX {
        match Links::bind(cfg, certs::load(certs_dir, &cfg.node)?) {
            Err(ClusterError::Bind { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                tokio::time::sleep(BIND_PAUSE).await;
            }
            bound => return bound,
        }
    }
    Links::bind(cfg, certs::load(certs_dir, &cfg.node)?)
}

pub(super) async fn start(cfg: ClusterConfig) -> Result<Arc<Inner>, ClusterError> {
    check(&cfg)?;
    let links = match &cfg.certs_dir {
        Some(dir) => Some(bind_links(&cfg, dir).await?),
        None => None,
    };
    let store_options = StoreOptions {
        cache: SegmentCache::new(cfg.storage.cache_bytes),
        ..StoreOptions::default()
    };
    let data = {
        let (dir, node, options) = (cfg.data_dir.clone(), cfg.node.clone(), store_options.clone());
        blocking(move || open(&dir, &node, &options)).await?
    };
    let stop = CancellationToken::new();
    let system_folder = ranges::folder_of(&cfg.data_dir, &RangeName::system());
    let (system_group, system_store) = data.system;
    let inner = Arc::new(Inner {
        clock: Clock::start(),
        links,
        boot_id: BootId(random_u128()),
        booted_at_ms: wall_clock_ms(),
        sequence: AtomicU64::new(0),
        system: ranges::led_slot(system_group, system_store, system_folder, &stop)?,
        slots: RwLock::new(BTreeMap::new()),
        changing: Mutex::new(()),
        awareness: RwLock::new(Awareness::default()),
        peers: RwLock::new(Arc::new([])),
        news: Notify::new(),
        tasks: TaskTracker::new(),
        store_options,
        delta_bytes: AtomicU64::new(0),
        stop,
        lock: parking_lot::Mutex::new(Some(data.lock)),
        cfg,
    });
    for (folder, opened) in data.ranges {
        let slot = match opened {
            Opened::Led(group, store) => inner.led_slot(*group, store, folder)?,
            Opened::Collected(store) => inner.collected_slot(store, folder),
            Opened::Empty | Opened::Nothing => continue,
        };
        inner.slots.write().insert(slot.name.clone(), slot);
    }
    inner.refresh_peers();
    inner.spawn("review", keeper::review(Arc::clone(&inner)));
    inner.spawn("date", keeper::date(Arc::clone(&inner)));
    inner.spawn("retain", upkeep::retain(Arc::clone(&inner)));
    inner.spawn("maintain", upkeep::maintain(Arc::clone(&inner)));
    if inner.links.is_some() {
        inner.spawn("listen", listen(Arc::clone(&inner)));
    }
    Ok(inner)
}

fn check(cfg: &ClusterConfig) -> Result<(), ClusterError> {
    check_node(&cfg.node)?;
    let (least, most) = limits::AWARENESS_INTERVAL_RANGE;
    if cfg.awareness < least || cfg.awareness > most {
        return Err(ClusterError::Awareness {
            given: cfg.awareness,
            least,
            most,
        });
    }
    Ok(())
}

fn open(dir: &Path, node: &NodeName, options: &StoreOptions) -> Result<Data, ClusterError> {
    fs::create_dir_all(dir).map_err(io_error("create", dir))?;
    let lock = lock(dir)?;
    belongs_to(dir, node)?;
    ranges::sweep(dir)?;
    let system_folder = ranges::folder_of(dir, &RangeName::system());
    let mut system = None;
    let mut others = Vec::new();
    for folder in ranges::folders(dir)? {
        match ranges::open(&folder, node, options)? {
            Opened::Empty => fs::remove_dir_all(&folder).map_err(io_error("delete", &folder))?,
            Opened::Nothing => ranges::clear_away(dir, &folder)?,
            Opened::Led(group, store) if folder == system_folder => system = Some((*group, store)),
            opened => others.push((folder, opened)),
        }
    }
    let system = match system {
        Some(system) => system,
        None => ranges::make_led(&system_folder, &RangeName::system(), node, options)?,
    };
    Ok(Data {
        lock,
        system,
        ranges: others,
    })
}

/// One process at a time: the lock goes with the process, however it ends.
fn lock(dir: &Path) -> Result<File, ClusterError> {
    let path = dir.join("lock");
    let file = File::create(&path).map_err(io_error("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ClusterError::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(io_error("lock", &path)(source)),
    }
}

/// A directory started under another name would lead that node's ranges under this one's.
fn belongs_to(dir: &Path, node: &NodeName) -> Result<(), ClusterError> {
    let path = dir.join("node");
    match fs::read_to_string(&path) {
        Ok(owner) if owner.trim_end() == node.as_str() => Ok(()),
        Ok(owner) => Err(ClusterError::OtherNode {
            path: dir.to_owned(),
            owner: owner.trim_end().to_owned(),
            node: node.clone(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let beside = dir.join("node.new");
            let mut file = File::create(&beside).map_err(io_error("create", &beside))?;
            writeln!(file, "{node}")
                .and_then(|()| file.sync_all())
                .map_err(io_error("write", &beside))?;
            fs::rename(&beside, &path).map_err(io_error("rename to", &path))?;
            crate::raft_group::sync_folder(dir)
        }
        Err(source) => Err(io_error("read", &path)(source)),
    }
}
