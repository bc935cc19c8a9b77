//! Tests with real processes: `candor serve` nodes that are paused, killed and cut off.
