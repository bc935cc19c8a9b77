//! A whole run: scripts of an origin, several at once, against one server.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Mutex;

use super::answers::Answers;
use super::floor::Floor;
use super::lists::Lists;
use super::origins::{Format, Origin};
use super::play::{DIED, Outcome, Player};
use super::record::{Action, Script};
use super::server::Server;
use super::skips::Skips;
use super::tally::{Tally, Verdict};
use super::{reader, sqlness, tpch};

/// How a run is made.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) binary: PathBuf,
    /// The folder with a folder for each origin.
    pub(crate) root: PathBuf,
    /// Only scripts whose paths contain this.
    pub(crate) only: String,
    /// Scripts at once.
    pub(crate) workers: usize,
    pub(crate) deadline: Duration,
    pub(crate) sample: Option<Floor>,
}

/// How often a script is started again because the server ended, whoever ended it.
const RESTARTS_MAX: usize = 20;

/// Between two lines about progress.
const PROGRESS_PAUSE: Duration = Duration::from_secs(30);

/// Runs all scripts of `origin`.
pub(crate) async fn run(origin: &'static Origin, options: &Options, lists: &Lists) -> Result<Tally> {
    let started = Instant::now();
    let folder = options.root.join(origin.folder);
    let answers = Answers::read(&crate::origin::crate_folder().join("answers"), origin.name)?;
    let mut scripts = Vec::new();
    for path in origin.scripts(&folder)? {
        let sampled = options
            .sample
            .as_ref()
            .is_none_or(|sample| sample.takes_script(origin.name, &path));
        if path.contains(&options.only) && sampled {
            let mut script = read(origin, &folder, &path)?;
            answers.correct(&mut script);
            scripts.push(script);
        }
    }
    // The longest first, so that none is left to a single worker at the end.
    scripts.sort_by_key(|script| std::cmp::Reverse(script.records.len()));
    let scratch = Scratch::of(origin, &folder)?;
    let skips = Skips::read(&crate::origin::crate_folder().join("skips"), origin.name)?;
    let deadline = options.deadline.max(origin.deadline_min);
    let server = Server::start(options.binary.clone(), scratch.working_folder.clone(), deadline)?;
    let work = Arc::new(Work {
        origin,
        skips,
        server,
        deadline,
        sample: options.sample.clone(),
        progress: Mutex::new(Progress {
            scripts: scripts.len(),
            done: 0,
            started,
            said: started,
        }),
        queue: Mutex::new(scripts.into()),
        numbers: AtomicU64::new(0),
        tally: Mutex::new(Tally {
            origin: origin.name,
            ..Tally::default()
        }),
        lists: lists.clone(),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..options.workers {
        let work = Arc::clone(&work);
        tasks.spawn(async move { work.scripts().await });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a worker")??;
    }
    let mut tally = work.tally.lock().await.clone();
    tally.deaths = work.server.deaths().await;
    tally.seconds = started.elapsed().as_secs_f64();
    Ok(tally)
}

fn read(origin: &Origin, folder: &Path, path: &str) -> Result<Script> {
    match origin.format {
        Format::Slt(flavour) => reader::read_script(folder, path, origin.labels, flavour),
        Format::Sqlness => sqlness::read_script(folder, path),
        Format::Tpch => tpch::read_script(folder),
    }
}

struct Work {
    origin: &'static Origin,
    skips: Skips,
    server: Server,
    deadline: Duration,
    sample: Option<Floor>,
    progress: Mutex<Progress>,
    queue: Mutex<VecDeque<Script>>,
    /// Numbers for namespaces.
    numbers: AtomicU64,
    tally: Mutex<Tally>,
    lists: Lists,
}

impl Work {
    /// Takes scripts off the queue until it is empty.
    async fn scripts(&self) -> Result<()> {
        loop {
            let Some(script) = self.queue.lock().await.pop_front() else {
                return Ok(());
            };
            let verdicts = self.script(&script).await?;
            let topic = self.origin.topic(&script.path);
            let mut tally = self.tally.lock().await;
            for (record, verdict) in script.records.iter().zip(&verdicts) {
                if matches!(record.action, Action::Sleep(_)) {
                    continue;
                }
                tally.add(topic, record, verdict);
                self.lists.note(self.origin.name, record, verdict)?;
            }
            self.progress.lock().await.script(self.origin.name, tally.sent);
        }
    }

    /// Plays a script, again from its start when the server ended meanwhile.
    async fn script(&self, script: &Script) -> Result<Vec<Verdict>> {
        let player = Player {
            origin: self.origin,
            skips: &self.skips,
            server: &self.server,
            deadline: self.deadline,
        };
        let chosen: Vec<bool> = script.records.iter().map(|record| self.is_chosen(record)).collect();
        let mut fatal = Vec::new();
        for _ in 0..RESTARTS_MAX {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let address = self.server.address().await;
            let namespace = format!("suite_{number}");
            match player.play(script, &address, &namespace, &fatal, &chosen).await? {
                Outcome::Done(verdicts) => return Ok(verdicts),
                Outcome::Ended(place) => {
                    let record = place.and_then(|place| script.records.get(place));
                    let place_of = record.map(|record| format!("{}:{}", record.file, record.line));
                    let under = place_of.unwrap_or_else(|| script.path.clone());
                    eprintln!("THE SERVER ENDED under {under}; the script starts again without that record");
                    fatal.extend(place);
                }
            }
        }
        eprintln!("{}: given up after {RESTARTS_MAX} starts", script.path);
        Ok(vec![Verdict::Wrong(DIED.to_owned()); script.records.len()])
    }

    fn is_chosen(&self, record: &super::record::Record) -> bool {
        self.sample
            .as_ref()
            .is_none_or(|sample| sample.takes_record(self.origin.name, record))
    }
}

/// Tells how far a long run is.
struct Progress {
    scripts: usize,
    done: usize,
    started: Instant,
    said: Instant,
}

impl Progress {
    /// One more script is done.
    fn script(&mut self, origin: &str, sent: u64) {
        self.done += 1;
        if self.said.elapsed() > PROGRESS_PAUSE {
            self.said = Instant::now();
            let seconds = self.started.elapsed().as_secs();
            eprintln!(
                "{origin}: {} of {} scripts, {sent} records in {seconds} s",
                self.done, self.scripts
            );
        }
    }
}

/// Where relative paths of statements start: the origin's own folder, or a copy of it that may be written to.
struct Scratch {
    working_folder: PathBuf,
    _copy: Option<tempfile::TempDir>,
}

impl Scratch {
    fn of(origin: &Origin, folder: &Path) -> Result<Self> {
        if !origin.writes_files {
            return Ok(Self {
                working_folder: folder.join(origin.working_folder),
                _copy: None,
            });
        }
        let copy = tempfile::tempdir()?;
        copy_tree(folder, copy.path())?;
        let working_folder = copy.path().join(origin.working_folder);
        if matches!(origin.format, Format::Tpch) {
            tpch::write_rows(&working_folder)?;
        }
        for script in origin.scripts(folder)? {
            if let Some(name) = Path::new(&script).file_stem() {
                std::fs::create_dir_all(working_folder.join("test_files/scratch").join(name))?;
            }
        }
        Ok(Self {
            working_folder,
            _copy: Some(copy),
        })
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else {
            // Not `fs::copy`: the copy must be writable where the original is not.
            std::fs::write(&target, std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
