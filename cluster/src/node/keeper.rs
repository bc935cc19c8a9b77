//! Two tasks that every node runs: one reviews what greetings mean for its copies, one dates the tails it leads.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Inner;
use super::slot::Slot;

/// After news: discovers ranges and points each copy at its upstream.
pub(super) async fn review(node: Arc<Inner>) {
    loop {
        tokio::select! {
            () = node.stop.cancelled() => return,
            () = node.news.notified() => {}
        }
        let offers = node.awareness.read().offers();
        for (range, offer) in &offers {
            if node.slot(range).is_none() {
                node.discover(range, offer).await;
            }
        }
        for slot in node.all_slots() {
            point(&node, &slot);
        }
    }
}

fn point(node: &Inner, slot: &Slot) {
    let Some(copy) = slot.collected() else { return };
    let known = slot.store.applied().0.epoch;
    let upstream = node.awareness.read().upstream(&slot.name, slot.store.id(), known);
    let moved = copy.upstream.send_if_modified(|held| {
        let moved = *held != upstream;
        held.clone_from(&upstream);
        moved
    });
    if moved {
        if let Some(upstream) = upstream {
            tracing::info!(range = %slot.name, %upstream, "collecting from");
        } else {
            tracing::info!(range = %slot.name, "no peer says that it may write; collecting from nobody");
        }
    }
}

/// Once per awareness interval, the first time after a whole one: asks each led range for its confirmed tail and
/// dates it with the instant of asking.
pub(super) async fn date(node: Arc<Inner>) {
    let every = node.cfg.awareness;
    let mut beat = interval_at(Instant::now() + every, every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = node.stop.cancelled() => return,
            _ = beat.tick() => {}
        }
        let slots = node.all_slots();
        let dates = join_all(slots.iter().map(|slot| date_one(&node, slot)));
        tokio::select! {
            () = node.stop.cancelled() => return,
            _ = dates => {}
        }
    }
}

async fn date_one(node: &Inner, slot: &Slot) {
    let Some(led) = slot.led() else { return };
    let asked_at = node.clock.now();
    if let Ok(tail) = led.handle.read_index().await {
        led.followers.lock().handle_dated(asked_at, tail.index);
    }
}
