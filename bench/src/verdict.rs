//! What `candor_planner::admit` costs a statement that meets 100 peers.

use std::hint::black_box;
use std::time::{Duration, Instant};

use candor_planner::{Heard, OwnCopy, OwnView, PeerView, Requirement, View, admit};
use candor_proto::{
    Chain, Epoch, LogIndex, Mode, NodeName, PeerRole, Position, RangeId, RangeName, RangeReport, limits,
};

const PEERS: u64 = 100;

/// Calls that are timed together: one call is shorter than the clock's own cost.
const BATCH: u32 = 100;
const BATCHES: usize = 5_000;

/// Prints one line for each kind of verdict.
pub(crate) fn measure() {
    println!("\nverdict: one call of admit with {PEERS} peers, in batches of {BATCH}");
    let fresh = view(Duration::from_secs(1));
    let old = view(Duration::from_hours(1));
    let bound = Duration::from_secs(30);
    let cases = [
        ("read, no clause, here", Requirement::read("main"), &fresh),
        ("STALENESS 30s, here", Requirement::read("main").within(bound), &fresh),
        (
            "STALENESS 30s, redirect to the best of all",
            Requirement::read("main").within(bound),
            &old,
        ),
        (
            "STALENESS 2s, refused after all",
            Requirement::read("main").within(Duration::from_secs(2)),
            &old,
        ),
        (
            "ANSWERED BY LEADER, redirect",
            Requirement::read("main").by_leader(),
            &fresh,
        ),
        ("write, redirect", Requirement::write("main"), &fresh),
    ];
    for (name, requirement, view) in cases {
        println!(
            "  {name:<44} {}",
            crate::samples::Samples::new(time(&requirement, view))
        );
    }
}

/// Time of one call, once for each batch.
fn time(requirement: &Requirement, view: &View) -> Vec<Duration> {
    (0..BATCHES)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..BATCH {
                black_box(admit(black_box(requirement), black_box(view)));
            }
            started.elapsed() / BATCH
        })
        .collect()
}

/// What a follower knows whose own copy is `age` old: a leader and many followers, most of them too old for 2 s.
fn view(age: Duration) -> View {
    View {
        floor: limits::staleness_floor(limits::AWARENESS_INTERVAL),
        awareness: limits::AWARENESS_INTERVAL,
        own: OwnView {
            node: NodeName::new("n0"),
            region: Some("eu".to_owned()),
            known_epoch: Epoch(3),
            copy: Some(OwnCopy {
                leads: false,
                position: Position::new(Epoch(3), LogIndex(1000)),
                horizon: LogIndex::ZERO,
                copy_age: Some(age),
            }),
        },
        peers: (1..=PEERS).map(peer).collect(),
    }
}

fn peer(number: u64) -> PeerView {
    let leads = number == PEERS;
    PeerView {
        node: NodeName::new(format!("n{number}")),
        at: format!("10.0.0.{number}:7501"),
        clients_at: None,
        http_at: Some(format!("10.0.0.{number}:7401")),
        roles: vec![if leads { PeerRole::Writable } else { PeerRole::Readable }],
        region: Some(if number.is_multiple_of(2) { "eu" } else { "us" }.to_owned()),
        linked: true,
        heard: Some(Heard {
            ago: Duration::from_millis(number * 7 % 1000),
            report: Some(RangeReport {
                range: RangeName::new("main"),
                range_id: RangeId(7),
                leads,
                epoch: Epoch(3),
                position: Position::new(Epoch(3), LogIndex(1000 + number)),
                chain: Chain(number.into()),
                copy_age: Some(if leads {
                    Duration::ZERO
                } else {
                    Duration::from_secs(2 + number)
                }),
            }),
            draining: false,
            mode: Mode::Normal,
        }),
    }
}
