//! The path over recordings, without a format; and the output's rules on their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;

use super::output::{Output, Rules};
use super::{Call, Collector, GenerationStream, Malformed, Message, Stage, start};
use crate::chat::{self, FinishReason, Reasoning, Request, ResponseFormat, Role, ToolChoice};
use crate::error::{Error, Kind};
use crate::plugins::{self, StopCause, Tail};
use crate::route::{Policy, Route, Show};
use crate::text::StopStrings;
use crate::upstream::{Recordings, Replay};

fn route(recording: &str) -> (Arc<Route>, Arc<Replay>) {
    let replay = Arc::new(Replay::new("test", Recordings::parse(recording, "test.jsonl").unwrap(), 1.0));
    let route = Route {
        model: "m".to_owned(),
        upstream: Arc::clone(&replay) as _,
        format: None,
        template: None,
        tokenizer: None,
        grammars: None,
        defaults: sluicegate_backend::api::Sampling::default(),
        template_kwargs: serde_json::Map::new(),
        reasoning: Reasoning::Auto,
        max_tokens: None,
        context_length: None,
        stop_ids: Vec::new(),
        policy: Policy::default(),
        created: 0,
    };
    (Arc::new(route), replay)
}

fn request(n: u32, stop: &[&str]) -> Arc<Request> {
    let message = chat::Message {
        role: Role::User,
        content: vec!["hi".to_owned()],
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
    };
    Arc::new(Request {
        id: "req".into(),
        model: "m".to_owned(),
        messages: vec![message],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        reasoning: Reasoning::Auto,
        response_format: ResponseFormat::Text,
        continue_final_message: false,
        template_kwargs: serde_json::Map::new(),
        sampling: sluicegate_backend::api::Sampling::default(),
        max_tokens: None,
        stop: stop.iter().map(|&stop| stop.to_owned()).collect(),
        n,
        logprobs: None,
    })
}

async fn collect(mut stream: GenerationStream) -> (Vec<Message>, Option<Error>) {
    let mut collector = Collector::default();
    while let Some(item) = stream.next().await {
        match item {
            Ok((choice, event)) => collector.push(choice, event),
            Err(error) => return (collector.finish(), Some(error)),
        }
    }
    (collector.finish(), None)
}

async fn run(recording: &str, n: u32, stop: &[&str]) -> (Vec<Message>, Option<Error>, Arc<Replay>) {
    let (route, replay) = route(recording);
    let stream = start(&route, request(n, stop), Call::default()).await.unwrap();
    let (messages, error) = collect(stream).await;
    (messages, error, replay)
}

const HELLO: &str = r#"{"recording":"hello","prompt_tokens":7,"cached_tokens":4}
{"text":"Hel","delay_ms":1}
{"text":"lo, ","tokens":2}
{"text":"world"}
{"finish":"stop"}
"#;

#[tokio::test]
async fn a_recording_becomes_a_message_with_its_counts() {
    let (messages, error, replay) = run(HELLO, 2, &[]).await;
    assert_eq!(error, None);
    assert_eq!(messages.len(), 2);
    for message in messages {
        assert_eq!(message.content, "Hello, world");
        assert_eq!(message.finish_reason, Some(FinishReason::Stop));
        let usage = message.usage;
        assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens), (7, 4, 4));
    }
    assert_eq!((replay.stats().finished, replay.stats().aborted, replay.stats().live()), (2, 0, 0));
}

#[tokio::test]
async fn a_stop_string_over_two_deltas_ends_the_turn_and_aborts_the_upstream() {
    let (messages, error, replay) = run(HELLO, 1, &["o, w", "zzz"]).await;
    assert_eq!(error, None);
    assert_eq!(messages[0].content, "Hell");
    assert_eq!(messages[0].finish_reason, Some(FinishReason::Stop));
    let usage = messages[0].usage;
    assert_eq!(usage.completion_tokens, 4, "what was generated before the stop is paid for");
    assert_eq!(usage.cached_tokens, 4, "the upstream had said so before its end");
    assert_eq!((replay.stats().aborted, replay.stats().live()), (1, 0));
}

#[tokio::test]
async fn a_stop_string_that_never_comes_keeps_no_text() {
    let (messages, ..) = run(HELLO, 1, &["world!", "d?"]).await;
    assert_eq!(messages[0].content, "Hello, world");
}

#[tokio::test]
async fn limits_filters_errors_and_cuts_end_as_what_they_are() {
    let text = r#"{"text":"par"}"#;
    let end = |line: &str| format!("{text}\n{line}\n");
    for (line, reason) in [
        (r#"{"finish":"length"}"#, FinishReason::Length),
        (r#"{"finish":"content_filter"}"#, FinishReason::ContentFilter),
        (r#"{"finish":"tool_calls"}"#, FinishReason::Stop),
    ] {
        let (messages, error, _) = run(&end(line), 1, &["party"]).await;
        assert_eq!((messages[0].finish_reason, error), (Some(reason), None), "{line}");
        assert_eq!(messages[0].content, "par");
    }
    for (line, words) in [(r#"{"error":"out of memory"}"#, "out of memory"), ("", "incomplete")] {
        let (messages, error, _) = run(&end(line), 1, &["party"]).await;
        let error = error.unwrap();
        assert_eq!(error.kind, Kind::Upstream);
        assert!(error.message.contains(words), "{error}");
        assert_eq!(messages[0].finish_reason, None, "nobody invents an end");
        assert_eq!(messages[0].content, "par", "held text is shown before the error");
    }
}

#[tokio::test]
async fn a_dropped_stream_aborts_every_choice_also_while_silent() {
    let (route, replay) = route("{\"text\":\"a\"}\n{\"stall\":true}\n");
    let mut stream = start(&route, request(3, &[]), Call::default()).await.unwrap();
    for _ in 0..3 {
        stream.next().await.unwrap().unwrap();
    }
    let silent = tokio::time::timeout(Duration::from_millis(50), stream.next()).await;
    assert!(silent.is_err(), "a stalled upstream stays silent");
    assert_eq!(stream.timeline().stage(), Stage::Decode);
    drop(stream);
    assert_eq!((replay.stats().aborted, replay.stats().live()), (3, 0));
}

#[tokio::test]
async fn delays_are_honoured_and_a_slow_reader_does_not_add_to_them() {
    let (route, _) = route(&format!("{}{{\"finish\":\"stop\"}}\n", "{\"text\":\"a\",\"delay_ms\":50}\n".repeat(21)));
    let begin = Instant::now();
    let mut stream = start(&route, request(1, &[]), Call::default()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(50));
    let timeline = Arc::clone(stream.timeline());
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(timeline.stage(), Stage::ClientWrite);
    assert!(timeline.in_stage() >= Duration::from_millis(1190));
    let late = Instant::now();
    collect(stream).await;
    assert!(late.elapsed() < Duration::from_millis(900), "the other 1,000 ms were over while the reader slept");
    assert_eq!(timeline.stage(), Stage::Done);
    assert!(timeline.spent(Stage::ClientWrite) >= Duration::from_millis(1190));
    assert!(timeline.first_event().unwrap() >= Duration::from_millis(50));
}

#[tokio::test]
async fn a_turn_is_given_to_others_within_an_endless_burst() {
    let (route, _) = route(&format!("{}{{\"finish\":\"stop\"}}\n", "{\"text\":\"\"}\n".repeat(5000)));
    let stream = start(&route, request(1, &[]), Call::default()).await.unwrap();
    let turns = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = Arc::clone(&turns);
    // One thread: the counter runs only when the stream lets it.
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    collect(stream).await;
    other.abort();
    assert!(turns.load(std::sync::atomic::Ordering::Relaxed) > 20);
}

fn output(policy: Policy, stop: &[&str]) -> Output {
    let rules = Rules {
        request_id: "req".into(),
        model: "m".to_owned(),
        stop: StopStrings::new(stop),
        raw_stop: StopStrings::default(),
        tools: vec!["known".to_owned()],
        calls_allowed: true,
        policy,
        logprobs: false,
        prompt_tokens: 3,
    };
    Output::new(&Arc::new(rules), 0)
}

fn drain(mut output: Output, cause: &StopCause) -> Message {
    output.finish(cause, Tail::default(), None);
    let mut collector = Collector::default();
    while let Some(event) = output.pop() {
        collector.push(0, event);
    }
    collector.finish().remove(0)
}

fn content(text: &str) -> plugins::Event {
    plugins::Event::Content(text.to_owned())
}

fn call(index: u32, name: &str, arguments: &str) -> [plugins::Event; 3] {
    [
        plugins::Event::ToolStart { index, id: None, name: name.to_owned() },
        plugins::Event::ToolArgs { index, delta: arguments.to_owned() },
        plugins::Event::ToolEnd { index },
    ]
}

#[test]
fn stop_strings_apply_to_visible_content_only() {
    let mut out = output(Policy::default(), &["END"]);
    out.events([plugins::Event::Reasoning("the END of".to_owned())]);
    out.events([content("so E")]);
    out.events(call(0, "known", r#"{"a":"END"}"#));
    out.events([content("ND E")]);
    assert!(!out.is_over(), "a stop string spans no call");
    out.events([content("ND gone")]);
    assert!(out.is_over());
    let message = drain(out, &StopCause::Length);
    assert_eq!(message.reasoning, "the END of");
    assert_eq!(message.content, "so END ");
    assert_eq!(message.tool_calls[0].arguments, r#"{"a":"END"}"#);
    assert_eq!(message.finish_reason, Some(FinishReason::ToolCalls), "the stop came before the limit");
}

#[test]
fn tokens_are_counted_where_their_text_came_out() {
    let mut out = output(Policy::default(), &[]);
    out.count(3);
    out.events([plugins::Event::Reasoning("abc".to_owned())]);
    out.count(1); // "</think>" is held
    out.count(1);
    out.events([content("x")]);
    out.count(2);
    out.events(call(0, "known", "{}"));
    let message = drain(out, &StopCause::Eos(None));
    assert_eq!((message.usage.completion_tokens, message.usage.reasoning_tokens), (7, 3));
    let mut cut = output(Policy::default(), &[]);
    cut.count(2);
    cut.events([plugins::Event::Reasoning("ab".to_owned())]);
    cut.count(1);
    assert_eq!(drain(cut, &StopCause::Length).usage.reasoning_tokens, 3, "held text of a cut belongs to its channel");
}

#[test]
fn undeclared_tools_and_malformed_calls_follow_the_policy() {
    let broken = || {
        [content("a"), plugins::Event::Malformed("<tool_call>?".to_owned())]
            .into_iter()
            .chain(call(0, "other", "{}"))
            .chain(call(1, "known", "{}"))
    };
    let mut out = output(Policy::default(), &[]);
    out.events(broken());
    let message = drain(out, &StopCause::Eos(None));
    assert_eq!(message.content, "a");
    assert_eq!(message.tool_calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["other", "known"]);

    let mut out = output(Policy { malformed: Malformed::Content, undeclared_tools: Show::Hide }, &[]);
    out.events(broken());
    let message = drain(out, &StopCause::Eos(None));
    assert_eq!(message.content, "a<tool_call>?");
    assert_eq!(message.tool_calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["known"]);
    assert_eq!(message.finish_reason, Some(FinishReason::ToolCalls));

    let mut out = output(Policy { undeclared_tools: Show::Hide, ..Policy::default() }, &[]);
    out.events(call(0, "other", "{}"));
    assert_eq!(drain(out, &StopCause::Eos(None)).finish_reason, Some(FinishReason::Stop), "a hidden call is no call");
}

#[test]
fn the_formats_end_of_turn_drops_what_follows() {
    let mut out = output(Policy::default(), &["e never"]);
    out.events([content("done"), plugins::Event::EndTurn, content("<|im_start|>user")]);
    assert!(out.is_over());
    let message = drain(out, &StopCause::Eos(None));
    assert_eq!((message.content.as_str(), message.finish_reason), ("done", Some(FinishReason::Stop)));
}
