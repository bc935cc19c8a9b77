//! Paused processes: the bound is used up, the refusal says so, and nobody wakes up with an old idea of the time.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::freshness::{Checker, Seen, Writer};
use crate::harness::{Cluster, eventually};

const AWARENESS: Duration = Duration::from_millis(250);
const FLOOR_MS: u64 = 500;

/// The rule is the same for 30 s; the test is shorter with 3.
const BOUND: Duration = Duration::from_secs(3);

/// How old a copy may be while nothing is wrong, on a busy machine.
const USUAL_AGE_MAX: Duration = Duration::from_secs(1);

/// Requests that lie in a paused node's socket.
const EARLY: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn s04_s15_s66_reads_go_on_until_a_paused_leader_has_used_the_bound_up() {
    let cluster = Cluster::start(3, AWARENESS, &[]).await;
    let writer = Writer::start(&cluster).await;
    let mut checker = Checker::new(&cluster, 2, BOUND, &writer);
    checker.until("the first answer", Seen::is_answer).await;
    checker.answers(200).await;

    let before = Instant::now();
    cluster.nodes[0].pause().await;
    checker.cut_since = Some(Instant::now());
    let refused_after = until_refused(&mut checker, before).await;
    assert!(
        refused_after >= BOUND.saturating_sub(USUAL_AGE_MAX),
        "reads stopped {refused_after:?} after the pause"
    );

    // Beyond the bound nothing is answered, and the best known age grows.
    for _ in 0..50 {
        let Seen::Refused { best_age } = checker.look().await else {
            panic!("answered beyond the bound")
        };
        assert!(best_age.is_some_and(|age| age > BOUND), "{best_age:?}");
    }
    refusal_names_everything(&cluster).await;
    // The copy is still there for those who ask for no bound, or a wider one.
    let door = cluster.door(2);
    for sql in ["SELECT count(*) FROM beats", "SELECT count(*) FROM beats STALENESS 1h"] {
        assert_eq!(door.ask(sql).await.receipt(0)["node"], "n3");
    }
    // S15: it is level, and it is not the leader.
    assert_eq!(
        door.ask("SELECT count(*) FROM beats ANSWERED BY LEADER").await.status,
        307,
        "S15"
    );

    cluster.nodes[0].resume();
    checker.cut_since = None;
    checker.until("an answer after the pause", Seen::is_answer).await;
    checker.answers(200).await;
    writer.wait_for(100).await;
    println!(
        "paused leader: {} answers judged, the oldest copy {:?}; refused {refused_after:?} after the pause (bound {BOUND:?})",
        checker.answers, checker.oldest
    );
}

/// Looks until the bound is used up here and everywhere; gives the time from `pause` to the first look that this node
/// did not answer itself.
async fn until_refused(checker: &mut Checker, pause: Instant) -> Duration {
    checker.until("the end of the bound", |seen| !seen.is_answer()).await;
    let after = pause.elapsed();
    // n2 may have a copy that is younger by a moment.
    checker
        .until("a refusal", |seen| matches!(seen, Seen::Refused { .. }))
        .await;
    after
}

async fn refusal_names_everything(cluster: &Cluster) {
    let sql = "SELECT count(*) FROM beats STALENESS 3s";
    let refused = cluster.door(2).ask(sql).await;
    assert_eq!(
        (refused.status, refused.code()),
        (412, "staleness-unmet"),
        "{refused:?}"
    );
    assert_eq!(
        (&refused.body["bound_ms"], &refused.body["floor_ms"]),
        (&3000.into(), &FLOOR_MS.into())
    );
    assert_eq!(refused.body["leader"], "n1");
    let words = refused.body["error"].as_str().expect("words");
    assert!(
        words.contains("STALENESS 3s") && words.contains("the floor is 500ms"),
        "{words}"
    );
    let (start, length) = (
        refused.body["span"]["start"].as_u64(),
        refused.body["span"]["length"].as_u64(),
    );
    let (start, length) = (start.expect("a span") as usize, length.expect("a span") as usize);
    assert_eq!(&sql[start..start + length], "STALENESS 3s");
}

#[tokio::test(flavor = "multi_thread")]
async fn s04_s64_s66_a_follower_that_was_paused_does_not_answer_from_its_old_copy() {
    let cluster = Cluster::start(3, AWARENESS, &[]).await;
    let writer = Writer::start(&cluster).await;
    let mut checker = Checker::new(&cluster, 2, BOUND, &writer);
    checker.until("the first answer", Seen::is_answer).await;
    checker.answers(50).await;

    cluster.nodes[2].pause().await;
    let paused = Instant::now();
    // These wait in the socket and are read in the first moment after the pause.
    let (resumed, at) = watch::channel(None);
    let mut looks = JoinSet::new();
    for _ in 0..EARLY {
        let (mut checker, at) = (checker.clone(), at.clone());
        looks.spawn(async move { checker.look_at_rest(at).await });
    }
    leader_dates_the_silent_follower(&cluster, &writer, paused).await;
    assert_eq!(
        looks
            .try_join_next()
            .map(|look| look.expect("a look"))
            .map(|seen| format!("{seen:?}")),
        None,
        "it is stopped"
    );

    resumed.send_replace(Some(Instant::now()));
    cluster.nodes[2].resume();
    let mut refused = 0;
    for _ in 0..100 {
        refused += usize::from(!checker.look().await.is_answer());
    }
    while let Some(seen) = looks.join_next().await {
        refused += usize::from(!seen.expect("the rules hold for requests that waited").is_answer());
    }
    checker.until("an answer after the pause", Seen::is_answer).await;
    checker.answers(50).await;
    println!(
        "paused follower: {refused} of {} first looks were not answered, the others judged fresh",
        EARLY + 100
    );
}

/// While n3 sleeps beyond the bound, n1's row about it never says less than the truth, and hardly more.
async fn leader_dates_the_silent_follower(cluster: &Cluster, writer: &Writer, paused: Instant) {
    let door = cluster.door(0).plain();
    let mut dated = 0;
    eventually("the end of the pause", async || {
        let before = Instant::now();
        let answer = door
            .ask(
                "SELECT position, quiet_for_ms, copy_age_ms FROM system.followers WHERE node = 'n3' AND range = 'main'",
            )
            .await;
        let after = Instant::now();
        if let [row] = answer.rows(0) {
            let version = row[0]
                .as_str()
                .and_then(|position| position.split_once(':')?.1.parse().ok());
            let (held, lacking) = writer.commits.around(version.expect("a position"));
            let quiet = Duration::from_millis(row[1].as_u64().expect("it has asked"));
            // It cannot have asked while it was stopped; a packet may have been on its way.
            let asked_before = before
                .saturating_duration_since(paused)
                .saturating_sub(Duration::from_millis(50));
            assert!(
                quiet >= asked_before,
                "S64: quiet for {quiet:?}, stopped for {:?}",
                before - paused
            );
            if let (Some(age), Some(lacking)) = (row[2].as_u64().map(Duration::from_millis), lacking) {
                let true_age = before.saturating_duration_since(lacking);
                assert!(
                    age + Duration::from_millis(1) >= true_age,
                    "S66: {age:?} understates {true_age:?}"
                );
                let most = held.map(|held| after.duration_since(held) + AWARENESS * 2);
                assert!(most.is_none_or(|most| age <= most), "S66: {age:?} overstates {most:?}");
                dated += 1;
            }
        }
        (paused.elapsed() > BOUND + Duration::from_secs(1)).then_some(())
    })
    .await;
    println!("paused follower: the leader's row was held against the truth {dated} times");
}
