//! One collection at one version as DataFusion sees it: [`table`] is what planning asks, [`exec`] the plan's leaf,
//! [`predicate`] the conditions that the leaf applies itself, [`stream`] its running.

mod exec;
mod predicate;
mod stream;
mod table;

pub(crate) use table::CollectionTable;
