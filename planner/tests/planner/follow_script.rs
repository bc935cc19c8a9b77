//! Transcripts of the follow machine: `testscripts/follow/*`.

use std::error::Error;
use std::time::Duration;

use candor_planner::follow::{Call, Follow, FollowError, Lost, Memory, Place, SessionContext, Step, Transport};
use candor_proto::{Epoch, Redirect, RedirectKind, RedirectReason};

use crate::route_script::{parse_span, scripts};
use crate::transcript::{self, Command, Runner};

type Outcome = Result<String, Box<dyn Error>>;

/// S46 to S51: each script names the rows it shows.
#[test]
fn s46_the_machine_follows_as_in_the_transcripts() {
    for script in scripts("follow") {
        let mut runner = Calls::default();
        transcript::run(&mut runner, &script);
    }
}

/// S47, S51: every sequence of redirects up to one too many: the hops are counted, and the connection ends at the last
/// settled target.
#[test]
fn s47_every_chain_of_redirects_ends_after_three_hops_at_the_last_settled_node() {
    for length in 0..=4_u32 {
        for kinds in 0..(1_u32 << length) {
            let (mut memory, mut settled) = (Memory::default(), "n0:1".to_owned());
            let mut follow = Follow::new(call("n0:1", false));
            let mut ended = None;
            for hop in 0..length {
                let kind = if kinds >> hop & 1 == 1 {
                    RedirectKind::Settled
                } else {
                    RedirectKind::Transient
                };
                let node = format!("n{}", hop + 1);
                match follow.handle_redirect(Duration::ZERO, redirect(&node, kind, 1), &memory) {
                    Step::Check { .. } => {}
                    Step::Fail(error) => {
                        ended = Some(error);
                        break;
                    }
                    other => panic!("{other:?}"),
                }
                assert!(matches!(
                    follow.handle_arrival(Duration::ZERO, node.as_str().into(), &mut memory),
                    Step::Send { redirected: Some(redirected), .. } if u32::from(redirected.hops) == hop + 1
                ));
                if kind == RedirectKind::Settled {
                    settled = format!("{node}:1");
                }
            }
            if length == 4 {
                assert_eq!(ended, Some(FollowError::RedirectLoop { hops: 3 }));
            } else {
                assert!(matches!(follow.handle_answer(), Step::Done { home } if home.address == settled));
            }
        }
    }
}

/// A write is never sent again once its bytes may have arrived: every way to lose a call, in every state.
#[test]
fn a_lost_write_is_in_doubt_exactly_when_its_bytes_may_have_arrived() {
    for writes in [false, true] {
        for lost in [Lost::NeverSent, Lost::MaybeSent] {
            let doubt = writes && lost == Lost::MaybeSent;
            let mut sent = Follow::new(call("n0:1", writes));
            assert_eq!(
                code(&sent.handle_lost(lost)),
                if doubt { "outcome-unknown" } else { "hop-failed" }
            );
            let mut checking = Follow::new(call("n0:1", writes));
            checking.handle_redirect(
                Duration::ZERO,
                redirect("n1", RedirectKind::Settled, 1),
                &Memory::default(),
            );
            assert_eq!(
                code(&checking.handle_lost(lost)),
                "hop-failed",
                "only the name was asked for"
            );
        }
        let mut sent = Follow::new(call("n0:1", writes));
        assert_eq!(sent.handle_wakeup(Duration::from_secs(29)), None);
        let step = sent.handle_wakeup(Duration::from_secs(30)).expect("late");
        assert_eq!(code(&step), if writes { "outcome-unknown" } else { "deadline" });
        assert_eq!(sent.next_wakeup(), None);
    }
}

fn code(step: &Step) -> &'static str {
    match step {
        Step::Fail(error) => error.code().as_str(),
        other => panic!("{other:?}"),
    }
}

fn call(home: &str, writes: bool) -> Call {
    Call {
        home: Place {
            node: None,
            address: home.to_owned(),
        },
        transport: Transport::Http,
        session: Some(SessionContext::default()),
        writes,
        deadline: Duration::from_secs(30),
    }
}

fn redirect(node: &str, kind: RedirectKind, epoch: u64) -> Redirect {
    Redirect {
        kind,
        range: "main".into(),
        node: node.into(),
        address: format!("{node}:1"),
        http: Some(format!("{node}:1")),
        epoch: Epoch(epoch),
        reason: RedirectReason::Write,
    }
}

#[derive(Default)]
struct Calls {
    memory: Memory,
    now: Duration,
    follow: Option<Follow>,
}

impl Runner for Calls {
    fn run(&mut self, command: &Command) -> Outcome {
        let mut args = command.consume_args();
        let now = self.now;
        let step = match command.name.as_str() {
            "at" => {
                self.now = parse_span(args.next_pos().ok_or("time")?)?;
                let now = self.now;
                match self.follow.as_mut().and_then(|follow| follow.handle_wakeup(now)) {
                    Some(step) => step,
                    None => return Ok(String::new()),
                }
            }
            // call HOME [write] [ask] [native] [namespace=N] [database=D]
            "call" => {
                let home = args.next_pos().ok_or("home")?;
                let mut call = call(home, false);
                call.deadline = now + call.deadline;
                call.session = Some(SessionContext {
                    namespace: args.take_key("namespace").map(str::to_owned),
                    database: args.take_key("database").map(str::to_owned),
                });
                while let Some(flag) = args.next_pos() {
                    match flag {
                        "write" => call.writes = true,
                        "ask" => call.session = None,
                        "native" => call.transport = Transport::Native,
                        other => return Err(format!("unknown flag {other}").into()),
                    }
                }
                self.follow.insert(Follow::new(call)).start()
            }
            // redirect settled|transient NODE [epoch=N] [http=A|none] [range=R]
            "redirect" => {
                let kind = match args.next_pos().ok_or("kind")? {
                    "settled" => RedirectKind::Settled,
                    _ => RedirectKind::Transient,
                };
                let node = args.next_pos().ok_or("node")?;
                let mut redirect = redirect(node, kind, args.take_key("epoch").unwrap_or("1").parse()?);
                match args.take_key("http") {
                    Some("none") => redirect.http = None,
                    Some(http) => redirect.http = Some(http.to_owned()),
                    None => {}
                }
                redirect.range = args.take_key("range").unwrap_or("main").into();
                let memory = &self.memory;
                self.follow
                    .as_mut()
                    .ok_or("no call")?
                    .handle_redirect(now, redirect, memory)
            }
            "session" => {
                let session = SessionContext {
                    namespace: args.take_key("namespace").map(str::to_owned),
                    database: args.take_key("database").map(str::to_owned),
                };
                self.follow.as_mut().ok_or("no call")?.handle_session(now, session)
            }
            "arrive" => {
                let here = args.next_pos().ok_or("node")?.into();
                self.follow
                    .as_mut()
                    .ok_or("no call")?
                    .handle_arrival(now, here, &mut self.memory)
            }
            "answer" => self.follow.as_mut().ok_or("no call")?.handle_answer(),
            "lost" => {
                let lost = match args.next_pos().ok_or("how")? {
                    "never-sent" => Lost::NeverSent,
                    _ => Lost::MaybeSent,
                };
                self.follow.as_mut().ok_or("no call")?.handle_lost(lost)
            }
            other => return Err(format!("unknown command {other}").into()),
        };
        args.reject_next()?;
        Ok(format!("{}\n", words(&step)))
    }
}

fn words(step: &Step) -> String {
    let selected = |context: &SessionContext| {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        format!(
            "namespace {}, database {}",
            name(&context.namespace),
            name(&context.database)
        )
    };
    match step {
        Step::Send {
            to, redirected: None, ..
        } => format!("send to {}", to.address),
        Step::Send {
            to,
            redirected: Some(redirected),
            select,
        } => {
            let select = select.as_ref().map_or("nothing".to_owned(), selected);
            format!("send to {} [{redirected}], selecting {select}", to.address)
        }
        Step::AskSession { at } => format!("ask {} for session::context()", at.address),
        Step::Check { at } => format!("ask {} which node it is", at.address),
        Step::Done { home } => format!("done; the connection is at {}", home.address),
        Step::Fail(error) => format!("fail {}: {error}", error.code()),
    }
}
