//! The demo's nodes as a whole: started, broken on request, mended, stopped.
//!
//! Each node is a process of its own and each pair of nodes talks through a relay, so what a person does here is what
//! happens to real clusters: `kill -9`, SIGSTOP, a slow network, no network. One node's end never ends another: they
//! share nothing but the folder they stand in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use super::command::{Action, DemoCommand};
use super::process::{Process, ProcessError, Spec};
use super::relay::{Relay, Weather};
use crate::shell::span_text;

/// Why something cannot be done to a node.
#[derive(Debug, Error)]
pub(crate) enum ClusterError {
    #[error("there is no node `{0}` in this demo; there are {1}")]
    Unknown(String, String),
    #[error("{0} is not running; `\\demo start {0}` starts it")]
    NotRunning(String),
    #[error("{0} is running")]
    Running(String),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot open a relay between {0} and {1}")]
    Relay(String, String, #[source] std::io::Error),
}

/// A node and what is done to it.
#[derive(Debug)]
struct Slot {
    name: String,
    url: String,
    weather: Arc<Weather>,
    state: State,
    /// What ends by itself, by kind: a new one takes the old one's place.
    timers: BTreeMap<Timer, AbortHandle>,
}

#[derive(Debug)]
enum State {
    Running(Box<Process>),
    Killed(Spec),
    /// Only while one of the above is made from the other.
    Changing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Process,
    Lag,
    Partition,
}

/// All nodes of one demo.
#[derive(Debug)]
pub(crate) struct Cluster {
    slots: Mutex<Vec<Slot>>,
    /// By who dials and who is dialled.
    relays: BTreeMap<(usize, usize), Relay>,
    notices: SyncMutex<Vec<String>>,
}

impl Cluster {
    /// Starts all nodes at once, and a relay for each ordered pair.
    ///
    /// # Errors
    /// When one node does not start; the others are stopped then.
    pub(crate) async fn start(specs: Vec<Spec>) -> Result<Arc<Self>, ClusterError> {
        let mut starting = JoinSet::new();
        let count = specs.len();
        for (index, spec) in specs.into_iter().enumerate() {
            starting.spawn(async move { (index, Process::start(spec).await) });
        }
        let mut processes = BTreeMap::new();
        while let Some(started) = starting.join_next().await {
            if let Ok((index, process)) = started {
                processes.insert(index, process?);
            }
        }
        debug_assert_eq!(processes.len(), count, "every start has an end");
        let slots: Vec<Slot> = processes
            .into_values()
            .map(|process| Slot {
                name: process.spec().name.clone(),
                url: format!("http://{}", process.http),
                weather: Arc::default(),
                state: State::Running(Box::new(process)),
                timers: BTreeMap::new(),
            })
            .collect();
        let relays = relays(&slots).await?;
        Ok(Arc::new(Self {
            slots: Mutex::new(slots),
            relays,
            notices: SyncMutex::default(),
        }))
    }

    /// Names and URLs, the first one the leader's.
    pub(crate) async fn urls(&self) -> Vec<(String, String)> {
        self.slots
            .lock()
            .await
            .iter()
            .map(|slot| (slot.name.clone(), slot.url.clone()))
            .collect()
    }

    /// Where the node at index `from` dials the one at index `to`.
    pub(crate) fn link_between(&self, from: usize, to: usize) -> Option<String> {
        self.relays.get(&(from, to)).map(|relay| relay.addr().to_string())
    }

    /// What happened by itself since the last time.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }

    /// Does what was asked and says what was done.
    ///
    /// # Errors
    /// When there is no such node, or it is not in a state for that.
    pub(crate) async fn perform(self: &Arc<Self>, command: &DemoCommand) -> Result<String, ClusterError> {
        match command {
            DemoCommand::Status => Ok(self.status().await),
            DemoCommand::Do { action, node } => self.act(*action, node).await,
        }
    }

    /// Stops every node and waits for the end of each.
    pub(crate) async fn stop(&self) {
        let mut slots = self.slots.lock().await;
        let mut stopping = JoinSet::new();
        for slot in slots.iter_mut() {
            for timer in std::mem::take(&mut slot.timers).into_values() {
                timer.abort();
            }
            slot.weather.clear();
            if let State::Running(process) = std::mem::replace(&mut slot.state, State::Changing) {
                stopping.spawn(process.stop());
            }
        }
        stopping.join_all().await;
    }

    async fn act(self: &Arc<Self>, action: Action, node: &str) -> Result<String, ClusterError> {
        let mut slots = self.slots.lock().await;
        let Some(index) = slots.iter().position(|slot| slot.name == node) else {
            let names: Vec<_> = slots.iter().map(|slot| slot.name.as_str()).collect();
            return Err(ClusterError::Unknown(node.to_owned(), names.join(", ")));
        };
        let slot = &mut slots[index];
        Ok(match action {
            Action::Kill { back_after } => {
                slot.kill().await?;
                self.later(slot, Timer::Process, back_after, Action::Start);
                format!("{node} is killed{}", until(back_after, "starts again"))
            }
            Action::Start => {
                slot.cancel(Timer::Process);
                slot.start().await?;
                format!("{node} is started")
            }
            Action::Pause { span } => {
                slot.running()?.pause()?;
                self.later(slot, Timer::Process, span, Action::Resume);
                format!("{node} is paused{}", until(span, "goes on"))
            }
            Action::Resume => {
                slot.running()?.resume()?;
                for timer in [Timer::Process, Timer::Lag, Timer::Partition] {
                    slot.cancel(timer);
                }
                slot.weather.clear();
                format!("{node} goes on")
            }
            Action::Lag { span, delay } => {
                slot.weather.delay(delay);
                self.later(
                    slot,
                    Timer::Lag,
                    span,
                    Action::Lag {
                        span: None,
                        delay: Duration::ZERO,
                    },
                );
                if delay.is_zero() {
                    return Ok(format!("{node} has no delay"));
                }
                format!(
                    "packets to and from {node} take {} longer{}",
                    span_text(delay),
                    until(span, "is quick again")
                )
            }
            Action::Partition { span } => {
                slot.weather.drop_all(true);
                let end = span.map(|span| (span, self.clone()));
                slot.cancel(Timer::Partition);
                if let Some((span, cluster)) = end {
                    let weather = slot.weather.clone();
                    let name = slot.name.clone();
                    slot.set(Timer::Partition, async move {
                        tokio::time::sleep(span).await;
                        weather.drop_all(false);
                        cluster.notice(format!("{name} is connected again"));
                    });
                }
                format!(
                    "packets to and from {node} are dropped{}",
                    until(span, "is connected again")
                )
            }
        })
    }

    /// Does something after a span, unless something of the same kind is asked for before.
    fn later(self: &Arc<Self>, slot: &mut Slot, timer: Timer, after: Option<Duration>, action: Action) {
        slot.cancel(timer);
        let Some(after) = after else { return };
        let (cluster, name) = (self.clone(), slot.name.clone());
        slot.set(timer, async move {
            tokio::time::sleep(after).await;
            cluster.undo(timer, action, &name).await;
        });
    }

    async fn undo(&self, timer: Timer, action: Action, name: &str) {
        let mut slots = self.slots.lock().await;
        let Some(slot) = slots.iter_mut().find(|slot| slot.name == name) else {
            return;
        };
        slot.timers.remove(&timer);
        let done = match action {
            Action::Start => slot.start().await.map(|()| "is started again"),
            Action::Resume => slot
                .running()
                .and_then(|process| Ok(process.resume()?))
                .map(|()| "goes on"),
            _ => {
                slot.weather.delay(Duration::ZERO);
                Ok("is quick again")
            }
        };
        self.notice(match done {
            Ok(what) => format!("{name} {what}"),
            Err(error) => crate::sentence(&error),
        });
    }

    fn notice(&self, text: String) {
        self.notices.lock().push(text);
    }

    async fn status(&self) -> String {
        let mut slots = self.slots.lock().await;
        let lines: Vec<String> = slots.iter_mut().map(Slot::describe).collect();
        lines.join("\n")
    }
}

impl Slot {
    fn running(&mut self) -> Result<&mut Process, ClusterError> {
        match &mut self.state {
            State::Running(process) => Ok(process),
            _ => Err(ClusterError::NotRunning(self.name.clone())),
        }
    }

    async fn kill(&mut self) -> Result<(), ClusterError> {
        self.running()?;
        if let State::Running(process) = std::mem::replace(&mut self.state, State::Changing) {
            self.state = State::Killed(process.kill().await);
        }
        Ok(())
    }

    async fn start(&mut self) -> Result<(), ClusterError> {
        // A process that ended by itself is started again too.
        if let State::Running(process) = &mut self.state {
            if process.ended().is_none() {
                return Err(ClusterError::Running(self.name.clone()));
            }
            self.state = State::Killed(process.spec().clone());
        }
        if let State::Killed(spec) = &self.state {
            self.state = State::Running(Box::new(Process::start(spec.clone()).await?));
        }
        Ok(())
    }

    fn cancel(&mut self, timer: Timer) {
        if let Some(old) = self.timers.remove(&timer) {
            old.abort();
        }
    }

    fn set(&mut self, timer: Timer, work: impl Future<Output = ()> + Send + 'static) {
        self.timers.insert(timer, tokio::spawn(work).abort_handle());
    }

    fn describe(&mut self) -> String {
        let mut facts = match &mut self.state {
            State::Running(process) => match process.ended() {
                Some(status) => vec![format!("ended by itself ({status})")],
                None if process.paused => vec![format!("process {}", process.id()), "paused".to_owned()],
                None => vec![format!("process {}", process.id())],
            },
            State::Killed(_) | State::Changing => vec!["killed".to_owned()],
        };
        let (delay, dropped) = self.weather.now();
        if !delay.is_zero() {
            facts.push(format!("{} slower", span_text(delay)));
        }
        if dropped {
            facts.push("partitioned".to_owned());
        }
        format!("{}  {}  {}", self.name, self.url, facts.join(", "))
    }
}

async fn relays(slots: &[Slot]) -> Result<BTreeMap<(usize, usize), Relay>, ClusterError> {
    let mut relays = BTreeMap::new();
    for (from, dialler) in slots.iter().enumerate() {
        for (to, dialled) in slots.iter().enumerate() {
            let State::Running(process) = &dialled.state else {
                continue;
            };
            if from == to {
                continue;
            }
            let ends = [dialler.weather.clone(), dialled.weather.clone()];
            let relay = Relay::start(process.link, ends)
                .await
                .map_err(|source| ClusterError::Relay(dialler.name.clone(), dialled.name.clone(), source))?;
            relays.insert((from, to), relay);
        }
    }
    Ok(relays)
}

fn until(span: Option<Duration>, then: &str) -> String {
    span.map(|span| format!("; it {then} in {}", span_text(span)))
        .unwrap_or_default()
}
