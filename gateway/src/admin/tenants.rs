//! `/admin/tenants`: each tenant's limits and what is used of them.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::tenant::{Rate, Tenant};

#[derive(Serialize)]
pub(super) struct Entry {
    name: String,
    weight: u32,
    priority: i32,
    requests_running: u32,
    max_concurrent_requests: Option<u32>,
    requests: Option<Level>,
    tokens: Option<Level>,
}

#[derive(Serialize)]
struct Level {
    per_minute: u32,
    remaining: u32,
    reset_s: f64,
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Vec<Entry>> {
    Json(app.tenants.iter().map(|tenant| entry(tenant)).collect())
}

fn entry(tenant: &Tenant) -> Entry {
    let standing = tenant.ledger.standing(Instant::now());
    let level =
        |rate: Rate| Level { per_minute: rate.limit, remaining: rate.remaining, reset_s: rate.reset.as_secs_f64() };
    Entry {
        name: tenant.name.to_string(),
        weight: tenant.weight,
        priority: tenant.priority,
        requests_running: standing.running,
        max_concurrent_requests: standing.max_concurrent,
        requests: standing.requests.map(level),
        tokens: standing.tokens.map(level),
    }
}
