//! Clusters of real processes, requests to them, and relays between them.

mod cluster;
mod http;
mod node;
mod relay;

pub(crate) use cluster::Cluster;
pub(crate) use http::{Answer, Door};
pub(crate) use relay::{Lost, Relay};

use std::time::{Duration, Instant};

/// How long a test waits for what must come. Generous: a machine may be busy, and what never comes fails anyway.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How often a test looks whether it has come.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `condition` gives a value.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < end, "{what} did not come within {PATIENCE:?}");
    }
}
