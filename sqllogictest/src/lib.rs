#![doc = include_str!("../README.md")]

mod column;
mod compare;
mod files;
mod known;
pub mod nodes;
mod origin;
mod render;
mod report;
mod run;
mod session;
pub mod tpch;

pub use nodes::{Cluster, Mode, NodeOptions, candor_binary};
pub use origin::{Origin, conformance_folder};
pub use report::{Difference, FileReport, Report};
pub use run::run_origin;
