//! Signals that ask a conversation to stop: Ctrl-C cancels what runs, SIGTERM and SIGHUP end everything.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// One listener for the whole life of a command, so that no signal falls between two moments of listening.
#[derive(Debug)]
pub(crate) struct Interrupts {
    ctrl_c: Signal,
    ended: watch::Receiver<bool>,
    /// The same for the line editor, which blocks a thread and looks at this between keys.
    flag: Arc<AtomicBool>,
}

impl Interrupts {
    /// Takes the signals from now on.
    ///
    /// # Errors
    /// When the system takes no handlers.
    pub(crate) fn listen() -> io::Result<Self> {
        let (end, ended) = watch::channel(false);
        let flag = Arc::new(AtomicBool::new(false));
        let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let seen = flag.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            seen.store(true, Ordering::Relaxed);
            let _ = end.send(true);
        });
        Ok(Self {
            ctrl_c: signal(SignalKind::interrupt())?,
            ended,
            flag,
        })
    }

    /// Waits for Ctrl-C or the end.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.ended.wait_for(|ended| *ended) => {}
        }
    }

    /// Whether everything has to end, not only what runs.
    pub(crate) fn is_ending(&self) -> bool {
        *self.ended.borrow()
    }

    /// What the line editor looks at.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }
}
