//! Our own suites.

use std::path::{Path, PathBuf};

/// One set of suites.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What it is called in reports.
    pub name: &'static str,
    /// The folder of its suites; paths in reports are below it, and paths to data start there.
    pub(crate) folder: PathBuf,
}

impl Origin {
    /// The folder in which its relative paths to data start.
    pub fn working_folder(&self) -> &Path {
        &self.folder
    }

    /// The suites for the dialect.
    pub fn own() -> Self {
        Self::of_folder("candor", crate_folder().join("suites"))
    }

    /// Suites below another folder, for nodes that are configured in another way.
    pub fn of_folder(name: &'static str, folder: PathBuf) -> Self {
        Self { name, folder }
    }
}

pub(crate) fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
