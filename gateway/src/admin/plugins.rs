//! `/admin/plugins`: status, load or replace, rollback, remove. Running streams keep the version they began with.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};

use crate::app::App;
use crate::error::{Error, Kind};
use crate::plugins::{LoadReport, Refused, Registry, Status};

pub(super) async fn status(State(app): State<Arc<App>>) -> Json<Status> {
    Json(app.plugins.status())
}

/// Loads the component in the body under this name, in place of the one that has it, and keeps it in the folder.
pub(super) async fn install(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    wasm: Bytes,
) -> Result<Json<LoadReport>, Error> {
    blocking(&app, move |plugins| plugins.install(&name, &wasm)).await
}

pub(super) async fn rollback(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<LoadReport>, Error> {
    blocking(&app, move |plugins| plugins.rollback(&name)).await
}

pub(super) async fn remove(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Status>, Error> {
    if app.plugins.remove(&name) {
        return Ok(Json(app.plugins.status()));
    }
    Err(Error::new(Kind::NotFound, format!("no plugin is loaded under the name {name}")))
}

/// Compiling takes seconds of CPU, so it leaves the threads that serve sockets.
async fn blocking(
    app: &App,
    change: impl FnOnce(&Registry) -> Result<LoadReport, Refused> + Send + 'static,
) -> Result<Json<LoadReport>, Error> {
    let plugins = app.plugins.clone();
    let changed = tokio::task::spawn_blocking(move || change(&plugins)).await;
    match changed {
        Ok(Ok(report)) => Ok(Json(report)),
        Ok(Err(refused)) => Err(Error::new(Kind::BadRequest, refused.to_string()).code("plugin_refused")),
        Err(_) => Err(Error::new(Kind::Internal, "loading the plugin failed")),
    }
}
