//! `sql` in scripts: exit codes, streams, formats, errors.

use std::net::TcpListener;

use rustix::process::Signal;

use crate::harness::{Node, Running, candor, run};

const TABLE: &str = "CREATE TABLE t (id BIGINT PRIMARY KEY, note TEXT); \
                     INSERT INTO t VALUES (1, 'a'), (9007199254740993, NULL), (3, '');";

#[test]
fn exit_codes_tell_scripts_what_happened() {
    let node = Node::start();
    for (sql, code) in [
        ("SELECT 1", 0),
        ("SELEC 1", 1),
        ("SELECT * FROM nowhere", 1),
        ("", 0),
        ("SELECT 1; SELECT 2", 0),
    ] {
        let ran = node.sql(&["-c", sql], "");
        assert_eq!(ran.code, Some(code), "{sql}: {}", ran.stderr);
        assert_eq!(node.sql(&[], sql).code, Some(code), "{sql} on standard input");
    }
    let port = TcpListener::bind("127.0.0.1:0")
        .expect("bound")
        .local_addr()
        .expect("bound")
        .port();
    let ran = run(
        candor().args(["sql", &format!("http://127.0.0.1:{port}"), "-c", "SELECT 1"]),
        "",
    );
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn a_script_stops_at_its_first_error_unless_it_says_otherwise() {
    let node = Node::start();
    let script = "SELECT 1 AS a;\nSELECT nope;\nSELECT 2 AS b;\n";
    let stopped = node.sql(&[], script);
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (Some(1), "a\n1\n"),
        "{}",
        stopped.stderr
    );
    for ran in [
        node.sql(&[], &format!("\\set on_error continue\n{script}")),
        node.sql(&["--on-error", "continue"], script),
        node.sql(
            &[
                "--on-error",
                "continue",
                "-c",
                "SELECT 1 AS a",
                "-c",
                "SELECT nope; SELECT 2 AS b",
            ],
            "",
        ),
    ] {
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(1), "a\n1\nb\n2\n"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn programs_get_rows_and_nothing_else() {
    let node = Node::start();
    let made = node.sql(&["-c", TABLE], "");
    assert_eq!(
        (made.code, made.stdout.as_str(), made.stderr.as_str()),
        (Some(0), "", "")
    );
    let query = "SELECT id, note FROM t ORDER BY id";
    for (format, rows) in [
        ("tsv", "id\tnote\n1\ta\n3\t\n9007199254740993\t\\N\n"),
        ("csv", "id,note\n1,a\n3,\"\"\n9007199254740993,\n"),
        (
            "ndjson",
            "{\"id\":1,\"note\":\"a\"}\n{\"id\":3,\"note\":\"\"}\n{\"id\":\"9007199254740993\",\"note\":null}\n",
        ),
        (
            "json",
            "[{\"id\":1,\"note\":\"a\"},{\"id\":3,\"note\":\"\"},{\"id\":\"9007199254740993\",\"note\":null}]\n",
        ),
    ] {
        let ran = node.sql(&["--format", format, "-c", query], "");
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), rows, ""),
            "{format}"
        );
    }
    assert_eq!(
        node.sql(&["-c", query], "").stdout,
        "id\tnote\n1\ta\n3\t\n9007199254740993\t\\N\n",
        "the default"
    );
    let table = node.sql(&["--format", "table", "-c", "SELECT id, note FROM t WHERE id = 1"], "");
    assert_eq!(
        table.stdout,
        "+----+------+\n| id | note |\n+----+------+\n|  1 | a    |\n+----+------+\n"
    );
}

#[test]
fn an_error_points_at_the_word_and_writes_to_standard_error_only() {
    let node = Node::start();
    let ran = node.sql(&["-c", "SELECT 1 AS a STALENESS 0s"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("SELECT 1 AS a STALENESS 0s"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "escape codes where no terminal is");
    let source = ran
        .stderr
        .lines()
        .position(|line| line.contains("STALENESS 0s") && line.contains('│'))
        .expect("the source");
    let mark = ran.stderr.lines().nth(source + 1).expect("a mark under it");
    assert!(
        mark.contains('─') || mark.contains('┬') || mark.contains('▲'),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_session_lasts_as_long_as_its_script() {
    let node = Node::start();
    assert_eq!(node.sql(&["-c", TABLE], "").code, Some(0));
    let script = "BEGIN;\nINSERT INTO t VALUES (4, 'x');\nROLLBACK;\nBEGIN;\nINSERT INTO t VALUES (5, 'y');\nCOMMIT;\n\
                  SET staleness = '30s';\nSHOW staleness;\nSELECT count(*) AS n FROM t WHERE id IN (4, 5);\n";
    let ran = node.sql(&[], script);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "staleness\n30s\nn\n1\n"),
        "{}",
        ran.stderr
    );
    let sessions = node.sql(&["-c", "SELECT open FROM system.sessions"], "");
    assert_eq!(sessions.stdout, "open\n1\n", "those that left hold nothing");
}

#[test]
fn files_and_commands_of_the_shell_work_in_scripts() {
    let node = Node::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (inner, outer, rows) = (
        folder.path().join("inner.sql"),
        folder.path().join("outer.sql"),
        folder.path().join("rows.tsv"),
    );
    std::fs::write(&inner, "SELECT 2 AS b;\n").expect("written");
    let text = format!(
        "SELECT 1 AS a;\n\\i {}\n\\o {}\nSELECT 3 AS c;\n\\o\n.mode csv\nSELECT 4 AS d -- the last one needs no semicolon\n",
        inner.display(),
        rows.display()
    );
    std::fs::write(&outer, text).expect("written");
    let ran = node.sql(&["-f", &outer.to_string_lossy()], "");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "a\n1\nb\n2\nd\n4\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read_to_string(&rows).expect("written"), "c\n3\n");

    assert_eq!(node.sql(&["-c", TABLE], "").code, Some(0));
    let listed = node.sql(&["-c", "\\dt", "-c", "\\d t"], "");
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.starts_with("name\tkind\nt\ttable\n"), "{}", listed.stdout);
    assert!(
        listed.stdout.contains("id\tBIGINT\tno\t\\N\tprimary\n"),
        "{}",
        listed.stdout
    );
    assert!(
        listed.stdout.contains("note\tTEXT\tyes\t\\N\t\\N\n"),
        "{}",
        listed.stdout
    );
    let made = node.sql(&["-c", ".schema", "-c", "\\l"], "");
    assert!(
        made.stdout
            .contains("CREATE TABLE t (\n    id BIGINT NOT NULL,\n    note TEXT,\n"),
        "{}",
        made.stdout
    );
    assert!(made.stdout.contains("main\tmain\tn1\t1\n"), "{}", made.stdout);
    let unknown = node.sql(&["-c", "\\d nowhere"], "");
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("nowhere"), "{}", unknown.stderr);
    let viewed = node.sql(
        &[
            "-c",
            "CREATE VIEW v AS SELECT id FROM t",
            "-c",
            "\\d v",
            "-c",
            ".schema v",
        ],
        "",
    );
    assert_eq!(viewed.code, Some(0), "{}", viewed.stderr);
    assert!(
        viewed.stdout.contains("id\t") && viewed.stdout.contains("CREATE VIEW v AS "),
        "{}",
        viewed.stdout
    );
    let wrong = node.sql(&["-c", "\\nonsense"], "");
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("\\nonsense"), "{}", wrong.stderr);
}

#[test]
fn ctrl_c_leaves_a_script_with_its_own_code() {
    let node = Node::start();
    // Waiting for more of the script.
    let mut waiting = Running::start(candor().args(["sql", &node.url]));
    waiting.write("SELECT 'here' AS a;\n");
    waiting.wait_for("here");
    waiting.signal(Signal::INT);
    assert_eq!(waiting.end().code, Some(130));
    // Waiting for an answer.
    let mut running = Running::start(candor().args(["sql", &node.url, "--timeout", "10m"]));
    running.write(
        "SELECT 'here' AS a;\nSELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 1000000) b;\n",
    );
    running.wait_for("here");
    running.signal(Signal::INT);
    assert_eq!(running.end().code, Some(130));
    // The node has given up the work: nothing is in flight but the question itself.
    crate::harness::eventually("the work stops", || {
        let ran = node.sql(&["-c", "SELECT requests_in_flight FROM system.sessions"], "");
        (ran.stdout == "requests_in_flight\n1\n").then_some(())
    });
}
