//! One call, from the first byte sent to the answer: performs the steps that `follow` decides.

use candor_planner::follow::{Call, Follow, FollowError, Place, SessionContext, Step, Transport};
use candor_proto::{ErrorCode, NodeName, Redirect, RedirectKind, Redirected};

use crate::client::Inner;
use crate::exchange::{Exchange, Sent, Trouble};
use crate::raw::{Format, RawAnswer};
use crate::script::may_write;
use crate::session::{Replayed, Session, Transaction, context, fingerprint, initial};
use crate::wire::{self, Script, SessionRef};
use crate::{Answer, ClientError, Hop, SessionInfo};

/// The run of one script.
pub(crate) struct Run<'a> {
    inner: &'a Inner,
    exchange: Exchange<'a>,
    script: Script,
    format: Format,
    session: Option<&'a mut Session>,
    hops: Vec<Hop>,
    /// The kind of the redirect that is being followed.
    kind: Option<RedirectKind>,
    /// The session that was opened on another node, and where.
    opened: Option<(String, String)>,
    /// What the transport said when the last step was lost.
    cause: Option<reqwest::Error>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(inner: &'a Inner, script: Script, format: Format, session: Option<&'a mut Session>) -> Self {
        let exchange = Exchange::new(&inner.http, inner.config.deadline, may_write(&script.text));
        Self {
            inner,
            exchange,
            script,
            format,
            session,
            hops: Vec::new(),
            kind: None,
            opened: None,
            cause: None,
        }
    }

    /// The whole answer.
    pub(crate) async fn answer(mut self) -> Result<Answer, ClientError> {
        let (response, place) = self.follow().await?;
        let node = wire::node_of(response.headers());
        let answer = self.exchange.json_answer(response, &place).await?;
        {
            let mut memory = self.inner.memory();
            let receipts = answer.results.iter().filter_map(|result| result.receipt.as_ref());
            receipts.for_each(|receipt| memory.note_receipt(receipt));
        }
        let moved_away = self.kind == Some(RedirectKind::Transient);
        match &mut self.session {
            Some(session) if moved_away => {
                if let Some(left) = session.answered_elsewhere(answer.session.as_ref()) {
                    self.exchange.close(&self.inner.home(), left);
                }
            }
            Some(session) => session.answered(&self.script, &answer.results, answer.session.as_ref()),
            None => {}
        }
        Ok(Answer {
            results: answer.results,
            hops: self.hops,
            elapsed: self.exchange.elapsed(),
            node,
            session: answer.session,
        })
    }

    /// The answer's body, still on its way.
    pub(crate) async fn raw(mut self) -> Result<RawAnswer, ClientError> {
        let (response, place) = self.follow().await?;
        let found = wire::media_type(response.headers());
        if found != self.format.media_type() {
            let why = format!("asked for {}, answered {found:?}", self.format.media_type());
            return Err(ClientError::protocol(&place.address, why));
        }
        if self.kind != Some(RedirectKind::Transient)
            && let Some(session) = &mut self.session
        {
            session.answered_raw();
        }
        Ok(RawAnswer {
            format: self.format,
            node: wire::node_of(response.headers()),
            body: self.exchange.body(response, &place),
            hops: self.hops,
        })
    }

    /// Performs the machine's steps until there is an answer: the successful response and where it came from.
    async fn follow(&mut self) -> Result<(reqwest::Response, Place), ClientError> {
        let mut follow = Follow::new(Call {
            home: self.inner.home(),
            transport: Transport::Http,
            session: self.travelling(),
            writes: self.exchange.writes(),
            deadline: self.inner.config.deadline,
        });
        let mut step = follow.start();
        loop {
            step = match step {
                Step::Send { to, redirected, select } => match self.send(&to, redirected.as_ref(), select).await {
                    Ok(Sent::Redirect(redirect)) => self.redirected(&mut follow, redirect)?,
                    Ok(Sent::Success(response)) => {
                        self.settle(follow.handle_answer());
                        return Ok((response, to));
                    }
                    Ok(Sent::Error(body, info)) => {
                        self.settle(follow.handle_answer());
                        if let Some(session) = &mut self.session {
                            session.refused(body.code, info);
                        }
                        return Err(ClientError::Server(body));
                    }
                    Err(trouble) => self.trouble(&mut follow, trouble)?,
                },
                Step::Check { at } => match self.exchange.ask_name(&at).await {
                    Ok(node) => self.arrived(&mut follow, &at, node),
                    Err(trouble) => self.trouble(&mut follow, trouble)?,
                },
                Step::AskSession { at } => match self.ask_session(&at).await {
                    Ok(context) => follow.handle_session(self.exchange.elapsed(), context),
                    Err(trouble) => self.trouble(&mut follow, trouble)?,
                },
                Step::Fail(error) => return Err(self.failed(error)),
                // `settle` takes every `Done` above.
                Step::Done { .. } => return Err(ClientError::protocol("the client", "an answer without a question")),
            };
        }
    }

    /// What the session takes along when it leaves; `None` if its node must be asked.
    fn travelling(&self) -> Option<SessionContext> {
        match &self.session {
            Some(session) => session.context(),
            None => Some(context(&initial(&self.inner.config))),
        }
    }

    async fn send(
        &mut self,
        to: &Place,
        redirected: Option<&Redirected>,
        select: Option<SessionContext>,
    ) -> Result<Sent, Trouble> {
        let Some(redirected) = redirected else {
            return self.send_home(to).await;
        };
        if self.kind == Some(RedirectKind::Settled) && self.session.is_some() {
            return self.send_moved(to, redirected, select).await;
        }
        let info = self.selected(select);
        let session = SessionRef::Stateless(info);
        self.exchange
            .post(to, &self.script, self.format, &session, Some(redirected))
            .await
    }

    /// The first request, to the node where the connection is.
    async fn send_home(&mut self, to: &Place) -> Result<Sent, Trouble> {
        let Some(session) = &mut self.session else {
            let session = SessionRef::Stateless(initial(&self.inner.config));
            return self.exchange.post(to, &self.script, self.format, &session, None).await;
        };
        let mut sent = self
            .exchange
            .post(to, &self.script, self.format, &session.reference(), None)
            .await?;
        // A session that is gone has run nothing of this script; only its transaction cannot be opened again.
        let dead = matches!(&sent, Sent::Error(body, _) if body.code == ErrorCode::SessionDead);
        if dead && session.id.is_some() && session.transaction.is_none() {
            session.lost();
            sent = self
                .exchange
                .post(to, &self.script, self.format, &session.reference(), None)
                .await?;
        }
        if let Some(id) = self.exchange.session_id() {
            session.id = Some(id);
        }
        Ok(sent)
    }

    /// The request to the node to which the connection moves: in a session opened there, after the open transaction has
    /// been run again.
    async fn send_moved(
        &mut self,
        to: &Place,
        redirected: &Redirected,
        select: Option<SessionContext>,
    ) -> Result<Sent, Trouble> {
        let open = SessionRef::Open(self.selected(select));
        let replayed = self
            .session
            .as_ref()
            .and_then(|session| session.transaction.as_ref())
            .map(Transaction::scripts);
        let session = match replayed {
            None => open,
            Some(scripts) => match self.replay(to, redirected, open, &scripts).await {
                Ok(Replay::Done(session)) => session,
                Ok(Replay::Redirect(redirect)) => return Ok(Sent::Redirect(redirect)),
                Err(trouble) => {
                    self.abandon();
                    return Err(trouble);
                }
            },
        };
        let sent = self
            .exchange
            .post(to, &self.script, self.format, &session, Some(redirected))
            .await?;
        let id = self.exchange.session_id().or(session.into_id());
        self.opened = id.map(|id| (to.address.clone(), id));
        Ok(sent)
    }

    /// Runs the open transaction again at `to`, and compares what it answers with what the caller has seen. None of it is
    /// committed, so nothing that goes wrong here leaves a write in doubt.
    async fn replay(
        &mut self,
        to: &Place,
        redirected: &Redirected,
        mut session: SessionRef,
        scripts: &[Replayed],
    ) -> Result<Replay, Trouble> {
        for replayed in scripts {
            let sent = self
                .exchange
                .post(to, &replayed.script, Format::Json, &session, Some(redirected))
                .await;
            let response = match sent.map_err(Trouble::before_sending)? {
                Sent::Success(response) => response,
                Sent::Redirect(redirect) => return Ok(Replay::Redirect(redirect)),
                Sent::Error(body, _) => return Err(ClientError::Server(body).into()),
            };
            let id = self.exchange.session_id().or(session.into_id());
            let id = id.ok_or_else(|| ClientError::protocol(&to.address, "it opened no session"))?;
            session = SessionRef::Kept(id);
            let answer = self.exchange.json_answer(response, to).await?;
            if fingerprint(&answer.results) != replayed.fingerprint {
                self.exchange.close(to, session);
                return Err(ClientError::TransactionMoved.into());
            }
        }
        Ok(Replay::Done(session))
    }

    /// Gives the open transaction up, wherever it is.
    fn abandon(&mut self) {
        let home = self.inner.home();
        if let Some(session) = &mut self.session {
            self.exchange.close(&home, session.reference());
            session.lost();
        }
    }

    /// What a request to another node starts from.
    fn selected(&self, select: Option<SessionContext>) -> SessionInfo {
        let known = match &self.session {
            Some(session) => session.starting_point().clone(),
            None => initial(&self.inner.config),
        };
        match select {
            Some(SessionContext { namespace, database }) => SessionInfo {
                namespace,
                database,
                ..known
            },
            None => known,
        }
    }

    /// Asks the node where the session is what it has selected.
    async fn ask_session(&mut self, at: &Place) -> Result<SessionContext, Trouble> {
        let Some(session) = &mut self.session else {
            return Ok(context(&initial(&self.inner.config)));
        };
        let question = Script::new("RETURN session::context()", &[]);
        let sent = self
            .exchange
            .post(at, &question, Format::Json, &session.reference(), None)
            .await;
        match sent.map_err(Trouble::before_sending)? {
            Sent::Success(response) => {
                let answer = self.exchange.json_answer(response, at).await?;
                let context = answer
                    .results
                    .first()
                    .and_then(|result| wire::session_context(result.scalar()?));
                let why = "it does not say what the session has selected";
                Ok(context.ok_or_else(|| ClientError::protocol(&at.address, why))?)
            }
            Sent::Error(body, _) => Err(ClientError::Server(body).into()),
            Sent::Redirect(_) => Err(ClientError::protocol(&at.address, "it redirects the question what it is").into()),
        }
    }

    /// A redirect came. Inside an open transaction it moves the connection whatever its kind: the transaction cannot be
    /// in two places.
    fn redirected(&mut self, follow: &mut Follow, mut redirect: Redirect) -> Result<Step, ClientError> {
        if let Some(transaction) = self.session.as_ref().and_then(|session| session.transaction.as_ref()) {
            if let Some(why) = transaction.not_replayable {
                self.abandon();
                return Err(ClientError::NotReplayable { why: why.to_owned() });
            }
            redirect.kind = RedirectKind::Settled;
        }
        self.kind = Some(redirect.kind);
        Ok(follow.handle_redirect(self.exchange.elapsed(), redirect, &self.inner.memory()))
    }

    fn arrived(&mut self, follow: &mut Follow, at: &Place, here: NodeName) -> Step {
        let step = follow.handle_arrival(self.exchange.elapsed(), here, &mut self.inner.memory());
        if matches!(step, Step::Send { .. })
            && let (Some(node), Some(kind)) = (at.node.clone(), self.kind)
        {
            let url = format!("http://{}", at.address);
            self.hops.push(Hop { node, url, kind });
        }
        step
    }

    /// The answer is there: the connection is where the machine says, and the session with it.
    fn settle(&mut self, step: Step) {
        let Step::Done { home } = step else { return };
        let before = self.inner.home();
        if home == before {
            return;
        }
        if let Some(session) = &mut self.session {
            self.exchange.close(&before, session.reference());
            session.id = self
                .opened
                .take()
                .filter(|(address, _)| *address == home.address)
                .map(|(_, id)| id);
        }
        self.inner.settle(home);
    }

    fn trouble(&mut self, follow: &mut Follow, trouble: Trouble) -> Result<Step, ClientError> {
        match trouble {
            Trouble::Lost(lost, cause) => {
                self.cause = Some(cause);
                Ok(follow.handle_lost(lost))
            }
            Trouble::Late => {
                let now = self.exchange.elapsed().max(self.inner.config.deadline);
                Ok(follow.handle_wakeup(now).unwrap_or(Step::Fail(FollowError::Deadline)))
            }
            Trouble::Failed(error) => Err(*error),
        }
    }

    fn failed(&mut self, error: FollowError) -> ClientError {
        if let FollowError::Unreachable { place } = &error
            && self.inner.forsake(&place.address)
            && let Some(session) = &mut self.session
        {
            session.lost();
        }
        ClientError::from_follow(error, self.cause.take(), self.inner.config.deadline)
    }
}

/// What came of running a transaction again.
enum Replay {
    /// It is open in this session.
    Done(SessionRef),
    /// The node sends it on.
    Redirect(Redirect),
}
