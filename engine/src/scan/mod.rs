//! One collection at one version as DataFusion sees it: [`table`] is what planning asks, [`deal`] how rows are
//! shared out to threads, [`exec`] the plan's leaf,
//! [`predicate`] the conditions that the leaf applies itself, [`judge`] how rows are held against them, [`stream`] its
//! running.

mod deal;
mod exec;
mod judge;
mod pieces;
mod predicate;
mod stream;
mod table;

pub(crate) use exec::rows_scanned;
pub(crate) use table::CollectionTable;
