//! `/health`, `/ready` and `/metrics`.
//!
//! `/health` says that the process answers, to anyone. `/ready` says that it wants traffic, to any key. `/metrics` is
//! for the admin key. The admin listener has all three as well, and goes on answering while the gateway drains.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Shared;
use crate::error::{Error, Kind};
use crate::layers::Principal;

pub(crate) async fn health() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

pub(crate) async fn ready(State(app): Shared) -> Response {
    let (status, word) =
        if app.drain.is_draining() { (StatusCode::SERVICE_UNAVAILABLE, "draining") } else { (StatusCode::OK, "ready") };
    (status, Json(json!({"status": word, "requests_running": app.running.len()}))).into_response()
}

pub(crate) async fn metrics(State(app): Shared, Extension(who): Extension<Principal>) -> Result<Response, Error> {
    who.operator()?;
    let text = app.metrics.encode().map_err(|_| Error::new(Kind::Internal, "a metric can't be written"))?;
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
}
