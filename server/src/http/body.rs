//! Reading a request's body within bounds, and reading what will not be used.

use std::time::Instant;

use axum::body::{Body, Bytes};
use candor_proto::{ErrorBody, ErrorCode, limits};
use futures::StreamExt;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;

/// The body as text.
///
/// # Errors
/// `too-large` beyond `max` bytes, after what is on its way was drained; `bad-request` when it is no UTF-8 or breaks off.
pub(crate) async fn read(headers: &HeaderMap, body: Body, max: usize) -> Result<String, ErrorBody> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max) {
        drain(body).await;
        return Err(too_large(max));
    }
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk
            .map_err(|error| ErrorBody::new(ErrorCode::BadRequest, format!("the request's body broke off: {error}")))?;
        if bytes.len() + chunk.len() > max {
            drain_stream(chunks).await;
            return Err(too_large(max));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ErrorBody::new(
            ErrorCode::BadRequest,
            format!("the request's body is not UTF-8 at byte {at}"),
        )
    })
}

/// Reads and drops what the caller is still sending, within a bound of bytes and time, so that an answer that does not
/// need it reaches a caller that is still writing.
pub(crate) async fn drain(body: Body) {
    drain_stream(body.into_data_stream()).await;
}

async fn drain_stream(mut chunks: impl StreamExt<Item = Result<Bytes, axum::Error>> + Unpin) {
    let end = Instant::now() + limits::DRAIN_TIME_MAX;
    let mut left = limits::DRAIN_BYTES_MAX;
    while let Ok(Some(Ok(chunk))) = tokio::time::timeout_at(end.into(), chunks.next()).await {
        match left.checked_sub(chunk.len()) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

fn too_large(max: usize) -> ErrorBody {
    ErrorBody::new(
        ErrorCode::TooLarge,
        format!("a request's body is at most {max} bytes on this node"),
    )
    .with_fact("max_bytes", max)
    .with_help("load files with COPY … FROM, or send the rows in several requests")
}
