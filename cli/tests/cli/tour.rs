//! The tour prints what its page says.
//!
//! `docs/tour.md` shows the transcript of `candor demo < docs/tour.sql` in its blocks marked `text`, one after the
//! other. `…` in the page stands for anything within a line: times, ages, process numbers. Ports are not compared, as
//! the test takes free ones, and runs of blanks and of frame lines count as one, because columns are as wide as the
//! times in them.

use std::fs;
use std::path::Path;

use crate::harness::{candor, run};

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines that the page shows.
fn shown(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```text" => inside = true,
            "```" => inside = false,
            _ if inside => lines.push(line.to_owned()),
            _ => {}
        }
    }
    lines
}

/// Blanks and frame lines as one each, ports left out.
fn plain(line: &str) -> String {
    let mut text = String::new();
    for c in line.trim_end().chars() {
        if !(matches!(c, ' ' | '─') && text.ends_with(c)) {
            text.push(c);
        }
    }
    let mut parts = text.split("127.0.0.1:");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |all, part| {
        all + "127.0.0.1:" + part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '…')
    })
}

/// Whether `pattern`, in which `…` stands for anything, is the whole of `text`.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn the_tour_prints_what_its_page_says() {
    let script = docs("tour.sql");
    assert_eq!(script.lines().next(), Some("\\set on_error continue"));
    let ran = run(candor().args(["demo", "--http-port", "0", "--link-port", "0"]), &script);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr, "");
    let page = docs("tour.md");
    let expected: Vec<String> = shown(&page)
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| plain(line))
        .collect();
    let printed: Vec<String> = ran
        .stdout
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(plain)
        .collect();
    for (index, line) in printed.iter().enumerate() {
        let wanted = expected.get(index).map_or("(nothing more)", String::as_str);
        assert!(
            fits(wanted, line),
            "line {}:\n  page: {wanted}\n  tour: {line}\n\n{}",
            index + 1,
            ran.stdout
        );
    }
    assert_eq!(
        expected.len(),
        printed.len(),
        "the page shows more than the tour prints:\n{}",
        ran.stdout
    );
}

#[test]
fn a_pattern_stands_for_what_it_says_and_no_more() {
    assert!(fits("3 rows … ms", "3 rows  12 ms"));
    assert!(fits("a…b…c", "a1b2c") && fits("…", "") && fits("ab", "ab"));
    assert!(!fits("a…b", "a1c") && !fits("ab", "abc") && !fits("a…", "b"));
    assert!(fits(&plain("│ a   │"), &plain("│ a │")) && fits(&plain("┌───┐"), &plain("┌─┐")));
    assert_eq!(plain("http://127.0.0.1:7401/sql"), plain("http://127.0.0.1:…/sql"));
}
