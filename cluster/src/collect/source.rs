//! The leader's side of one collection stream.

use std::collections::VecDeque;

use candor_proto::{LogIndex, Position};
use candor_storage::Entry;

use super::{WINDOW_BYTES, weight};
use crate::clock::Token;
use crate::frame::{Answer, Ask, Echo, FrameError, Reply};

/// What the driver has to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Output {
    /// Read entries after `after` up to `upto` with at most `max_bytes` (or one), then [`Source::handle_entries`].
    Read {
        after: LogIndex,
        upto: LogIndex,
        max_bytes: usize,
    },
    /// Prove leadership, then [`Source::handle_confirmed`].
    Confirm,
    /// Send to the follower.
    Send(Reply),
}

/// One stream to one follower. It holds at most one answer: what the follower has no room for stays in the log.
#[derive(Debug)]
pub(crate) struct Source {
    /// The last entry sent.
    sent: LogIndex,
    /// The committed tail.
    tail: Position,
    max_bytes: i64,
    /// Weight that the follower can still take; an answer may overdraw it, and the debt is repaid first.
    window: i64,
    reading: bool,
    /// The newest token that waits for a proof that starts now or later, and the one whose proof is on its way.
    waiting: Option<Token>,
    confirming: Option<Token>,
    echo: Option<Echo>,
    outputs: VecDeque<Output>,
}

impl Source {
    /// A follower that holds this log up to the position of `ask` collects; the committed tail is `tail`.
    pub(crate) fn new(ask: Ask, max_bytes: u32, tail: Position) -> Self {
        let mut source = Self {
            sent: ask.position.index,
            tail,
            max_bytes: i64::from(max_bytes.clamp(1, candor_proto::limits::COLLECT_BYTES_MAX)),
            window: 0,
            reading: false,
            waiting: None,
            confirming: None,
            echo: None,
            outputs: VecDeque::new(),
        };
        source.take(ask);
        source.proceed();
        source
    }

    /// The follower asked again.
    ///
    /// # Errors
    /// It claims to hold what was never sent; the stream must end.
    pub(crate) fn handle_ask(&mut self, ask: Ask) -> Result<(), FrameError> {
        if ask.position.index > self.sent {
            return Err(FrameError::Unexpected);
        }
        self.take(ask);
        self.proceed();
        Ok(())
    }

    /// A commit landed.
    pub(crate) fn handle_tail(&mut self, tail: Position) {
        if tail.index > self.tail.index {
            self.tail = tail;
            self.proceed();
        }
    }

    /// The entries of the last [`Output::Read`].
    pub(crate) fn handle_entries(&mut self, entries: Vec<Entry>) {
        assert!(self.reading, "entries are read when asked for");
        self.reading = false;
        if let Some(last) = entries.last() {
            assert_eq!(entries[0].position.index, self.sent.next(), "no gap and nothing twice");
            self.sent = last.position.index;
            self.window -= weight(&entries) as i64;
            self.send(entries);
        }
        self.proceed();
    }

    /// Leadership was proved after [`Output::Confirm`], with this committed tail.
    pub(crate) fn handle_confirmed(&mut self, tail: Position) {
        if let Some(token) = self.confirming.take() {
            self.echo = Some(Echo { token, tail });
        }
        self.handle_tail(tail);
        self.proceed();
    }

    /// What to do next.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn take(&mut self, ask: Ask) {
        self.window = (self.window + i64::from(ask.grant)).min(i64::from(WINDOW_BYTES));
        // A newer token proves more; the older one needs no answer of its own.
        self.waiting = self.waiting.max(ask.sent_at);
    }

    fn proceed(&mut self) {
        // A proof on its way may have begun before the token arrived, so the token waits for the next one.
        if self.confirming.is_none()
            && let Some(token) = self.waiting.take()
        {
            self.confirming = Some(token);
            self.outputs.push_back(Output::Confirm);
        }
        if !self.reading && self.window > 0 && self.sent < self.tail.index {
            self.reading = true;
            self.outputs.push_back(Output::Read {
                after: self.sent,
                upto: self.tail.index,
                max_bytes: self.max_bytes.min(self.window) as usize,
            });
        }
        // An echo goes with the entries that are being read, or alone when there are none or no room for them.
        if !self.reading && self.echo.is_some() {
            self.send(Vec::new());
        }
    }

    fn send(&mut self, entries: Vec<Entry>) {
        self.outputs.push_back(Output::Send(Reply::Answer(Answer {
            entries,
            tail: self.tail,
            more: self.sent < self.tail.index,
            echo: self.echo.take(),
        })));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use candor_proto::{Chain, Epoch};

    use super::*;

    fn at(index: u64) -> Position {
        Position::new(Epoch(1), LogIndex(index))
    }

    fn entries(range: std::ops::RangeInclusive<u64>, size: usize) -> Vec<Entry> {
        range
            .map(|index| Entry::chained(Chain(0), at(index), 2, Bytes::from(vec![0; size])))
            .collect()
    }

    fn ask(index: u64, token: Option<u64>, grant: u32) -> Ask {
        Ask {
            position: at(index),
            chain: Chain(0),
            sent_at: token.map(|millis| Token::of(Duration::from_millis(millis))),
            grant,
        }
    }

    fn answer(source: &mut Source) -> Answer {
        match source.poll_output() {
            Some(Output::Send(Reply::Answer(answer))) => answer,
            other => panic!("not an answer: {other:?}"),
        }
    }

    fn read(after: u64, upto: u64, max_bytes: usize) -> Output {
        Output::Read {
            after: LogIndex(after),
            upto: LogIndex(upto),
            max_bytes,
        }
    }

    #[test]
    fn s75_an_answer_is_bounded_says_that_it_stopped_early_and_the_next_resumes_there() {
        let mut source = Source::new(ask(0, None, WINDOW_BYTES), 1000, at(9));
        assert_eq!(source.poll_output(), Some(read(0, 9, 1000)));
        source.handle_entries(entries(1..=4, 200));
        let first = answer(&mut source);
        assert!(first.more);
        assert_eq!(first.entries.last().map(|entry| entry.position), Some(at(4)));
        assert_eq!(source.poll_output(), Some(read(4, 9, 1000)));
        source.handle_entries(entries(5..=9, 10));
        assert!(!answer(&mut source).more);
        assert_eq!(source.poll_output(), None);
    }

    #[test]
    fn s75_a_follower_cannot_ask_for_larger_answers_than_the_limit() {
        let mut source = Source::new(ask(0, None, u32::MAX), u32::MAX, at(9));
        let limit = candor_proto::limits::COLLECT_BYTES_MAX as usize;
        assert_eq!(source.poll_output(), Some(read(0, 9, limit)));
    }

    #[test]
    fn s76_nothing_is_read_for_a_follower_without_room() {
        let mut source = Source::new(ask(0, None, 500), 1 << 20, at(9));
        assert_eq!(source.poll_output(), Some(read(0, 9, 500)));
        source.handle_entries(entries(1..=2, 300));
        assert!(answer(&mut source).more);
        assert_eq!(source.poll_output(), None, "the window is used up");
        source.handle_tail(at(1000));
        assert_eq!(source.poll_output(), None, "commits land, nothing is buffered");
        source.handle_ask(ask(2, None, 200)).expect("fine");
        assert_eq!(source.poll_output(), None, "what was overdrawn is repaid first");
        source.handle_ask(ask(2, None, 700)).expect("fine");
        let overdrawn = weight(&entries(1..=2, 300)) as usize - 500;
        assert_eq!(source.poll_output(), Some(read(2, 1000, 900 - overdrawn)));
    }

    #[test]
    fn s62_a_level_stream_stays_open_and_each_commit_is_sent_as_it_lands() {
        let mut source = Source::new(ask(3, None, WINDOW_BYTES), 1 << 20, at(3));
        assert_eq!(source.poll_output(), None);
        source.handle_tail(at(4));
        assert_eq!(source.poll_output(), Some(read(3, 4, 1 << 20)));
        source.handle_entries(entries(4..=4, 10));
        assert_eq!(answer(&mut source).tail, at(4));
    }

    #[test]
    fn an_echo_is_sent_only_with_a_proof_that_began_after_its_ask() {
        let mut source = Source::new(ask(3, Some(1), WINDOW_BYTES), 1 << 20, at(3));
        assert_eq!(source.poll_output(), Some(Output::Confirm));
        // The second token arrives while the first proof is on its way, which may have begun earlier.
        source.handle_ask(ask(3, Some(2), 0)).expect("fine");
        assert_eq!(source.poll_output(), None);
        source.handle_confirmed(at(3));
        assert_eq!(source.poll_output(), Some(Output::Confirm));
        let first = answer(&mut source);
        assert_eq!(
            first.echo.map(|echo| echo.token),
            Some(Token::of(Duration::from_millis(1)))
        );
        assert!(first.entries.is_empty());
        source.handle_confirmed(at(3));
        assert_eq!(
            answer(&mut source).echo.map(|echo| echo.token),
            Some(Token::of(Duration::from_millis(2)))
        );
    }

    #[test]
    fn a_level_follower_gets_an_empty_answer_and_a_full_one_hears_the_echo_too() {
        let mut source = Source::new(ask(0, Some(1), 100), 1 << 20, at(9));
        assert_eq!(source.poll_output(), Some(Output::Confirm));
        assert_eq!(source.poll_output(), Some(read(0, 9, 100)));
        source.handle_confirmed(at(9));
        assert_eq!(source.poll_output(), None, "the echo goes with the entries being read");
        source.handle_entries(entries(1..=1, 100));
        let full = answer(&mut source);
        assert_eq!((full.echo.map(|echo| echo.tail), full.more), (Some(at(9)), true));
        source.handle_ask(ask(0, Some(2), 0)).expect("fine");
        assert_eq!(source.poll_output(), Some(Output::Confirm));
        source.handle_confirmed(at(9));
        let empty = answer(&mut source);
        assert!(empty.entries.is_empty() && empty.more && empty.echo.is_some());
    }

    #[test]
    fn a_follower_that_claims_what_was_never_sent_is_cut_off() {
        let mut source = Source::new(ask(3, None, 100), 100, at(9));
        assert!(matches!(
            source.handle_ask(ask(4, None, 0)),
            Err(FrameError::Unexpected)
        ));
        source
            .handle_ask(ask(2, None, 0))
            .expect("an earlier position is its own business");
    }
}
