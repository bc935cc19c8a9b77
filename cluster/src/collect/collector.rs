//! The follower's side of one collection stream.

use std::collections::VecDeque;
use std::time::Duration;

use candor_proto::{Chain, Position, RangeId, RangeName, limits};
use candor_storage::Entry;

use super::{Freshness, WINDOW_BYTES, weight};
use crate::clock::Token;
use crate::frame::{Answer, Ask, Collect, FrameError, Refusal, Reply, Request};

/// What the driver has to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Output {
    /// Send to the source.
    Send(Request),
    /// Append these, make them durable, apply them, then call [`Collector::handle_applied`].
    Apply(Vec<Entry>),
    /// The copy and the leader's log part after this position: go back, then collect again.
    GoBack(Position),
    /// The stream is of no use; end it.
    End(Refusal),
}

/// One range's collection, over one stream after another.
#[derive(Debug)]
pub(crate) struct Collector {
    range: RangeName,
    range_id: RangeId,
    /// Half an awareness interval: the echo of one ask is there before the age reaches a whole one.
    ask_every: Duration,
    position: Position,
    chain: Chain,
    freshness: Freshness,
    /// The last entry handed to the driver, applied or not.
    received: Position,
    /// The leader's tail, as it last said.
    tail: Option<Position>,
    next_ask: Option<Duration>,
    newest_token: Option<Token>,
    /// Weight that may still arrive (an answer may overdraw it), that was handed out to be applied, and that was
    /// applied and not granted anew: together always [`WINDOW_BYTES`].
    granted: i64,
    in_hand: i64,
    consumed: i64,
    outputs: VecDeque<Output>,
}

impl Collector {
    /// Collects a range whose copy ends at `position`.
    pub(crate) fn new(
        range: RangeName,
        range_id: RangeId,
        awareness: Duration,
        (position, chain): (Position, Chain),
    ) -> Self {
        Self {
            range,
            range_id,
            ask_every: awareness / 2,
            position,
            chain,
            freshness: Freshness::default(),
            received: position,
            tail: None,
            next_ask: None,
            newest_token: None,
            granted: i64::from(WINDOW_BYTES),
            in_hand: 0,
            consumed: 0,
            outputs: VecDeque::new(),
        }
    }

    /// A stream to the upstream is open.
    pub(crate) fn handle_opened(&mut self, now: Duration) {
        self.outputs.clear();
        self.received = self.position;
        self.granted = i64::from(WINDOW_BYTES);
        self.in_hand = 0;
        self.consumed = 0;
        let ask = self.ask(now, WINDOW_BYTES);
        self.outputs.push_back(Output::Send(Request::Collect(Collect {
            range: self.range.clone(),
            range_id: self.range_id,
            ask,
            max_bytes: limits::COLLECT_BYTES_MAX,
        })));
    }

    /// The stream is gone.
    pub(crate) fn handle_closed(&mut self) {
        self.outputs.clear();
        self.next_ask = None;
        self.tail = None;
        self.freshness.handle_ended();
    }

    /// Something arrived.
    ///
    /// # Errors
    /// The source sent what it may not; the stream must end.
    pub(crate) fn handle_reply(&mut self, now: Duration, reply: Reply) -> Result<(), FrameError> {
        match reply {
            Reply::Answer(answer) => self.handle_answer(now, answer),
            Reply::Behind { agreed } => {
                // Only the first answer can say so, and never beyond what was asked from.
                if self.received != self.position || agreed >= self.position {
                    return Err(FrameError::Unexpected);
                }
                self.outputs.push_back(Output::GoBack(agreed));
                Ok(())
            }
            Reply::Refused(refusal) => {
                self.outputs.push_back(Output::End(refusal));
                Ok(())
            }
            Reply::Greet(_) => Err(FrameError::Unexpected),
        }
    }

    fn handle_answer(&mut self, now: Duration, answer: Answer) -> Result<(), FrameError> {
        let arrived = weight(&answer.entries) as i64;
        // One answer may overdraw the window, so only what comes when it is used up is too much.
        if arrived > 0 && self.granted <= 0 {
            return Err(FrameError::Limit("what was sent without being granted"));
        }
        self.granted -= arrived;
        self.in_hand += arrived;
        self.tail = Some(answer.tail);
        if let Some(echo) = answer.echo {
            if echo.token > Token::of(now) || self.newest_token.is_none_or(|newest| echo.token > newest) {
                return Err(FrameError::Unexpected);
            }
            self.freshness.handle_echo(echo);
        }
        if let Some(last) = answer.entries.last() {
            // Continuity and chain are checked where the log is.
            self.received = last.position;
            self.outputs.push_back(Output::Apply(answer.entries));
        }
        self.freshness.handle_applied(self.position.index);
        Ok(())
    }

    /// Everything handed out so far is durable and visible.
    pub(crate) fn handle_applied(&mut self, position: Position, chain: Chain) {
        assert!(position >= self.position, "a copy only grows");
        self.position = position;
        self.chain = chain;
        self.freshness.handle_applied(position.index);
        self.consumed += std::mem::take(&mut self.in_hand);
        let ask = self.plain_ask();
        self.outputs.push_back(Output::Send(Request::Ask(ask)));
    }

    /// Time passed.
    pub(crate) fn handle_time(&mut self, now: Duration) {
        if self.next_ask.is_some_and(|due| due <= now) {
            let grant = self.grant();
            let ask = self.ask(now, grant);
            self.outputs.push_back(Output::Send(Request::Ask(ask)));
        }
    }

    /// When [`handle_time`](Self::handle_time) wants to be called; `None` without a stream.
    pub(crate) fn next_wakeup(&self) -> Option<Duration> {
        self.next_ask
    }

    /// What to do next.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The leader's tail, as it last said on this stream.
    pub(crate) fn tail(&self) -> Option<Position> {
        self.tail
    }

    /// The copy lacked nothing that was committed before this instant.
    pub(crate) fn fresh_at(&self) -> Option<Duration> {
        self.freshness.fresh_at()
    }

    fn ask(&mut self, now: Duration, grant: u32) -> Ask {
        let token = Token::of(now);
        self.newest_token = Some(token);
        self.next_ask = Some(now + self.ask_every);
        Ask {
            position: self.position,
            chain: self.chain,
            sent_at: Some(token),
            grant,
        }
    }

    fn plain_ask(&mut self) -> Ask {
        Ask {
            position: self.position,
            chain: self.chain,
            sent_at: None,
            grant: self.grant(),
        }
    }

    /// Grants anew what was applied.
    fn grant(&mut self) -> u32 {
        let consumed = std::mem::take(&mut self.consumed);
        self.granted += consumed;
        assert_eq!(
            self.granted + self.in_hand,
            i64::from(WINDOW_BYTES),
            "nothing is granted twice"
        );
        u32::try_from(consumed).expect("the window and one answer")
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use candor_proto::{Epoch, LogIndex};

    use super::*;
    use crate::frame::Echo;

    const AWARENESS: Duration = Duration::from_secs(1);

    fn at(index: u64) -> Position {
        Position::new(Epoch(1), LogIndex(index))
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn entry(index: u64, size: usize) -> Entry {
        Entry::chained(Chain(0), at(index), 2, Bytes::from(vec![0; size]))
    }

    fn answer(entries: Vec<Entry>, tail: u64, echo: Option<(u64, u64)>) -> Reply {
        let echo = echo.map(|(token, tail)| Echo {
            token: Token::of(ms(token)),
            tail: at(tail),
        });
        let more = entries.last().is_some_and(|last| last.position.index.0 < tail);
        Reply::Answer(Answer {
            entries,
            tail: at(tail),
            more,
            echo,
        })
    }

    fn opened() -> Collector {
        let mut collector = Collector::new(RangeName::new("main"), RangeId(7), AWARENESS, (at(3), Chain(3)));
        collector.handle_opened(ms(100));
        collector
    }

    fn sent_ask(collector: &mut Collector) -> Ask {
        match collector.poll_output() {
            Some(Output::Send(Request::Ask(ask))) => ask,
            other => panic!("not an ask: {other:?}"),
        }
    }

    #[test]
    fn it_asks_from_its_position_and_then_twice_per_interval() {
        let mut collector = opened();
        let Some(Output::Send(Request::Collect(collect))) = collector.poll_output() else {
            panic!("opens with Collect");
        };
        assert_eq!((collect.ask.position, collect.ask.chain), (at(3), Chain(3)));
        assert_eq!(collect.ask.sent_at, Some(Token::of(ms(100))));
        assert_eq!(collector.next_wakeup(), Some(ms(600)));
        collector.handle_time(ms(599));
        assert_eq!(collector.poll_output(), None);
        collector.handle_time(ms(600));
        assert_eq!(sent_ask(&mut collector).sent_at, Some(Token::of(ms(600))));
    }

    #[test]
    fn an_empty_answer_at_the_confirmed_tail_proves_freshness() {
        let mut collector = opened();
        collector
            .handle_reply(ms(110), answer(vec![], 3, Some((100, 3))))
            .expect("fine");
        assert_eq!(collector.fresh_at(), Some(ms(100)));
    }

    #[test]
    fn old_entries_prove_nothing_until_the_echoed_tail_is_applied() {
        let mut collector = opened();
        collector.poll_output();
        collector
            .handle_reply(ms(110), answer(vec![entry(4, 10)], 5, Some((100, 5))))
            .expect("fine");
        assert!(matches!(collector.poll_output(), Some(Output::Apply(entries)) if entries.len() == 1));
        collector.handle_applied(at(4), Chain(4));
        assert_eq!(collector.fresh_at(), None);
        collector
            .handle_reply(ms(120), answer(vec![entry(5, 10)], 5, None))
            .expect("fine");
        collector.handle_applied(at(5), Chain(5));
        assert_eq!(collector.fresh_at(), Some(ms(100)));
    }

    #[test]
    fn what_was_applied_is_granted_again_with_the_new_position() {
        let mut collector = opened();
        collector.poll_output();
        collector
            .handle_reply(ms(110), answer(vec![entry(4, 1000)], 4, None))
            .expect("fine");
        collector.poll_output();
        collector.handle_applied(at(4), Chain(4));
        let ask = sent_ask(&mut collector);
        assert_eq!((ask.position, ask.chain, ask.sent_at), (at(4), Chain(4), None));
        assert_eq!(u64::from(ask.grant), weight(&[entry(4, 1000)]));
    }

    #[test]
    fn a_source_that_sends_beyond_the_window_is_cut_off() {
        let mut collector = opened();
        let big = entry(4, WINDOW_BYTES as usize + 1);
        collector
            .handle_reply(ms(110), answer(vec![big], 9, None))
            .expect("one entry may exceed it alone");
        let error = collector.handle_reply(ms(111), answer(vec![entry(5, 1)], 9, None));
        assert!(matches!(error, Err(FrameError::Limit(_))));
    }

    #[test]
    fn an_echo_of_a_token_never_sent_is_refused() {
        for token in [101, 5000] {
            let mut collector = opened();
            let error = collector.handle_reply(ms(110), answer(vec![], 3, Some((token, 3))));
            assert!(matches!(error, Err(FrameError::Unexpected)));
        }
    }

    #[test]
    fn a_log_that_parted_goes_back_to_the_agreed_point_and_never_forward() {
        let mut collector = opened();
        collector.poll_output();
        collector
            .handle_reply(ms(110), Reply::Behind { agreed: at(2) })
            .expect("fine");
        assert_eq!(collector.poll_output(), Some(Output::GoBack(at(2))));
        let error = opened().handle_reply(ms(110), Reply::Behind { agreed: at(3) });
        assert!(matches!(error, Err(FrameError::Unexpected)));
    }

    #[test]
    fn a_new_stream_starts_from_what_was_applied() {
        let mut collector = opened();
        collector
            .handle_reply(ms(110), answer(vec![entry(4, 10)], 4, Some((100, 4))))
            .expect("fine");
        collector.handle_closed();
        assert_eq!((collector.poll_output(), collector.next_wakeup()), (None, None));
        collector.handle_opened(ms(200));
        let Some(Output::Send(Request::Collect(collect))) = collector.poll_output() else {
            panic!("opens with Collect");
        };
        assert_eq!((collect.ask.position, collect.ask.grant), (at(3), WINDOW_BYTES));
        assert_eq!(collector.fresh_at(), None);
    }
}
