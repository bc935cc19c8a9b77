//! A PostgreSQL of the bench's own: made in a temporary folder, on a free port, as a user that is not root.
//!
//! Debian's packages `postgresql` and `postgresql-contrib` bring it. A cluster of the system is never touched.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::samples::Samples;

/// Where Debian puts the programs of one version.
const FOLDERS: &str = "/usr/lib/postgresql";

/// The user of Debian's package; PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// A running server, stopped when the value is dropped.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
}

/// What one run of pgbench measured.
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) latency: Samples,
}

impl Postgres {
    /// Makes and starts a server with PostgreSQL's own defaults.
    pub(crate) fn start() -> Result<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Self { programs, folder, port };
        let data = server.folder.path().join("data");
        server.run(
            "initdb",
            &[
                "--pgdata",
                text(&data)?,
                "--auth",
                "trust",
                "--username",
                USER,
                "--encoding",
                "UTF8",
            ],
        )?;
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -k {}",
            text(server.folder.path())?
        );
        let log = server.folder.path().join("log");
        server.run(
            "pg_ctl",
            &[
                "--pgdata",
                text(&data)?,
                "--wait",
                "--options",
                &options,
                "--log",
                text(&log)?,
                "start",
            ],
        )?;
        Ok(server)
    }

    /// `PostgreSQL 15.18 …`, shortened.
    pub(crate) fn version(&self) -> Result<String> {
        let output = self.run("postgres", &["--version"])?;
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim()
            .replace("postgres (PostgreSQL)", "PostgreSQL"))
    }

    /// Runs a script of SQL.
    pub(crate) fn sql(&self, sql: &str) -> Result<()> {
        let port = self.port.to_string();
        self.run(
            "psql",
            &[
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                USER,
                "-c",
                sql,
            ],
        )?;
        Ok(())
    }

    /// Runs one pgbench script with prepared statements from `connections` connections.
    pub(crate) fn pgbench(&self, script: &str, connections: usize, duration: Duration) -> Result<Measured> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777))?;
        let path = folder.path().join("script.sql");
        std::fs::write(&path, script)?;
        let prefix = folder.path().join("log");
        let (port, connections, seconds) = (
            self.port.to_string(),
            connections.to_string(),
            duration.as_secs().to_string(),
        );
        let output = self.run(
            "pgbench",
            &[
                "-n",
                "-M",
                "prepared",
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                USER,
                "-c",
                &connections,
                "-j",
                "1",
                "-T",
                &seconds,
                "--log",
                "--log-prefix",
                text(&prefix)?,
                "-f",
                text(&path)?,
                "postgres",
            ],
        )?;
        let said = String::from_utf8_lossy(&output.stdout);
        let per_second = said
            .lines()
            .find_map(|line| line.strip_prefix("tps = "))
            .and_then(|rest| rest.split(' ').next()?.parse().ok())
            .with_context(|| format!("pgbench did not say tps:\n{said}"))?;
        Ok(Measured {
            per_second,
            latency: Samples::new(latencies(folder.path())?),
        })
    }

    /// Runs a program as a user that is not root.
    fn run(&self, program: &str, args: &[&str]) -> Result<Output> {
        let path = self.programs.join(program);
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(&path);
            command
        } else {
            Command::new(&path)
        };
        let output = command
            .args(args)
            .current_dir(self.folder.path())
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        let stopped =
            text(&data).and_then(|data| self.run("pg_ctl", &["--pgdata", data, "--mode", "immediate", "stop"]));
        if let Err(error) = stopped {
            eprintln!("PostgreSQL in {} did not stop: {error:#}", self.folder.path().display());
        }
    }
}

fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir(FOLDERS)
        .with_context(|| format!("no {FOLDERS}: install Debian's packages postgresql and postgresql-contrib"))?;
    let mut folders: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    folders.retain(|folder| folder.join("initdb").exists() && folder.join("pgbench").exists());
    folders.sort();
    folders
        .pop()
        .context("no PostgreSQL with pgbench: install postgresql-contrib")
}

fn is_root() -> Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .context("no Uid in /proc/self/status")?;
    Ok(line.split_whitespace().nth(1) == Some("0"))
}

/// The third field of each line of pgbench's logs: microseconds that one transaction took.
fn latencies(folder: &Path) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("log."))
        {
            let log = std::fs::read_to_string(&path)?;
            latencies.extend(
                log.lines()
                    .filter_map(|line| line.split(' ').nth(2)?.parse().ok())
                    .map(Duration::from_micros),
            );
        }
    }
    Ok(latencies)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a temporary path that is no UTF-8")
}
