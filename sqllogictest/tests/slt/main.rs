//! Our own suites, against one node and at a follower.

use std::time::Duration;

use candor_proto::limits::AWARENESS_INTERVAL;
use candor_sqllogictest::{Cluster, Mode, NodeOptions, Origin, Report, candor_binary, run_origin};

async fn run(origin: &Origin, mode: Mode, awareness: Duration) -> Report {
    let binary = candor_binary().expect("the candor program");
    let options = NodeOptions {
        binary,
        working_folder: origin.working_folder().to_owned(),
        awareness,
        arguments: Vec::new(),
    };
    let cluster = Cluster::start(&options, mode).await.expect("nodes");
    let report = run_origin(origin, &cluster, "").await.expect("a run to the end");
    println!("{report}");
    assert!(report.is_clean(), "{}", report.differences());
    assert!(report.right() > 0, "no record was run");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn own_suites_on_one_node() {
    run(&Origin::own(), Mode::Node, AWARENESS_INTERVAL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_suites_at_a_follower() {
    let report = run(&Origin::own(), Mode::Follower, AWARENESS_INTERVAL).await;
    assert!(
        report.read_at_follower > report.read_at_leader,
        "the reads were to be answered by the follower"
    );
}

/// S07: the floor is twice the awareness interval, whatever that is.
#[tokio::test(flavor = "multi_thread")]
async fn the_floor_follows_the_awareness_interval() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("awareness_250ms");
    run(
        &Origin::of_folder("awareness_250ms", folder),
        Mode::Node,
        Duration::from_millis(250),
    )
    .await;
}
