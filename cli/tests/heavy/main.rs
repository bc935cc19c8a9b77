//! Tests with real processes: `candor serve` nodes that are loaded, paused, killed and cut off.
//!
//! What one process can show is tested beside the code and in `server/tests`; here stands what needs the operating
//! system: SIGSTOP and SIGKILL, ports that outlive a process, packets that are dropped, and curl. Each test names the
//! requirements it shows.
//!
//! Nothing waits by the clock: tests wait for conditions, with a deadline. Ports are those that the system gives. One
//! cluster runs at a time, because the tests judge by instants and a second load beside them would only blur these.

mod crash;
mod curl;
mod freshness;
mod harness;
mod isolation;
mod leaders;
mod links;
mod pause;
mod tpch;
