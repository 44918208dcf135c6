//! Server-sent events: framing and headers.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::Serialize;

/// A comment: keeps proxies from closing a silent stream; clients ignore it.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": \n\n");
/// OpenAI's end of a stream that went well.
pub(crate) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// One event. JSON text has no raw line breaks, so a single `data:` line holds it.
pub(crate) fn data(value: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    let mut frame = b"data: ".to_vec();
    serde_json::to_writer(&mut frame, value)?;
    frame.extend_from_slice(b"\n\n");
    Ok(frame.into())
}

/// A response that streams, unbuffered and uncompressed.
pub(crate) fn response(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-cache"),
        ("x-accel-buffering", "no"),
    ];
    (headers, body).into_response()
}
