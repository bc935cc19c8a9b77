//! `serve` and `cert`: options from four places, the ready line, the end.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{Node, Running, candor, run};

#[test]
fn a_node_says_when_it_is_ready_and_stops_when_it_is_asked_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let ran = Node::start().stop(signal);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            ran.stdout.lines().count(),
            1,
            "nothing but the ready line: {}",
            ran.stdout
        );
    }
}

#[test]
fn a_node_ends_with_whoever_started_it() {
    let data = tempfile::tempdir().expect("a folder");
    let mut node = Running::start(crate::harness::serve(data.path()).arg("--stop-with-parent"));
    node.wait_for(" ready  ");
    // Closing the input is all that a parent does that ends.
    assert_eq!(node.finish().code, Some(0));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("candor.toml");
    let text = format!(
        "name = 'from-file'\nhttp = '127.0.0.1:0'\ndata = '{}'\n",
        folder.path().join("data").display()
    );
    fs::write(&file, text).expect("written");
    let ready = |extra: &[&str], variable: Option<&str>| {
        let mut command = candor();
        command.arg("serve").arg("--config").arg(&file).args(extra);
        if let Some(name) = variable {
            command.env("CANDOR_NAME", name);
        }
        let mut node = Running::start(&mut command);
        let line = node.wait_for(" ready  ");
        node.signal(Signal::TERM);
        assert_eq!(node.finish().code, Some(0));
        line
    };
    assert!(ready(&[], None).starts_with("candor from-file ready"));
    fs::remove_dir_all(folder.path().join("data")).expect("another node's data");
    assert!(ready(&[], Some("from-env")).starts_with("candor from-env ready"));
    fs::remove_dir_all(folder.path().join("data")).expect("another node's data");
    assert!(ready(&["--name", "from-flag"], Some("from-env")).starts_with("candor from-flag ready"));
}

#[test]
fn what_is_wrong_in_the_options_is_named_and_is_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("candor.toml");
    fs::write(&file, "nmae = 'n1'").expect("written");
    let file = file.to_string_lossy().into_owned();
    for (arguments, says) in [
        (&["serve"][..], "--name"),
        (&["serve", "--name", "n1"], "--data"),
        (
            &["serve", "--name", "n1", "--data", "d", "--awareness", "soon"],
            "awareness",
        ),
        (&["serve", "--config", &file], "nmae"),
        (&["serve", "--config", "/nowhere.toml"], "/nowhere.toml"),
        (&["serve", "--nmae", "n1"], "--nmae"),
        (&["nonsense"], "nonsense"),
        (&["sql", "--format", "xml"], "xml"),
        (&["sql", "--timeout", "soon"], "timeout"),
        (
            &["sql", "http://user:secret@127.0.0.1:7401", "-c", "SELECT 1"],
            "user name",
        ),
        (&["demo", "--nodes", "0"], "--nodes"),
        (&["tidy", &file], "no demo's folder"),
    ] {
        let ran = run(candor().args(arguments), "");
        assert_eq!(ran.code, Some(3), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("secret"), "a password was printed");
    }
    assert!(Path::new(&file).exists(), "a file that is no demo's was removed");
}

#[test]
fn an_address_in_use_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let data = tempfile::tempdir().expect("a folder");
    let address = taken.local_addr().expect("bound").to_string();
    let ran = run(
        candor()
            .args(["serve", "--name", "n1", "--http", &address, "--data"])
            .arg(data.path()),
        "",
    );
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains(&address), "{}", ran.stderr);
}

#[test]
fn certificates_are_made_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("certs");
    let cert = |arguments: &[&str]| run(candor().arg("cert").args(arguments), "");
    let path = dir.to_string_lossy().into_owned();
    assert_eq!(
        cert(&["init", &path, "--node", "n1", "--hosts", "127.0.0.1,localhost"]).code,
        Some(0)
    );
    assert_eq!(cert(&["issue", &path, "--node", "n2"]).code, Some(0));
    for file in ["ca.pem", "ca.key", "n1.pem", "n1.key", "n2.pem", "n2.key"] {
        assert!(dir.join(file).exists(), "{file}");
    }
    let again = cert(&["init", &path, "--node", "n1"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
}

#[test]
fn the_deepest_statements_end_no_node() {
    let node = Node::start();
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("SELECT {}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let deep = [
        nested("(", "1", ")", 99),
        nested("abs(", "1", ")", 99),
        nested("CASE WHEN 1 = 1 THEN ", "1", " END", 45),
        format!("SELECT 1{}", " + 1".repeat(400)),
        format!("SELECT 1 = 1{}", " AND 1 = 1".repeat(400)),
        format!("SELECT 1{}", "::int".repeat(400)),
        nested("- ", "1", "", 100_000),
        format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(90)),
    ];
    for sql in &deep {
        let ran = node.sql(&[], &format!("{sql};"));
        assert!(matches!(ran.code, Some(0 | 1)), "{}…: {}", &sql[..40], ran.stderr);
    }
    let alive = node.sql(&["-c", "SELECT 'alive' AS a", "--format", "tsv"], "");
    assert_eq!(
        (alive.code, alive.stdout.trim_end()),
        (Some(0), "a\nalive"),
        "{}",
        alive.stderr
    );
}
