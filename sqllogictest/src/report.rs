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
    /// Records that do not.
    pub wrong: Vec<Difference>,
    /// Records that are for another mode.
    pub skipped: usize,
}

/// All files of one origin in one mode.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Which suites, in which mode.
    pub title: String,
    /// One entry a file, in the order of the run.
    pub files: Vec<FileReport>,
    /// Reads that a follower answered.
    pub read_at_follower: usize,
    /// Reads that the leader answered.
    pub read_at_leader: usize,
}

impl Report {
    /// Whether every record did what it was expected to do.
    pub fn is_clean(&self) -> bool {
        self.files.iter().all(|file| file.wrong.is_empty())
    }

    /// Records that hold, in all files.
    pub fn right(&self) -> usize {
        self.files.iter().map(|file| file.right).sum()
    }

    /// Every difference, in words.
    pub fn differences(&self) -> String {
        let wrong = self.files.iter().flat_map(|file| &file.wrong);
        wrong.map(Difference::to_string).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let width = self.files.iter().map(|file| file.file.len()).max().unwrap_or(0);
        let mut total = [0; 3];
        for file in &self.files {
            let counts = [file.right, file.wrong.len(), file.skipped];
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

struct Counts([usize; 3]);

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [right, wrong, skipped] = self.0;
        write!(f, "right {right:>4}  wrong {wrong:>3}  skipped {skipped:>3}")
    }
}
