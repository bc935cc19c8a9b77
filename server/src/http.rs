//! The HTTP door: `POST /sql`, health, metrics, the cluster map.
//!
//! Every answer says which process gave it (`Candor-Node`, `Candor-Boot-Id`). Errors are the one error object with its
//! status, whatever went wrong; a redirect is a 307 with a `Location`, sent only after the request's body was read,
//! because an unread body resets the connection under the caller.

mod answer;
mod body;
mod csv;
mod formats;
mod health;
mod json;
mod request;

pub(crate) use answer::stopped_after_commit;
pub(crate) use formats::result_text;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use candor_proto::{ErrorBody, ErrorCode};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

use crate::metrics::Stopwatch;
use crate::server::Shared;

const NODE: HeaderName = HeaderName::from_static("candor-node");
const BOOT_ID: HeaderName = HeaderName::from_static("candor-boot-id");
const SESSION: HeaderName = HeaderName::from_static("candor-session");

/// All paths that a node serves.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/sql", any(sql))
        .route("/session", any(close_session))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/health/replica", get(health::replica))
        .route("/metrics", get(metrics))
        .route("/cluster", get(health::cluster))
        .route("/progress/{request}", get(progress))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(shared.clone(), stamp))
        .with_state(shared)
}

/// Names the process on every answer, at the moment the answer is made.
async fn stamp(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(NODE, shared.node_header.clone());
    headers.insert(BOOT_ID, shared.boot_header.clone());
    response
}

async fn sql(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if request.method() != Method::POST {
        body::drain(request.into_body()).await;
        return with_allow(
            error(&shared, ErrorBody::new(ErrorCode::MethodNotAllowed, "/sql takes POST")),
            "POST",
        );
    }
    let _stopwatch = Stopwatch::start(&shared.metrics);
    let Some(permit) = shared.enter() else {
        body::drain(request.into_body()).await;
        let full = format!(
            "this node is answering {} requests already",
            shared.config.requests_in_flight_max
        );
        return error(&shared, ErrorBody::new(ErrorCode::Overloaded, full));
    };
    let (parts, body) = request.into_parts();
    let text = match body::read(&parts.headers, body, shared.config.body_bytes_max).await {
        Ok(text) => text,
        Err(refused) => return error(&shared, refused),
    };
    match request::Sql::parse(&parts, &text) {
        Ok(request) => answer::answer(&shared, request, permit).await,
        Err(refused) => error(&shared, refused),
    }
}

/// `DELETE /session` with `Candor-Session`: ends a kept session and rolls its open transaction back.
async fn close_session(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if request.method() != Method::DELETE {
        body::drain(request.into_body()).await;
        return with_allow(
            error(
                &shared,
                ErrorBody::new(ErrorCode::MethodNotAllowed, "/session takes DELETE"),
            ),
            "DELETE",
        );
    }
    let id = request
        .headers()
        .get(SESSION)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    body::drain(request.into_body()).await;
    match id {
        Some(id) => {
            shared.sessions.close(&id);
            StatusCode::NO_CONTENT.into_response()
        }
        None => error(
            &shared,
            ErrorBody::new(ErrorCode::BadRequest, "Candor-Session names the session to close"),
        ),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let page = shared.metrics.render(&shared);
    (
        [(http::header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        page,
    )
        .into_response()
}

/// How far the COPY of a running request has got that was sent with this `Candor-Request-Id`.
async fn progress(State(shared): State<Arc<Shared>>, Path(request): Path<String>) -> Response {
    match shared.running.of(&request) {
        Some(progress) => axum::Json(serde_json::json!({
            "rows": progress.rows,
            "bytes": progress.bytes,
            "bytes_total": progress.bytes_total,
        }))
        .into_response(),
        None => error(
            &shared,
            ErrorBody::new(ErrorCode::NotFound, "no request of this name is running"),
        ),
    }
}

async fn nothing_here(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    body::drain(request.into_body()).await;
    let body = ErrorBody::new(ErrorCode::NotFound, format!("nothing is served at {path}")).with_help(
        "statements go to POST /sql; there are also /cluster, /health/live, /health/ready, /health/replica, /metrics",
    );
    error(&shared, body)
}

async fn wrong_method(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    body::drain(request.into_body()).await;
    with_allow(
        error(
            &shared,
            ErrorBody::new(ErrorCode::MethodNotAllowed, format!("{path} takes GET")),
        ),
        "GET, HEAD",
    )
}

fn with_allow(mut response: Response, methods: &'static str) -> Response {
    response
        .headers_mut()
        .insert(http::header::ALLOW, HeaderValue::from_static(methods));
    response
}

/// The one error object with its status.
#[expect(clippy::needless_pass_by_value, reason = "callers make the body on the spot")]
pub(crate) fn error(shared: &Shared, body: ErrorBody) -> Response {
    error_with(shared, &body, None)
}

/// An error, with the answers of the statements before it when there are any: `(results, session)` as JSON text.
pub(crate) fn error_with(shared: &Shared, body: &ErrorBody, before: Option<&str>) -> Response {
    shared.metrics.error(body.code);
    let status = StatusCode::from_u16(body.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = body.retry_after_ms.unwrap_or(1000).div_ceil(1000);
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    let mut text = error_text(body);
    if let (Some(before), Some(end)) = (before, text.rfind('}')) {
        text.insert_str(end, before);
    }
    (status, headers, text).into_response()
}

/// The error object as JSON text.
pub(crate) fn error_text(body: &ErrorBody) -> String {
    // An ErrorBody is maps of strings and numbers: it cannot fail to be written.
    serde_json::to_string(body).unwrap_or_else(|_| r#"{"error":"internal","code":"internal"}"#.to_owned())
}
