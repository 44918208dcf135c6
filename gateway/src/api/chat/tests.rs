//! Chunks add up to what a whole answer says, whatever the events; frames keep to the SSE format.

use proptest::prelude::*;
use serde_json::Value;

use super::Answer;
use super::chunk::ChunkWriter;
use super::completion::Completion;
use crate::chat::{Event, FinishReason, TokenLogprob, Usage};
use crate::generate::Collector;

fn answer() -> Answer {
    Answer { id: "chatcmpl-1".to_owned(), created: 7, model: "m".to_owned() }
}

/// Payloads of frames; panics where a client's SSE parser would see something else than one event a frame.
fn payloads(frames: &[bytes::Bytes]) -> Vec<String> {
    let payload = |frame: &bytes::Bytes| {
        let text = std::str::from_utf8(frame).unwrap();
        let body = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!body.contains(['\n', '\r']), "a raw line break splits an event");
        body.to_owned()
    };
    frames.iter().map(payload).collect()
}

/// What a client puts together from a choice's chunks, in the shape of a whole answer's choice.
fn assemble(chunks: &[Value], index: u32) -> Value {
    let mut message = serde_json::json!({"role": null, "content": "", "reasoning": ""});
    let (mut calls, mut logprobs, mut reason) = (Vec::<Value>::new(), Vec::<Value>::new(), Value::Null);
    let push = |to: &mut Value, text: &Value| {
        let joined = format!("{}{}", to.as_str().unwrap(), text.as_str().unwrap_or_default());
        *to = joined.into();
    };
    for choice in chunks.iter().filter_map(|c| c["choices"].get(0)).filter(|c| c["index"] == index) {
        assert!(reason.is_null(), "nothing follows a finish reason");
        let delta = &choice["delta"];
        if let Some(role) = delta.get("role") {
            assert!(message["role"].is_null(), "the role comes once");
            message["role"] = role.clone();
        }
        assert!(!message["role"].is_null(), "the role comes first");
        push(&mut message["content"], &delta["content"]);
        push(&mut message["reasoning"], &delta["reasoning"]);
        assert_eq!(delta["reasoning"], delta["reasoning_content"]);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if call.get("id").is_some() {
                assert_eq!(at, calls.len(), "calls come in order");
                calls.push(serde_json::json!({"id": call["id"], "name": call["function"]["name"], "arguments": ""}));
            }
            push(&mut calls[at]["arguments"], &call["function"]["arguments"]);
        }
        logprobs.extend(choice["logprobs"]["content"].as_array().into_iter().flatten().cloned());
        reason = choice["finish_reason"].clone();
    }
    serde_json::json!({"message": message, "calls": calls, "logprobs": logprobs, "reason": reason})
}

/// The same view of a whole answer's choice.
fn view(choice: &Value) -> Value {
    let message = &choice["message"];
    let text = |field: &str| message[field].as_str().unwrap_or_default();
    let call = |call: &Value| {
        let function = &call["function"];
        serde_json::json!({"id": call["id"], "name": function["name"], "arguments": function["arguments"]})
    };
    let calls: Vec<_> = message["tool_calls"].as_array().into_iter().flatten().map(call).collect();
    let logprobs = choice["logprobs"]["content"].as_array().cloned().unwrap_or_default();
    serde_json::json!({
        "message": {"role": message["role"], "content": text("content"), "reasoning": text("reasoning")},
        "calls": calls, "logprobs": logprobs, "reason": choice["finish_reason"],
    })
}

fn logprob(token: String) -> TokenLogprob {
    let bytes = token.clone().into_bytes();
    TokenLogprob {
        top: vec![(token.clone(), bytes.clone(), -0.5), (String::new(), vec![255], f32::NEG_INFINITY)],
        token,
        bytes,
        logprob: -0.5,
    }
}

/// Events of one choice, without the end: calls get consecutive indices.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let text = "[ -~\n\r\u{2028}é🦀\"\\\\]{0,6}";
    prop::collection::vec((0u8..5, text), 0..12).prop_map(|steps| {
        let mut calls = 0;
        let mut events = Vec::new();
        for (kind, text) in steps {
            events.push(match kind {
                0 => Event::Content(text),
                1 => Event::Reasoning(text),
                2 => {
                    calls += 1;
                    Event::ToolStart { index: calls - 1, id: format!("call_{calls}"), name: format!("f{text}") }
                }
                3 if calls > 0 => Event::ToolArgs { index: calls - 1, delta: text },
                _ => Event::Logprobs(vec![logprob(text)]),
            });
        }
        events
    })
}

proptest! {
    #[test]
    fn a_stream_says_what_a_whole_answer_says(
        choices in prop::collection::vec(events(), 1..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 64),
        include_usage: bool,
    ) {
        let n = u32::try_from(choices.len()).unwrap();
        let usage = Usage { prompt_tokens: 5, cached_tokens: 1, completion_tokens: 9, reasoning_tokens: 2 };
        let mut queues: Vec<std::collections::VecDeque<Event>> = choices.into_iter().map(|events| {
            events.into_iter().chain([Event::Finish { reason: FinishReason::Stop, usage }]).collect()
        }).collect();
        let (mut writer, mut collector) = (ChunkWriter::new(answer(), n, include_usage), Collector::default());
        let (mut frames, mut turn) = (Vec::new(), order.iter().cycle());
        while queues.iter().any(|queue| !queue.is_empty()) {
            let open: Vec<usize> = (0..queues.len()).filter(|i| !queues[*i].is_empty()).collect();
            let at = open[turn.next().unwrap().index(open.len())];
            let (choice, event) = (u32::try_from(at).unwrap(), queues[at].pop_front().unwrap());
            collector.push(choice, event.clone());
            prop_assert!(!writer.is_complete());
            frames.extend(writer.event(choice, event).unwrap());
        }
        prop_assert!(writer.is_complete());
        frames.extend(writer.end().unwrap());

        let mut payloads = payloads(&frames);
        prop_assert_eq!(payloads.pop().unwrap(), "[DONE]");
        let mut chunks: Vec<Value> = payloads.iter().map(|p| serde_json::from_str(p).unwrap()).collect();
        let answer = answer();
        let whole = Completion::new(&answer, collector.finish(), n, true).unwrap();
        let whole = serde_json::to_value(&whole).unwrap();
        if include_usage {
            let last = chunks.pop().unwrap();
            prop_assert_eq!(&last["choices"], &serde_json::json!([]));
            prop_assert_eq!(&last["usage"], &whole["usage"]);
            prop_assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
        } else {
            prop_assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
        }
        for index in 0..n {
            prop_assert_eq!(assemble(&chunks, index), view(&whole["choices"][index as usize]));
        }
    }
}

#[test]
fn an_answer_with_an_unfinished_choice_is_none() {
    let mut collector = Collector::default();
    collector.push(0, Event::Content("x".to_owned()));
    assert!(Completion::new(&answer(), collector.finish(), 1, false).is_none());
    assert!(Completion::new(&answer(), Collector::default().finish(), 1, false).is_none());
}
