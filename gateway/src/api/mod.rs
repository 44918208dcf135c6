//! The public API: paths to endpoints.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::routing::{get, post};

use crate::app::App;
use crate::error::{Error, Kind};

mod asked;
mod body;
mod chat;
mod error;
mod health;
mod models;
pub(crate) mod sse;

pub(crate) use health::{health, metrics, ready};

/// Endpoints of the public listener.
pub fn routes(app: &Arc<App>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(chat::create))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::clone(app))
}

pub(crate) async fn unknown_path(method: Method, uri: Uri) -> Error {
    Error::new(Kind::NotFound, format!("unknown URL: {method} {}", uri.path())).code("unknown_url")
}

pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Error {
    Error::new(Kind::MethodNotAllowed, format!("{} does not answer {method}", uri.path())).code("method_not_allowed")
}

/// State of every endpoint.
type Shared = State<Arc<App>>;
