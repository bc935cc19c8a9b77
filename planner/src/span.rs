//! Durations as people write them in a statement.

use std::fmt::Write as _;
use std::time::Duration;

const UNITS: [(&str, u128); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A duration as a span of the dialect, rounded up to whole milliseconds: text that a statement may use again.
///
/// ```
/// use std::time::Duration;
/// use candor_planner::span;
/// assert_eq!(span(Duration::from_secs(90)), "1m30s");
/// assert_eq!(span(Duration::from_millis(1_250)), "1s250ms");
/// assert_eq!(span(Duration::ZERO), "0s");
/// ```
pub fn span(duration: Duration) -> String {
    let mut rest = duration.as_nanos().div_ceil(1_000_000);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, size) in UNITS {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{count}{unit}");
        }
    }
    text
}

/// Milliseconds, rounded up: an age is an upper bound and must not be understated by its own unit.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
