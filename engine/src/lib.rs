//! The only crate that plans and runs SQL with DataFusion
