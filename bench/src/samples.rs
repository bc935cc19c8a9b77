//! Durations, and what of them is printed.

use std::fmt;
use std::time::Duration;

/// Measured durations of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    sorted: Vec<Duration>,
}

impl Samples {
    pub(crate) fn new(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self { sorted: durations }
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The duration that `percent` of the samples do not exceed; zero without samples.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let rank = (percent / 100.0 * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|percent| Short(self.percentile(percent)));
        write!(f, "p50 {p50:>8}  p90 {p90:>8}  p99 {p99:>8}  (n = {})", self.count())
    }
}

/// A duration in the unit that suits it, three digits.
pub(crate) struct Short(pub(crate) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos() as f64;
        let (value, unit) = match nanos {
            n if n < 1e3 => (n, "ns"),
            n if n < 1e6 => (n / 1e3, "µs"),
            n if n < 1e9 => (n / 1e6, "ms"),
            n => (n / 1e9, "s"),
        };
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let samples = Samples::new((1..=100).map(Duration::from_millis).rev().collect());
        assert_eq!(samples.percentile(50.0), Duration::from_millis(50));
        assert_eq!(samples.percentile(99.0), Duration::from_millis(99));
        assert_eq!(samples.percentile(100.0), Duration::from_millis(100));
        assert_eq!(Samples::default().percentile(50.0), Duration::ZERO);
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(Short(Duration::from_nanos(312)).to_string(), "312 ns");
        assert_eq!(Short(Duration::from_micros(1_234)).to_string(), "1.23 ms");
        assert_eq!(Short(Duration::from_millis(45_600)).to_string(), "45.6 s");
    }
}
