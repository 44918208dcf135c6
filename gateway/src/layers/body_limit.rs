//! Refuses bodies above the limit: at once when their length is declared, else when they pass it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http_body_util::Limited;

use crate::app::App;
use crate::error::{Error, Kind};

/// How long a refused body is read and thrown away. A client that is still sending would otherwise see its
/// connection reset instead of the answer.
const DISCARD: Duration = Duration::from_secs(2);

pub(super) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let limit = app.config.limits.max_body_bytes;
    let declared =
        request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    match declared {
        Some(length) if length > limit as u64 => {
            let mut data = request.into_body().into_data_stream();
            let discard = async { while let Some(Ok(_)) = data.next().await {} };
            let _ = tokio::time::timeout(DISCARD, discard).await;
            too_large(limit).into_response()
        }
        _ => next.run(request.map(|body| Body::new(Limited::new(body, limit)))).await,
    }
}

/// The error for a body above the limit.
pub(crate) fn too_large(limit: usize) -> Error {
    Error::new(Kind::TooLarge, format!("the request body is larger than {limit} bytes; send less"))
        .code("request_too_large")
}
