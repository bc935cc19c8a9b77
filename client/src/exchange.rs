//! Single HTTP requests under the deadline of one call, without any decision about what comes next.

use std::time::Duration;

use candor_planner::follow::{Lost, Place};
use candor_proto::{ErrorBody, NodeName, Redirect, Redirected};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::time::Instant;

use crate::raw::{Body, Format};
use crate::wire::{self, JsonAnswer, REFUSED_BYTES_MAX, Refused, Script, SessionRef};
use crate::{ClientError, SessionInfo};

/// Asked on arrival: every answer of a node carries its name, and this one costs nothing.
const ARRIVAL_PATH: &str = "/health/live";

/// The largest answer to that question that is read, bytes.
const ARRIVAL_BYTES_MAX: usize = 64 << 10;

/// How long ending a session on a node that is left may take.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// The requests of one call.
pub(crate) struct Exchange<'a> {
    http: &'a reqwest::Client,
    limit: Duration,
    started: Instant,
    writes: bool,
    /// The session that the last answer named.
    session_id: Option<String>,
}

/// What a node answered to a script.
pub(crate) enum Sent {
    /// A success, its body unread.
    Success(reqwest::Response),
    /// Nothing was executed: go there.
    Redirect(Redirect),
    /// An error, and what the session has selected after it.
    Error(Box<ErrorBody>, Option<SessionInfo>),
}

/// Why a request has no answer.
pub(crate) enum Trouble {
    /// The transport failed.
    Lost(Lost, reqwest::Error),
    /// The deadline passed.
    Late,
    /// The call cannot go on.
    Failed(Box<ClientError>),
}

impl Trouble {
    /// The request that was lost was not the caller's script: that one has not left yet.
    pub(crate) fn before_sending(self) -> Self {
        match self {
            Self::Lost(_, cause) => Self::Lost(Lost::NeverSent, cause),
            other => other,
        }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(http: &'a reqwest::Client, limit: Duration, writes: bool) -> Self {
        let started = Instant::now();
        Self {
            http,
            limit,
            started,
            writes,
            session_id: None,
        }
    }

    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The session that the last answer named.
    pub(crate) fn session_id(&self) -> Option<String> {
        self.session_id.clone()
    }

    /// Sends a script and reads everything but the body of a success.
    pub(crate) async fn post(
        &mut self,
        to: &Place,
        script: &Script,
        format: Format,
        session: &SessionRef,
        redirected: Option<&Redirected>,
    ) -> Result<Sent, Trouble> {
        self.session_id = None;
        let left = self.limit.saturating_sub(self.elapsed());
        let headers = wire::headers(session, redirected, left)?;
        let (media_type, body) = script.body();
        let request = self
            .http
            .post(format!("http://{}/sql", to.address))
            .headers(headers)
            .header(CONTENT_TYPE, media_type)
            .header(ACCEPT, format.media_type())
            .body(body);
        let response = self.in_time(request.send()).await?;
        self.session_id = wire::header(response.headers(), &wire::SESSION);
        if response.status().is_success() {
            return Ok(Sent::Success(response));
        }
        let status = response.status();
        let mut body = self.body(response, to);
        // A redirect says that nothing was executed, so nothing is in doubt when the rest of it is lost.
        body.writes &= status != StatusCode::TEMPORARY_REDIRECT;
        let bytes = body.all(REFUSED_BYTES_MAX).await?;
        Ok(match wire::refused(&to.address, status.as_u16(), &bytes)? {
            Refused::Redirect(redirect) => Sent::Redirect(redirect),
            Refused::Error(error, info) => Sent::Error(error, info),
        })
    }

    /// Asks which node this is.
    pub(crate) async fn ask_name(&self, at: &Place) -> Result<NodeName, Trouble> {
        let request = self.http.get(format!("http://{}{ARRIVAL_PATH}", at.address));
        let response = self.in_time(request.send()).await?;
        let node = wire::node_of(response.headers());
        // Read to its end, so that the connection serves the script, too. The name is known already.
        let mut body = self.body(response, at);
        body.writes = false;
        let _ = body.all(ARRIVAL_BYTES_MAX).await;
        Ok(node.ok_or_else(|| ClientError::protocol(&at.address, "it does not say which node it is"))?)
    }

    /// Reads a success in JSON.
    pub(crate) async fn json_answer(
        &self,
        response: reqwest::Response,
        from: &Place,
    ) -> Result<JsonAnswer, ClientError> {
        let bytes = self.body(response, from).all(usize::MAX).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::protocol(&from.address, error.to_string()))
    }

    /// A response's body under the deadline of the call.
    pub(crate) fn body(&self, response: reqwest::Response, from: &Place) -> Body {
        Body {
            response,
            address: from.address.clone(),
            deadline: self.started + self.limit,
            limit: self.limit,
            writes: self.writes,
        }
    }

    /// Ends a session on a node that is being left, and its open transaction with it, so that it need not wait for its
    /// idle time. Nobody waits for the answer, and nothing depends on it.
    pub(crate) fn close(&self, at: &Place, session: SessionRef) {
        if let Some(id) = session.into_id() {
            let request = self
                .http
                .delete(format!("http://{}/session", at.address))
                .header(wire::SESSION, id);
            tokio::spawn(request.timeout(CLOSE_TIME_MAX).send());
        }
    }

    async fn in_time(
        &self,
        sending: impl Future<Output = Result<reqwest::Response, reqwest::Error>>,
    ) -> Result<reqwest::Response, Trouble> {
        match tokio::time::timeout_at(self.started + self.limit, sending).await {
            Err(_) => Err(Trouble::Late),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let never = error.is_connect() || error.is_builder();
                Err(Trouble::Lost(
                    if never { Lost::NeverSent } else { Lost::MaybeSent },
                    error,
                ))
            }
        }
    }
}
