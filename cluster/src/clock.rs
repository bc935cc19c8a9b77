//! The node's monotonic time.
//!
//! Machines take `now` as the time since the process started, so a token that travels to a peer and back is a
//! plain number, and a test writes time down instead of waiting for it. Wall clocks decide nothing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since the start of this process, monotonic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Milliseconds of wall-clock time, to order the boots of one node.
pub(crate) fn wall_clock_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A point of the sender's own monotonic time in nanoseconds. It means something only to the process that made it,
/// which gets it back as an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    pub(crate) fn of(now: Duration) -> Self {
        Self(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn instant(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}
