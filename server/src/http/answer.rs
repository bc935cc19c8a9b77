//! From a request to its answer: arrival, session, script, and the form the caller accepts.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use axum::response::{IntoResponse, Response};
use candor_parser::{Body, Script};
use candor_planner::arrive;
use candor_proto::{ErrorBody, ErrorCode, Redirect, RedirectKind};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::formats;
use super::json::write_text;
use super::request::{Format, SessionAsked, Sql};
use crate::failure::Stop;
use crate::parsed::ParsedScript;
use crate::script::{Ended, Limits, Params, run};
use crate::server::Shared;
use crate::session::{Kept, Session};

/// Answers a request to `/sql`. `permit` is held until the last byte of the answer left.
pub(super) async fn answer(shared: &Arc<Shared>, request: Sql, permit: OwnedSemaphorePermit) -> Response {
    if let Some(redirected) = &request.redirected {
        let newest = shared.cluster.view(&redirected.range).newest_epoch();
        if let Err(refusal) = arrive(redirected, shared.cluster.name(), newest) {
            return super::error(shared, refusal.to_body());
        }
    }
    let script = match shared
        .parsed
        .script(&request.script)
        .map_err(|error| error.to_body())
        .and_then(|script| {
            check_format(&script.script, request.format)?;
            Ok(script)
        }) {
        Ok(script) => script,
        Err(refused) => return super::error(shared, refused),
    };
    let (id, kept) = match find_session(shared, &request.session) {
        Ok(found) => found,
        Err(refused) => return super::error(shared, refused),
    };
    let mut session = kept.lock_owned().await;
    let mut response = match select(&mut session, &request) {
        Ok(()) => in_session(shared, &mut session, &request, &script, id.is_some(), permit).await,
        Err(refused) => super::error(shared, refused),
    };
    if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id).ok()) {
        response.headers_mut().insert(super::SESSION, id);
    }
    response
}

fn find_session(shared: &Shared, asked: &SessionAsked) -> Result<(Option<String>, Kept), ErrorBody> {
    let now = Instant::now();
    match asked {
        SessionAsked::Own => Ok((None, Kept::default())),
        SessionAsked::New => shared.sessions.open(now).map(|(id, session)| (Some(id), session)),
        SessionAsked::Kept(id) => shared.sessions.find(id, now).map(|session| (Some(id.clone()), session)),
    }
}

/// What the request's own headers select; they win over what the session kept.
fn select(session: &mut Session, request: &Sql) -> Result<(), ErrorBody> {
    if let Some(namespace) = &request.namespace {
        session.namespace = Some(namespace.clone()).filter(|name| !name.is_empty());
    }
    if let Some(database) = &request.database {
        session.database = Some(database.clone()).filter(|name| !name.is_empty());
    }
    if let Some(settings) = &request.settings {
        session.settings.take_header(settings)?;
    }
    Ok(())
}

async fn in_session(
    shared: &Arc<Shared>,
    session: &mut Session,
    request: &Sql,
    script: &ParsedScript,
    kept: bool,
    permit: OwnedSemaphorePermit,
) -> Response {
    let limits = Limits {
        timeout: request.timeout,
        stream_last: request.format != Format::Json,
        kept,
    };
    let params = Params::new(&request.script, &request.params, request.request_id.clone());
    let ended = run(shared, session, script, &params, limits).await;
    match ended {
        Ended::Done { mut outputs, last } => match (request.format, last) {
            (Format::Json, _) => results(&outputs, session),
            (format, Some(output)) => formats::stream(format, output, permit),
            (format, None) => match outputs.pop() {
                Some(output) => formats::stream(format, output.into_output(), permit),
                None => super::error(
                    shared,
                    ErrorBody::new(ErrorCode::EmptyBody, "the script has no statement"),
                ),
            },
        },
        Ended::Redirect(redirect) => redirect_response(shared, &redirect, request),
        Ended::Failed { body, done } => {
            let mut before = String::new();
            if request.format == Format::Json && !done.is_empty() {
                before.push_str(",\"results\":");
                formats::write_results(&done, &mut before);
                write_session(session, &mut before);
            }
            super::error_with(shared, &body, Some(&before))
        }
    }
}

/// CSV and Arrow hold one table, NDJSON one head: a script whose answers would be lost is refused before it runs.
fn check_format(script: &Script, format: Format) -> Result<(), ErrorBody> {
    if script.statements.is_empty() {
        return Err(ErrorBody::new(ErrorCode::EmptyBody, "the script has no statement"));
    }
    let gives_rows = |body: &Body| {
        matches!(
            body,
            Body::Query(_) | Body::Explain { .. } | Body::InfoFor(_) | Body::Show(_)
        )
    };
    let last = script.statements.len() - 1;
    let lost = script
        .statements
        .iter()
        .enumerate()
        .find(|(index, statement)| *index < last && gives_rows(&statement.body));
    match lost {
        Some((index, statement)) if format != Format::Json => {
            let mut body = ErrorBody::new(
                ErrorCode::BadRequest,
                format!(
                    "{} holds the rows of one statement, and this script has more that give rows",
                    format.media_type()
                ),
            )
            .with_span(statement.span)
            .with_help("accept application/json, or send the statements one by one");
            body.statement = Some(index);
            Err(body)
        }
        _ => Ok(()),
    }
}

fn results(outputs: &[crate::script::Collected], session: &Session) -> Response {
    let mut text = String::with_capacity(256);
    text.push_str("{\"results\":");
    formats::write_results(outputs, &mut text);
    write_session(session, &mut text);
    text.push('}');
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, text).into_response()
}

/// What the session holds now, for clients that carry it to another node.
fn write_session(session: &Session, out: &mut String) {
    let name = |name: &Option<String>, out: &mut String| match name {
        Some(name) => write_text(name, out),
        None => out.push_str("null"),
    };
    out.push_str(",\"session\":{\"namespace\":");
    name(&session.namespace, out);
    out.push_str(",\"database\":");
    name(&session.database, out);
    out.push_str(",\"settings\":{");
    for (index, (setting, value)) in session.settings.changed().into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(out, "{comma}\"{setting}\":");
        write_text(&value, out);
    }
    let _ = write!(out, "}},\"transaction\":{}}}", session.transaction.is_some());
}

/// A 307 that stock clients follow, or a 409 where there is nothing for them to follow.
fn redirect_response(shared: &Shared, redirect: &Redirect, request: &Sql) -> Response {
    shared.metrics.redirect(redirect.reason);
    let location = redirect
        .http
        .as_ref()
        .map(|http| format!("http://{http}{}", request.path_and_query));
    let location = location.and_then(|location| Some((HeaderValue::from_str(&location).ok()?, location)));
    let what = match redirect.kind {
        RedirectKind::Settled => format!(
            "{} leads range {} at epoch {}",
            redirect.node, redirect.range, redirect.epoch
        ),
        RedirectKind::Transient => format!("{} can answer this read of range {}", redirect.node, redirect.range),
    };
    let mut doc = json!({
        "error": format!("this request is answered by another node: {what}. This node does not fetch it for you"),
        "code": "redirect",
        "redirect": redirect,
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let status = if let Some((value, text)) = location {
        doc["retry_with"] = format!("curl --location-trusted -X POST '{text}' --data-binary @script.sql").into();
        headers.insert(LOCATION, value);
        StatusCode::TEMPORARY_REDIRECT
    } else {
        doc["help"] = format!("give {} an HTTP address with DEFINE REPLICA … HTTP AT", redirect.node).into();
        StatusCode::CONFLICT
    };
    (status, headers, doc.to_string()).into_response()
}

/// A statement that stopped, as an error: a redirect that may no longer be followed says what stays.
pub(crate) fn stopped_after_commit(stop: Stop) -> Box<ErrorBody> {
    match stop {
        Stop::Error(body) => body,
        Stop::Redirect(redirect) => Box::new(
            ErrorBody::new(
                ErrorCode::NotLeader,
                format!(
                    "this statement is answered by {} ({}), and earlier statements of the script were committed here: \
                     they stay written, the rest did not run",
                    redirect.node, redirect.address
                ),
            )
            .with_help("send the rest of the script to that node")
            .with_fact("leader", redirect.node.as_str())
            .with_fact("address", redirect.address),
        ),
    }
}
