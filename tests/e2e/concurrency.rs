//! What a client gets does not depend on who else is served.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sluicegate_tests::{Answer, Client, Config, Model, Server, component, model, recording};

use crate::{ask, block_on};

const CLIENTS: usize = 60;

/// The cases that every plugin is tested with; here the deepseek_v4 ones with calls, as recordings.
const CASES: &str = include_str!("../../plugins/cases/parser_cases.json");

struct Case {
    id: String,
    tools: Value,
    chunks: Vec<String>,
}

fn cases() -> Result<Vec<Case>> {
    let all: Vec<Value> = serde_json::from_str(CASES)?;
    let fits = |case: &&Value| {
        case["format"] == "deepseek_v4"
            && case["thinking"] == false
            && case["finish"] == "stop"
            && case["expect"]["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
    };
    let read = |case: &Value| {
        let chunks = case["chunks"].as_array().context("chunks")?.iter().filter_map(|c| c.as_str().map(str::to_owned));
        let id = case["id"].as_str().context("id")?.to_owned();
        Ok(Case { id, tools: case["tools"].clone(), chunks: chunks.collect() })
    };
    all.iter().filter(fits).map(read).collect()
}

#[test]
fn sixty_tool_call_streams_equal_one_after_another() {
    block_on(async {
        let cases = cases()?;
        assert!(cases.len() >= 10, "too few cases to mean anything: {}", cases.len());
        let mut lines = Vec::new();
        for case in &cases {
            // Characters instead of chunks: every marker arrives in pieces.
            let text = case.chunks.concat();
            let pieces: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let mut recorded = recording(&case.id, Some(&case.id), 0.5, &pieces);
            recorded[0]["prompt_tail"] = "<｜Assistant｜></think>".into();
            lines.extend(recorded);
        }
        let config =
            Config::new().component(component("deepseek")?).model(Model::replay("dsml", lines).format("deepseek_v4"));
        let server = Server::start(&config)?;
        let client = server.client()?;
        let request = |n: usize| {
            let case = &cases[n % cases.len()];
            let mut request = ask("dsml", &format!("play {}", case.id));
            request["tools"] = case.tools.clone();
            request
        };
        let (alone, together) = (one_by_one(&client, &request).await?, at_once(&client, &request).await?);
        assert!(alone.iter().all(|answer| answer.done && !answer.tool_calls.is_empty()), "{alone:#?}");
        assert_equal(&alone, &together);
        Ok(())
    });
}

#[test]
fn sixty_greedy_generations_equal_one_after_another() {
    const TOPICS: [&str; 10] =
        ["rain", "a lighthouse", "prime numbers", "bread", "the Moon", "a violin", "ants", "rust", "salt", "winter"];
    block_on(async {
        let config = Config::new().model(Model::native("smollm2", model("SmolLM2-135M-Instruct")?));
        let server = Server::start(&config)?;
        let client = server.client()?;
        let request = |n: usize| {
            let mut request = ask("smollm2", &format!("Answer {n}. Write about {}.", TOPICS[n % TOPICS.len()]));
            request["temperature"] = 0.into();
            request["max_tokens"] = json!(8 + n % 17);
            request["logprobs"] = true.into();
            request
        };
        let (alone, together) = (one_by_one(&client, &request).await?, at_once(&client, &request).await?);
        assert!(alone.iter().all(|answer| answer.done && !answer.logprobs.is_empty()), "{alone:#?}");
        assert_equal(&alone, &together);
        Ok(())
    });
}

async fn one_by_one(client: &Client, request: &impl Fn(usize) -> Value) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for n in 0..CLIENTS {
        answers.push(client.assemble(&request(n)).await?);
    }
    Ok(answers)
}

async fn at_once(client: &Client, request: &impl Fn(usize) -> Value) -> Result<Vec<Answer>> {
    let start = |n| {
        let (client, request) = (client.clone(), request(n));
        tokio::spawn(async move { client.assemble(&request).await })
    };
    let running: Vec<_> = (0..CLIENTS).map(start).collect();
    let mut answers = Vec::new();
    for answer in running {
        answers.push(answer.await??);
    }
    Ok(answers)
}

fn assert_equal(alone: &[Answer], together: &[Answer]) {
    for (n, (alone, together)) in alone.iter().zip(together).enumerate() {
        assert_eq!(alone.comparable(), together.comparable(), "request {n}: alone, then among {CLIENTS}");
    }
    let mut ids: Vec<&str> = together.iter().flat_map(|a| &a.tool_calls).map(|call| call.id.as_str()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "call ids are unique over all answers");
}
