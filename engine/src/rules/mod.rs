//! Rules of our own for plans, and the estimates that they rest on.

mod cardinality;
mod join_order;
mod statistics;

pub(crate) use cardinality::{ColumnEstimate, TableEstimates, place};
pub(crate) use join_order::JoinOrder;
pub(crate) use statistics::registry;
