//! What the layers have found out about a request, for endpoints that need all of it.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Version;
use axum::http::request::Parts;

use crate::error::{Error, Kind};
use crate::layers::{Deadline, Principal, RequestId};
use crate::peer::Peer;

/// A request's circumstances.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) deadline: Deadline,
    pub(super) who: Principal,
    pub(super) peer: Arc<Peer>,
    pub(super) version: Version,
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        Ok(Self {
            id: found(parts)?,
            deadline: found(parts)?,
            who: found(parts)?,
            peer: found(parts)?,
            version: parts.version,
        })
    }
}

fn found<T: Clone + Send + Sync + 'static>(parts: &Parts) -> Result<T, Error> {
    let missing = || Error::new(Kind::Internal, format!("a layer is missing that sets {}", std::any::type_name::<T>()));
    parts.extensions.get().cloned().ok_or_else(missing)
}
