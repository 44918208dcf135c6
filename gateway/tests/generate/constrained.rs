//! Promised output through the whole path, on a model with random weights: nothing but the grammar can make it right.

use futures_util::future::join_all;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use sluicegate::chat::{FinishReason, Request, ResponseFormat, ToolChoice};
use sluicegate::error::Kind;
use sluicegate::generate;
use std::sync::Arc;

use super::native::{ask, native, settled};
use super::{replay, run};

fn asked(format: ResponseFormat, seed: u64, max_tokens: u32) -> Request {
    let mut request = ask("write it", max_tokens);
    request.tools.clear();
    (request.sampling.temperature, request.sampling.seed) = (1.0, seed);
    request.response_format = format;
    request
}

fn schema() -> ResponseFormat {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "tags", "ok"],
        "properties": {
            "name": {"type": "string", "maxLength": 8},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 4},
            "ok": {"type": "boolean"},
        },
    });
    ResponseFormat::JsonSchema(to_raw_value(&schema).expect("JSON"))
}

fn obeys(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    value["name"].as_str().is_some_and(|name| name.chars().count() <= 8)
        && value["tags"].as_array().is_some_and(|tags| tags.iter().all(|t| ["a", "b", "c"].iter().any(|x| t == x)))
        && value["ok"].is_boolean()
        && value.as_object().is_some_and(|object| object.len() == 3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_obeys_its_schema_among_others_that_have_none() {
    let (route, engine) = native();
    let one = |n: u64| {
        let route = Arc::clone(&route);
        let (format, most) = if n.is_multiple_of(3) { (ResponseFormat::Text, 60) } else { (schema(), 600) };
        async move { run(&route, asked(format, n, most)).await }
    };
    let together = join_all((0..24).map(|n| tokio::spawn(one(n)))).await;
    for (n, answer) in (0..).zip(together) {
        let (message, error) = answer.expect("no stream panics");
        assert_eq!(error, None);
        if n % 3 != 0 {
            assert_eq!(message.finish_reason, Some(FinishReason::Stop), "{n}: {}", message.content);
            assert!(obeys(&message.content), "{n}: {}", message.content);
        }
        if n < 6 {
            assert_eq!(one(n).await.0.content, message.content, "{n}: alone as among others");
        }
    }
    settled(&engine).await;
}

#[tokio::test]
async fn an_expression_a_choice_and_a_grammar_are_followed_and_a_limit_still_cuts() {
    let (route, _engine) = native();
    for seed in 0..5 {
        let (message, _) = run(&route, asked(ResponseFormat::Regex("[a-f]{3}-[0-9]{2}".to_owned()), seed, 50)).await;
        assert_eq!(
            (message.content.len(), message.finish_reason),
            (6, Some(FinishReason::Stop)),
            "{}",
            message.content
        );
        let texts = ["north", "east"].map(str::to_owned).to_vec();
        let (message, _) = run(&route, asked(ResponseFormat::Choice(texts.clone()), seed, 50)).await;
        assert!(texts.contains(&message.content), "{}", message.content);
        let lark = "start: greeting \" \" /[A-Z][a-z]{1,8}/\ngreeting: \"hello\" | \"bye\"".to_owned();
        let (message, _) = run(&route, asked(ResponseFormat::Grammar(lark), seed, 50)).await;
        assert!(message.content.starts_with("hello ") || message.content.starts_with("bye "), "{}", message.content);
        let (message, _) = run(&route, asked(schema(), seed, 5)).await;
        assert_eq!(message.finish_reason, Some(FinishReason::Length));
        assert!(message.content.starts_with('{') && !obeys(&message.content));
    }
}

#[tokio::test]
async fn what_cannot_be_promised_is_refused_by_name() {
    let (route, _engine) = native();
    let refusal = async |change: &dyn Fn(&mut Request)| {
        let mut request = ask("no", 5);
        change(&mut request);
        let error = generate::prepare(&route, Arc::new(request)).await.expect_err("refused");
        assert_eq!(error.kind, Kind::BadRequest, "{error}");
        (error.param.unwrap_or_default(), error.code.unwrap_or_default(), error.message)
    };
    let (param, code, message) = refusal(&|r| r.tool_choice = ToolChoice::Required).await;
    assert_eq!((param.as_str(), code), ("tool_choice", "grammar_unsupported"), "{message}");
    let (param, code, message) = refusal(&|r| r.tools[0].strict = true).await;
    assert_eq!((param.as_str(), code), ("tools[0].function.strict", "grammar_unsupported"), "{message}");
    let (param, code, message) = refusal(&|r| r.response_format = schema()).await;
    assert_eq!((param.as_str(), code), ("response_format", "grammar_unsupported"), "{message}");
    let broken = |r: &mut Request, format| (r.tools.clear(), r.response_format = format).1;
    let (param, code, message) = refusal(&|r| broken(r, ResponseFormat::Regex("[a-".to_owned()))).await;
    assert_eq!((param.as_str(), code), ("structured_outputs.regex", "invalid_grammar"), "{message}");
    let bad = || ResponseFormat::JsonSchema(to_raw_value(&json!({"type": "banana"})).expect("JSON"));
    let (param, code, message) = refusal(&|r| broken(r, bad())).await;
    assert_eq!((param.as_str(), code), ("response_format.json_schema.schema", "invalid_grammar"));
    assert!(message.contains("banana"), "{message}");
}

/// A recording says what it says; nothing is promised of it and nothing refused.
#[tokio::test]
async fn an_upstream_that_takes_no_grammars_is_asked_as_it_is() {
    let header = json!({"recording": "r"});
    let route = replay("hermes", "promise.jsonl", &super::recording(&header, "plain", 2, "stop"));
    let mut request = super::request("anything");
    request.tool_choice = ToolChoice::Required;
    let (message, error) = run(&route, request).await;
    assert_eq!((message.content.as_str(), error), ("plain", None));
}
