//! The demo's processes: they end with it, however it ends, and nothing stays.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, test_kill_process};

use crate::harness::{Running, candor, eventually, run};

/// A demo of two nodes on free ports, at the point where it has answered a first statement.
struct Demo {
    process: Running,
    nodes: Vec<Pid>,
    folder: PathBuf,
}

impl Demo {
    fn start() -> Self {
        let mut process =
            Running::start(candor().args(["demo", "--nodes", "2", "--http-port", "0", "--link-port", "0"]));
        process.write("\\demo\n");
        let nodes: Vec<Pid> = ["n1", "n2"]
            .map(|name| {
                // The greeting names each node too, without its process.
                let line = process.wait_for("  process ");
                assert!(line.starts_with(name), "{line}");
                let number = line
                    .split("  process ")
                    .nth(1)
                    .expect("a number")
                    .trim()
                    .parse()
                    .expect("a number");
                Pid::from_raw(number).expect("a process")
            })
            .into();
        let command = std::fs::read(format!("/proc/{}/cmdline", nodes[0].as_raw_nonzero())).expect("the node runs");
        let arguments: Vec<String> = command
            .split(|byte| *byte == 0)
            .map(|part| String::from_utf8_lossy(part).into())
            .collect();
        let data = arguments
            .iter()
            .position(|argument| argument == "--data")
            .expect("a folder");
        let folder = PathBuf::from(&arguments[data + 1])
            .parent()
            .expect("the demo's folder")
            .to_owned();
        assert!(folder.is_dir());
        Self { process, nodes, folder }
    }

    fn nothing_is_left(nodes: &[Pid], folder: &Path) {
        eventually("every node has ended", || {
            nodes.iter().all(|pid| !is_running(*pid)).then_some(())
        });
        eventually("the folder is gone", || (!folder.exists()).then_some(()));
        // What removed it ends too, and nothing has made it again.
        eventually("nothing works on it", || (!mentions(folder)).then_some(()));
        assert!(!folder.exists());
    }
}

/// Whether a process runs. One that has ended and was not waited for yet counts as ended.
fn is_running(pid: Pid) -> bool {
    if test_kill_process(pid).is_err() {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !status.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z') && !status.is_empty()
}

/// Whether any process has the folder on its command line.
fn mentions(folder: &Path) -> bool {
    let wanted = folder.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").expect("a Linux system");
    processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .any(|command| String::from_utf8_lossy(&command).contains(&wanted))
}

#[test]
fn a_demo_that_ends_leaves_no_process_and_no_folder() {
    let Demo { process, nodes, folder } = Demo::start();
    let ran = process.finish();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    Demo::nothing_is_left(&nodes, &folder);
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_and_no_folder_even_of_a_paused_node() {
    for paused in [false, true] {
        let Demo {
            mut process,
            nodes,
            folder,
        } = Demo::start();
        if paused {
            process.write("\\demo pause n1\n");
            process.wait_for("n1 is paused");
        }
        process.signal(Signal::KILL);
        assert_eq!(process.end().code, None);
        Demo::nothing_is_left(&nodes, &folder);
    }
}

#[test]
fn a_demo_that_is_asked_to_stop_does() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Demo { process, nodes, folder } = Demo::start();
        process.signal(signal);
        assert_eq!(process.end().code, Some(130), "{signal:?}");
        Demo::nothing_is_left(&nodes, &folder);
    }
}

#[test]
fn one_node_s_end_never_ends_the_others() {
    let Demo {
        mut process,
        nodes,
        folder,
    } = Demo::start();
    process.write("\\demo kill n1\nSELECT 'still ' || count(*) AS answer FROM orders;\n\\demo start n1\n");
    process.wait_for("n1 is killed");
    process.wait_for("still 300");
    process.wait_for("n1 is started");
    // The leader has its data again, and n2 finds it.
    process.write("\\demo\n");
    process.wait_for("n2  ");
    process.write("\\pin n1\nSELECT 'back ' || count(*) AS answer FROM orders ANSWERED BY LEADER;\n");
    process.wait_for("back 300");
    let ran = process.finish();
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    Demo::nothing_is_left(&nodes, &folder);
}

#[test]
fn refusals_have_exit_codes_of_their_own() {
    let demo = |script: &str| {
        run(
            candor().args(["demo", "--nodes", "2", "--http-port", "0", "--link-port", "0"]),
            script,
        )
    };
    // The leader is away for longer than the bound, so the only copy is too old.
    let stale = demo("\\demo pause n1\n\\sleep 3s\nSELECT count(*) FROM orders STALENESS 2s;\nSELECT 'never';\n");
    assert_eq!(stale.code, Some(4), "{}", stale.stdout);
    assert!(
        stale.stdout.contains("staleness-unmet") && !stale.stdout.contains("never;"),
        "{}",
        stale.stdout
    );
    // A follower that has just started has greeted nobody who leads.
    let alone = demo(
        "\\demo kill n1\n\\demo kill n2\n\\demo start n2\nSELECT count(*) FROM orders ANSWERED BY LEADER;\nSELECT 'never';\n",
    );
    assert_eq!(alone.code, Some(5), "{}", alone.stdout);
    assert!(alone.stdout.contains("DEFINE REPLICA"), "{}", alone.stdout);
}

#[test]
fn a_folder_of_one_s_own_stays_and_must_be_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("mine");
    let demo = || {
        run(
            candor()
                .args(["demo", "--nodes", "1", "--http-port", "0", "--link-port", "0", "--dir"])
                .arg(&dir),
            "",
        )
    };
    let first = demo();
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(dir.join("n1").is_dir());
    let second = demo();
    assert_eq!(second.code, Some(3));
    assert!(second.stderr.contains("not empty"), "{}", second.stderr);
}
