//! The client's side of a redirect: the one algorithm that every driver shares.
//!
//! A call is sent to the node the client is connected to. If that node answers with a redirect, the call is taken to the
//! named node and its answer is the call's answer; the caller never notices. [`Follow`] is that algorithm as a machine
//! without sockets or clock: the driver performs a [`Step`], reports what came of it through a `handle_*`, and gets the
//! next step, until [`Step::Done`] or [`Step::Fail`]. Every input has exactly one consequence, so it is returned and not
//! queued. `now` is the reading of any monotonic clock of the driver's.
//!
//! What it holds on to:
//! * at most [`HOPS_MAX`] redirects are followed in one call; one more is a loop;
//! * never back in time: per range, no redirect older than one already followed, by this call or an earlier one;
//! * the session travels: namespace and database are asked before leaving and selected again on arrival, and only if
//!   they are plain identifiers, because a name is never quoted into a statement;
//! * the node is asked for its name on arrival; the script goes to no other than the named one;
//! * *settled* moves the connection, *transient* answers there and leaves the connection where it was;
//! * a write whose bytes may have arrived is never sent again: its outcome is unknown;
//! * one deadline over everything.
//!
//! It never sees the script or the answer, and it does not retry: whether to ask again is the caller's decision.

mod error;
mod memory;

use std::time::Duration;

use candor_proto::limits::HOPS_MAX;
use candor_proto::{NodeName, Redirect, RedirectKind, Redirected};

pub use error::{FollowError, Lost};
pub use memory::{Memory, is_plain_identifier};

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node to expect there; `None` for the address that a person typed.
    pub node: Option<NodeName>,
    /// `host:port`.
    pub address: String,
}

/// Which of a redirect's addresses the driver dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `http`.
    Http,
    /// `address`.
    Native,
}

/// What a session has selected, as `session::context()` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionContext {
    /// The selected namespace.
    pub namespace: Option<String>,
    /// The selected database.
    pub database: Option<String>,
}

/// One call, as the machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where the connection is now.
    pub home: Place,
    /// Which addresses the driver dials.
    pub transport: Transport,
    /// What the session has selected; `None` if only the node knows, so that it must be asked before leaving.
    pub session: Option<SessionContext>,
    /// The script may write.
    pub writes: bool,
    /// When the call ends, whatever has happened by then.
    pub deadline: Duration,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the whole script to this place. Next: `handle_answer`, `handle_redirect` or `handle_lost`.
    Send {
        /// Where.
        to: Place,
        /// What the request says about the redirect it follows; `None` for the first request.
        redirected: Option<Redirected>,
        /// What to select there first; `None` if the connection has its session already.
        select: Option<SessionContext>,
    },
    /// Ask the node that redirected for `session::context()`. Next: `handle_session` or `handle_lost`.
    AskSession {
        /// Where.
        at: Place,
    },
    /// Connect and ask which node this is. Next: `handle_arrival` or `handle_lost`.
    Check {
        /// Where, and which node to expect.
        at: Place,
    },
    /// The answer just handled is the call's answer.
    Done {
        /// Where the connection is from now on.
        home: Place,
    },
    /// The call ends without an answer.
    Fail(FollowError),
}

/// The machine of one call.
///
/// ```
/// use std::time::Duration;
/// use candor_planner::follow::{Call, Follow, Memory, Place, SessionContext, Step, Transport};
/// # use candor_proto::{Epoch, Redirect, RedirectKind, RedirectReason};
/// let mut memory = Memory::default();
/// let now = Duration::ZERO;
/// let mut follow = Follow::new(Call {
///     home: Place { node: None, address: "n2:7402".into() },
///     transport: Transport::Http,
///     session: Some(SessionContext::default()),
///     writes: true,
///     deadline: Duration::from_secs(30),
/// });
/// assert!(matches!(follow.start(), Step::Send { redirected: None, .. }));
/// let to_n1 = Redirect {
///     kind: RedirectKind::Settled, range: "main".into(), node: "n1".into(), address: "n1:7501".into(),
///     http: Some("n1:7401".into()), epoch: Epoch(3), reason: RedirectReason::Write,
/// };
/// assert!(matches!(follow.handle_redirect(now, to_n1, &memory), Step::Check { .. }));
/// let Step::Send { redirected: Some(redirected), .. } = follow.handle_arrival(now, "n1".into(), &mut memory) else { panic!() };
/// assert_eq!(redirected.to_string(), "node=n1; range=main; epoch=3; hops=1");
/// let Step::Done { home } = follow.handle_answer() else { panic!() };
/// assert_eq!(home.address, "n1:7401");
/// ```
#[derive(Clone, Debug)]
pub struct Follow {
    call: Call,
    /// Where the last request went.
    current: Place,
    hops: u8,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The script is on its way to `current`, or its answer is on its way back.
    Sent,
    /// `current` redirected; it has been asked for the session.
    AskingSession(Leg),
    /// The named node has been asked for its name.
    Checking(Leg),
    /// `Done` or `Fail` was given.
    Ended,
}

/// One redirect that is being followed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leg {
    to: Place,
    expect: NodeName,
    kind: RedirectKind,
    redirected: Redirected,
}

impl Follow {
    /// A call that has not been sent yet.
    pub fn new(call: Call) -> Self {
        let current = call.home.clone();
        Self {
            call,
            current,
            hops: 0,
            state: State::Sent,
        }
    }

    /// The first step: the script goes to where the connection is.
    pub fn start(&self) -> Step {
        Step::Send {
            to: self.call.home.clone(),
            redirected: None,
            select: None,
        }
    }

    /// How many redirects the call has followed.
    pub fn hops(&self) -> u8 {
        self.hops
    }

    /// When `handle_wakeup` must be called unless the call has ended.
    pub fn next_wakeup(&self) -> Option<Duration> {
        (self.state != State::Ended).then_some(self.call.deadline)
    }

    /// The node answered the script, be it with rows or with an error.
    /// An answer that is here counts, even if it came late.
    pub fn handle_answer(&mut self) -> Step {
        if self.state != State::Sent {
            return self.out_of_order();
        }
        self.state = State::Ended;
        Step::Done {
            home: self.call.home.clone(),
        }
    }

    /// The node answered the script with a redirect, so nothing was executed.
    pub fn handle_redirect(&mut self, now: Duration, redirect: Redirect, memory: &Memory) -> Step {
        if self.state != State::Sent {
            return self.out_of_order();
        }
        if now >= self.call.deadline {
            return self.fail(FollowError::Deadline);
        }
        if self.hops >= HOPS_MAX {
            return self.fail(FollowError::RedirectLoop { hops: self.hops });
        }
        let leg = match self.leg(redirect, memory) {
            Ok(leg) => leg,
            Err(error) => return self.fail(error),
        };
        self.hops += 1;
        if let Some(session) = self.call.session.clone() {
            return self.depart(leg, &session);
        }
        self.state = State::AskingSession(leg);
        Step::AskSession {
            at: self.current.clone(),
        }
    }

    /// The node that redirected said what the session has selected.
    pub fn handle_session(&mut self, now: Duration, session: SessionContext) -> Step {
        let State::AskingSession(leg) = self.state.clone() else {
            return self.out_of_order();
        };
        if now >= self.call.deadline {
            return self.fail(FollowError::Deadline);
        }
        let step = self.depart(leg, &session);
        self.call.session = Some(session);
        step
    }

    /// The node at the named place said its name.
    pub fn handle_arrival(&mut self, now: Duration, here: NodeName, memory: &mut Memory) -> Step {
        let State::Checking(leg) = self.state.clone() else {
            return self.out_of_order();
        };
        if now >= self.call.deadline {
            return self.fail(FollowError::Deadline);
        }
        if here != leg.expect {
            let expected = leg.expect;
            return self.fail(FollowError::WrongNode { expected, here });
        }
        memory.note_epoch(&leg.redirected.range, leg.redirected.epoch);
        if leg.kind == RedirectKind::Settled {
            self.call.home = leg.to.clone();
        }
        self.current = leg.to.clone();
        self.state = State::Sent;
        Step::Send {
            to: leg.to,
            redirected: Some(leg.redirected),
            select: self.call.session.clone(),
        }
    }

    /// No answer will come to the last step.
    pub fn handle_lost(&mut self, lost: Lost) -> Step {
        let place = match &self.state {
            State::Ended => return self.out_of_order(),
            State::Checking(leg) => leg.to.clone(),
            State::Sent | State::AskingSession(_) => self.current.clone(),
        };
        let may_have_run = self.state == State::Sent && self.call.writes && lost == Lost::MaybeSent;
        self.fail(if may_have_run {
            FollowError::OutcomeUnknown { place }
        } else {
            FollowError::Unreachable { place }
        })
    }

    /// The deadline may have passed; `None` if it has not.
    pub fn handle_wakeup(&mut self, now: Duration) -> Option<Step> {
        if self.state == State::Ended || now < self.call.deadline {
            return None;
        }
        let place = self.current.clone();
        let may_have_run = self.state == State::Sent && self.call.writes;
        Some(self.fail(if may_have_run {
            FollowError::OutcomeUnknown { place }
        } else {
            FollowError::Deadline
        }))
    }

    /// Checks everything about a redirect that can be checked before leaving.
    fn leg(&self, redirect: Redirect, memory: &Memory) -> Result<Leg, FollowError> {
        let followed = memory.epoch(&redirect.range);
        if redirect.epoch < followed {
            let Redirect { range, epoch, .. } = redirect;
            return Err(FollowError::BackInTime {
                range,
                named: epoch,
                followed,
            });
        }
        // Both stand in a header of the next request.
        for name in [redirect.node.as_str(), redirect.range.as_str()] {
            if !memory::is_header_safe(name) {
                return Err(FollowError::UnsafeName { name: name.to_owned() });
            }
        }
        let address = match self.call.transport {
            Transport::Http => redirect.http.clone(),
            Transport::Native => Some(redirect.address.clone()),
        };
        let Some(address) = address else {
            return Err(FollowError::NoAddress { node: redirect.node });
        };
        Ok(Leg {
            to: Place {
                node: Some(redirect.node.clone()),
                address,
            },
            expect: redirect.node.clone(),
            kind: redirect.kind,
            redirected: Redirected {
                node: redirect.node,
                range: redirect.range,
                epoch: redirect.epoch,
                hops: self.hops + 1,
            },
        })
    }

    /// Leaves for the named node, if the session can travel there.
    fn depart(&mut self, leg: Leg, session: &SessionContext) -> Step {
        let names = [&session.namespace, &session.database];
        if let Some(name) = names.into_iter().flatten().find(|name| !is_plain_identifier(name)) {
            return self.fail(FollowError::UnsafeName { name: name.clone() });
        }
        let at = leg.to.clone();
        self.state = State::Checking(leg);
        Step::Check { at }
    }

    fn fail(&mut self, error: FollowError) -> Step {
        self.state = State::Ended;
        Step::Fail(error)
    }

    fn out_of_order(&mut self) -> Step {
        self.fail(FollowError::OutOfOrder)
    }
}
