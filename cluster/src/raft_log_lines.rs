//! raft-rs logs through slog; its lines go to `tracing` like everybody's.

use candor_proto::RangeName;
use slog::{Drain, Level, Logger, OwnedKVList, Record};

struct ToTracing {
    range: RangeName,
}

impl Drain for ToTracing {
    type Ok = ();
    type Err = slog::Never;

    fn log(&self, record: &Record<'_>, _values: &OwnedKVList) -> Result<(), slog::Never> {
        let (range, line) = (&self.range, record.msg());
        match record.level() {
            Level::Critical | Level::Error => tracing::error!(target: "candor_cluster::raft", %range, "{line}"),
            Level::Warning => tracing::warn!(target: "candor_cluster::raft", %range, "{line}"),
            // What the library tells about a healthy group is for those who look for it.
            Level::Info | Level::Debug => tracing::debug!(target: "candor_cluster::raft", %range, "{line}"),
            Level::Trace => tracing::trace!(target: "candor_cluster::raft", %range, "{line}"),
        }
        Ok(())
    }
}

/// A logger for the group of `range`.
pub(crate) fn logger(range: &RangeName) -> Logger {
    Logger::root(ToTracing { range: range.clone() }, slog::o!())
}
