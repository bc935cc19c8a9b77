//! Where each kind of text goes: answers, footers, errors.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use candor_client::CopyProgress;
use indicatif::{ProgressBar, ProgressStyle};

use super::footer::plural;
use super::format::{Format, Layout};
use super::report::Style;
use super::settings::{Footer, Settings};

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A person at a terminal.
    Terminal,
    /// A program, or a person who runs a script.
    Script,
    /// A person who reads later: everything on standard output, in order.
    Transcript,
}

/// A stream for lines that are not answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Writes one line. Nobody who can be told is left when this fails.
    pub(crate) fn line(self, text: &str) {
        self.text(&format!("{text}\n"));
    }

    fn text(self, text: &str) {
        let _ = match self {
            Self::Stdout => io::stdout().lock().write_all(text.as_bytes()),
            Self::Stderr => io::stderr().lock().write_all(text.as_bytes()),
        };
    }
}

/// Everything the shell writes goes through here.
pub(crate) struct Output {
    place: Place,
    /// Standard output, or the file of `\o`.
    answers: BufWriter<Box<dyn Write + Send>>,
    to_file: bool,
    terminals: Terminals,
    color_wanted: bool,
}

/// Which streams a person sees.
#[derive(Clone, Copy, Debug)]
struct Terminals {
    stdout: bool,
    stderr: bool,
}

impl Output {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            answers: BufWriter::new(Box::new(io::stdout())),
            to_file: false,
            terminals: Terminals {
                stdout: io::stdout().is_terminal(),
                stderr: io::stderr().is_terminal(),
            },
            color_wanted: !crate::no_color(),
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Boxes for people; for programs TSV, whatever the width of some terminal.
    pub(crate) fn default_format(&self) -> Format {
        if self.terminals.stdout || self.place == Place::Transcript {
            Format::Box
        } else {
            Format::Tsv
        }
    }

    /// Whether what goes to the terminal may be coloured.
    pub(crate) fn color(&self) -> bool {
        self.color_wanted && self.terminals.stdout
    }

    pub(crate) fn layout(&self, settings: &Settings) -> Layout {
        let to_terminal = self.terminals.stdout && !self.to_file;
        let shortened = !self.to_file && (to_terminal || self.place == Place::Transcript);
        Layout {
            format: settings.format,
            expanded: settings.expanded,
            rows_max: settings.rows.filter(|_| shortened),
            width: to_terminal.then(terminal_width).flatten(),
            color: self.color() && to_terminal,
        }
    }

    /// Where answers go.
    pub(crate) fn answers(&mut self) -> &mut dyn Write {
        &mut self.answers
    }

    /// Sends what was written on its way, so that streams keep their order.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.answers.flush()
    }

    /// Sends answers to a file, or back.
    pub(crate) fn redirect(&mut self, file: Option<&Path>) -> io::Result<()> {
        self.flush()?;
        self.to_file = file.is_some();
        self.answers = BufWriter::new(match file {
            Some(file) => Box::new(File::create(file)?),
            None => Box::new(io::stdout()),
        });
        Ok(())
    }

    /// Where a footer goes, if it goes anywhere.
    pub(crate) fn footer_place(&self, settings: &Settings) -> Option<Stream> {
        let beside_answers = self.place == Place::Transcript
            || (self.terminals.stdout && (settings.format.is_for_people() || self.to_file));
        match settings.footer {
            Footer::Off => None,
            _ if beside_answers => Some(Stream::Stdout),
            Footer::On => Some(Stream::Stderr),
            Footer::Auto => self.terminals.stderr.then_some(Stream::Stderr),
        }
    }

    fn error_stream(&self) -> Stream {
        if self.place == Place::Transcript {
            Stream::Stdout
        } else {
            Stream::Stderr
        }
    }

    /// How an error is drawn.
    pub(crate) fn report_style(&self) -> Style {
        let terminal = match self.error_stream() {
            Stream::Stdout => self.terminals.stdout,
            Stream::Stderr => self.terminals.stderr,
        };
        Style {
            color: self.color_wanted && terminal,
            width: terminal.then(|| terminal_width().unwrap_or(80).into()),
        }
    }

    /// An error that is drawn already.
    pub(crate) fn report(&self, drawn: &str) {
        self.error_stream().text(drawn);
    }

    /// An error in one line.
    pub(crate) fn error(&self, message: &str) {
        self.error_stream().line(&format!("error: {message}"));
    }

    /// A line for the reader that is neither answer nor error.
    pub(crate) fn note(&self, text: &str) {
        let stream = if self.place == Place::Script {
            Stream::Stderr
        } else {
            Stream::Stdout
        };
        stream.line(text);
    }

    /// Something to look at while a statement runs; nothing unless a person sits there.
    pub(crate) fn spinner(&self) -> Spinner {
        let wanted = self.place == Place::Terminal && self.terminals.stderr;
        Spinner(wanted.then(ProgressBar::hidden))
    }
}

/// The columns of the terminal.
fn terminal_width() -> Option<u16> {
    rustix::termios::tcgetwinsize(rustix::stdio::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|columns| *columns > 0)
}

/// A mark that turns, with the time that has passed; a bar once it is known how far the work has got.
#[derive(Clone)]
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Whether anybody sees it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Shows how far a COPY has got.
    pub(crate) fn advance(&self, progress: CopyProgress) {
        let Some(bar) = &self.0 else { return };
        let template = match progress.bytes_total {
            Some(total) if progress.bytes >= total => "{spinner} {msg} read, committing {elapsed} (Ctrl-C cancels)",
            Some(total) => {
                bar.set_length(total);
                "{spinner} {msg} [{bar:30}] {bytes}/{total_bytes} {elapsed}, {eta} left (Ctrl-C cancels)"
            }
            None => "{spinner} {msg} {elapsed} (Ctrl-C cancels)",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_position(progress.bytes);
        bar.set_message(plural(progress.rows, "row"));
    }

    /// Appears.
    pub(crate) fn show(&self, doing: &str) {
        let Some(bar) = &self.0 else { return };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed} (Ctrl-C cancels)") {
            bar.set_style(style);
        }
        bar.set_message(doing.to_owned());
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// Goes away without a trace.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
