//! Other projects' suites, run through the real server: how much of each holds.
//!
//! A script is read into records (`reader`, `sqlness`, `tpch`), a few of which get another answer (`answers`); each record is
//! left out for a reason of its own (`skips`, `nulls`) or sent (`play`) and compared (`check`), and counted (`tally`). Every script has a
//! namespace of its own; several run at once; a server that ends under a record is started anew.

mod answers;
mod check;
mod floor;
mod lines;
mod lists;
mod nulls;
mod order;
mod origins;
mod play;
mod reader;
mod record;
mod run;
mod server;
mod skips;
mod sqlness;
mod tally;
mod tpch;
mod values;

pub mod command;

use std::path::PathBuf;

/// The folder with other projects' suites: `CANDOR_CONFORMANCE`, or the one beside the workspace; `None` if missing.
pub fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CANDOR_CONFORMANCE").map_or_else(
        || crate::origin::crate_folder().join("../../shared/conformance"),
        PathBuf::from,
    );
    folder.canonicalize().ok().filter(|folder| folder.is_dir())
}
