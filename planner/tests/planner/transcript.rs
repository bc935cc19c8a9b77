//! Transcripts: blocks of commands, `---`, and what they print. `UPDATE_GOLDEN=1` writes down what they print now.
//!
//! ```text
//! # A comment belongs to the block after it.
//! command argument key=value key="a value"
//! ---
//! what the commands of the block print, up to a blank line; `ok` stands for nothing
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

/// What runs the commands of one transcript, in order.
pub(crate) trait Runner {
    /// Runs one command and gives what it prints.
    fn run(&mut self, command: &Command) -> Result<String, Box<dyn Error>>;
}

/// One line: a name and arguments.
pub(crate) struct Command {
    pub(crate) name: String,
    args: Vec<String>,
}

impl Command {
    fn parse(line: &str) -> Self {
        let mut words = Vec::new();
        let (mut word, mut quoted) = (String::new(), false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        Self {
            name: words.remove(0),
            args: words,
        }
    }

    pub(crate) fn consume_args(&self) -> Args<'_> {
        Args(self.args.iter().map(String::as_str).collect())
    }
}

/// Arguments that are not taken yet.
pub(crate) struct Args<'a>(VecDeque<&'a str>);

impl<'a> Args<'a> {
    /// The next argument without a key.
    pub(crate) fn next_pos(&mut self) -> Option<&'a str> {
        let index = self.0.iter().position(|arg| keyed(arg).is_none())?;
        self.0.remove(index)
    }

    /// The value of `key=value`.
    pub(crate) fn take_key(&mut self, key: &str) -> Option<&'a str> {
        let index = self
            .0
            .iter()
            .position(|arg| arg.split_once('=').is_some_and(|(name, _)| name == key))?;
        self.0
            .remove(index)
            .and_then(|arg| arg.split_once('=').map(|(_, value)| value))
    }

    /// Nothing may be left.
    pub(crate) fn reject_next(&self) -> Result<(), Box<dyn Error>> {
        self.0
            .front()
            .map_or(Ok(()), |arg| Err(format!("unexpected argument {arg}").into()))
    }
}

/// A key is a word of lower-case letters.
fn keyed(arg: &str) -> Option<(&str, &str)> {
    arg.split_once('=')
        .filter(|(key, _)| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Runs a transcript and compares what it prints.
pub(crate) fn run(runner: &mut impl Runner, path: &Path) {
    let expected = std::fs::read_to_string(path).expect("a transcript");
    let mut actual = String::new();
    for block in expected.trim_end().split("\n\n") {
        let (commands, _) = block
            .split_once("\n---\n")
            .unwrap_or_else(|| panic!("{}: no --- in\n{block}", path.display()));
        let mut printed = String::new();
        for line in commands.lines().filter(|line| !line.starts_with('#')) {
            let output = runner
                .run(&Command::parse(line))
                .unwrap_or_else(|error| format!("Error: {error}"));
            printed.push_str(&output);
            if !output.is_empty() && !output.ends_with('\n') {
                printed.push('\n');
            }
        }
        if printed.is_empty() {
            printed.push_str("ok\n");
        }
        // Writing to a String cannot fail.
        let _ = write!(
            actual,
            "{}{commands}\n---\n{printed}",
            if actual.is_empty() { "" } else { "\n" }
        );
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        #[allow(clippy::disallowed_methods)] // the crate is pure, its test runner is not
        std::fs::write(path, actual).expect("written");
    } else {
        assert_eq!(actual, expected, "{}", path.display());
    }
}
