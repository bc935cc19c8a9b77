#![doc = include_str!("../README.md")]

mod column;
pub mod conformance;
mod files;
pub mod nodes;
mod origin;
mod render;
mod report;
mod run;
mod session;
pub mod tpch;

pub use conformance::folder as conformance_folder;
pub use nodes::{Cluster, Mode, NodeOptions, candor_binary};
pub use origin::Origin;
pub use report::{Difference, FileReport, Report};
pub use run::run_origin;
