//! The rule itself, as a checker outside of the product sees it: no answer is older than its bound.
//!
//! A writer puts 1, 2, 3, … into a table at the leader and notes the instant of each acknowledgement. A checker reads
//! the newest counter somewhere else, under a bound. It compares instants of one monotonic clock, its own: whatever was
//! acknowledged before (start of the request − bound) must be in the answer. The receipt promises more, the age of the
//! copy, and is held to it in the same way: whatever was acknowledged before (start − age) must be there too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{Answer, Cluster, Door, PATIENCE, eventually};

/// The writer's pace: often enough that every violated bound has a row to show for it, and no load to speak of.
const WRITE_EVERY: Duration = Duration::from_millis(5);

/// The checker's pace, so that looking is not a load either.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One acknowledged write.
#[derive(Clone, Copy, Debug)]
struct Ack {
    at: Instant,
    /// The version that the write made.
    version: u64,
}

/// What was written when: entry `i` is about counter `i + 1`.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    acks: Mutex<Vec<Ack>>,
}

impl Commits {
    /// The newest counter that was acknowledged at `instant`.
    pub(crate) fn newest_at(&self, instant: Instant) -> u64 {
        self.acks.lock().partition_point(|ack| ack.at <= instant) as u64
    }

    /// How many are acknowledged.
    pub(crate) fn count(&self) -> u64 {
        self.acks.lock().len() as u64
    }

    /// When the last counter that `version` holds and the first one that it lacks were acknowledged.
    pub(crate) fn around(&self, version: u64) -> (Option<Instant>, Option<Instant>) {
        let acks = self.acks.lock();
        let held = acks.partition_point(|ack| ack.version <= version);
        let at = |index: usize| acks.get(index).map(|ack| ack.at);
        (held.checked_sub(1).and_then(at), at(held))
    }
}

/// Writes until it is dropped.
pub(crate) struct Writer {
    pub(crate) commits: Arc<Commits>,
    task: JoinHandle<()>,
}

impl Writer {
    /// Makes the table at n1, waits until every follower has it, and begins.
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        let door = cluster.door(0);
        let made = door.run("CREATE TABLE beats (n BIGINT PRIMARY KEY)").await;
        for node in 1..cluster.nodes.len() {
            let here = format!("SELECT * FROM beats AT LEAST VERSION {made} WAIT 30s");
            cluster.door(node).run(&here).await;
        }
        let commits = Arc::<Commits>::default();
        let task = tokio::spawn(write(door, commits.clone()));
        Self { commits, task }
    }

    /// Waits until `more` further counters are acknowledged.
    pub(crate) async fn wait_for(&self, more: u64) {
        let target = self.commits.count() + more;
        eventually("acknowledged writes", async || {
            (self.commits.count() >= target).then_some(())
        })
        .await;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn write(door: Door, commits: Arc<Commits>) {
    let mut pace = tokio::time::interval(WRITE_EVERY);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for n in 1_u64.. {
        pace.tick().await;
        let version = door.run(&format!("INSERT INTO beats VALUES ({n})")).await;
        commits.acks.lock().push(Ack {
            at: Instant::now(),
            version,
        });
    }
}

/// What a look at a node gave.
#[derive(Debug)]
pub(crate) enum Seen {
    /// An answer of the node itself that kept every rule.
    Answered,
    /// No node may answer; the best age that is known.
    Refused { best_age: Option<Duration> },
    /// Another follower may answer; if it did, it kept every rule.
    Redirected,
}

impl Seen {
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Answered)
    }
}

/// Reads under a bound and judges every answer.
#[derive(Clone)]
pub(crate) struct Checker {
    /// The node that is asked, and its door.
    node: &'static str,
    door: Door,
    /// The followers it may redirect to.
    others: Vec<(&'static str, Door)>,
    bound: Duration,
    commits: Arc<Commits>,
    /// Nothing that was proved after this instant can have reached any follower: the leader was cut off then.
    pub(crate) cut_since: Option<Instant>,
    newest_version: u64,
    pub(crate) answers: usize,
    pub(crate) oldest: Duration,
}

impl Checker {
    /// Asks the node at `index` of a cluster whose leader is n1.
    pub(crate) fn new(cluster: &Cluster, index: usize, bound: Duration, writer: &Writer) -> Self {
        let followers = ["n2", "n3"].into_iter().zip(1..cluster.nodes.len());
        let (mut own, others): (Vec<_>, Vec<_>) = followers
            .map(|(name, at)| (name, cluster.door(at)))
            .partition(|(name, _)| *name == format!("n{}", index + 1));
        let (node, door) = own.pop().expect("a follower");
        let commits = writer.commits.clone();
        Self {
            node,
            door,
            others,
            bound,
            commits,
            cut_since: None,
            newest_version: 0,
            answers: 0,
            oldest: Duration::ZERO,
        }
    }

    /// One read now.
    pub(crate) async fn look(&mut self) -> Seen {
        let start = Instant::now();
        let answer = self.ask(&self.door).await;
        self.judge(&answer, start).await
    }

    /// One read that waits in the node's socket, and cannot have run before `resumed` has an instant.
    pub(crate) async fn look_at_rest(&mut self, resumed: watch::Receiver<Option<Instant>>) -> Seen {
        let answer = self.ask(&self.door).await;
        let start = resumed.borrow().expect("a stopped process does not answer");
        self.judge(&answer, start).await
    }

    async fn ask(&self, door: &Door) -> Answer {
        door.ask(&format!(
            "SELECT count(*), max(n) FROM beats STALENESS {}ms",
            self.bound.as_millis()
        ))
        .await
    }

    async fn judge(&mut self, answer: &Answer, start: Instant) -> Seen {
        match answer.status {
            200 => {
                let (age, version) = self.judge_answer(answer, self.node, start);
                assert!(
                    version >= self.newest_version,
                    "{} goes back in time: {answer:?}",
                    self.node
                );
                self.newest_version = version;
                self.answers += 1;
                self.oldest = self.oldest.max(age);
                Seen::Answered
            }
            307 => {
                self.follow(answer).await;
                Seen::Redirected
            }
            _ => self.judge_refusal(answer),
        }
    }

    /// Where it leads may have changed its mind; if it answers, then by the same rule. Never is it the leader: that
    /// one certainly could, and was not asked.
    async fn follow(&self, answer: &Answer) {
        let target = &answer.body["redirect"];
        assert_eq!(target["kind"], "transient", "{answer:?}");
        let to = self.others.iter().find(|(name, _)| target["node"] == *name);
        let (name, door) = to.unwrap_or_else(|| panic!("S04: redirected to something that is no follower: {answer:?}"));
        let start = Instant::now();
        let there = self.ask(door).await;
        if there.status == 200 {
            self.judge_answer(&there, name, start);
        }
    }

    /// Age and version on the receipt of an answer that keeps every rule.
    fn judge_answer(&self, answer: &Answer, node: &str, start: Instant) -> (Duration, u64) {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let (count, newest) = (number(&answer.rows(0)[0][0]), number(&answer.rows(0)[0][1]));
        let receipt = answer.receipt(0);
        let age = Duration::from_millis(
            receipt["copy_age_ms"]
                .as_u64()
                .expect("an answer under a bound has an age"),
        );
        let told = format!("{newest} of {} writes, {answer:?}", self.commits.count());
        assert_eq!(
            (&receipt["node"], &receipt["role"]),
            (&node.into(), &"follower".into()),
            "{told}"
        );
        assert_eq!(count, newest, "a version is a prefix of the history: {told}");
        assert!(
            age <= self.bound,
            "S04: the age on the receipt is beyond the bound: {told}"
        );
        for (span, what) in [(self.bound, "S04: its bound"), (age, "S66: the age on its receipt")] {
            let due = start
                .checked_sub(span)
                .map_or(0, |instant| self.commits.newest_at(instant));
            assert!(
                newest >= due,
                "an answer older than {what}: {due} were acknowledged {span:?} before; {told}"
            );
        }
        if let Some(cut) = self.cut_since {
            let least = start.saturating_duration_since(cut);
            assert!(
                age >= least,
                "S66: no copy can be younger than the cut, {least:?}: {told}"
            );
        }
        (age, number(&receipt["version"]))
    }

    fn judge_refusal(&self, answer: &Answer) -> Seen {
        assert_eq!((answer.status, answer.code()), (412, "staleness-unmet"), "{answer:?}");
        assert_eq!(
            answer.body["bound_ms"].as_u64().map(Duration::from_millis),
            Some(self.bound),
            "{answer:?}"
        );
        let best_age = answer.body["best_age_ms"].as_u64().map(Duration::from_millis);
        if let Some(best) = best_age {
            assert!(
                best > self.bound,
                "S04: refused although a copy is fresh enough: {answer:?}"
            );
        }
        Seen::Refused { best_age }
    }

    /// Looks until a look gives what `wanted` says.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let deadline = Instant::now() + PATIENCE;
        let mut pace = tokio::time::interval(LOOK_EVERY);
        loop {
            pace.tick().await;
            let seen = self.look().await;
            if wanted(&seen) {
                return seen;
            }
            assert!(
                Instant::now() < deadline,
                "{what} did not come; the last look gave {seen:?}"
            );
        }
    }

    /// Looks until `count` more answers came.
    pub(crate) async fn answers(&mut self, count: usize) {
        let target = self.answers + count;
        while self.answers < target {
            self.until("an answer", Seen::is_answer).await;
        }
    }
}
