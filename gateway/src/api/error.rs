//! Errors as OpenAI's clients expect them: one envelope, as a response or as an event of a stream.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::{Error, Kind};
use crate::layers::admission::whole_seconds;

/// `{"error": {...}}`.
#[derive(Serialize)]
pub(crate) struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn new(error: &'a Error) -> Self {
        let (_, r#type, code) = public(error.kind);
        let code = error.code.or(code);
        Self { error: Body { message: &error.message, r#type, param: error.param.as_deref(), code } }
    }
}

/// Status, `type` and the `code` of an error that names none.
fn public(kind: Kind) -> (StatusCode, &'static str, Option<&'static str>) {
    const CLIENT: &str = "invalid_request_error";
    const SERVER: &str = "server_error";
    match kind {
        Kind::BadRequest => (StatusCode::BAD_REQUEST, CLIENT, None),
        Kind::Unauthorized => (StatusCode::UNAUTHORIZED, CLIENT, Some("invalid_api_key")),
        Kind::Forbidden => (StatusCode::FORBIDDEN, "permission_error", None),
        Kind::NotFound => (StatusCode::NOT_FOUND, CLIENT, None),
        Kind::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, CLIENT, None),
        Kind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, CLIENT, None),
        Kind::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", Some("rate_limit_exceeded")),
        Kind::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, SERVER, Some("overloaded")),
        Kind::Upstream => (StatusCode::BAD_GATEWAY, SERVER, Some("upstream_error")),
        Kind::Timeout => (StatusCode::GATEWAY_TIMEOUT, SERVER, Some("timeout")),
        Kind::Plugin => (StatusCode::INTERNAL_SERVER_ERROR, SERVER, Some("plugin_error")),
        Kind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, SERVER, Some("internal_error")),
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, ..) = public(self.kind);
        let mut response = (status, Json(Envelope::new(&self))).into_response();
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after).max(1)));
        }
        if status.is_server_error() {
            tracing::warn!(kind = ?self.kind, fault = ?self.fault(), "{}", self.message);
        }
        response
    }
}

/// The metric label of an error.
pub(crate) fn outcome(kind: Kind) -> &'static str {
    match kind {
        Kind::RateLimited => "rate_limited",
        Kind::Overloaded => "overloaded",
        Kind::Upstream => "upstream_error",
        Kind::Timeout => "timeout",
        Kind::Plugin => "plugin_error",
        Kind::Internal => "internal_error",
        Kind::BadRequest
        | Kind::Unauthorized
        | Kind::Forbidden
        | Kind::NotFound
        | Kind::MethodNotAllowed
        | Kind::TooLarge => "client_error",
    }
}
