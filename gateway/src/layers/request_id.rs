//! Gives each request an id that is ours, a span that carries it, and a header that shows it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::Instrument as _;

use crate::app::App;
use crate::error::{Error, Kind};

/// 128 random bits in hex. Ids that clients send are logged, never used: two of them may be equal.
#[derive(Clone, Debug)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    fn mint() -> Result<Self, getrandom::Error> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits)?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bits)).into()))
    }
}

pub(super) async fn layer(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = match RequestId::mint() {
        Ok(id) => id,
        Err(error) => {
            return Error::new(Kind::Internal, format!("the system gives no random numbers: {error}")).into_response();
        }
    };
    let theirs = request.headers().get("x-request-id").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let span = tracing::info_span!("request", id = %id.0, client_id = theirs.get(..64).unwrap_or(theirs));
    tracing::debug!(parent: &span, method = %request.method(), path = request.uri().path(), "received");
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    tracing::debug!(parent: &span, status = response.status().as_u16(), "answered");
    app.metrics.respond(response.status().as_u16());
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}
