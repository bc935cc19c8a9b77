//! A node, and clusters of real nodes in one process: HTTP in front, QUIC between them. Each test of a requirement
//! names its row.

mod clauses;
mod followers;
mod harness;
mod http_door;
mod redirects;
mod scripts;
mod sequences;
