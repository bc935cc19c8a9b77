//! Collection: followers pull the committed log of a range.
//!
//! Two machines without clock and sockets face each other over one stream. The [`Collector`] opens it, says where its
//! log ends and how many bytes it can take; the [`Source`] answers from its log in bounded answers, says when it
//! stopped early, and when both are level it goes on sending each commit as it lands. What may be sent is what the
//! follower granted, so a slow follower is never buffered for: what it has not taken stays in the log.
//!
//! Twice per awareness interval the collector stamps an ask with its own monotonic instant. The source proves its
//! leadership after the ask arrived and echoes the stamp with the tail it proved. Once the follower has applied that
//! tail, its copy is at most as old as the stamp ([`Freshness`]); entries alone prove nothing, since catching up is
//! not being fresh.

mod collector;
mod freshness;
mod source;

#[cfg(test)]
mod model;

pub(crate) use collector::{Collector, Output as CollectorOutput};
pub(crate) use freshness::Freshness;
pub(crate) use source::{Output as SourceOutput, Source};

use candor_storage::Entry;

/// Bytes of entries that a follower lets travel at once: four answers of the largest size, so that the next one is on
/// its way while one is applied.
pub(crate) const WINDOW_BYTES: u32 = 4 * candor_proto::limits::COLLECT_BYTES_MAX;

/// What an entry counts in windows besides its payload: position, kind, chain and their encoding.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// What entries count in windows.
pub(crate) fn weight(entries: &[Entry]) -> u64 {
    entries
        .iter()
        .map(|entry| (entry.payload.len() + ENTRY_OVERHEAD_BYTES) as u64)
        .sum()
}
