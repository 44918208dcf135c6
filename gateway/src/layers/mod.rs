//! The layers that every request passes, in one visible order.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tower::ServiceBuilder;

use crate::app::App;

pub(crate) mod admission;
mod auth;
pub(crate) mod body_limit;
mod deadline;
mod request_id;

pub use auth::Principal;
pub use deadline::Deadline;
pub use request_id::RequestId;

/// Wraps a listener's endpoints. A request passes the layers from top to bottom, its response from bottom to top.
///
/// The last step of admission is not here: what a request costs is known when it has been read and rendered, so the
/// endpoint takes the [`crate::tenant::Permit`], all limits in one step.
pub fn stack(endpoints: Router, app: &Arc<App>) -> Router {
    let app = || Arc::clone(app);
    endpoints.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(app(), request_id::layer))
            .layer(from_fn_with_state(app(), deadline::layer))
            .layer(from_fn_with_state(app(), auth::layer))
            .layer(from_fn_with_state(app(), admission::layer))
            .layer(from_fn_with_state(app(), body_limit::layer)),
    )
}
