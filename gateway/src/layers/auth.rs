//! From the bearer key to who asks. Without a key nothing answers but `/health`, not even a 404.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::error::{Error, Kind};
use crate::tenant::{Tenant, key};

/// The only path that is open.
const OPEN: &str = "/health";

/// Who asks.
#[derive(Clone, Debug)]
pub enum Principal {
    /// A tenant.
    Tenant(Arc<Tenant>),
    /// Whoever runs this gateway.
    Operator,
}

impl Principal {
    /// The tenant.
    ///
    /// # Errors
    /// `Forbidden` for the operator: requests are accounted to tenants.
    pub fn tenant(&self) -> Result<&Arc<Tenant>, Error> {
        match self {
            Self::Tenant(tenant) => Ok(tenant),
            Self::Operator => Err(Error::new(Kind::Forbidden, "the admin key is not for this; use a tenant's API key")),
        }
    }

    /// Nothing, for the operator.
    ///
    /// # Errors
    /// `Forbidden` for tenants.
    pub fn operator(&self) -> Result<(), Error> {
        match self {
            Self::Operator => Ok(()),
            Self::Tenant(_) => Err(Error::new(Kind::Forbidden, "this needs the admin key")),
        }
    }
}

pub(super) async fn layer(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    if request.uri().path() == OPEN {
        return next.run(request).await;
    }
    match identify(&app, request.headers()) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(error) => ([("www-authenticate", "Bearer")], error).into_response(),
    }
}

fn identify(app: &App, headers: &HeaderMap) -> Result<Principal, Error> {
    let refuse = |message: &str| Error::new(Kind::Unauthorized, message).code("invalid_api_key");
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(refuse("no API key: send it as \"Authorization: Bearer KEY\""));
    };
    let text = header.to_str().map_err(|_| refuse("the Authorization header is not plain ASCII"))?;
    let presented = match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
        _ => return Err(refuse("the Authorization header is not \"Bearer KEY\"")),
    };
    let operator = bool::from(app.admin_key.matches(&key::Hash::of(presented)));
    match app.tenants.by_key(presented) {
        _ if operator => Ok(Principal::Operator),
        Some(tenant) => Ok(Principal::Tenant(Arc::clone(tenant))),
        None => Err(refuse("unknown API key")),
    }
}
