//! How a node keeps its ranges small: old versions go, rows move from memory to disk, the log is cut.
//!
//! * Where this node leads, it proposes how far the horizon moves ([`retain`]): every replica forgets alike.
//! * Whatever the role, one step of maintenance after the other is done off the async threads ([`maintain`]).
//! * While rows in memory take more than their share even so, writes are refused for a moment ([`Inner::check_room`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use candor_proto::{LogIndex, RangeName};
use candor_storage::{MaintainLimits, Maintained, Record, StorageError};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Inner;
use super::ranges::blocking;
use super::slot::{Led, Slot};
use crate::error::ProposeError;
use crate::raft_group::stop_process;

/// How often a node looks what is due. Short, because rows arrive at up to a hundred megabytes a second.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The log behind the last checkpoint grows to at most about this, bytes: applying it again takes a second or two, and so
/// long does a restart take.
const LOG_BYTES_MAX: u64 = 128 << 20;

/// Maintenance that failed (a full disk) is tried again after this.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The horizon moves in steps of this part of the retention, so that an entry says it for many.
const HORIZON_STEPS: u32 = 10;

/// Steps are no shorter than this.
const HORIZON_STEP_MIN: Duration = Duration::from_millis(200);

/// Does what is due at all ranges, one step at a time, until the node stops.
pub(super) async fn maintain(node: Arc<Inner>) {
    let mut beat = interval(LOOK_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = node.stop.cancelled() => return,
            _ = beat.tick() => {}
        }
        let all = Arc::clone(&node);
        // An error was logged, or ended the process.
        let went_well = blocking(move || Ok(look(&all))).await.unwrap_or(false);
        if !went_well {
            tokio::select! {
                () = node.stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE_AFTER_FAILURE) => {}
            }
        }
    }
}

/// One step at each range; at first at that which takes most memory. Whether all went well.
fn look(node: &Inner) -> bool {
    let mut slots = node.all_slots();
    slots.push(Arc::clone(&node.system));
    let mut sized: Vec<(u64, Arc<Slot>)> = slots.into_iter().map(|slot| (slot.store.delta_bytes(), slot)).collect();
    sized.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut total: u64 = sized.iter().map(|(bytes, _)| bytes).sum();
    node.delta_bytes.store(total, Ordering::Relaxed);
    let mut went_well = true;
    for (bytes, slot) in sized {
        if node.stop.is_cancelled() {
            return true;
        }
        let is_full = total >= node.cfg.storage.delta_bytes / 2;
        let limits = MaintainLimits {
            // The largest go until what is left is little enough.
            delta_bytes: if is_full { 1 } else { u64::MAX },
            log_bytes: LOG_BYTES_MAX,
        };
        match slot.store.maintain(limits) {
            Ok(Maintained::Checkpoint) => total -= bytes,
            Ok(_) => {}
            Err(error) => {
                report(&slot.name, &error);
                went_well = false;
            }
        }
        if let Some(index) = log_not_needed(node, &slot)
            && !slot.stop.is_cancelled()
            && let Err(error) = slot.store.truncate_before(index)
        {
            report(&slot.name, &error);
            went_well = false;
        }
    }
    went_well
}

/// Up to where nobody but this node may want the log of a range; `None`: all of it is kept.
///
/// A follower collects entries from wherever it stands, and a peer that is declared tomorrow from the start. Until a
/// follower can be given a snapshot instead, the log is only cut where no peer is declared at all; what was cut then
/// cannot be collected any more by a peer that is declared later.
fn log_not_needed(node: &Inner, slot: &Slot) -> Option<LogIndex> {
    let alone = node.links.is_none() && node.declared().is_empty();
    alone.then(|| slot.store.applied().0.index)
}

/// A log that cannot be written ends the process, as it does under the leader; everything else is tried again.
fn report(range: &RangeName, error: &StorageError) {
    if error.is_fatal() {
        stop_process(range, error);
    }
    tracing::error!(%range, "maintenance failed, and is tried again: {error}");
}

/// Versions of one range by the time they were the newest.
#[derive(Default)]
struct Ages {
    /// Oldest first.
    seen: VecDeque<(Instant, LogIndex)>,
    /// The entry by which this node moved the horizon last: it is no reason to move it again.
    own: LogIndex,
}

impl Ages {
    /// Notes the newest version, and returns the newest one that is older than `retention`.
    fn note(&mut self, now: Instant, newest: LogIndex, retention: Duration) -> Option<LogIndex> {
        if newest > self.own && self.seen.back().is_none_or(|(_, last)| *last < newest) {
            self.seen.push_back((now, newest));
        }
        let mut old = None;
        while let Some((at, index)) = self.seen.front()
            && now.duration_since(*at) >= retention
        {
            old = Some(*index);
            self.seen.pop_front();
        }
        old
    }
}

/// Moves the horizon of each range that this node leads: versions that were the newest longer ago than the retention go,
/// unless somebody here still reads them.
pub(super) async fn retain(node: Arc<Inner>) {
    let retention = node.cfg.storage.retention;
    let mut beat = interval((retention / HORIZON_STEPS).max(HORIZON_STEP_MIN));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ages: BTreeMap<RangeName, Ages> = BTreeMap::new();
    loop {
        tokio::select! {
            () = node.stop.cancelled() => return,
            _ = beat.tick() => {}
        }
        let mut slots = node.all_slots();
        slots.push(Arc::clone(&node.system));
        ages.retain(|range, _| slots.iter().any(|slot| slot.name == *range));
        for slot in slots {
            let Some(led) = slot.led() else { continue };
            let ages = ages.entry(slot.name.clone()).or_default();
            let newest = slot.store.applied().0.index;
            let Some(old) = ages.note(Instant::now(), newest, retention) else {
                continue;
            };
            if let Some(moved_at) = move_horizon(&slot, led, old).await {
                ages.own = moved_at;
            }
        }
    }
}

/// Proposes that the horizon moves to `old`, or as far as readers let it. Returns the entry that says so.
async fn move_horizon(slot: &Slot, led: &Led, old: LogIndex) -> Option<LogIndex> {
    let index = slot.store.oldest_read().map_or(old, |oldest| old.min(oldest));
    if index <= slot.store.horizon() {
        return None;
    }
    let record = Record::Horizon { index }.encode().ok()?;
    // Refused when the node stops, or leads no more: then it is another node's business.
    let committed = led.handle.propose(vec![record]).await.ok()?;
    Some(committed.position.index)
}

impl Inner {
    /// Refuses a write while rows in memory take more than their share.
    pub(super) fn check_room(&self) -> Result<(), ProposeError> {
        if self.delta_bytes.load(Ordering::Relaxed) < self.cfg.storage.delta_bytes {
            return Ok(());
        }
        Err(ProposeError::Overloaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_goes_once_it_has_been_old_for_long_enough() {
        let mut ages = Ages::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let retention = Duration::from_mins(5);
        assert_eq!(ages.note(at(0), LogIndex(5), retention), None);
        assert_eq!(ages.note(at(100), LogIndex(9), retention), None);
        assert_eq!(ages.note(at(299), LogIndex(9), retention), None);
        assert_eq!(ages.note(at(300), LogIndex(9), retention), Some(LogIndex(5)));
        assert_eq!(ages.note(at(450), LogIndex(9), retention), Some(LogIndex(9)));
    }

    #[test]
    fn an_idle_range_writes_nothing() {
        let mut ages = Ages::default();
        let start = Instant::now();
        let retention = Duration::from_secs(1);
        assert_eq!(ages.note(start, LogIndex(5), retention), None);
        assert_eq!(ages.note(start + retention, LogIndex(5), retention), Some(LogIndex(5)));
        // That was said in entry 6.
        ages.own = LogIndex(6);
        for round in 2..10 {
            assert_eq!(ages.note(start + retention * round, LogIndex(6), retention), None);
        }
        assert_eq!(ages.note(start + retention * 10, LogIndex(7), retention), None);
        assert_eq!(
            ages.note(start + retention * 11, LogIndex(7), retention),
            Some(LogIndex(7))
        );
    }
}
