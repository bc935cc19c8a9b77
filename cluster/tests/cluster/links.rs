//! Who may talk to whom.

use candor_cluster::{ClusterConfig, ClusterError, Node, certs};
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DnType, Issuer, KeyPair, SanType};

use crate::support::{AWARENESS, insert};
use crate::support::{Fleet, any_port, declare, define, eventually, name, range, reaches, shutdown, undeclare};

/// What `node` says about its link to the only peer it declared.
fn problem(node: &Node) -> Option<String> {
    node.peers().first().and_then(|peer| peer.problem.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (Fleet::new(&["n1"]), Fleet::new(&["n2"]));
    let (n1, n2) = (ours.start("n1").await, theirs.start("n2").await);
    define(&n1, "main").await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    eventually("the link is refused", || problem(&n2).is_some()).await;
    let words = problem(&n2).expect("refused");
    assert!(words.contains("certificate"), "{words}");
    assert!(!n2.peers()[0].linked);
    assert!(n2.store(&range("main")).is_none() && n2.peers()[0].state.is_none());
    assert!(n1.followers(&range("main")).is_empty());
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_our_authority_for_another_cluster_is_refused() {
    let fleet = Fleet::new(&["n1"]);
    let n1 = fleet.start("n1").await;
    define(&n1, "main").await;
    // The authority is asked to sign what `candor cert` never would.
    let read = |file: &str| std::fs::read_to_string(fleet.certs().join(file)).expect("read");
    let key = KeyPair::from_pem(&read("ca.key")).expect("key");
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), key).expect("authority");
    let mut params = CertificateParams::new(vec!["n2".to_owned()]).expect("params");
    let uri = format!("candor://{}/n2", "f".repeat(32));
    params
        .subject_alt_names
        .push(SanType::URI(Ia5String::try_from(uri).expect("ascii")));
    params.distinguished_name.push(DnType::CommonName, "n2");
    let key = KeyPair::generate().expect("key");
    let certificate = params.signed_by(&key, &issuer).expect("signed");
    std::fs::write(fleet.certs().join("n2.pem"), certificate.pem()).expect("write");
    std::fs::write(fleet.certs().join("n2.key"), key.serialize_pem()).expect("write");

    let n2 = fleet.start("n2").await;
    // Dialled, n1 turns it away; and n1 does not take it for the n2 it dials.
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    declare(&n1, "n2", n2.link_addr().expect("listens")).await;
    for node in [&n1, &n2] {
        eventually("the link is refused", || problem(node).is_some()).await;
        assert!(
            problem(node).expect("refused").contains("cluster"),
            "{:?}",
            problem(node)
        );
        assert!(node.peers()[0].state.is_none());
    }
    assert!(n2.store(&range("main")).is_none());
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_answers_at_anothers_address_is_not_taken_for_it() {
    let fleet = Fleet::new(&["n1", "n2", "n3"]);
    let (n1, n3) = (fleet.start("n1").await, fleet.start("n3").await);
    define(&n3, "main").await;
    declare(&n1, "n2", n3.link_addr().expect("listens")).await;
    eventually("the link is refused", || problem(&n1).is_some()).await;
    assert!(
        problem(&n1).expect("refused").contains("certificate"),
        "{:?}",
        problem(&n1)
    );
    assert!(n1.store(&range("main")).is_none());
    shutdown(&[&n1, &n3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_follow_the_declarations_at_run_time() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    declare(&n2, "n1", any_port()).await;
    eventually("nobody is there", || problem(&n2).is_some()).await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    let written = insert(&n1, "main", 0..3, 8).await;
    reaches(&n2, "main", &written).await;
    undeclare(&n2, "n1").await;
    assert!(n2.peers().is_empty());
    assert!(n2.view(&range("main")).peers.is_empty());
    eventually("nobody is followed", || n2.upstream(&range("main")).is_none()).await;
    let missed = insert(&n1, "main", 3..6, 8).await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    reaches(&n2, "main", &missed).await;
    shutdown(&[&n1, &n2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s55_who_leads_is_answered_while_the_leader_is_gone() {
    let fleet = Fleet::new(&["n1", "n2"]);
    let (n1, n2) = (fleet.start("n1").await, fleet.start("n2").await);
    define(&n1, "main").await;
    declare(&n2, "n1", n1.link_addr().expect("listens")).await;
    let written = insert(&n1, "main", 0..3, 8).await;
    reaches(&n2, "main", &written).await;
    let age = || n2.view(&range("main")).own.copy.and_then(|copy| copy.copy_age);
    // Level is not yet dated: the copy has an age once the leader's next word has come.
    eventually("the copy is dated", || age().is_some()).await;
    n1.shutdown().await;
    eventually("the link is down", || !n2.peers()[0].linked).await;
    let view = n2.view(&range("main"));
    let report = view.peers[0].report().expect("still known");
    assert!(report.leads);
    let copy_age = view.own.copy.and_then(|copy| copy.copy_age).expect("was fresh");
    eventually("the copy ages", || age() > Some(copy_age + 5 * AWARENESS)).await;
    n2.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_certificate_does_not_start_and_says_which_file() {
    let fleet = Fleet::new(&["n1"]);
    let error = Node::start(fleet.config("n9", any_port()))
        .await
        .expect_err("no certificate");
    assert!(matches!(error, ClusterError::Certificate(certs::CertError::Io { .. })));
    assert!(error.to_string().contains("n9.pem"), "{error}");
    let cfg = ClusterConfig::new(name("N9"), fleet.data("N9"));
    assert!(matches!(Node::start(cfg).await, Err(ClusterError::Name(_))));
}
