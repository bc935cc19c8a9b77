//! The shell: reads statements and commands, runs them, and writes answers, footers and errors where they belong.
//!
//! One [`Shell`] serves a terminal, a script and the demo. What differs is decided once, in [`Shell::new`]:
//!
//! | | answers | footers | errors | statements |
//! |---|---|---|---|---|
//! | terminal | standard output, boxes | standard output | standard error | as typed |
//! | script (`sql`) | standard output, TSV | standard error if that is a terminal | standard error | not printed |
//! | transcript (`demo` without a terminal) | standard output, boxes | standard output | standard output | printed before their answers |
//!
//! A transcript puts everything on one stream so that its order is the order of events. The shell keeps no state of
//! the session: namespace, settings and open transactions live in the server's session, and the shell asks.

mod commands;
mod connection;
mod editor;
mod footer;
mod format;
mod help;
mod lex;
mod meta;
mod output;
mod report;
mod schema;
mod settings;
mod words;

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candor_client::{Answer, ClientError, StatementResult};
use parking_lot::RwLock;
use reedline::Signal;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

pub(crate) use connection::{Connection, ConnectionOptions};
pub(crate) use footer::span_text;
pub(crate) use format::Format;
pub(crate) use output::Place;
pub(crate) use settings::OnError;

use crate::demo::Cluster;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use editor::{Names, ShellPrompt};
use footer::Asked;
use lex::{Piece, Splitter};
use output::Output;
use settings::Settings;

/// Files that include files that include files: this deep and no deeper.
const INCLUDES_MAX: u32 = 16;

/// A statement that runs longer than this shows that it does.
const SPINNER_AFTER: Duration = Duration::from_secs(1);

/// What a shell is started with.
pub(crate) struct ShellOptions {
    pub(crate) place: Place,
    pub(crate) format: Option<Format>,
    pub(crate) on_error: OnError,
    /// The demo's nodes, if this is the demo's shell.
    pub(crate) demo: Option<Arc<Cluster>>,
    pub(crate) interrupts: Interrupts,
}

/// Whether to go on with the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Go,
    Leave(Exit),
}

/// One conversation with one cluster.
pub(crate) struct Shell {
    connection: Connection,
    settings: Settings,
    output: Output,
    demo: Option<Arc<Cluster>>,
    interrupts: Interrupts,
    names: Arc<RwLock<Names>>,
    /// What `\watch` repeats.
    last: Option<String>,
    /// The first error that did not stop the script.
    failed: Option<Exit>,
    includes: u32,
}

impl Shell {
    /// A shell on `connection`.
    pub(crate) fn new(connection: Connection, options: ShellOptions) -> Self {
        let output = Output::new(options.place);
        let settings = Settings {
            format: options.format.unwrap_or_else(|| output.default_format()),
            expanded: false,
            footer: settings::Footer::Auto,
            echo: options.place == Place::Transcript,
            on_error: options.on_error,
            rows: Some(settings::ROWS_DEFAULT),
        };
        Self {
            connection,
            settings,
            output,
            demo: options.demo,
            interrupts: options.interrupts,
            names: Arc::default(),
            last: None,
            failed: None,
            includes: 0,
        }
    }

    /// Runs each text of `-c`, one after the other.
    pub(crate) async fn run_texts(&mut self, texts: &[String]) -> Exit {
        for text in texts {
            if let Flow::Leave(exit) = self.run_source(&mut text.as_bytes()).await {
                return self.leave(exit).await;
            }
        }
        self.leave(Exit::Fine).await
    }

    /// Runs a file; `-` is standard input.
    pub(crate) async fn run_file(&mut self, file: &Path) -> Exit {
        if file == Path::new("-") {
            return self.run_stdin().await;
        }
        let exit = match self.include(file).await {
            Flow::Go => Exit::Fine,
            Flow::Leave(exit) => exit,
        };
        self.leave(exit).await
    }

    /// Runs what standard input holds, line by line as it comes.
    pub(crate) async fn run_stdin(&mut self) -> Exit {
        let mut stdin = BufReader::new(tokio::io::stdin());
        let exit = match self.run_source(&mut stdin).await {
            Flow::Go => Exit::Fine,
            Flow::Leave(exit) => exit,
        };
        self.leave(exit).await
    }

    /// Talks with the person at the terminal until they leave.
    pub(crate) async fn run_terminal(&mut self) -> Exit {
        self.refresh_names().await;
        let mut editor = editor::editor(self.names.clone(), self.interrupts.flag(), self.output.color());
        let exit = loop {
            self.print_notices();
            let prompt = ShellPrompt {
                text: self.connection.prompt(),
            };
            // The editor waits for keys on this thread; links, timers and signals go on on the others.
            let read = tokio::task::block_in_place(|| editor.read_line(&prompt));
            match read {
                Ok(Signal::Success(text)) => {
                    if let Flow::Leave(exit) = self.run_entry(&text).await {
                        break exit;
                    }
                }
                Ok(Signal::CtrlC) => {}
                Ok(Signal::ExternalBreak(_)) => break Exit::Interrupted,
                // Ctrl-D, and whatever else is not text.
                Ok(_) => break Exit::Fine,
                Err(error) => {
                    self.output.error(&format!("the terminal cannot be read: {error}"));
                    break Exit::Failed;
                }
            }
            if self.interrupts.is_ending() {
                break Exit::Interrupted;
            }
        };
        // Errors were seen by the person who made them.
        self.failed = None;
        self.leave(exit).await
    }

    /// One entry of the editor: a command, or statements.
    async fn run_entry(&mut self, text: &str) -> Flow {
        if meta::is_meta(text) {
            return self.run_meta(text).await;
        }
        let mut splitter = Splitter::default();
        let mut pieces = splitter.push(text);
        pieces.extend(splitter.finish());
        self.run_pieces(pieces).await
    }

    /// Runs a script line by line, so that a pipe is answered as it is written.
    fn run_source<'a, R: AsyncBufRead + Unpin + Send>(
        &'a mut self,
        lines: &'a mut R,
    ) -> Pin<Box<dyn Future<Output = Flow> + Send + 'a>> {
        Box::pin(async move {
            let mut splitter = Splitter::default();
            let mut line = String::new();
            loop {
                line.clear();
                let read = tokio::select! {
                    read = lines.read_line(&mut line) => read,
                    () = self.interrupts.wait() => return Flow::Leave(Exit::Interrupted),
                };
                let flow = match read {
                    Ok(0) => return self.run_pieces(splitter.finish()).await,
                    Ok(_) if splitter.is_idle() && meta::is_meta(&line) => self.run_meta(&line).await,
                    Ok(_) => {
                        let pieces = splitter.push(&line);
                        self.run_pieces(pieces).await
                    }
                    Err(error) => {
                        self.output.error(&format!("the script cannot be read: {error}"));
                        return Flow::Leave(Exit::Failed);
                    }
                };
                if flow != Flow::Go {
                    return flow;
                }
            }
        })
    }

    async fn include(&mut self, file: &Path) -> Flow {
        if self.includes == INCLUDES_MAX {
            return self.complain(&format!("files include each other more than {INCLUDES_MAX} deep"));
        }
        let opened = match tokio::fs::File::open(file).await {
            Ok(opened) => opened,
            Err(error) => return self.complain(&format!("cannot read {}: {error}", file.display())),
        };
        self.includes += 1;
        let flow = self.run_source(&mut BufReader::new(opened)).await;
        self.includes -= 1;
        flow
    }

    async fn run_pieces(&mut self, pieces: Vec<Piece>) -> Flow {
        for piece in pieces {
            let flow = match piece {
                Piece::Statement(text) => self.run_statement(&text).await,
                Piece::Comment(text) => {
                    if self.settings.echo {
                        self.output.note(&text);
                    }
                    Flow::Go
                }
            };
            if flow != Flow::Go {
                return flow;
            }
        }
        Flow::Go
    }

    async fn run_statement(&mut self, text: &str) -> Flow {
        self.echo(&format!("{text};"));
        self.last = Some(text.to_owned());
        let flow = self.run_once(text).await;
        if self.settings.echo {
            self.output.note("");
        }
        if commands::changes_names(text) && self.output.place() == Place::Terminal {
            self.refresh_names().await;
        }
        flow
    }

    async fn run_once(&mut self, text: &str) -> Flow {
        let from = self.connection.node().map(str::to_owned);
        match self.execute(text).await {
            None => self.canceled(),
            Some(Ok(answer)) => self.show(
                &answer,
                Asked {
                    statement: text,
                    from: from.as_deref(),
                },
            ),
            Some(Err(error)) => {
                let report = report::client_error(&error, text, self.output.report_style());
                self.output.report(&report);
                self.failed_with(exit_of(&error))
            }
        }
    }

    /// Runs one statement; `None` when Ctrl-C came first. Dropping the request closes its connection, and that is
    /// what stops the work on the server.
    async fn execute(&mut self, text: &str) -> Option<Result<Answer, ClientError>> {
        let spinner = self.output.spinner();
        let is_copy = commands::verb(text).eq_ignore_ascii_case("copy");
        let mut ask = (is_copy && spinner.is_wanted()).then(|| self.connection.ask());
        let running = self.connection.execute(text);
        tokio::pin!(running);
        let begun = Instant::now();
        let mut shown = false;
        let mut asking = None;
        let answer = loop {
            tokio::select! {
                answer = &mut running => break Some(answer),
                () = self.interrupts.wait() => break None,
                () = tokio::time::sleep_until((begun + SPINNER_AFTER).into()), if !shown => {
                    spinner.show(commands::verb(text));
                    asking = ask.take().map(|ask| ask.spawn(spinner.clone()));
                    shown = true;
                }
            }
        };
        // Asking ends with the answer.
        drop(asking);
        spinner.clear();
        answer
    }

    fn canceled(&mut self) -> Flow {
        if self.output.place() == Place::Terminal && !self.interrupts.is_ending() {
            // After the `^C` that the terminal shows.
            self.output.note("\ncanceled");
            return Flow::Go;
        }
        Flow::Leave(Exit::Interrupted)
    }

    fn show(&mut self, answer: &Answer, asked: Asked<'_>) -> Flow {
        for result in &answer.results {
            if let Err(error) = self.show_result(result, answer, asked) {
                return self.output_failed(&error);
            }
        }
        Flow::Go
    }

    fn show_result(&mut self, result: &StatementResult, answer: &Answer, asked: Asked<'_>) -> io::Result<()> {
        let layout = self.output.layout(&self.settings);
        let shown = format::write_rows(self.output.answers(), &result.columns, &result.rows, layout)?;
        self.output.flush()?;
        if let Some(place) = self.output.footer_place(&self.settings) {
            place.line(&footer::footer(result, shown, answer, asked));
        }
        Ok(())
    }

    /// Nobody reads the answers any more, or the disk is full.
    fn output_failed(&mut self, error: &io::Error) -> Flow {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Flow::Leave(Exit::Fine);
        }
        self.output.error(&format!("answers cannot be written: {error}"));
        Flow::Leave(Exit::Failed)
    }

    /// An error of the shell's own, treated like a failed statement.
    fn complain(&mut self, message: &str) -> Flow {
        let report = report::plain_error(message, self.output.report_style());
        self.output.report(&report);
        self.failed_with(Exit::Failed)
    }

    fn failed_with(&mut self, exit: Exit) -> Flow {
        if self.output.place() == Place::Terminal {
            return Flow::Go;
        }
        match self.settings.on_error {
            OnError::Stop => Flow::Leave(exit),
            OnError::Continue => {
                self.failed.get_or_insert(exit);
                Flow::Go
            }
        }
    }

    /// In a transcript a statement stands before its answer, after the prompt it would have had.
    fn echo(&mut self, text: &str) {
        if self.settings.echo {
            let prompt = self.connection.prompt();
            let indent = format!("\n{:>width$}", "| ", width = prompt.chars().count() + 2);
            self.output.note(&format!("{prompt}> {}", text.replace('\n', &indent)));
        }
    }

    fn print_notices(&mut self) {
        for notice in self.demo.iter().flat_map(|demo| demo.take_notices()) {
            self.output.note(&notice);
        }
    }

    async fn leave(&mut self, exit: Exit) -> Exit {
        self.connection.close().await;
        let unwritten = matches!(self.output.flush(), Err(error) if error.kind() != io::ErrorKind::BrokenPipe);
        if unwritten && exit == Exit::Fine {
            return Exit::Failed;
        }
        // A demo shows refusals on purpose; a script that went on after an error has failed all the same.
        match (exit, self.failed) {
            (Exit::Fine, Some(failed)) if self.demo.is_none() => failed,
            _ => exit,
        }
    }
}

/// The exit code for an error.
pub(crate) fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Server(body) => Exit::of(body.code),
        ClientError::Connect { .. } => Exit::Unreachable,
        ClientError::BadUrl { .. } | ClientError::BadRequest { .. } => Exit::Usage,
        _ => Exit::Failed,
    }
}
