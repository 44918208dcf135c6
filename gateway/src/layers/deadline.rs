//! Sets the time by which a request has to be done, and answers for one that isn't.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::error::{Error, Kind};

/// When the request has failed if it is not done. A stream that has begun keeps to it by itself.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// What a request gets that is too late.
    #[must_use]
    pub fn passed() -> Error {
        Error::new(
            Kind::Timeout,
            "the request took longer than this server allows; ask for fewer tokens or retry later",
        )
    }
}

pub(super) async fn layer(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let deadline = Instant::now() + app.config.limits.request_timeout;
    request.extensions_mut().insert(Deadline(deadline));
    tokio::time::timeout_at(deadline.into(), next.run(request))
        .await
        .unwrap_or_else(|_| Deadline::passed().into_response())
}
