//! Whole nodes on loopback: real logs in temporary folders, real QUIC on free ports.

mod follow;
mod links;
mod one_node;
mod support;
mod trouble;
