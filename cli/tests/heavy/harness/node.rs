//! One node: a `candor serve` process, its signals, and its end.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use super::{PATIENCE, eventually};

/// The program under test.
pub(crate) const CANDOR: &str = env!("CARGO_BIN_EXE_candor");

/// Lines of a node's log that a failing test shows.
const LOG_LINES: usize = 20;

/// How a node is started.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: String,
    /// Data and log stand here.
    pub(crate) dir: PathBuf,
    pub(crate) certs: PathBuf,
    /// Port 0 at first; afterwards the port it got, so that a node comes back where others know it.
    pub(crate) http: SocketAddr,
    pub(crate) link: SocketAddr,
    /// Further options of `candor serve`.
    pub(crate) options: Vec<String>,
}

/// A running node. Dropping it ends the process, also while a test panics; should the tests themselves be killed, the
/// node's input closes and it ends by itself.
#[derive(Debug)]
pub(crate) struct Node {
    spec: Spec,
    process: Child,
    ended: bool,
}

impl Node {
    /// Starts a node and waits until both its doors are open.
    ///
    /// Called on the test's own thread: the kernel ends a node with the thread that started it.
    pub(crate) async fn start(spec: Spec) -> Self {
        let mut process = command(&spec).spawn().expect("candor starts");
        let stdout = process.stdout.take().expect("standard output is a pipe");
        let ready = tokio::time::timeout(PATIENCE, ready_line(stdout)).await;
        let mut node = Self {
            spec,
            process,
            ended: false,
        };
        let Ok(Ok(line)) = ready else {
            panic!("{} is not ready: {}", node.spec.name, node.log_end());
        };
        (node.spec.http, node.spec.link) = addresses(&line);
        node
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// SIGSTOP; returns when no thread of the process runs any more.
    pub(crate) async fn pause(&self) {
        self.signal(Signal::STOP);
        eventually("a stopped process", async || self.is_stopped().then_some(())).await;
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL; returns when the process is gone.
    pub(crate) fn kill(&mut self) {
        if !self.ended {
            // Both fail only when it has ended already.
            let _ = self.process.kill();
            let _ = self.process.wait();
            self.ended = true;
        }
    }

    /// Starts a killed node again, with its data and at its addresses.
    pub(crate) async fn start_again(&mut self) {
        assert!(self.ended, "{} runs", self.spec.name);
        *self = Self::start(self.spec.clone()).await;
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the process is there");
    }

    /// Every thread is in state `T`.
    fn is_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("a process");
        threads.flatten().all(|thread| {
            let line = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name before the state is in brackets and may hold anything.
            line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    fn log_end(&self) -> String {
        let text = fs::read_to_string(log_file(&self.spec)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the log of {} ends:\n{}", self.spec.name, self.log_end());
        }
    }
}

fn command(spec: &Spec) -> Command {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_file(spec))
        .expect("a log file");
    let mut command = candor();
    command
        .args(["serve", "--stop-with-parent", "--name", &spec.name, "--data"])
        .arg(spec.dir.join(&spec.name));
    command.arg("--certs").arg(&spec.certs);
    command
        .args(["--http", &spec.http.to_string(), "--link", &spec.link.to_string()])
        .args(&spec.options);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log));
    command
}

/// The program without any option that the surroundings may give.
pub(crate) fn candor() -> Command {
    let mut command = Command::new(CANDOR);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CANDOR_")) {
        command.env_remove(name);
    }
    command
}

fn log_file(spec: &Spec) -> PathBuf {
    Path::new(&spec.dir).join(format!("{}.log", spec.name))
}

/// The first line, read by a thread that then reads on, so that a full pipe never stops the node.
fn ready_line(stdout: ChildStdout) -> oneshot::Receiver<String> {
    let (send, receive) = oneshot::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        if let Some(line) = lines.next() {
            // Nobody listens when the test is over.
            let _ = send.send(line);
        }
        lines.for_each(drop);
    });
    receive
}

/// HTTP and link of `candor n1 ready  http://127.0.0.1:7401  link 127.0.0.1:7501  data ./n1`.
fn addresses(line: &str) -> (SocketAddr, SocketAddr) {
    let after = |prefix: &str| {
        line.split("  ")
            .find_map(|part| part.strip_prefix(prefix)?.parse().ok())
    };
    match (after("http://"), after("link ")) {
        (Some(http), Some(link)) => (http, link),
        _ => panic!("this line names no addresses: {line}"),
    }
}
