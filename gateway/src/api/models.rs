//! `/v1/models`: what a tenant may use.

use axum::Json;
use axum::extract::{Extension, Path, State};
use serde::Serialize;

use super::Shared;
use crate::error::Error;
use crate::layers::Principal;
use crate::route::Route;

#[derive(Serialize)]
pub(super) struct Model {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

#[derive(Serialize)]
pub(super) struct List {
    object: &'static str,
    data: Vec<Model>,
}

pub(super) async fn list(State(app): Shared, Extension(who): Extension<Principal>) -> Result<Json<List>, Error> {
    let tenant = who.tenant()?;
    let allowed = app.routes.iter().filter(|(name, _)| app.allows(tenant, name));
    let data = allowed.map(|(name, route)| model(name, route)).collect();
    Ok(Json(List { object: "list", data }))
}

pub(super) async fn one(
    State(app): Shared,
    Extension(who): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<Model>, Error> {
    let route = app.route(who.tenant()?, &id)?;
    Ok(Json(model(&id, route)))
}

fn model(name: &str, route: &Route) -> Model {
    Model { id: name.to_owned(), object: "model", created: route.created, owned_by: "sluicegate" }
}
