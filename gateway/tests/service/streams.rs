//! Streams that fail, pause or wait.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::ask;
use crate::gateway::Gateway;

fn last_error(events: &[String]) -> Value {
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert!(last["error"]["message"].is_string(), "{last}");
    last["error"].clone()
}

#[tokio::test]
async fn a_failure_after_the_first_byte_is_one_error_event_and_no_end() {
    let gateway = Gateway::start("", "");
    for marker in ["[fails late]", "[cut]"] {
        let response = gateway.chat(&ask(marker, true)).await;
        assert_eq!(response.status, 200);
        assert!(response.complete, "the body ends as its framing promises");
        assert_eq!(response.content(), "onetwo");
        let events = response.events();
        assert_eq!(last_error(&events)["code"], "upstream_error", "{marker}");
        assert!(!response.text().contains("[DONE]"));
        assert!(!response.text().contains("\"finish_reason\":\""), "no reason is invented");
    }
    let failed = "sluicegate_requests_total{tenant=\"a\",model=\"m\",outcome=\"upstream_error\"}";
    gateway.until(failed, 2.0, Duration::from_secs(2)).await;
}

#[tokio::test]
async fn a_failure_before_the_first_byte_is_a_status() {
    let gateway = Gateway::start("", "");
    for stream in [true, false] {
        let response = gateway.chat(&ask("[fails first]", stream)).await;
        assert_eq!((response.status, &response.error()["code"]), (502, &json!("upstream_error")));
    }
}

#[tokio::test]
async fn silence_is_filled_with_comments() {
    let gateway = Gateway::start("keep_alive_s = 0.3", "");
    let mut client = gateway.connect().await;
    let start = Instant::now();
    client.chat("key-a", &ask("[pauses]", true)).await;
    client.read_until(": \n\n").await;
    assert!(start.elapsed() < Duration::from_millis(1200), "headers and a comment come before the first event");
    let response = client.response().await;
    assert!(response.is_done());
    assert_eq!(response.content(), "latelater");
    let comments = response.text().matches(": \n\n").count();
    assert!((4..=12).contains(&comments), "{comments} comments in 2.6 s at 0.3 s");
    assert!(!gateway.chat(&ask("[pauses]", false)).await.text().contains(": \n"), "none in whole answers");
}

#[tokio::test]
async fn a_stream_that_takes_too_long_ends_with_an_error() {
    let gateway = Gateway::start("request_timeout_s = 1", "");
    let response = gateway.chat(&ask("[slow]", true)).await;
    assert_eq!(response.status, 200);
    assert_eq!(last_error(&response.events())["code"], "timeout");
    let response = gateway.chat(&ask("[slow]", false)).await;
    assert_eq!((response.status, &response.error()["code"]), (504, &json!("timeout")));
}

#[tokio::test]
async fn events_are_sent_when_they_happen() {
    let gateway = Gateway::start("", "");
    let mut client = gateway.connect().await;
    client.chat("key-a", &ask("[second]", true)).await;
    client.read_until("\"0 \"").await;
    let first = Instant::now();
    client.read_until("\"10 \"").await;
    let gap = first.elapsed();
    assert!(gap > Duration::from_millis(300) && gap < Duration::from_millis(1500), "ten events of 50 ms took {gap:?}");
}
