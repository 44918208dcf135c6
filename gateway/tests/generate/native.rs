//! Text in, text out through the real engine, on a model of one megabyte with random weights: what it writes makes no sense,
//! but it must be the same every time, and nothing may stay behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use sluicegate::chat::{Event, FinishReason, Request};
use sluicegate::config::Model;
use sluicegate::error::Kind;
use sluicegate::generate::{self, Call, Collector, Message};
use sluicegate::pools::Pools;
use sluicegate::route::{self, Route};
use sluicegate_backend::engine::{Config, Engine, Workers};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

use super::{file, registry, request, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/golden/models/llama")
}

/// A route with an engine of its own.
pub(super) fn native() -> (Arc<Route>, Engine) {
    let options = CpuRunOptions { blocks: 512, sequences: 32, rows: 128, threads: 1, ..CpuRunOptions::default() };
    let runner = open_cpu(&folder(), &options).expect("the golden model opens");
    let engine = Engine::start(Workers::Both(Box::new(runner)), &Config::default()).expect("the engine starts");
    let template =
        file("turns.jinja", "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    let toml = format!(
        "name = \"m\"\nchat_template = {:?}\n[upstream.native]\ndir = {:?}\n",
        template.display().to_string(),
        folder().display().to_string()
    );
    let model: Model = toml::from_str(&toml).expect("the configuration is valid");
    let routes =
        route::build(&[model], registry(), &mut |_| Ok(engine.clone()), &Pools::default()).expect("the route is valid");
    (Arc::clone(routes.get("m").expect("it is there")), engine)
}

pub(super) fn ask(text: &str, max_tokens: u32) -> Request {
    let mut request = request(text);
    request.sampling.temperature = 0.0;
    request.max_tokens = Some(max_tokens);
    request
}

/// Waits until the engine has swept what was aborted.
pub(super) async fn settled(engine: &Engine) {
    let begin = Instant::now();
    loop {
        let stats = engine.stats();
        if stats.running + stats.waiting == 0 && stats.blocks_held == 0 && stats.slots_used == 0 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "something stays behind: {stats:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_at_once_equal_sixty_in_turn() {
    let (route, engine) = native();
    let one = |n: usize| {
        let (route, text) = (Arc::clone(&route), format!("{n} harbours {}", "and a tide ".repeat(n % 9)));
        async move { run(&route, ask(&text, 12)).await }
    };
    let together = futures_util::future::join_all((0..60).map(|n| tokio::spawn(one(n)))).await;
    for (n, together) in together.into_iter().enumerate() {
        let (mut together, error) = together.expect("no stream panics");
        assert_eq!(error, None);
        let (mut alone, _) = one(n).await;
        assert!(alone.usage.prompt_tokens > 0 && alone.usage.completion_tokens > 0);
        // Which prefix was cached depends on who came before.
        (together.usage.cached_tokens, alone.usage.cached_tokens) = (0, 0);
        assert_eq!(together, alone, "stream {n}");
    }
    settled(&engine).await;
}

#[tokio::test]
async fn choices_differ_and_the_first_is_the_one_alone() {
    let (route, _engine) = native();
    let mut three = ask("pick", 16);
    (three.n, three.sampling.temperature, three.sampling.seed) = (3, 1.0, 7);
    let mut one = three.clone();
    one.n = 1;
    let mut stream = generate::start(&route, Arc::new(three), Call::default()).await.expect("it starts");
    let mut collector = Collector::default();
    while let Some(item) = stream.next().await {
        let (choice, event) = item.expect("no error");
        collector.push(choice, event);
    }
    let messages: Vec<Message> = collector.finish();
    assert_eq!(messages.len(), 3);
    assert!(messages[0].content != messages[1].content && messages[1].content != messages[2].content);
    assert_eq!(run(&route, one).await.0.content, messages[0].content);
}

#[tokio::test]
async fn greedy_log_probabilities_are_the_best_ones_and_spell_the_content() {
    let (route, _engine) = native();
    let mut asked = ask("spell", 20);
    asked.logprobs = Some(3);
    let (message, _) = run(&route, asked).await;
    assert_eq!(message.finish_reason, Some(FinishReason::Length));
    assert_eq!(message.logprobs.len(), 20);
    let bytes: Vec<u8> = message.logprobs.iter().flat_map(|token| token.bytes.clone()).collect();
    let mut spelled = String::new();
    for chunk in bytes.utf8_chunks() {
        spelled.push_str(chunk.valid());
        spelled.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    assert_eq!(spelled, message.content);
    for token in &message.logprobs {
        assert_eq!(token.top.len(), 3);
        assert_eq!((&token.bytes, token.logprob), (&token.top[0].1, token.top[0].2));
        assert!(token.logprob <= 0.0 && token.top[0].2 >= token.top[1].2);
    }
}

#[tokio::test]
async fn a_dropped_stream_and_a_stop_string_free_the_engine() {
    let (route, engine) = native();
    let (whole, _) = run(&route, ask("long", 200)).await;
    let stop: String = whole.content.chars().skip(3).take(2).collect();
    let mut stopping = ask("long", 200);
    stopping.stop = vec![stop.clone()];
    let (stopped, _) = run(&route, stopping).await;
    assert_eq!(stopped.content, whole.content.split(&stop).next().expect("a first part"));
    assert_eq!(stopped.finish_reason, Some(FinishReason::Stop));
    assert!(stopped.usage.completion_tokens < whole.usage.completion_tokens);
    assert_eq!(stopped.usage.prompt_tokens, whole.usage.prompt_tokens);
    settled(&engine).await;

    for read in 0..4 {
        let mut many = ask("gone", 400);
        (many.n, many.sampling.temperature) = (4, 1.0);
        let mut stream = generate::start(&route, Arc::new(many), Call::default()).await.expect("it starts");
        for _ in 0..read {
            assert!(matches!(stream.next().await, Some(Ok((_, Event::Content(_))))));
        }
        drop(stream);
        settled(&engine).await;
    }
    assert!(engine.stats().aborted_total >= 13);
}

#[tokio::test]
async fn too_long_a_prompt_and_a_passed_deadline_say_so() {
    let (route, engine) = native();
    let error = generate::prepare(&route, Arc::new(ask(&"word ".repeat(2000), 1))).await.expect_err("refused");
    assert_eq!((error.kind, error.code), (Kind::BadRequest, Some("context_length_exceeded")));
    assert!(error.message.contains("1024"), "{error}");

    let call = Call { deadline: Some(Instant::now()), ..Call::default() };
    let mut stream = generate::start(&route, Arc::new(ask("late", 500)), call).await.expect("it starts");
    let mut last = stream.next().await;
    while let Some(Ok(_)) = last {
        last = stream.next().await;
    }
    assert_eq!(last.expect("an end").expect_err("not a finish").kind, Kind::Timeout);
    settled(&engine).await;
}

/// The next turn comes at once, over the same prefix, while the abort of the last one is still on its way.
#[tokio::test]
async fn a_turn_right_after_an_abandoned_one_is_clean() {
    let (route, engine) = native();
    let prompt = "the same long beginning, ".repeat(12);
    let (fresh, _) = run(&route, ask(&prompt, 24)).await;
    for read in 0..8 {
        let mut stream =
            generate::start(&route, Arc::new(ask(&prompt, 200)), Call::default()).await.expect("it starts");
        for _ in 0..read {
            assert!(matches!(stream.next().await, Some(Ok(_))));
        }
        drop(stream);
        let (next, error) = run(&route, ask(&prompt, 24)).await;
        assert_eq!(error, None);
        assert_eq!((&next.content, next.usage.completion_tokens), (&fresh.content, 24), "after {read} events");
    }
    settled(&engine).await;
}
