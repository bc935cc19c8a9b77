//! The last one out: a small process that removes the demo's folder when the demo and all its nodes are gone.
//!
//! The demo and every node hold the write end of one pipe, whose read end is this process's standard input. However
//! they end, be it by `kill -9`, the kernel closes their ends; when the last is closed the input is at its end, nobody
//! writes into the folder any more, and it can go.

use std::fs;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::AsyncReadExt;

use crate::exit::Exit;

/// How a demo's folder is called. Nothing else is ever removed.
const PREFIX: &str = "candor-demo-";

/// A folder that lives as long as its demo.
#[derive(Debug)]
pub(crate) struct TidyFolder {
    path: PathBuf,
    /// Inherited by every process started after this one.
    held: Option<PipeWriter>,
    tidy: Child,
}

impl TidyFolder {
    /// Makes the folder and starts the process that will remove it.
    ///
    /// # Errors
    /// When the folder cannot be made or the process not be started.
    pub(crate) fn create(executable: &Path) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir()?.keep();
        match Self::watch(executable, &path) {
            Ok((held, tidy)) => Ok(Self {
                path,
                held: Some(held),
                tidy,
            }),
            Err(error) => {
                fs::remove_dir_all(&path)?;
                Err(error)
            }
        }
    }

    fn watch(executable: &Path, path: &Path) -> io::Result<(PipeWriter, Child)> {
        let (closes, held) = io::pipe()?;
        let tidy = Command::new(executable)
            .arg("tidy")
            .arg(path)
            .stdin(Stdio::from(closes))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal is for the shell, not for what cleans up after it.
            .process_group(0)
            .spawn()?;
        // Only now: the process that waits for the end must not hold it open itself.
        fcntl_setfd(&held, FdFlags::empty())?;
        Ok((held, tidy))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go and waits until the folder is gone. All nodes must have ended.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.held = None;
        let status = self.tidy.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{} is left", self.path.display())))
        }
    }
}

/// The process itself: `candor tidy DIR`.
pub(crate) async fn run(dir: &Path) -> Exit {
    let is_demo = dir
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    if !is_demo {
        eprintln!(
            "error: {} is no demo's folder: those are called {PREFIX}…",
            dir.display()
        );
        return Exit::Usage;
    }
    // A signal that is meant for the demo must not end what cleans up after it.
    let signals = [
        tokio::signal::unix::SignalKind::terminate(),
        tokio::signal::unix::SignalKind::hangup(),
    ];
    let _ignored = signals.map(|kind| tokio::signal::unix::signal(kind));
    let mut stdin = tokio::io::stdin();
    let mut nothing = [0; 16];
    while matches!(stdin.read(&mut nothing).await, Ok(count) if count > 0) {}
    match fs::remove_dir_all(dir) {
        Ok(()) => Exit::Fine,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Exit::Fine,
        Err(_) => Exit::Failed,
    }
}
