//! Rules of our own for logical plans.

mod cardinality;
mod join_order;

pub(crate) use cardinality::{ColumnEstimate, TableEstimates, place};
pub(crate) use join_order::JoinOrder;
