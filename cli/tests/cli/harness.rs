//! Starting the binary and waiting for it, never for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The binary, with nothing of the environment of whoever runs the tests.
pub(crate) fn candor() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CANDOR_")) {
        command.env_remove(name);
    }
    command.env("CANDOR_HISTORY", "");
    command
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None` after a signal.
    pub(crate) code: Option<i32>,
}

/// Runs a command to its end with this text on its standard input.
pub(crate) fn run(command: &mut Command, input: &str) -> Ran {
    let mut running = Running::start(command);
    let mut stdin = running.stdin.take().expect("an input");
    let input = input.to_owned();
    // The command may end without reading all of it.
    let writer = thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let ran = running.finish();
    writer.join().expect("written");
    ran
}

/// A command that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    read: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Self {
            child,
            stdin,
            stdout,
            read: String::new(),
        }
    }

    /// Writes to its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("an input");
        stdin.write_all(text.as_bytes()).expect("written");
        stdin.flush().expect("flushed");
    }

    /// Reads lines until one says it, and returns that line.
    pub(crate) fn wait_for(&mut self, what: &str) -> String {
        let stdout = self.stdout.take().expect("an output");
        let (lines, read) = mpsc::channel();
        let wanted = what.to_owned();
        let reader = thread::spawn(move || {
            let mut stdout = stdout;
            loop {
                let mut line = String::new();
                let count = stdout.read_line(&mut line).expect("UTF-8");
                let found = line.contains(&wanted);
                if lines.send(line).is_err() || count == 0 || found {
                    return stdout;
                }
            }
        });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = read
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .unwrap_or_else(|_| panic!("no `{what}` in:\n{}", self.read));
            self.read.push_str(&line);
            if line.is_empty() {
                let errors = self.errors();
                panic!(
                    "the output ended without `{what}`:
{}{errors}",
                    self.read
                );
            }
            if line.contains(what) {
                self.stdout = Some(reader.join().expect("read"));
                return line;
            }
        }
    }

    fn errors(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signalled");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Closes its input and waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        drop(self.stdin.take());
        self.end()
    }

    /// Waits for its end, with its input open.
    pub(crate) fn end(mut self) -> Ran {
        let mut stderr = self.child.stderr.take().expect("errors");
        let mut stdout = self.stdout.take().expect("an output");
        let errors = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("UTF-8");
            text
        });
        let output = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).expect("UTF-8");
            text
        });
        let status = eventually("the command ends", || self.child.try_wait().expect("waited"));
        self.read.push_str(&output.join().expect("read"));
        Ran {
            stdout: std::mem::take(&mut self.read),
            stderr: errors.join().expect("read"),
            code: status.code(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks until there is something to see.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// One node on free ports.
pub(crate) struct Node {
    process: Running,
    pub(crate) url: String,
    _data: tempfile::TempDir,
}

impl Node {
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let mut process = Running::start(&mut serve(data.path()));
        let line = process.wait_for(" ready  ");
        let url = line.split("  ").nth(1).expect("a URL").to_owned();
        Self {
            process,
            url,
            _data: data,
        }
    }

    /// Runs `candor sql` against it.
    pub(crate) fn sql(&self, arguments: &[&str], input: &str) -> Ran {
        run(candor().arg("sql").arg(&self.url).args(arguments), input)
    }

    pub(crate) fn stop(self, signal: Signal) -> Ran {
        self.process.signal(signal);
        self.process.end()
    }
}

/// `candor serve` on free ports.
pub(crate) fn serve(data: &Path) -> Command {
    let mut command = candor();
    command
        .args(["serve", "--name", "n1", "--http", "127.0.0.1:0", "--data"])
        .arg(data);
    command
}
