//! Tenants' limits: refusals cost nothing and tell the truth, and what was reserved is settled.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;

use crate::client::{Client, Response, ask};
use crate::gateway::Gateway;

const RUNNING: &str = "sluicegate_requests_running{tenant=\"a\",model=\"m\"}";

fn number(response: &Response, header: &str) -> f64 {
    response.header(header).unwrap_or_else(|| panic!("no {header}")).parse().unwrap()
}

fn assert_refused(response: &Response) -> Duration {
    assert_eq!(response.status, 429, "{}", response.text());
    assert_eq!(response.error()["code"], "rate_limit_exceeded");
    let after = response.header("retry-after").unwrap();
    Duration::from_secs(after.parse().expect("whole seconds"))
}

#[tokio::test]
async fn a_refusal_burns_nothing_and_retry_after_is_true() {
    // 20 a minute is one each three seconds.
    let gateway = Gateway::start("", "requests_per_minute = 20\nmax_concurrent_requests = 1");
    let mut running = gateway.connect().await;
    running.chat("key-a", &ask("[slow]", true)).await;
    running.read_until("data: ").await;
    for _ in 0..30 {
        assert_refused(&gateway.chat(&ask("[short]", false)).await);
    }
    drop(running);
    gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
    let next = gateway.chat(&ask("[short]", false)).await;
    assert_eq!(next.status, 200, "thirty refusals by concurrency have not used the requests");
    assert_eq!(next.header("x-ratelimit-limit-requests"), Some("20"));
    assert!(number(&next, "x-ratelimit-remaining-requests") >= 18.0);
    while gateway.chat(&ask("[short]", false)).await.status == 200 {}
    let wait = assert_refused(&gateway.chat(&ask("[short]", false)).await);
    assert!((1..=3).contains(&wait.as_secs()), "{wait:?}");
    tokio::time::sleep(wait).await;
    assert_eq!(gateway.chat(&ask("[short]", false)).await.status, 200);
}

#[tokio::test]
async fn many_at_once_never_overshoot() {
    let gateway = Gateway::start("", "requests_per_minute = 50\nmax_concurrent_requests = 10");
    let mut clients = Vec::new();
    for _ in 0..200 {
        clients.push(gateway.connect().await);
    }
    // Streams of ten seconds: none ends before the last of the two hundred has asked.
    let send = |mut client: Client| async move {
        client.chat("key-a", &ask("[slow]", true)).await;
        client.read_until("\r\n\r\n").await;
        client
    };
    let answered: Vec<Client> = clients.into_iter().map(send).collect::<FuturesUnordered<_>>().collect().await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answered.into_iter().partition(Client::is_accepted);
    assert_eq!(accepted.len(), 10);
    assert!((gateway.metric(RUNNING).await - 10.0).abs() < f64::EPSILON);
    for mut client in refused {
        assert_refused(&client.response().await);
    }
    drop(accepted);
    gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
    let next = gateway.chat(&ask("[short]", false)).await;
    assert_eq!(number(&next, "x-ratelimit-remaining-requests").floor(), 39.0, "190 refusals cost nothing");
}

#[tokio::test]
async fn a_budget_that_ends_in_a_stream_refuses_the_next_request() {
    let gateway = Gateway::start("", "tokens_per_minute = 100");
    let response = gateway.chat(&ask("[many]", true)).await;
    assert!(response.is_done(), "a running stream is finished");
    let next = gateway.chat(&ask("[short]", false)).await;
    let wait = assert_refused(&next);
    assert!(wait > Duration::from_secs(120), "410 tokens of 100 a minute leave a debt: {wait:?}");
    assert_eq!(number(&next, "x-ratelimit-remaining-tokens"), 0.0);
}

#[tokio::test]
async fn reservations_are_settled_with_the_true_count() {
    let gateway = Gateway::start("", "tokens_per_minute = 5000");
    let remaining = async || {
        let mut client = gateway.connect().await;
        client.send("GET", "/v1/models", "key-a", b"").await;
        number(&client.response().await, "x-ratelimit-remaining-tokens")
    };
    let mut spent = 0.0;
    let start = std::time::Instant::now();
    for round in 0..20 {
        let mut body = ask("[ten]", round % 2 == 0);
        body["max_tokens"] = json!(1000);
        let response = gateway.chat(&body).await;
        assert_eq!(response.status, 200, "round {round}: {}", response.text());
        gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
        spent += 20.0;
        let (left, refilled) = (remaining().await, start.elapsed().as_secs_f64() * 5000.0 / 60.0);
        assert!(left >= 5000.0 - spent - 1.0 && left <= 5000.0 - spent + refilled + 1.0, "round {round}: {left}");
    }
    // A stream that is cut off is settled with what was counted until then.
    let before = remaining().await;
    let mut client = gateway.connect().await;
    let mut body = ask("[slow]", true);
    body["max_tokens"] = json!(1000);
    client.chat("key-a", &body).await;
    client.read_until("\"5 \"").await;
    drop(client);
    gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
    assert!(remaining().await >= before - 60.0);
}

/// What one tenant piles up is its own to wait for.
#[tokio::test]
async fn a_flood_from_one_tenant_does_not_slow_another() {
    let gateway = Gateway::start("", "max_concurrent_requests = 50");
    let body = json!({"model": "other", "messages": [{"role": "user", "content": "[second]"}]});
    let ask_b = async || {
        let start = std::time::Instant::now();
        let mut client = gateway.connect().await;
        client.chat("key-b", &body).await;
        assert_eq!(client.response().await.status, 200);
        start.elapsed()
    };
    let idle = ask_b().await;
    let flood = async {
        let one = async || gateway.chat(&ask("[three]", true)).await.status;
        (0..500).map(|_| one()).collect::<FuturesUnordered<_>>().collect::<Vec<u16>>().await
    };
    let quiet = async {
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(ask_b().await);
        }
        times
    };
    let (statuses, mut times) = tokio::join!(flood, quiet);
    times.sort_unstable();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&429), "the flood is beyond the tenant's own limit");
    println!("a second's answer took {idle:?} alone, {times:?} beside the flood");
    assert!(times[2] < idle * 2, "{idle:?} alone, {times:?} beside the flood");
}
