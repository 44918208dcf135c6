//! DSML through the real component: calls, reasoning, stop strings, limits, cuts.

use serde_json::{Value, json};
use sluicegate::chat::{FinishReason, Request, ToolChoice};
use sluicegate::generate::Message;

use super::{recording, replay, request, run};

const CALL: &str = "Looking.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"lookup\">\n<｜DSML｜parameter name=\"code\" string=\"true\">STOP it</｜DSML｜parameter>\n<｜DSML｜parameter name=\"limit\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"lookup\">\n<｜DSML｜parameter name=\"code\" string=\"true\">RIX</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

async fn play(name: &str, text: &str, step: usize, end: &str, change: impl Fn(&mut Request)) -> Message {
    let header = json!({"recording": name, "prompt_tail": "</think>", "prompt_tokens": 9});
    let route = replay("deepseek_v4", &format!("{name}-{step}.jsonl"), &recording(&header, text, step, end));
    let mut request = request(name);
    change(&mut request);
    let (message, error) = run(&route, request).await;
    assert_eq!(error, None);
    message
}

#[tokio::test]
async fn calls_come_out_whole_however_they_are_cut() {
    for step in [1, 2, 7, 10_000] {
        let message = play("calls", CALL, step, "stop", |_| {}).await;
        assert_eq!(message.content, "Looking.");
        let arguments: Vec<Value> =
            message.tool_calls.iter().map(|call| serde_json::from_str(&call.arguments).expect("JSON")).collect();
        assert_eq!(arguments, [json!({"code": "STOP it", "limit": 3}), json!({"code": "RIX"})]);
        assert!(message.tool_calls.iter().all(|call| call.name == "lookup" && call.id.starts_with("call_")));
        assert_ne!(message.tool_calls[0].id, message.tool_calls[1].id);
        assert_eq!(message.finish_reason, Some(FinishReason::ToolCalls));
        assert_eq!(message.usage.prompt_tokens, 9);
        assert_eq!(message.usage.completion_tokens as usize, CALL.chars().count().div_ceil(step));
    }
}

#[tokio::test]
async fn reasoning_is_apart_and_its_tokens_are_counted() {
    let header = json!({"recording": "r", "prompt_tail": "<｜Assistant｜><think>"});
    let text = "Need the table.</think>At noon.";
    let mut counts = Vec::new();
    for step in [1, 5] {
        let route = replay("deepseek_v4", &format!("reasoning-{step}.jsonl"), &recording(&header, text, step, "stop"));
        let (message, _) = run(&route, request("r")).await;
        assert_eq!((message.reasoning.as_str(), message.content.as_str()), ("Need the table.", "At noon."));
        counts.push(message.usage.reasoning_tokens);
    }
    assert_eq!(counts[0], 15, "one token a character here; the marker belongs to what follows it");
}

#[tokio::test]
async fn stop_strings_never_touch_arguments_or_reasoning() {
    let message = play("stop-in-arguments", CALL, 3, "stop", |request| request.stop = vec!["STOP".to_owned()]).await;
    assert_eq!(message.tool_calls.len(), 2);
    assert_eq!(message.finish_reason, Some(FinishReason::ToolCalls));

    let message = play("stop-in-content", CALL, 3, "stop", |request| request.stop = vec!["oki".to_owned()]).await;
    assert_eq!((message.content.as_str(), message.tool_calls.len()), ("Lo", 0));
    assert_eq!(message.finish_reason, Some(FinishReason::Stop));

    // Equal to the beginning of a marker: the marker is no content.
    let message = play("stop-like-marker", CALL, 3, "stop", |request| request.stop = vec!["<｜DSML".to_owned()]).await;
    assert_eq!(message.tool_calls.len(), 2);

    let header = json!({"recording": "r", "prompt_tail": "<think>"});
    let route =
        replay("deepseek_v4", "stop-in-reasoning.jsonl", &recording(&header, "no END yet</think>the END.", 4, "stop"));
    let mut asked = request("r");
    asked.stop = vec!["END".to_owned()];
    let (message, _) = run(&route, asked).await;
    assert_eq!((message.reasoning.as_str(), message.content.as_str()), ("no END yet", "the "));
}

/// `length` always shows, `tool_calls` needs a complete call and a normal end, whatever the tool choice.
#[tokio::test]
async fn finish_reasons_follow_one_table() {
    let choices = [ToolChoice::Auto, ToolChoice::Required, ToolChoice::Named("lookup".to_owned()), ToolChoice::None];
    for choice in choices {
        let choose = |request: &mut Request| request.tool_choice = choice.clone();
        let calls = choice != ToolChoice::None;
        let full = play("table-call", CALL, 9, "stop", choose).await;
        let expected = if full.tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        assert_eq!(full.finish_reason, Some(expected), "{choice:?}");
        assert!(!calls || full.tool_calls.len() == 2, "{choice:?}");
        assert_eq!(play("table-none", "Just text.", 4, "stop", choose).await.finish_reason, Some(FinishReason::Stop));
        assert_eq!(play("table-limit", CALL, 9, "length", choose).await.finish_reason, Some(FinishReason::Length));
        let cut = play("table-cut", &CALL[..CALL.len() / 2], 9, "length", choose).await;
        assert_eq!(cut.finish_reason, Some(FinishReason::Length));
        let stopped = play("table-stop", "Just text.", 4, "stop", |request| {
            choose(request);
            request.stop = vec!["t t".to_owned()];
        });
        let stopped = stopped.await;
        assert_eq!((stopped.content.as_str(), stopped.finish_reason), ("Jus", Some(FinishReason::Stop)));
    }
}

#[tokio::test]
async fn a_cut_stream_is_an_error_and_its_call_stays_open() {
    let text = &CALL[..CALL.find("it</").expect("the value")];
    let header = json!({"recording": "cut", "prompt_tail": "</think>"});
    for (name, end) in [("cut.jsonl", ""), ("failed.jsonl", r#"{"error":"engine lost"}"#)] {
        let route = replay("deepseek_v4", name, &(recording(&header, text, 5, "") + end));
        let (message, error) = run(&route, request("cut")).await;
        assert!(error.is_some());
        assert_eq!(message.finish_reason, None);
        for call in &message.tool_calls {
            assert!(serde_json::from_str::<Value>(&call.arguments).is_err(), "{}", call.arguments);
        }
    }
}
