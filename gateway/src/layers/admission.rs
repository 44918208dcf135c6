//! Refuses early what a tenant's limits would refuse anyway, and shows the limits on every answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Principal;
use crate::app::App;
use crate::error::{Error, Kind};
use crate::tenant::{Limit, Rate, Refusal, Tenant};

pub(super) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(Principal::Tenant(tenant)) = request.extensions().get().cloned() else {
        return next.run(request).await;
    };
    let generates = request.method() == Method::POST && request.uri().path().starts_with("/v1/");
    let checked = if generates { tenant.ledger.check(1, Instant::now()) } else { Ok(()) };
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(&app, &tenant, refusal).into_response(),
    };
    show(&tenant, response.headers_mut());
    response
}

/// The error for a refusal, which is counted here.
pub(crate) fn refused(app: &App, tenant: &Tenant, refusal: Refusal) -> Error {
    let standing = tenant.ledger.standing(Instant::now());
    let per_minute = |rate: Option<Rate>| rate.map_or(0, |rate| rate.limit);
    let what = match refusal.limit {
        Limit::Requests => format!("{} requests per minute", per_minute(standing.requests)),
        Limit::Tokens => format!("{} tokens per minute", per_minute(standing.tokens)),
        Limit::Concurrency => format!("{} requests at once", standing.max_concurrent.unwrap_or(0)),
    };
    app.metrics.refuse(&tenant.name, refusal.limit.as_str());
    let seconds = whole_seconds(refusal.retry_after);
    Error::new(Kind::RateLimited, format!("rate limit reached: {what} for {}; retry in {seconds} s", tenant.name))
        .code("rate_limit_exceeded")
        .retry_after(refusal.retry_after)
}

fn show(tenant: &Tenant, headers: &mut HeaderMap) {
    let standing = tenant.ledger.standing(Instant::now());
    for (rate, names) in [(standing.requests, &REQUESTS), (standing.tokens, &TOKENS)] {
        let Some(rate) = rate else { continue };
        let values = [rate.limit.to_string(), rate.remaining.to_string(), compact(rate.reset)];
        for (name, value) in names.iter().zip(values) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name.clone(), value);
            }
        }
    }
}

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Seconds, rounded up: after so many the limit admits, one earlier it may not.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// A duration as OpenAI writes resets: `6m0s`, `12s`, `820ms`.
fn compact(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_nanos().div_ceil(1_000_000));
    match (seconds / 60, seconds % 60) {
        (0, 0) if millis > 0 => format!("{millis}ms"),
        (0, seconds) => format!("{}s", seconds + u64::from(millis > 0)),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_openais() {
        let check = |millis, expected: &str| assert_eq!(compact(Duration::from_millis(millis)), expected);
        check(0, "0s");
        check(1, "1ms");
        check(820, "820ms");
        check(1000, "1s");
        check(1001, "2s");
        check(60_000, "1m0s");
        check(372_000, "6m12s");
        assert_eq!(whole_seconds(Duration::from_millis(2001)), 3);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
    }
}
