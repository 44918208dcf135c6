//! The toy DeepSeek-V4 through renderer, engine and component: prompts are the stored ones, and calls come out of its tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate::chat::{Effort, FinishReason, Message as Turn, Reasoning, Request, Role, Tool, ToolCall};
use sluicegate::config::Model;
use sluicegate::pools::Pools;
use sluicegate::route::{self, Route};
use sluicegate_backend::engine::{Config, Engine, Workers};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

use super::{registry, request, run};

fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/golden/tiny-dsv4-tools").join(format)
}

fn goldens() -> Vec<Value> {
    let text = std::fs::read(folder("bf16").join("goldens.json")).expect("goldens");
    serde_json::from_slice(&text).expect("goldens")
}

fn native(format: &str) -> Arc<Route> {
    let options = CpuRunOptions { blocks: 2048, sequences: 32, rows: 256, threads: 1, ..CpuRunOptions::reference() };
    let runner = open_cpu(&folder(format), &options).expect("the model opens");
    let engine = Engine::start(Workers::Both(Box::new(runner)), &Config::default()).expect("the engine starts");
    let dir = folder(format).display().to_string();
    let toml = format!("name = \"m\"\nformat = \"deepseek_v4\"\n[upstream.native]\ndir = {dir:?}\n");
    let model: Model = toml::from_str(&toml).expect("the configuration is valid");
    let routes =
        route::build(&[model], registry(), &mut |_| Ok(engine.clone()), &Pools::default()).expect("the route is valid");
    Arc::clone(routes.get("m").expect("it is there"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn turn(message: &Value) -> Turn {
    let role = match message["role"].as_str() {
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        Some("system") => Role::System,
        _ => Role::User,
    };
    let call = |call: &Value| ToolCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    };
    Turn {
        role,
        content: message["content"].as_str().map(str::to_owned).into_iter().collect(),
        reasoning: None,
        tool_calls: message["tool_calls"].as_array().into_iter().flatten().map(call).collect(),
        tool_call_id: message["tool_call_id"].as_str().map(str::to_owned),
        name: None,
    }
}

fn asked(golden: &Value) -> Request {
    let tool = |t: &Value| Tool {
        name: text(&t["function"]["name"]),
        description: t["function"]["description"].as_str().map(str::to_owned),
        parameters: Some(serde_json::value::to_raw_value(&t["function"]["parameters"]).expect("JSON")),
        strict: false,
    };
    let mut asked = request(&text(&golden["name"]));
    asked.messages = golden["request"]["messages"].as_array().expect("messages").iter().map(turn).collect();
    asked.tools = golden["request"]["tools"].as_array().expect("tools").iter().map(tool).collect();
    asked.reasoning = if golden["thinking"] == true { Reasoning::On(Some(Effort::Low)) } else { Reasoning::Off };
    asked.sampling.temperature = 0.0;
    asked.max_tokens = Some(80);
    asked
}

/// Names of the calls in a stored output, and the value of each parameter as it is written.
fn written(output: &str) -> Vec<(String, Vec<(String, Value)>)> {
    let between =
        |s: &str, a: &str, b: &str| s.split_once(a).and_then(|(_, s)| s.split_once(b)).map(|(s, _)| s.to_owned());
    let parameter = |p: &str| {
        let name = between(p, " name=\"", "\"").expect("a name");
        let value = between(p, "\">", "</").expect("a value");
        let value =
            if p.contains("string=\"true\"") { json!(value) } else { serde_json::from_str(&value).expect("JSON") };
        (name, value)
    };
    let invoke = |i: &str| {
        let body: Vec<_> = i.split("<｜DSML｜parameter").skip(1).map(parameter).collect();
        (between(i, " name=\"", "\"").expect("a name"), body)
    };
    output.split("<｜DSML｜invoke").skip(1).map(invoke).collect()
}

async fn check(format: &str, same: impl Fn(&Value) -> bool) -> usize {
    let route = native(format);
    let mut calls = 0;
    for golden in goldens().iter().filter(|g| g["min_gap"].as_f64() > Some(0.2) && same(g)) {
        let name = text(&golden["name"]);
        let (message, error) = run(&route, asked(golden)).await;
        assert_eq!(error, None, "{format} {name}");
        let count = |key: &str| golden[key].as_array().map_or(0, Vec::len);
        let usage = message.usage;
        let counted = (usage.prompt_tokens as usize, usage.completion_tokens as usize);
        assert_eq!(counted, (count("prompt_ids"), count("output_ids")), "{format} {name}");
        let output = text(&golden["output_text"]);
        let (reasoning, rest) = output.split_once("</think>").unwrap_or(("", &output));
        assert_eq!(message.reasoning, reasoning, "{format} {name}");
        let (content, block) = rest.split_once("<｜DSML｜tool_calls>").unwrap_or((rest, ""));
        assert_eq!(message.content.trim(), content.trim(), "{format} {name}");
        if !block.is_empty() && !block.contains("</｜DSML｜tool_calls>") {
            continue;
        }
        let parsed = |arguments: &str| serde_json::from_str::<Value>(arguments).expect("JSON");
        let found: Vec<_> = message.tool_calls.iter().map(|c| (c.name.clone(), parsed(&c.arguments))).collect();
        let expected: Vec<_> =
            written(block).into_iter().map(|(n, p)| (n, Value::Object(p.into_iter().collect()))).collect();
        assert_eq!(found, expected, "{format} {name}");
        let finish = if expected.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        assert_eq!(message.finish_reason, Some(finish), "{format} {name}");
        calls += expected.len();
    }
    calls
}

#[tokio::test]
async fn stored_outputs_become_tool_calls() {
    assert!(check("bf16", |_| true).await >= 14);
    assert!(check("nvfp4", |g| g["nvfp4_same"] == true).await >= 14);
}
