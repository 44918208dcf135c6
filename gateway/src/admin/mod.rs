//! The admin API: what runs now, and plugins replaced while it does. On its own listener, for the admin key only.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};

use crate::api;
use crate::app::App;
use crate::layers::Principal;
use crate::live::Snapshot;

mod plugins;
mod tenants;

/// Endpoints of the admin listener.
pub fn routes(app: &Arc<App>) -> Router {
    Router::new()
        .route("/health", get(api::health))
        .route("/ready", get(api::ready))
        .route("/metrics", get(api::metrics))
        .route("/admin/requests", get(requests))
        .route("/admin/tenants", get(tenants::list))
        .route("/admin/plugins", get(plugins::status))
        .route("/admin/plugins/{name}", put(plugins::install).delete(plugins::remove))
        .route("/admin/plugins/{name}/rollback", post(plugins::rollback))
        .fallback(api::unknown_path)
        .method_not_allowed_fallback(api::wrong_method)
        .layer(from_fn(operators_only))
        .with_state(Arc::clone(app))
}

/// Tenants have no business here. A request without a principal is one that needs none.
async fn operators_only(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>().map(Principal::operator) {
        Some(Err(error)) => error.into_response(),
        _ => next.run(request).await,
    }
}

async fn requests(State(app): State<Arc<App>>) -> Json<Vec<Snapshot>> {
    Json(app.running.snapshot())
}
