//! Runs the suites of one origin, record by record.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use candor_client::{Client, Config};
use sqllogictest::{Record, RecordOutput, Runner, TestError, strict_column_validator};

use crate::column::Kind;
use crate::files::{below, suites};
use crate::nodes::{Cluster, Mode};
use crate::origin::Origin;
use crate::report::{Difference, FileReport, Report};
use crate::session::{ENGINE, Session, SessionError, Shared, catch_up};

/// The namespace in which every suite starts, each in a database of its own.
const NAMESPACE: &str = "slt";

/// Runs every suite of `origin` against `cluster`; `only` narrows it to files whose paths contain it.
///
/// # Errors
/// When the nodes cannot be reached or a file cannot be read; records that do not hold are in the report.
pub async fn run_origin(origin: &Origin, cluster: &Cluster, only: &str) -> Result<Report> {
    let files = suites(&origin.folder)?;
    let mut report = Report {
        title: format!("{} at {}", origin.name, cluster.mode()),
        ..Report::default()
    };
    let leader = connect(cluster.leader_url(), None)?;
    leader
        .execute(&format!("DEFINE NAMESPACE IF NOT EXISTS {NAMESPACE}"), &[])
        .await?;
    for path in &files {
        let file = below(&origin.folder, path);
        if !file.contains(only) {
            continue;
        }
        let database = database_of(&file);
        let suite = Suite {
            origin,
            cluster,
            file,
            database,
        };
        let (file_report, shared) = suite.run(path).await?;
        report.read_at_follower += shared.read_at_follower.load(Ordering::Relaxed);
        report.read_at_leader += shared.read_at_leader.load(Ordering::Relaxed);
        report.files.push(file_report);
    }
    Ok(report)
}

/// `sql/tpch/tpch.slt` → `sql_tpch_tpch`
fn database_of(file: &str) -> String {
    file.trim_end_matches(".slt")
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// One file on its way through the nodes.
struct Suite<'a> {
    origin: &'a Origin,
    cluster: &'a Cluster,
    file: String,
    database: String,
}

impl Suite<'_> {
    async fn run(&self, path: &Path) -> Result<(FileReport, Arc<Shared>)> {
        let shared = Arc::new(Shared::new());
        let setup = connect(self.cluster.leader_url(), Some((NAMESPACE, "")))?;
        let define = format!("DEFINE DATABASE {}", self.database);
        shared.note_writes(&setup.execute(&define, &[]).await.with_context(|| define.clone())?);

        let mut runner = Runner::new(|| self.connect(Arc::clone(&shared)));
        for label in [ENGINE, self.cluster.mode().label()] {
            runner.add_label(label);
        }
        runner.with_column_validator(strict_column_validator);

        let mut report = FileReport {
            file: self.file.clone(),
            ..FileReport::default()
        };
        for record in parse(path)? {
            if matches!(record, Record::Halt { .. }) {
                break;
            }
            let Some((file, line)) = line_of(&record) else {
                let _ = runner.run_async(record).await;
                continue;
            };
            shared
                .count_as_row
                .store(matches!(record, Record::Query { .. }), Ordering::Relaxed);
            runner.set_var("VERSION".to_owned(), shared.version(NAMESPACE).to_string());
            let place = Place {
                file: below(&self.origin.folder, Path::new(&file)),
                line,
            };
            place.count(runner.run_async(record).await, &mut report);
        }
        runner.shutdown_async().await;
        Ok((report, shared))
    }

    async fn connect(&self, shared: Arc<Shared>) -> Result<Session, SessionError> {
        let selected = Some((NAMESPACE, self.database.as_str()));
        let writer = connect(self.cluster.asked_url(), selected)?;
        let reader = match self.cluster.mode() {
            Mode::Node => None,
            Mode::Follower => Some(connect(self.cluster.asked_url(), selected)?),
        };
        if let Some(reader) = &reader {
            // It may not have heard of the database yet.
            catch_up(reader, NAMESPACE, shared.version(NAMESPACE)).await?;
        }
        Ok(Session::new(writer, reader, NAMESPACE, shared))
    }
}

/// Where a record stands.
struct Place {
    file: String,
    line: u32,
}

impl Place {
    fn count(self, outcome: Result<RecordOutput<Kind>, TestError>, report: &mut FileReport) {
        match outcome {
            Ok(RecordOutput::Nothing) => report.skipped += 1,
            Ok(_) => report.right += 1,
            Err(error) => report.wrong.push(Difference {
                file: self.file,
                line: self.line,
                text: error.to_string(),
            }),
        }
    }
}

fn connect(url: &str, selected: Option<(&str, &str)>) -> Result<Client, candor_client::ClientError> {
    let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    let config = Config {
        namespace: selected.and_then(|(namespace, _)| name(namespace)),
        database: selected.and_then(|(_, database)| name(database)),
        session: true,
        ..Config::default()
    };
    Client::connect(url, config)
}

fn parse(path: &Path) -> Result<Vec<Record<Kind>>> {
    sqllogictest::parse_file(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// File and line of a record that does something.
fn line_of(record: &Record<Kind>) -> Option<(String, u32)> {
    match record {
        Record::Statement { loc, .. }
        | Record::Query { loc, .. }
        | Record::System { loc, .. }
        | Record::Let { loc, .. } => Some((loc.file().to_owned(), loc.line())),
        _ => None,
    }
}
