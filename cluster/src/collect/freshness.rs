//! How old a collected copy is, from echoes of the follower's own clock.

use std::collections::VecDeque;
use std::time::Duration;

use candor_proto::LogIndex;

use crate::clock::Token;
use crate::frame::Echo;

/// Echoes whose tail is not applied yet. The oldest is kept, because it is proved first, and the newest, because it
/// proves most.
const WAITING_MAX: usize = 64;

/// The newest instant at which the copy lacked nothing.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    fresh_at: Option<Duration>,
    waiting: VecDeque<Echo>,
}

impl Freshness {
    /// The leader echoed a token of ours with the tail it proved after the token arrived.
    pub(crate) fn handle_echo(&mut self, echo: Echo) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_back();
        }
        self.waiting.push_back(echo);
    }

    /// Everything up to `applied` is visible here.
    pub(crate) fn handle_applied(&mut self, applied: LogIndex) {
        while self.waiting.front().is_some_and(|echo| echo.tail.index <= applied) {
            let proved = self.waiting.pop_front().map(|echo: Echo| Token::instant(echo.token));
            self.fresh_at = self.fresh_at.max(proved);
        }
    }

    /// The stream ended: tails of a leader that may be gone prove nothing any more.
    pub(crate) fn handle_ended(&mut self) {
        self.waiting.clear();
    }

    /// The copy lacked nothing that was committed before this instant.
    pub(crate) fn fresh_at(&self) -> Option<Duration> {
        self.fresh_at
    }
}

#[cfg(test)]
mod tests {
    use candor_proto::{Epoch, Position};

    use super::*;

    fn echo(millis: u64, tail: u64) -> Echo {
        Echo {
            token: Token::of(Duration::from_millis(millis)),
            tail: Position::new(Epoch(1), LogIndex(tail)),
        }
    }

    #[test]
    fn an_echo_counts_once_its_tail_is_applied_and_not_before() {
        let mut freshness = Freshness::default();
        assert_eq!(freshness.fresh_at(), None);
        freshness.handle_echo(echo(10, 5));
        freshness.handle_applied(LogIndex(4));
        assert_eq!(freshness.fresh_at(), None, "catching up is not being fresh");
        freshness.handle_applied(LogIndex(5));
        assert_eq!(freshness.fresh_at(), Some(Duration::from_millis(10)));
    }

    #[test]
    fn a_long_catch_up_keeps_the_oldest_and_the_newest_echo() {
        let mut freshness = Freshness::default();
        for millis in 1..=1000 {
            freshness.handle_echo(echo(millis, 100 + millis));
        }
        assert_eq!(freshness.waiting.len(), WAITING_MAX);
        freshness.handle_applied(LogIndex(101));
        assert_eq!(freshness.fresh_at(), Some(Duration::from_millis(1)));
        freshness.handle_applied(LogIndex(1100));
        assert_eq!(freshness.fresh_at(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn freshness_never_goes_back_and_an_ended_stream_proves_nothing_more() {
        let mut freshness = Freshness::default();
        freshness.handle_echo(echo(20, 5));
        freshness.handle_echo(echo(10, 5));
        freshness.handle_applied(LogIndex(5));
        assert_eq!(freshness.fresh_at(), Some(Duration::from_millis(20)));
        freshness.handle_echo(echo(30, 6));
        freshness.handle_ended();
        freshness.handle_applied(LogIndex(9));
        assert_eq!(freshness.fresh_at(), Some(Duration::from_millis(20)));
    }
}
