//! What a run found, counted.

use std::fmt;

/// One record that did not do what its file says.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Path of the file below its origin's folder.
    pub file: String,
    /// The record's line.
    pub line: u32,
    /// What was expected and what came.
    pub text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}\n{}", self.file, self.line, self.text)
    }
}

/// The records of one file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Path of the file below its origin's folder.
    pub file: String,
    /// Records that hold.
    pub right: usize,
    /// Records that do not, and nobody expected it.
    pub wrong: Vec<Difference>,
    /// Records that do not hold, for a reason that is written down.
    pub known: usize,
    /// Records that hold although they are written down as known differences.
    pub holds_after_all: Vec<Difference>,
    /// Records that are for another engine or another mode, or are not sent for a reason that is written down.
    pub skipped: usize,
}

/// All files of one origin in one mode.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Which suites, in which mode.
    pub title: String,
    /// One entry a file, in the order of the run.
    pub files: Vec<FileReport>,
    /// Entries of the list of known differences that are about no file.
    pub stale: Vec<String>,
    /// Reads that a follower answered.
    pub read_at_follower: usize,
    /// Reads that the leader answered.
    pub read_at_leader: usize,
}

impl Report {
    /// Whether every record did what it was expected to do.
    pub fn is_clean(&self) -> bool {
        self.stale.is_empty()
            && self
                .files
                .iter()
                .all(|file| file.wrong.is_empty() && file.holds_after_all.is_empty())
    }

    /// Records that hold, in all files.
    pub fn right(&self) -> usize {
        self.files.iter().map(|file| file.right).sum()
    }

    /// Every unexpected difference, in words.
    pub fn differences(&self) -> String {
        let mut lines = Vec::new();
        for file in &self.files {
            lines.extend(file.wrong.iter().map(Difference::to_string));
            lines.extend(file.holds_after_all.iter().map(|one| {
                format!(
                    "{}:{} holds now: take it off the list of known differences",
                    one.file, one.line
                )
            }));
        }
        lines.extend(
            self.stale
                .iter()
                .map(|file| format!("{file}: on the list of known differences, but no such file")),
        );
        lines.join("\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let width = self.files.iter().map(|file| file.file.len()).max().unwrap_or(0);
        let mut total = [0; 4];
        for file in &self.files {
            let counts = [
                file.right,
                file.wrong.len() + file.holds_after_all.len(),
                file.known,
                file.skipped,
            ];
            for (sum, count) in total.iter_mut().zip(counts) {
                *sum += count;
            }
            writeln!(f, "  {:width$}  {}", file.file, Counts(counts))?;
        }
        writeln!(f, "  {:width$}  {}", "all", Counts(total))?;
        write!(
            f,
            "  reads answered by a follower: {}, by the leader: {}",
            self.read_at_follower, self.read_at_leader
        )
    }
}

struct Counts([usize; 4]);

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [right, wrong, known, skipped] = self.0;
        write!(
            f,
            "right {right:>4}  wrong {wrong:>3}  known differences {known:>3}  skipped {skipped:>3}"
        )
    }
}
