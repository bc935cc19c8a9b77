//! Reading a stream in a task of its own, so that whoever waits for its messages may wait for other things too.

use quinn::RecvStream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::frame::{self, FrameError, Message};

/// Messages read ahead of whoever handles them. The rest waits in the stream's own window.
const READ_AHEAD: usize = 4;

/// The messages of one direction of a stream; reading ends when this is dropped.
pub(super) struct Incoming<M> {
    messages: mpsc::Receiver<Result<M, FrameError>>,
    _reader: AbortOnDropHandle<()>,
}

impl<M: Message + Send + 'static> Incoming<M> {
    pub(super) fn of(mut stream: RecvStream) -> Self {
        let (sender, messages) = mpsc::channel(READ_AHEAD);
        let reader = tokio::spawn(async move {
            while let Some(message) = frame::read(&mut stream).await.transpose() {
                let failed = message.is_err();
                if sender.send(message).await.is_err() || failed {
                    break;
                }
            }
        });
        Self {
            messages,
            _reader: AbortOnDropHandle::new(reader),
        }
    }

    /// The next message, `None` at the end of the stream. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> Option<Result<M, FrameError>> {
        self.messages.recv().await
    }

    /// The next message if it has arrived.
    pub(super) fn ready(&mut self) -> Option<Result<M, FrameError>> {
        self.messages.try_recv().ok()
    }
}
