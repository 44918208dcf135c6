//! Every refusal is an OpenAI error with the field at fault; without a key nothing answers but health.

use serde_json::{Value, json};

use crate::client::ask;
use crate::gateway::Gateway;

#[tokio::test]
async fn without_a_key_only_health_answers() {
    let gateway = Gateway::start("", "");
    let mut client = gateway.connect().await;
    for (method, path) in [
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/ready"),
        ("GET", "/metrics"),
        ("GET", "/admin/plugins"),
        ("GET", "/nothing"),
        ("DELETE", "/v1/models"),
        ("GET", "/health/"),
        ("GET", "//health"),
    ] {
        for key in ["", "wrong"] {
            client.send(method, path, key, b"").await;
            let response = client.response().await;
            assert_eq!(response.status, 401, "{method} {path}");
            assert_eq!(response.error()["code"], "invalid_api_key");
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        }
    }
    client.send("GET", "/health", "", b"").await;
    assert_eq!(client.response().await.status, 200);
}

#[tokio::test]
async fn paths_methods_and_keys_that_do_not_fit() {
    let gateway = Gateway::start("", "");
    let mut client = gateway.connect().await;
    for (method, path, key, status, code) in [
        ("GET", "/nothing", "key-a", 404, json!("unknown_url")),
        ("GET", "/v1/chat/completions", "key-a", 405, json!("method_not_allowed")),
        ("POST", "/health", "key-a", 405, json!("method_not_allowed")),
        ("GET", "/metrics", "key-a", 403, Value::Null),
        ("GET", "/v1/models", "key-admin", 403, Value::Null),
        ("GET", "/admin/plugins", "key-admin", 404, json!("unknown_url")),
    ] {
        client.send(method, path, key, b"").await;
        let response = client.response().await;
        assert_eq!((response.status, &response.error()["code"]), (status, &code), "{method} {path}");
    }
    client.send("GET", "/ready", "key-a", b"").await;
    assert_eq!(client.response().await.status, 200);
}

/// Field, wrong value, and the `param` that the error has to name.
fn mistakes() -> Vec<(&'static str, Value, &'static str)> {
    let call = |id: Value, arguments: Value| {
        json!([
            {"role": "user", "content": "[short]"},
            {"role": "assistant", "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"}
        ])
    };
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    vec![
        ("messages", json!([]), "messages"),
        ("messages", json!("hi"), "messages"),
        ("messages", json!([{"role": "king", "content": "x"}]), "messages[0].role"),
        ("messages", json!([{"role": "user"}]), "messages[0].content"),
        ("messages", json!([{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content[0].type"),
        ("messages", json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
        ("messages", json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
        ("messages", call(json!("c2"), json!("{}")), "messages[2].tool_call_id"),
        ("messages", call(json!(null), json!("{}")), "messages[1].tool_calls[0].id"),
        ("messages", call(json!("c1"), json!("{")), "messages[1].tool_calls[0].function.arguments"),
        ("messages", call(json!("c1"), json!("[1]")), "messages[1].tool_calls[0].function.arguments"),
        ("messages", call(json!("c1"), json!(5)), "messages[1].tool_calls[0].function.arguments"),
        ("temperature", json!(2.5), "temperature"),
        ("temperature", json!("hot"), "temperature"),
        ("top_p", json!(0), "top_p"),
        ("top_k", json!(-2), "top_k"),
        ("min_p", json!(1.5), "min_p"),
        ("presence_penalty", json!(3), "presence_penalty"),
        ("frequency_penalty", json!(-3), "frequency_penalty"),
        ("repetition_penalty", json!(0), "repetition_penalty"),
        ("logit_bias", json!({"hello": 1}), "logit_bias.hello"),
        ("logit_bias", json!({"5": 101}), "logit_bias.5"),
        ("seed", json!("x"), "seed"),
        ("n", json!(0), "n"),
        ("n", json!(99), "n"),
        ("max_tokens", json!(0), "max_tokens"),
        ("max_completion_tokens", json!(-1), "max_completion_tokens"),
        ("stop", json!([""]), "stop[0]"),
        ("stop", json!(5), "stop"),
        ("top_logprobs", json!(2), "top_logprobs"),
        ("logprobs", json!("yes"), "logprobs"),
        ("stream_options", json!({"include_usage": true}), "stream_options"),
        ("reasoning_effort", json!("huge"), "reasoning_effort"),
        ("response_format", json!({"type": "xml"}), "response_format.type"),
        ("response_format", json!({"type": "json_schema"}), "response_format.json_schema.schema"),
        ("tools", json!([{"type": "web"}]), "tools[0].type"),
        ("tools", json!([{"type": "function"}]), "tools[0].function"),
        ("tools", json!([{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
        ("tools", json!([tool, tool]), "tools[1].function.name"),
        ("tool_choice", json!("required"), "tool_choice"),
        ("tool_choice", json!("sometimes"), "tool_choice"),
        ("tool_choice", json!({"type": "function", "function": {"name": "g"}}), "tool_choice.function.name"),
        ("functions", json!([]), "functions"),
        ("model", json!(5), "model"),
    ]
}

#[tokio::test]
async fn a_wrong_field_is_named() {
    let gateway = Gateway::start("", "");
    let mut client = gateway.connect().await;
    for (field, value, param) in mistakes() {
        let mut body = ask("[short]", false);
        body[field] = value;
        client.chat("key-a", &body).await;
        let response = client.response().await;
        assert_eq!(response.status, 400, "{body}");
        let error = response.error();
        assert_eq!((&error["param"], &error["type"]), (&json!(param), &json!("invalid_request_error")), "{body}");
        assert!(!error["message"].as_str().unwrap().contains("u32"), "{error}");
    }
    for field in ["model", "messages"] {
        let mut body = ask("[short]", false);
        body.as_object_mut().unwrap().remove(field);
        client.chat("key-a", &body).await;
        assert_eq!(client.response().await.error()["param"], field);
    }
    client.send("POST", "/v1/chat/completions", "key-a", b"{\"model\":").await;
    let response = client.response().await;
    assert_eq!((response.status, &response.error()["param"]), (400, &Value::Null));
}

#[tokio::test]
async fn fields_that_clients_send_are_tolerated() {
    let gateway = Gateway::start("", "");
    let mut body = ask("[short]", false);
    for (field, value) in [
        ("user", json!("u")),
        ("metadata", json!({"a": 1})),
        ("store", json!(false)),
        ("some_new_field", json!([1, 2])),
        ("temperature", Value::Null),
        ("top_k", json!(-1)),
        ("stop", json!("never said")),
        ("tools", json!([])),
        ("tool_choice", json!("auto")),
        ("max_completion_tokens", json!(50)),
        ("logit_bias", json!({"5": -100})),
        ("seed", json!(-7)),
        ("chat_template_kwargs", json!({"enable_thinking": false})),
    ] {
        body[field] = value;
    }
    let history = json!([
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"id": "c2", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "user", "content": "[short]"}
    ]);
    body["messages"] = history;
    let response = gateway.chat(&body).await;
    assert_eq!(response.status, 200, "{}", response.text());
}

#[tokio::test]
async fn models_and_bodies_that_do_not_fit() {
    let gateway = Gateway::start("max_body_bytes = 2000", "");
    let mut body = ask("[short]", false);
    body["model"] = json!("missing");
    let response = gateway.chat(&body).await;
    assert_eq!((response.status, &response.error()["code"]), (404, &json!("model_not_found")));
    let mut client = gateway.connect().await;
    client.chat("key-b", &ask("[short]", false)).await;
    assert_eq!(client.response().await.error()["code"], "model_not_found", "a model of others looks missing");

    let large = vec![b' '; 300_000];
    let mut client = gateway.connect().await;
    client.send("POST", "/v1/chat/completions", "key-a", &large).await;
    let response = client.response().await;
    assert_eq!((response.status, &response.error()["code"]), (413, &json!("request_too_large")));
}
