//! Headers and bodies of the HTTP protocol.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use candor_planner::follow::SessionContext;
use candor_planner::span;
use candor_proto::{ErrorBody, NodeName, Redirect, Redirected};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ClientError, SessionInfo, StatementResult};

pub(crate) const NAMESPACE: HeaderName = HeaderName::from_static("candor-namespace");
pub(crate) const DATABASE: HeaderName = HeaderName::from_static("candor-database");
pub(crate) const SETTINGS: HeaderName = HeaderName::from_static("candor-settings");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("candor-session");
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("candor-timeout");
pub(crate) const NODE: HeaderName = HeaderName::from_static("candor-node");
pub(crate) const REDIRECTED: HeaderName = HeaderName::from_static(Redirected::HEADER);

/// The largest error or redirect that is read, bytes; an error may hold the answers of the statements before it.
pub(crate) const REFUSED_BYTES_MAX: usize = 64 << 20;

/// Where a request's session comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionRef {
    /// Nothing is kept: namespace, database and settings stand in the request.
    Stateless(SessionInfo),
    /// A session is opened, starting from this.
    Open(SessionInfo),
    /// This session of the node goes on.
    Kept(String),
}

impl SessionRef {
    /// The id of a session that exists.
    pub(crate) fn into_id(self) -> Option<String> {
        match self {
            Self::Kept(id) => Some(id),
            Self::Stateless(_) | Self::Open(_) => None,
        }
    }
}

/// A script with its parameters, ready to be sent more than once.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) text: Arc<str>,
    pub(crate) params: Arc<[Value]>,
}

#[derive(Serialize)]
struct JsonScript<'a> {
    sql: &'a str,
    params: &'a [Value],
}

impl Script {
    pub(crate) fn new(text: &str, params: &[Value]) -> Self {
        Self {
            text: text.into(),
            params: params.into(),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let params: usize = self
            .params
            .iter()
            .map(|value| value.as_str().map_or(16, str::len))
            .sum();
        self.text.len() + params
    }

    /// The body and its media type: the text itself, or JSON when there are parameters.
    pub(crate) fn body(&self) -> (HeaderValue, Bytes) {
        if self.params.is_empty() {
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            return (plain, Bytes::copy_from_slice(self.text.as_bytes()));
        }
        let body = JsonScript {
            sql: &self.text,
            params: &self.params,
        };
        // Strings and JSON values always serialise.
        let bytes = serde_json::to_vec(&body).unwrap_or_default();
        (HeaderValue::from_static("application/json"), Bytes::from(bytes))
    }
}

/// The headers of one request for a script.
pub(crate) fn headers(
    session: &SessionRef,
    redirected: Option<&Redirected>,
    left: Duration,
) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    match session {
        SessionRef::Stateless(info) => select(&mut headers, info)?,
        SessionRef::Open(info) => {
            select(&mut headers, info)?;
            headers.insert(SESSION, HeaderValue::from_static("new"));
        }
        SessionRef::Kept(id) => {
            headers.insert(SESSION, value("the session id", id)?);
        }
    }
    if let Some(redirected) = redirected {
        headers.insert(REDIRECTED, value("the redirect", &redirected.to_string())?);
    }
    headers.insert(
        TIMEOUT,
        value("the deadline", &span(left.max(Duration::from_millis(1))))?,
    );
    Ok(headers)
}

fn select(headers: &mut HeaderMap, info: &SessionInfo) -> Result<(), ClientError> {
    if let Some(namespace) = &info.namespace {
        headers.insert(NAMESPACE, value("the namespace", namespace)?);
    }
    if let Some(database) = &info.database {
        headers.insert(DATABASE, value("the database", database)?);
    }
    let settings: Vec<String> = info
        .settings
        .iter()
        .filter_map(|(name, setting)| setting_text(name, setting))
        .collect();
    if let Some(unsafe_one) = settings.iter().find(|setting| setting.contains(';')) {
        let what = format!("the setting {unsafe_one}");
        return Err(ClientError::BadRequest {
            what,
            why: "it contains `;`".to_owned(),
        });
    }
    if !settings.is_empty() {
        headers.insert(SETTINGS, value("the settings", &settings.join("; "))?);
    }
    Ok(())
}

/// `name=value`; nothing for a setting that is not set.
fn setting_text(name: &str, setting: &Value) -> Option<String> {
    match setting {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={text}")),
        other => Some(format!("{name}={other}")),
    }
}

pub(crate) fn value(what: &str, text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(text).map_err(|_| ClientError::BadRequest {
        what: format!("{what} {text:?}"),
        why: "it does not fit into a header".to_owned(),
    })
}

/// A success of `/sql` in JSON.
#[derive(Debug, Deserialize)]
pub(crate) struct JsonAnswer {
    #[serde(default)]
    pub(crate) results: Vec<StatementResult>,
    #[serde(default)]
    pub(crate) session: Option<SessionInfo>,
}

/// Everything that is not a success.
#[derive(Debug)]
pub(crate) enum Refused {
    Redirect(Redirect),
    Error(Box<ErrorBody>, Option<SessionInfo>),
}

#[derive(Deserialize)]
struct RedirectBody {
    redirect: Redirect,
}

/// Reads the body of a redirect (307, or 409 without an address) or of an error. A body that is neither comes from
/// something that is not a node.
pub(crate) fn refused(address: &str, status: u16, body: &[u8]) -> Result<Refused, ClientError> {
    if let Ok(RedirectBody { redirect }) = serde_json::from_slice(body) {
        return Ok(Refused::Redirect(redirect));
    }
    let mut error: ErrorBody = serde_json::from_slice(body).map_err(|_| {
        let start: String = String::from_utf8_lossy(body).chars().take(200).collect();
        ClientError::protocol(address, format!("status {status} without an error object: {start:?}"))
    })?;
    let session = error
        .facts
        .remove("session")
        .and_then(|session| serde_json::from_value(session).ok());
    Ok(Refused::Error(Box::new(error), session))
}

/// A header's text.
pub(crate) fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The node that sent these headers.
pub(crate) fn node_of(headers: &HeaderMap) -> Option<NodeName> {
    header(headers, &NODE).map(NodeName::new)
}

/// The media type, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let full = header(headers, &CONTENT_TYPE).unwrap_or_default();
    full.split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// What `session::context()` answered: an object, or its text.
pub(crate) fn session_context(value: &Value) -> Option<SessionContext> {
    let parsed: Value;
    let object = match value {
        Value::String(text) => {
            parsed = serde_json::from_str(text).ok()?;
            &parsed
        }
        other => other,
    };
    let name = |key: &str| match object.get(key)? {
        Value::Null => Some(None),
        Value::String(name) => Some(Some(name.clone())),
        _ => None,
    };
    Some(SessionContext {
        namespace: name("namespace")?,
        database: name("database")?,
    })
}
