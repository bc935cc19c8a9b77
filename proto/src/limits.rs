//! Bounds and defaults with their units, each in one place.

use std::time::Duration;

/// How often nodes greet each other unless configured otherwise.
pub const AWARENESS_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest and the longest awareness interval that a node accepts.
pub const AWARENESS_INTERVAL_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(10));

/// The staleness floor in awareness intervals: one to learn something, one more to notice that you did not.
pub const FLOOR_INTERVALS: u32 = 2;

/// The tightest staleness bound that can be checked with this awareness interval.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(candor_proto::limits::staleness_floor(Duration::from_secs(1)), Duration::from_secs(2));
/// ```
pub const fn staleness_floor(awareness_interval: Duration) -> Duration {
    awareness_interval.saturating_mul(FLOOR_INTERVALS)
}

/// How long `AT LEAST VERSION n` waits when it names no `WAIT`.
pub const AT_LEAST_WAIT: Duration = Duration::from_secs(2);

/// The longest span a statement may name: about a hundred years.
pub const SPAN_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// One answer to a follower that collects holds at most this many bytes of entries (one entry may exceed it alone).
pub const COLLECT_BYTES_MAX: u32 = 1 << 20;

/// The largest single log entry, bytes: a transaction larger than this is refused before it is proposed.
pub const ENTRY_BYTES_MAX: usize = 256 << 20;

/// Redirects a client follows; one more is a loop. Also the hop count beyond which a node answers 508.
pub const HOPS_MAX: u8 = 3;

/// Requests in flight that one HTTP listener admits; one more is answered 503.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 1024;

/// The largest request body an HTTP listener reads unless configured otherwise, bytes.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// The stack of every thread that handles syntax trees, bytes: the deepest script that the parser accepts is copied and
/// walked within a quarter of it in a debug build.
pub const THREAD_STACK_BYTES: usize = 16 << 20;

/// How much of a body that will not be used is read before a redirect, bytes.
pub const DRAIN_BYTES_MAX: usize = 16 << 20;

/// How long a body that will not be used is read before a redirect.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a version stays readable after a newer one was there, unless configured otherwise.
pub const RETENTION: Duration = Duration::from_mins(5);

/// The shortest retention that a node accepts: statements read a version while they run.
pub const RETENTION_MIN: Duration = Duration::from_secs(1);

/// How long one statement may run unless configured otherwise.
pub const STATEMENT_DEADLINE: Duration = Duration::from_mins(1);

/// How often an autocommit write that lost to another one is run again before it is answered with `conflict`.
pub const WRITE_REPLAYS_MAX: u32 = 5;

/// Longest name of a node, namespace, database or collection, bytes.
pub const NAME_BYTES_MAX: usize = 63;
