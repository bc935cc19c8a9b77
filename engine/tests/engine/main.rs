//! The engine over a real store, without a server: scripts in, rows and errors out.

mod copying;
mod db;
mod definitions;
mod dml;
mod errors;
mod open_collections;
mod order;
mod queries;
mod running;
mod tpch;
mod transactions;
mod two_ways;
