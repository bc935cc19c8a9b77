//! Health and the cluster map. These never redirect and never wait for the engine.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use candor_parser::span::parse_span;
use candor_proto::{ErrorBody, ErrorCode, RangeName};
use http::StatusCode;
use serde_json::json;

use crate::server::Shared;

/// The process runs.
pub(super) async fn live() -> &'static str {
    "live\n"
}

/// The node serves what it holds: no copy of a range without a known age, and not about to stop.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let mut lines = Vec::new();
    let mut ready = true;
    let mut check = |name: String, ok: bool, why: &str| {
        ready &= ok;
        lines.push(if ok {
            format!("[+] {name} ok")
        } else {
            format!("[-] {name} {why}")
        });
    };
    check("node".to_owned(), !shared.is_stopping(), "is stopping");
    for range in shared.cluster.ranges() {
        let settled = shared.cluster.view(&range).own_age().is_some();
        check(
            format!("range {range}"),
            settled,
            "has not caught up with its leader yet",
        );
    }
    lines.push(String::new());
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, lines.join("\n")).into_response()
}

/// `?max_staleness=30s[&range=main]`: 200 while every copy (or that one) is within the bound, for load balancers that
/// route by freshness.
pub(super) async fn replica(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let refuse = |why: String| super::error(&shared, ErrorBody::new(ErrorCode::BadRequest, why));
    if let Some(unknown) = query
        .keys()
        .find(|key| !["max_staleness", "range"].contains(&key.as_str()))
    {
        return refuse(format!(
            "/health/replica knows max_staleness and range, not `{unknown}`"
        ));
    }
    let bound = match query.get("max_staleness").map(|text| parse_span(text)) {
        None => None,
        Some(Ok(bound)) => Some(bound),
        Some(Err(error)) => return refuse(format!("max_staleness: {error}")),
    };
    let ranges = match query.get("range") {
        Some(name) => vec![RangeName::new(name)],
        None => shared.cluster.ranges(),
    };
    let mut fresh = !shared.is_stopping();
    let mut report = serde_json::Map::new();
    for range in ranges {
        let view = shared.cluster.view(&range);
        let (own_age, copy) = (view.own_age(), view.own.copy);
        fresh &= match bound {
            Some(bound) => own_age.is_some_and(|age| age <= bound),
            None => copy.is_some(),
        };
        let doc = json!({
            "leads": copy.is_some_and(|copy| copy.leads),
            "copy_age_ms": own_age.map(crate::route::millis_up),
        });
        report.insert(range.to_string(), doc);
    }
    let status = if fresh {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let doc = json!({"fresh": fresh, "max_staleness_ms": bound.map(crate::route::millis_up), "ranges": report});
    (status, axum::Json(doc)).into_response()
}

/// Who is who, as this node knows it: so that a driver asks once and then goes straight.
pub(super) async fn cluster(State(shared): State<Arc<Shared>>) -> Response {
    axum::Json(shared.cluster_map()).into_response()
}
