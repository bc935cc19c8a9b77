//! Both machines against each other in virtual time: random commits, delays, pauses and broken streams, all drawn from
//! one seed. Checked after every event: nothing is skipped or applied twice, the follower's window is kept, and the
//! copy age never understates; and, while a stream stands undisturbed, that it overstates by at most one interval.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName, limits};
use candor_storage::Entry;
use proptest::prelude::*;

use super::{Collector, CollectorOutput, Source, SourceOutput, WINDOW_BYTES, weight};
use crate::frame::{Reply, Request};

const INTERVAL: Duration = Duration::from_secs(1);

/// How long nothing happens.
const IDLE: Duration = Duration::from_mins(1);

/// The largest delays, in milliseconds. Together they stay under half an interval: an ask every half interval and its
/// way there and back fit into one.
const NETWORK_MS: u64 = 40;
const PROOF_MS: u64 = 20;
const READ_MS: u64 = 20;
const APPLY_MS: u64 = 60;

#[derive(Debug)]
enum Event {
    Commit,
    ToSource(Request),
    ToFollower(Reply),
    Read { after: u64, upto: u64, max_bytes: usize },
    Proved { tail: u64 },
    Applied,
    Wakeup,
    Break,
    Open,
}

struct World {
    now: Duration,
    random: u64,
    queue: BTreeMap<(Duration, u64), (u64, Event)>,
    scheduled: u64,
    /// The stream that stands; events of earlier ones are lost.
    stream: u64,
    stands_since: Option<Duration>,
    /// Both directions keep their order.
    arrived: [Duration; 2],
    log: Vec<(Duration, Entry)>,
    collector: Collector,
    source: Option<Source>,
    applied: u64,
    applying: Vec<Entry>,
    /// Replies that wait while the follower applies.
    inbox: VecDeque<Reply>,
    in_flight: u64,
    echoes: u64,
}

fn at(index: u64) -> Position {
    Position::new(Epoch(u64::from(index > 0)), LogIndex(index))
}

impl World {
    fn new(seed: u64) -> Self {
        let copy = (Position::ZERO, Chain(0));
        Self {
            now: Duration::ZERO,
            random: seed,
            queue: BTreeMap::new(),
            scheduled: 0,
            stream: 0,
            stands_since: None,
            arrived: [Duration::ZERO; 2],
            log: Vec::new(),
            collector: Collector::new(RangeName::new("main"), RangeId(0), INTERVAL, copy),
            source: None,
            applied: 0,
            applying: Vec::new(),
            inbox: VecDeque::new(),
            in_flight: 0,
            echoes: 0,
        }
    }

    /// A number below `bound` (splitmix64).
    fn draw(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn after(&mut self, most_ms: u64, event: Event) {
        let delay = Duration::from_millis(self.draw(most_ms + 1));
        self.schedule(self.now + delay, event);
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.scheduled += 1;
        self.queue.insert((at, self.scheduled), (self.stream, event));
    }

    fn deliver(&mut self, direction: usize, event: Event) {
        let delay = Duration::from_millis(self.draw(NETWORK_MS + 1));
        let at = (self.now + delay).max(self.arrived[direction]);
        self.arrived[direction] = at;
        self.schedule(at, event);
    }

    fn step(&mut self, (stream, event): (u64, Event)) {
        let world_event = matches!(event, Event::Commit | Event::Break | Event::Open);
        if stream != self.stream && !world_event {
            return;
        }
        match event {
            Event::Commit => self.commit(),
            // Two breaks came before one opening.
            Event::Open if self.stands_since.is_some() => {}
            Event::Open => {
                self.stream += 1;
                self.stands_since = Some(self.now);
                self.arrived = [self.now; 2];
                self.collector.handle_opened(self.now);
            }
            Event::Break => {
                self.stream += 1;
                self.stands_since = None;
                self.source = None;
                self.inbox.clear();
                self.applying.clear();
                self.in_flight = 0;
                self.collector.handle_closed();
                self.after(3000, Event::Open);
            }
            Event::ToSource(request) => self.source_hears(request),
            Event::Read { after, upto, max_bytes } => self.read(after, upto, max_bytes),
            Event::Proved { tail } => {
                let source = self.source.as_mut().expect("a proof belongs to a stream");
                source.handle_confirmed(at(tail));
            }
            Event::ToFollower(reply) => self.inbox.push_back(reply),
            Event::Applied => self.applied(),
            Event::Wakeup => self.collector.handle_time(self.now),
        }
        self.perform_source();
        self.perform_follower();
    }

    fn commit(&mut self) {
        let index = self.log.len() as u64 + 1;
        let big = self.draw(20) == 0;
        let size = self.draw(if big { 600_000 } else { 200 }) as usize;
        let entry = Entry::chained(Chain(0), at(index), 2, Bytes::from(vec![0; size]));
        self.log.push((self.now, entry));
        if let Some(source) = &mut self.source {
            source.handle_tail(at(index));
        }
    }

    fn source_hears(&mut self, request: Request) {
        let tail = at(self.log.len() as u64);
        match request {
            Request::Collect(collect) => self.source = Some(Source::new(collect.ask, collect.max_bytes, tail)),
            Request::Ask(ask) => {
                let source = self.source.as_mut().expect("a stream begins with Collect");
                source.handle_ask(ask).expect("an honest ask");
            }
            Request::Greet(_) => unreachable!("not on this stream"),
        }
    }

    fn read(&mut self, after: u64, upto: u64, max_bytes: usize) {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (_, entry) in &self.log[after as usize..upto as usize] {
            bytes += entry.payload.len();
            if !entries.is_empty() && bytes > max_bytes {
                break;
            }
            entries.push(entry.clone());
        }
        self.source
            .as_mut()
            .expect("a read belongs to a stream")
            .handle_entries(entries);
    }

    fn perform_source(&mut self) {
        while let Some(output) = self.source.as_mut().and_then(Source::poll_output) {
            match output {
                SourceOutput::Read { after, upto, max_bytes } => {
                    let (after, upto) = (after.0, upto.0);
                    self.after(READ_MS, Event::Read { after, upto, max_bytes });
                }
                SourceOutput::Confirm => {
                    // The proof may read the tail at its beginning; commits may land before its answer.
                    let tail = self.log.len() as u64;
                    self.after(PROOF_MS, Event::Proved { tail });
                }
                SourceOutput::Send(reply) => {
                    if let Reply::Answer(answer) = &reply {
                        self.in_flight += weight(&answer.entries);
                        self.echoes += u64::from(answer.echo.is_some());
                        // One answer may overdraw the window; small entries weigh up to twice what was asked for.
                        let limit = u64::from(WINDOW_BYTES + 2 * limits::COLLECT_BYTES_MAX);
                        assert!(self.in_flight <= limit, "{} bytes travel or wait", self.in_flight);
                        let tail = answer.tail.index.0;
                        let last = answer.entries.last().map(|entry| entry.position.index.0);
                        if let Some(last) = last {
                            assert_eq!(answer.more, last < tail, "says when it stopped early");
                        }
                    }
                    self.deliver(1, Event::ToFollower(reply));
                }
            }
        }
    }

    /// Like the driver: while it applies, replies wait.
    fn perform_follower(&mut self) {
        while self.applying.is_empty() {
            while let Some(output) = self.collector.poll_output() {
                match output {
                    CollectorOutput::Send(request) => self.deliver(0, Event::ToSource(request)),
                    CollectorOutput::Apply(entries) => self.applying.extend(entries),
                    other => panic!("{other:?}"),
                }
            }
            if !self.applying.is_empty() {
                self.after(APPLY_MS, Event::Applied);
                return;
            }
            let Some(reply) = self.inbox.pop_front() else { break };
            self.collector.handle_time(self.now);
            self.collector.handle_reply(self.now, reply).expect("an honest source");
        }
        if let Some(due) = self.collector.next_wakeup()
            && self.applying.is_empty()
        {
            self.schedule(due.max(self.now), Event::Wakeup);
        }
    }

    fn applied(&mut self) {
        for entry in std::mem::take(&mut self.applying) {
            assert_eq!(entry.position.index.0, self.applied + 1, "no gap and nothing twice");
            self.applied += 1;
            self.in_flight -= weight(std::slice::from_ref(&entry));
        }
        self.collector.handle_applied(at(self.applied), Chain(0));
    }

    fn check(&self) {
        let lacking = self.log.get(self.applied as usize);
        let true_age = lacking.map_or(Duration::ZERO, |(committed, _)| self.now.saturating_sub(*committed));
        let Some(fresh_at) = self.collector.fresh_at() else {
            return;
        };
        let age = self.now.saturating_sub(fresh_at);
        assert!(age >= true_age, "understated: {age:?} < {true_age:?} at {:?}", self.now);
        let settled = self.stands_since.is_some_and(|since| self.now > since + 2 * INTERVAL);
        let level = self.applied + 3 > self.log.len() as u64;
        if settled && level {
            assert!(
                age <= true_age + INTERVAL,
                "overstated: {age:?} > {true_age:?} + 1 interval at {:?}",
                self.now
            );
        }
    }

    fn run(&mut self, until: Duration) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > until {
                break;
            }
            // Between two events ages only grow, the true ones as well: the instant before the next is the worst.
            self.now = at;
            self.check();
            self.step(event);
            self.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn s65_s66_s75_copies_grow_without_gaps_and_their_age_is_an_upper_bound(
        seed in any::<u64>(),
        gap_ms in 1u64..1500,
        breaks in 0u64..4,
    ) {
        let mut world = World::new(seed);
        let until = Duration::from_secs(30);
        let mut at = Duration::ZERO;
        while at < until {
            world.schedule(at, Event::Commit);
            at += Duration::from_millis(1 + world.draw(2 * gap_ms));
        }
        for _ in 0..breaks {
            let at = Duration::from_millis(world.draw(25_000));
            world.schedule(at, Event::Break);
        }
        if breaks == 0 {
            world.schedule(Duration::from_millis(500), Event::Open);
        }
        world.run(until);
        prop_assert!(world.echoes > 0);
    }

    /// Commits stop: the follower becomes level and its age stays within one interval, with nothing to collect.
    #[test]
    fn s65_a_level_idle_copy_stays_younger_than_one_interval(seed in any::<u64>(), commits in 0u64..50) {
        let mut world = World::new(seed);
        for n in 0..commits {
            world.schedule(Duration::from_millis(n), Event::Commit);
        }
        world.schedule(Duration::from_millis(10), Event::Open);
        world.run(IDLE);
        prop_assert_eq!(world.applied, commits);
        let age = IDLE.saturating_sub(world.collector.fresh_at().expect("proved"));
        prop_assert!(age <= INTERVAL, "{age:?}");
    }
}
