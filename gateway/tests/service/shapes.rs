//! Answers and chunks in exactly OpenAI's shapes.

use serde_json::{Value, json};

use crate::client::{Client, ask};
use crate::gateway::Gateway;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_whole_answer() {
    let gateway = Gateway::start("", "");
    let response = gateway.chat(&ask("[short]", false)).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("x-request-id").unwrap().len(), 32);
    let body = response.json();
    assert_eq!(keys(&body), ["id", "object", "created", "model", "choices", "usage"]);
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "m");
    let choice = json!({
        "index": 0,
        "message": {"role": "assistant", "content": "Hello world", "refusal": null},
        "logprobs": null,
        "finish_reason": "stop"
    });
    assert_eq!(body["choices"], json!([choice]));
    let usage = json!({
        "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 0}
    });
    assert_eq!(body["usage"], usage);
}

#[tokio::test]
async fn a_stream_of_chunks() {
    let gateway = Gateway::start("", "");
    let response = gateway.chat(&ask("[short]", true)).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.header("cache-control"), Some("no-cache"));
    assert_eq!(response.header("x-accel-buffering"), Some("no"));
    assert_eq!(response.header("content-encoding"), None);
    assert!(response.is_done());
    let events = response.events();
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    for chunk in &chunks {
        assert_eq!(keys(chunk), ["id", "object", "created", "model", "choices"]);
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!((&chunk["id"], &chunk["created"]), (&chunks[0]["id"], &chunks[0]["created"]));
        assert_eq!(keys(&chunk["choices"][0]), ["index", "delta", "logprobs", "finish_reason"]);
    }
    let deltas: Vec<_> = chunks.iter().map(|c| c["choices"][0]["delta"].clone()).collect();
    let expected = [
        json!({"role": "assistant", "content": ""}),
        json!({"content": "Hello"}),
        json!({"content": " world"}),
        json!({}),
    ];
    assert_eq!(deltas, expected);
    let reasons: Vec<_> = chunks.iter().map(|c| c["choices"][0]["finish_reason"].clone()).collect();
    assert_eq!(reasons, [Value::Null, Value::Null, Value::Null, json!("stop")]);
}

#[tokio::test]
async fn usage_comes_once_directly_before_the_end_and_only_when_asked_for() {
    let gateway = Gateway::start("", "");
    for (include, n) in [(json!(true), 1), (json!(true), 2), (json!(false), 1), (Value::Null, 2)] {
        let mut body = ask("[ten]", true);
        body["stream_options"] = json!({"include_usage": include});
        body["n"] = json!(n);
        let response = gateway.chat(&body).await;
        assert!(response.is_done(), "{}", response.text());
        let events = response.events();
        let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
        let with_usage: Vec<_> = (0..chunks.len()).filter(|i| chunks[*i]["usage"].is_object()).collect();
        if include == json!(true) {
            assert_eq!(with_usage, [chunks.len() - 1]);
            let last = &chunks[chunks.len() - 1];
            assert_eq!(last["choices"], json!([]));
            assert_eq!(last["id"], chunks[0]["id"]);
            assert_eq!(last["usage"]["completion_tokens"], 10 * n);
            assert_eq!(last["usage"]["prompt_tokens"], 10, "the prompt is counted once");
        } else {
            assert!(with_usage.is_empty());
        }
        for choice in 0..n {
            let of_choice = |c: &&Value| c["choices"][0]["index"] == choice;
            let roles = chunks.iter().filter(of_choice).filter(|c| c["choices"][0]["delta"]["role"].is_string());
            assert_eq!(roles.count(), 1, "the role comes once per choice");
            let ends = chunks.iter().filter(of_choice).filter(|c| c["choices"][0]["finish_reason"] == "length");
            assert_eq!(ends.count(), 1);
        }
    }
}

#[tokio::test]
async fn models_are_those_that_the_tenant_may_use() {
    let gateway = Gateway::start("", "");
    let list = async |key: &str| {
        let mut client = gateway.connect().await;
        client.send("GET", "/v1/models", key, b"").await;
        let body = client.response().await.json();
        assert_eq!(body["object"], "list");
        let ids = body["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list("key-a").await, ["m", "other"]);
    assert_eq!(list("key-b").await, ["other"]);
    let mut client = gateway.connect().await;
    client.send("GET", "/v1/models/other", "key-b", b"").await;
    let model = client.response().await.json();
    assert_eq!(keys(&model), ["id", "object", "created", "owned_by"]);
    client.send("GET", "/v1/models/m", "key-b", b"").await;
    let refused = client.response().await;
    assert_eq!((refused.status, &refused.error()["code"]), (404, &json!("model_not_found")));
}

#[tokio::test]
async fn operators_see_requests_tenants_and_plugins() {
    let gateway = Gateway::start("", "tokens_per_minute = 5000");
    let mut streaming = gateway.connect().await;
    streaming.chat("key-a", &ask("[slow]", true)).await;
    streaming.read_until("data: ").await;
    let get = async |path: &str, key: &str| {
        let mut client = Client::connect(gateway.admin, gateway.tls(&[b"http/1.1"])).await;
        client.send("GET", path, key, b"").await;
        client.response().await
    };
    let requests = get("/admin/requests", "key-admin").await.json();
    assert_eq!(requests[0]["tenant"], "a");
    assert_eq!(requests[0]["model"], "m");
    assert!(["decode", "client_write", "parse"].contains(&requests[0]["stage"].as_str().unwrap()), "{requests}");
    let tenants = get("/admin/tenants", "key-admin").await.json();
    assert_eq!((&tenants[0]["name"], &tenants[0]["requests_running"]), (&json!("a"), &json!(1)));
    assert_eq!(tenants[0]["tokens"]["per_minute"], 5000);
    assert_eq!(get("/admin/plugins", "key-admin").await.json()["versions"], json!([]));
    for path in ["/admin/requests", "/admin/plugins", "/metrics"] {
        assert_eq!(get(path, "key-a").await.status, 403);
        assert_eq!(get(path, "").await.status, 401);
    }
}
