//! Runs sqllogictest suites against real nodes over HTTP.
//!
//! Every node is a `candor` process of its own and every statement travels through `candor-client`, so a suite sees
//! what a user sees: parser, verdict, engine, storage and the answer's encoding together. A suite runs in one of two
//! [`Mode`]s with the same expectations: against a single node, or at a follower of a cluster of three, where writes
//! find the leader by redirect and each read first waits for the session's own last write.
//!
//! [`Origin`] says what a set of suites calls its engine, how it prints values and where its files lie. A record that
//! is not expected to hold stands with its reason in `known/*.toml`: it is counted, printed, and reported as soon as it
//! holds after all. Nothing else is left out.

mod column;
mod files;
mod known;
pub mod nodes;
mod origin;
mod render;
mod report;
mod run;
mod session;

pub use nodes::{Cluster, Mode, NodeOptions, candor_binary};
pub use origin::{Origin, conformance_folder};
pub use report::{Difference, FileReport, Report};
pub use run::run_origin;
