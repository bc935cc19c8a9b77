//! The command as people and scripts meet it: the real binary, its exit codes, its streams, its processes.
//!
//! Nothing here looks inside: a test starts `candor`, writes to its input and reads what it prints. Ports are those
//! that the system gives and folders are temporary. Tests wait for conditions, with a deadline.

mod demo;
mod harness;
mod options;
mod sql;
mod tour;
