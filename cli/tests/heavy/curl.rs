//! curl, the client that everybody has: what a follower's 307 does for it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::Cluster;

const AWARENESS: Duration = Duration::from_millis(250);

/// The bulky script: this many rows with this many bytes each, 20 MB in all.
const BULK_ROWS: usize = 2_000;
const BULK_NOTE_BYTES: usize = 10_000;

/// Credentials of every kind that curl sends; none may stand in an answer.
const SECRETS: [&str; 3] = ["bearer-hunter2", "cookie-hunter3", "word-hunter4"];

/// What curl printed: head and body, and whether it called that a success.
struct Printed {
    ok: bool,
    text: String,
}

impl Printed {
    /// The last body of the answer.
    fn body(&self) -> Value {
        assert!(self.ok, "{}", self.text);
        let body = self.text.rsplit("\r\n\r\n").next().unwrap_or_default();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The last head; an earlier one may be `100 Continue`.
    fn head(&self) -> &str {
        self.text
            .split("\r\n\r\n")
            .filter(|part| part.starts_with("HTTP/"))
            .last()
            .unwrap_or_default()
    }

    fn status(&self) -> u16 {
        self.head()
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head().lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }
}

/// `curl -sS` with namespace and database, a script, and these further arguments.
fn curl(url: &str, script: Script<'_>, arguments: &[&str]) -> Printed {
    let data = match script {
        Script::Text(text) => text.to_owned(),
        Script::File(path) => format!("@{}", path.display()),
    };
    let mut command = Command::new("curl");
    command
        .args(["-q", "-sS", "-i", "--max-time", "120", "--noproxy", "*"])
        .args(arguments);
    command.args([
        "-H",
        "Candor-Namespace: main",
        "-H",
        "Candor-Database: main",
        "--data-binary",
        &data,
        url,
    ]);
    let output = command.output().expect("curl runs");
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    Printed {
        ok: output.status.success(),
        text,
    }
}

#[derive(Clone, Copy)]
enum Script<'a> {
    Text(&'a str),
    File(&'a Path),
}

const FOLLOW: [&str; 2] = ["-L", "--location-trusted"];

#[tokio::test(flavor = "multi_thread")]
async fn s18_s24_s26_s27_s44_s45_curl_is_redirected_to_the_leader_and_answered() {
    if Command::new("curl").arg("--version").output().is_err() {
        // Straight to the stream: the test runner shows what a passing test prints to nobody.
        let _ = writeln!(std::io::stderr(), "skipped: there is no curl");
        return;
    }
    let cluster = Cluster::start(3, AWARENESS, &[]).await;
    let version = cluster
        .door(0)
        .run("CREATE TABLE t (id BIGINT PRIMARY KEY, note TEXT)")
        .await;
    for node in [1, 2] {
        cluster
            .door(node)
            .run(&format!("SELECT count(*) FROM t AT LEAST VERSION {version} WAIT 30s"))
            .await;
    }
    let url = format!("{}/sql?trace=%20a&b=1", cluster.door(1).url());
    let leader = format!("{}/sql?trace=%20a&b=1", cluster.door(0).url());
    for (sql, reason) in [
        ("INSERT INTO t VALUES (1, 'by curl')", "write"),
        ("SELECT count(*) FROM t ANSWERED BY LEADER", "answered_by_leader"),
    ] {
        shows_a_307(&url, &leader, sql, reason);
        // The same body again, at the leader, with the same method: so the row is written once.
        let followed = curl(&url, Script::Text(sql), &FOLLOW).body();
        let receipt = &followed["results"][0]["receipt"];
        assert_eq!(
            (&receipt["node"], &receipt["role"]),
            (&"n1".into(), &"leader".into()),
            "{followed}"
        );
    }
    assert_eq!(cluster.door(0).ask("SELECT count(*) FROM t").await.rows(0)[0][0], 1);

    let bulk = bulky_script(cluster.folder());
    // curl asks before it sends a body of this size, unless it is told not to.
    for (round, expect) in ["Expect: 100-continue", "Expect:"].into_iter().enumerate() {
        let redirect = curl(&url, Script::File(&bulk), &["-H", expect]);
        assert!(redirect.ok, "`{expect}`: {}", redirect.text);
        assert_eq!(
            (redirect.status(), redirect.header("location")),
            (307, Some(leader.as_str())),
            "`{expect}`"
        );
        let followed = curl(&url, Script::File(&bulk), &[&FOLLOW[..], &["-H", expect]].concat()).body();
        assert_eq!(
            followed["results"][0]["rows_affected"], BULK_ROWS,
            "`{expect}`: {followed}"
        );
        assert_eq!(followed["results"][0]["receipt"]["node"], "n1", "`{expect}`");
        let wiped = cluster
            .door(0)
            .ask("SELECT count(*), sum(length(note)) FROM t WHERE id > 1; DELETE FROM t WHERE id > 1")
            .await;
        assert_eq!(
            wiped.rows(0),
            [serde_json::json!([BULK_ROWS, BULK_ROWS * BULK_NOTE_BYTES])],
            "round {round}"
        );
    }
}

/// Without -L: the status, where to go, the facts, and none of the secrets that were sent.
fn shows_a_307(url: &str, leader: &str, sql: &str, reason: &str) {
    let secrets = [
        format!("Authorization: Bearer {}", SECRETS[0]),
        format!("Cookie: session={}", SECRETS[1]),
        format!("X-Api-Key: {}", SECRETS[2]),
    ];
    let headers: Vec<&str> = secrets.iter().flat_map(|header| ["-H", header.as_str()]).collect();
    let in_url = url.replace("http://", &format!("http://somebody:{}@", SECRETS[2]));
    for (url, arguments) in [(url, headers.as_slice()), (in_url.as_str(), &[])] {
        let shown = curl(url, Script::Text(sql), arguments);
        assert_eq!(shown.status(), 307, "S26: {}", shown.text);
        assert_eq!(
            shown.header("location"),
            Some(leader),
            "S24: absolute, path and query byte for byte"
        );
        assert_eq!(shown.header("cache-control"), Some("no-store"));
        let body = shown.body();
        assert_eq!(
            (&body["redirect"]["node"], &body["redirect"]["reason"]),
            (&"n1".into(), &reason.into())
        );
        assert!(
            body["retry_with"]
                .as_str()
                .is_some_and(|line| line.contains("--location-trusted")),
            "{body}"
        );
        for secret in SECRETS.iter().chain(&["somebody"]) {
            assert!(
                !shown.text.contains(secret),
                "{secret} stands in the answer: {}",
                shown.text
            );
        }
        // Basic credentials travel as base64 of the pair.
        assert!(!shown.text.contains("c29tZWJvZHk"), "{}", shown.text);
    }
}

fn bulky_script(folder: &Path) -> PathBuf {
    let mut sql = String::from("INSERT INTO t VALUES ");
    let note = "x".repeat(BULK_NOTE_BYTES);
    for row in 0..BULK_ROWS {
        let comma = if row == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(sql, "{comma}({}, '{note}')", row + 2);
    }
    let path = folder.join("bulk.sql");
    fs::write(&path, sql).expect("a file");
    path
}
