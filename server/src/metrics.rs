//! Counters and figures for Prometheus. Names have the prefix `candor_` and base units.

use std::time::{Duration, Instant};

use candor_proto::{ErrorCode, RedirectReason, Role};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::server::Shared;

/// Upper bounds of the latency histogram, seconds.
const SECONDS_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0, 60.0,
];

/// The recorder of one node. It is a node's own and not the process's, so that several nodes in one process (tests)
/// do not add up.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Metrics {
    /// A recorder with every metric described.
    pub(crate) fn new() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new().set_buckets(&SECONDS_BUCKETS)?.build_recorder();
        let handle = recorder.handle();
        let metrics = Self { recorder, handle };
        metrics.with(|| {
            describe_counter!("candor_statements_total", "Statements that were answered here, by kind");
            describe_counter!(
                "candor_reads_total",
                "Reads that were answered here, by role of this node"
            );
            describe_counter!(
                "candor_redirects_total",
                "Requests that were sent to another node, by reason"
            );
            describe_counter!("candor_errors_total", "Requests that ended in an error, by code");
            describe_counter!(
                "candor_staleness_bound_misses_total",
                "Reads refused because no node met their bound"
            );
            describe_counter!(
                "candor_write_replays_total",
                "Autocommit writes that were run again after a conflict"
            );
            describe_histogram!(
                "candor_request_seconds",
                Unit::Seconds,
                "Time from a request to the head of its answer"
            );
            describe_gauge!("candor_requests_in_flight", "Requests being answered now");
            describe_gauge!("candor_sessions", "Kept sessions");
            describe_gauge!("candor_range_position", "Index of the last applied entry, by range");
            describe_gauge!("candor_range_epoch", "Newest known epoch, by range");
            describe_gauge!("candor_range_leads", "1 where this node leads the range");
            describe_gauge!(
                "candor_replica_staleness_seconds",
                Unit::Seconds,
                "Upper bound on the age of this node's copy, by range; absent while unknown"
            );
            describe_gauge!(
                "candor_follower_behind_entries",
                "Entries a follower has not collected, by follower"
            );
            describe_gauge!(
                "candor_follower_behind_bytes",
                Unit::Bytes,
                "Bytes a follower has not collected"
            );
            describe_gauge!("candor_segments", "Segments on disk, by range");
            describe_gauge!("candor_segment_bytes", Unit::Bytes, "Bytes of segment files, by range");
            describe_gauge!(
                "candor_memory_rows_bytes",
                Unit::Bytes,
                "Bytes of rows that stand in memory, not in a segment yet, by range"
            );
            describe_gauge!("candor_log_bytes", Unit::Bytes, "Bytes of log files, by range");
            describe_gauge!(
                "candor_checkpoint_behind_entries",
                "Entries behind the last checkpoint, by range"
            );
            describe_gauge!(
                "candor_cache_bytes",
                Unit::Bytes,
                "Bytes of what was read from segments and is kept in memory"
            );
            describe_gauge!("candor_cache_hits", "Reads that found what they wanted in the cache");
            describe_gauge!("candor_cache_misses", "Reads that did not");
            describe_gauge!("candor_node_info", "Always 1; labels name the node");
        });
        Ok(metrics)
    }

    fn with<T>(&self, f: impl FnOnce() -> T) -> T {
        metrics::with_local_recorder(&self.recorder, f)
    }

    pub(crate) fn statement(&self, kind: &'static str) {
        self.with(|| counter!("candor_statements_total", "kind" => kind).increment(1));
    }

    pub(crate) fn read(&self, role: Option<Role>) {
        let role = match role {
            Some(Role::Leader) => "leader",
            Some(Role::Follower) => "follower",
            None => "none",
        };
        self.with(|| counter!("candor_reads_total", "answered_by" => role).increment(1));
    }

    pub(crate) fn redirect(&self, reason: RedirectReason) {
        self.with(|| counter!("candor_redirects_total", "reason" => reason.as_str()).increment(1));
    }

    pub(crate) fn error(&self, code: ErrorCode) {
        self.with(|| {
            counter!("candor_errors_total", "code" => code.as_str()).increment(1);
            if code == ErrorCode::StalenessUnmet {
                counter!("candor_staleness_bound_misses_total").increment(1);
            }
        });
    }

    pub(crate) fn replay(&self) {
        self.with(|| counter!("candor_write_replays_total").increment(1));
    }

    pub(crate) fn request(&self, took: Duration) {
        self.with(|| histogram!("candor_request_seconds").record(took.as_secs_f64()));
    }

    /// The page that Prometheus reads, with the gauges brought up to now.
    pub(crate) fn render(&self, shared: &Shared) -> String {
        self.with(|| {
            gauge!("candor_node_info", "node" => shared.cluster.name().to_string(), "version" => env!("CARGO_PKG_VERSION"))
                .set(1.0);
            gauge!("candor_requests_in_flight").set(shared.requests_in_flight() as f64);
            gauge!("candor_sessions").set(shared.sessions.count() as f64);
            let cache = shared.cluster.cache_figures();
            gauge!("candor_cache_bytes").set(cache.used as f64);
            gauge!("candor_cache_hits").set(cache.hits as f64);
            gauge!("candor_cache_misses").set(cache.misses as f64);
            for range in shared.cluster.ranges() {
                let view = shared.cluster.view(&range);
                let label = range.to_string();
                if let Some(copy) = &view.own.copy {
                    gauge!("candor_range_position", "range" => label.clone()).set(copy.position.index.0 as f64);
                    gauge!("candor_range_epoch", "range" => label.clone()).set(view.own.known_epoch.0 as f64);
                    gauge!("candor_range_leads", "range" => label.clone()).set(f64::from(u8::from(copy.leads)));
                    // No figure is not zero: an unknown age must not look fresh.
                    let age = view.own_age();
                    gauge!("candor_replica_staleness_seconds", "range" => label.clone())
                        .set(age.map_or(f64::NAN, |age| age.as_secs_f64()));
                }
                if let Some(store) = shared.cluster.store(&range) {
                    let info = store.info();
                    let behind = store.applied().0.index.0.saturating_sub(info.checkpoint.0);
                    gauge!("candor_segments", "range" => label.clone()).set(info.segments as f64);
                    gauge!("candor_segment_bytes", "range" => label.clone()).set(info.segment_bytes as f64);
                    gauge!("candor_memory_rows_bytes", "range" => label.clone()).set(info.delta_bytes as f64);
                    gauge!("candor_log_bytes", "range" => label.clone()).set(info.log_bytes as f64);
                    gauge!("candor_checkpoint_behind_entries", "range" => label.clone()).set(behind as f64);
                }
                for follower in shared.cluster.followers(&range) {
                    let node = follower.node.to_string();
                    gauge!("candor_follower_behind_entries", "range" => label.clone(), "follower" => node.clone())
                        .set(follower.behind_entries as f64);
                    gauge!("candor_follower_behind_bytes", "range" => label.clone(), "follower" => node)
                        .set(follower.behind_bytes as f64);
                }
            }
        });
        self.handle.render()
    }
}

/// Records how long a request took when it is dropped.
pub(crate) struct Stopwatch<'a> {
    metrics: &'a Metrics,
    start: Instant,
}

impl<'a> Stopwatch<'a> {
    pub(crate) fn start(metrics: &'a Metrics) -> Self {
        Self {
            metrics,
            start: Instant::now(),
        }
    }
}

impl Drop for Stopwatch<'_> {
    fn drop(&mut self) {
        self.metrics.request(self.start.elapsed());
    }
}
