//! Where suites come from, and how each origin writes them.

use std::path::{Path, PathBuf};

/// How an origin prints what the letters of a `query` line do not settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rendering {
    /// Timestamps as they are sent, with a blank between date and time.
    AsSent,
    /// Timestamps with `T` between date and time.
    Iso,
}

/// How close a number must come to the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closeness {
    /// The same text.
    Exact,
    /// Within a cent: averages differ in their last digits between decimal types.
    Cent,
}

/// One set of suites.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What it is called in reports.
    pub name: &'static str,
    /// Names under which `skipif` and `onlyif` know the engine.
    pub(crate) labels: &'static [&'static str],
    /// The folder of its suites; paths in reports are below it.
    pub(crate) folder: PathBuf,
    pub(crate) working_folder: PathBuf,
    pub(crate) rendering: Rendering,
    pub(crate) closeness: Closeness,
    /// Ours: letters and messages of errors are checked. Others: that there is an error.
    pub(crate) strict: bool,
    /// Spellings that Candor has in another form, and that form: without it everything after them would be lost.
    pub(crate) respelled: &'static [(&'static str, &'static str)],
    /// The list of known differences.
    pub(crate) known: PathBuf,
}

impl Origin {
    /// The folder in which its relative paths to data start.
    pub fn working_folder(&self) -> &Path {
        &self.working_folder
    }

    /// Our own suites for the dialect.
    pub fn own() -> Self {
        Self::of_folder("candor", crate_folder().join("suites"))
    }

    /// Our own suites below another folder, for nodes that are configured in another way.
    pub fn of_folder(name: &'static str, folder: PathBuf) -> Self {
        Self {
            name,
            labels: &["candor"],
            working_folder: folder.clone(),
            folder,
            rendering: Rendering::AsSent,
            closeness: Closeness::Exact,
            strict: true,
            respelled: &[],
            known: known_list(name),
        }
    }

    /// DataFusion's scripts that give the same answers on PostgreSQL, run under PostgreSQL's label.
    pub fn pg_compat(conformance: &Path) -> Self {
        let root = conformance.join("datafusion/datafusion/sqllogictest");
        Self {
            name: "pg_compat",
            labels: &["postgres", "postgresql"],
            folder: root.join("test_files/pg_compat"),
            working_folder: root,
            rendering: Rendering::Iso,
            closeness: Closeness::Exact,
            strict: false,
            // PostgreSQL's older form of COPY's options.
            respelled: &[("DELIMITER ','\n    CSV HEADER", "(DELIMITER ',', HEADER true)")],
            known: known_list("pg_compat"),
        }
    }

    /// RisingLight's scripts, TPC-H at scale factor 0.001 among them.
    pub fn risinglight(conformance: &Path) -> Self {
        let root = conformance.join("risinglight");
        Self {
            name: "risinglight",
            labels: &["risinglight"],
            folder: root.join("tests/sql"),
            working_folder: root,
            rendering: Rendering::AsSent,
            closeness: Closeness::Cent,
            strict: false,
            respelled: &[],
            known: known_list("risinglight"),
        }
    }

    /// SQLite's corpus as DataFusion adapted it: large, so it is run by hand.
    pub fn sqlite(conformance: &Path) -> Self {
        let root = conformance.join("datafusion-sqlite");
        Self {
            name: "sqlite",
            labels: &["Datafusion"],
            folder: root.clone(),
            working_folder: root,
            rendering: Rendering::Iso,
            closeness: Closeness::Exact,
            strict: false,
            respelled: &[],
            known: known_list("sqlite"),
        }
    }
}

/// The folder with other projects' suites: `CANDOR_CONFORMANCE`, or the one beside the workspace; `None` if missing.
pub fn conformance_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CANDOR_CONFORMANCE")
        .map_or_else(|| crate_folder().join("../../shared/conformance"), PathBuf::from);
    folder.canonicalize().ok().filter(|folder| folder.is_dir())
}

pub(crate) fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn known_list(name: &str) -> PathBuf {
    crate_folder().join("known").join(format!("{name}.toml"))
}
