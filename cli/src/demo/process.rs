//! One node of the demo: a real process, `candor serve`, with its own folder, ports and log file.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::serve::parse_ready_line;

/// A node that has not said that it is ready by then does not start.
const READY_WAIT: Duration = Duration::from_mins(1);

/// A node that was asked to stop and has not by then is killed.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Lines of a log that an error message quotes.
const LOG_LINES: usize = 5;

/// How a node is started.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The demo's folder: `certs`, `<name>` and `<name>.log` in it.
    pub(crate) dir: PathBuf,
    pub(crate) http: SocketAddr,
    pub(crate) link: SocketAddr,
}

/// Why a node is not there.
#[derive(Debug, Error)]
pub(crate) enum ProcessError {
    #[error("cannot start {name}")]
    Spawn { name: String, source: io::Error },
    #[error("{name} ended before it was ready{log}")]
    Ended { name: String, log: String },
    #[error("{name} was not ready after {} s{log}", READY_WAIT.as_secs())]
    Late { name: String, log: String },
    #[error("{name} cannot be signalled")]
    Signal { name: String, source: io::Error },
}

/// A running node.
#[derive(Debug)]
pub(crate) struct Process {
    spec: Spec,
    child: Child,
    pid: Pid,
    pub(crate) http: SocketAddr,
    pub(crate) link: SocketAddr,
    pub(crate) paused: bool,
}

impl Process {
    /// Starts a node and waits until both its doors are open.
    ///
    /// Called on threads that live as long as the demo: the kernel ends a node with the thread that started it.
    ///
    /// # Errors
    /// When it cannot be started, ends, or is not ready in time; nothing is left running then.
    pub(crate) async fn start(spec: Spec) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Spawn {
            name: spec.name.clone(),
            source,
        };
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(spec.log_file())
            .map_err(failed)?;
        let mut child = Command::new(&spec.executable)
            .args(spec.arguments())
            // The node watches its input, and the demo holds the other end for as long as it lives.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log))
            .process_group(0)
            .kill_on_drop(true)
            .env_remove("CANDOR_CONFIG")
            .spawn()
            .map_err(failed)?;
        let pid = child.id().and_then(|id| Pid::from_raw(id as i32));
        let (Some(pid), Some(stdout)) = (pid, child.stdout.take()) else {
            return Err(ended(&spec));
        };
        let mut lines = BufReader::new(stdout).lines();
        let ready = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(addrs) = parse_ready_line(&line) {
                    return Some(addrs);
                }
            }
            None
        };
        let (http, link) = match tokio::time::timeout(READY_WAIT, ready).await {
            Ok(Some((http, Some(link)))) => (http, link),
            Ok(_) => return Err(ended(&spec)),
            Err(_) => {
                return Err(ProcessError::Late {
                    log: spec.log_tail(),
                    name: spec.name.clone(),
                });
            }
        };
        // The pipe stays open, or a node that ever wrote another line would fail.
        tokio::spawn(async move {
            let mut rest = lines.into_inner();
            let mut ignored = [0; 1024];
            while matches!(rest.read(&mut ignored).await, Ok(count) if count > 0) {}
        });
        // Should it be started again, then at the same addresses: others know them.
        let spec = Spec { http, link, ..spec };
        Ok(Self {
            spec,
            child,
            pid,
            http,
            link,
            paused: false,
        })
    }

    /// What it takes to start it again.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// SIGSTOP.
    pub(crate) fn pause(&mut self) -> Result<(), ProcessError> {
        self.signal(Signal::STOP)?;
        self.paused = true;
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn resume(&mut self) -> Result<(), ProcessError> {
        self.signal(Signal::CONT)?;
        self.paused = false;
        Ok(())
    }

    /// SIGKILL, and waits for the end.
    pub(crate) async fn kill(mut self) -> Spec {
        // An error means that it has ended already.
        let _ = self.child.kill().await;
        self.spec
    }

    /// Asks it to stop, and kills it if it does not.
    pub(crate) async fn stop(mut self) {
        if self.ended().is_some() {
            return;
        }
        // A paused process sees the request only when it goes on.
        let _ = self.signal(Signal::TERM);
        let _ = self.signal(Signal::CONT);
        if tokio::time::timeout(STOP_WAIT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        kill_process(self.pid, signal).map_err(|error| ProcessError::Signal {
            name: self.spec.name.clone(),
            source: error.into(),
        })
    }
}

impl Spec {
    fn log_file(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--stop-with-parent".into()];
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        option("--name", self.name.clone().into());
        option("--data", self.dir.join(&self.name).into());
        option("--certs", self.dir.join("certs").into());
        option("--http", self.http.to_string().into());
        option("--link", self.link.to_string().into());
        arguments
    }

    /// The end of the log, for an error message.
    fn log_tail(&self) -> String {
        log_tail(&self.log_file())
    }
}

fn ended(spec: &Spec) -> ProcessError {
    ProcessError::Ended {
        log: spec.log_tail(),
        name: spec.name.clone(),
    }
}

fn log_tail(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
    if tail.is_empty() {
        String::new()
    } else {
        format!("; its log ends: {}", tail.join(" / "))
    }
}
