//! What a request promises of its output holds, though the model is small and the temperature high.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sluicegate_tests::{Answer, Config, Model, Server, component, model};

use crate::{ask, block_on};

/// Requests of each kind, each with a seed of its own.
const SEEDS: usize = 50;
/// Requests at a time.
const TOGETHER: usize = 10;

fn server() -> Result<Server> {
    let smollm2 = Model::native("smollm2", model("SmolLM2-135M-Instruct")?).format("hermes");
    // Drafts change nothing, those that a grammar forces included.
    let drafts = "[engine]\nspeculative_config = { method = \"ngram\", num_speculative_tokens = 4 }\n";
    Server::start(&Config::new().component(component("qwen")?).model(smollm2).extra(drafts))
}

/// All answers to these requests, some at a time.
async fn answers(server: &Server, request: impl Fn(usize) -> Value) -> Result<Vec<Answer>> {
    let client = server.client()?;
    let start = |n: usize| {
        let (client, mut request) = (client.clone(), request(n));
        request["temperature"] = 1.into();
        request["seed"] = n.into();
        request["max_tokens"] = 400.into();
        tokio::spawn(async move { client.assemble(&request).await })
    };
    let mut answers = Vec::new();
    for first in (0..SEEDS).step_by(TOGETHER) {
        let running: Vec<_> = (first..SEEDS.min(first + TOGETHER)).map(start).collect();
        for answer in running {
            answers.push(answer.await??);
        }
    }
    Ok(answers)
}

fn weather() -> Value {
    json!({"type": "function", "function": {
        "name": "get_weather", "description": "The weather in a city.",
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["city", "unit"],
            "properties": {
                "city": {"type": "string", "maxLength": 24},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
        },
    }})
}

fn clock() -> Value {
    json!({"type": "function", "function": {"name": "get_time", "parameters": {
        "type": "object", "additionalProperties": false, "required": ["zone"],
        "properties": {"zone": {"type": "string", "maxLength": 12}},
    }}})
}

fn obeys(name: &str, arguments: &str) -> Result<()> {
    let value: Value = serde_json::from_str(arguments).with_context(|| format!("not JSON: {arguments}"))?;
    let text = |key: &str, most: usize| value[key].as_str().is_some_and(|text| text.chars().count() <= most);
    let fits = match name {
        "get_time" => text("zone", 12),
        "get_weather" => {
            let day = |day: &Value| day.as_u64().is_some_and(|n| (1..=9).contains(&n));
            text("city", 24)
                && (value["unit"] == "celsius" || value["unit"] == "fahrenheit")
                && value.get("days").is_none_or(day)
        }
        _ => false,
    };
    ensure!(fits, "a call of {name:?} with {arguments}");
    Ok(())
}

#[test]
fn a_small_model_that_must_call_always_calls_rightly() {
    block_on(async {
        let server = server()?;
        let request = |n: usize| {
            let mut request = ask("smollm2", ["What is the weather in Lima?", "Tell me a joke.", "7 * 6?"][n % 3]);
            request["tools"] = json!([weather(), clock()]);
            request["parallel_tool_calls"] = false.into();
            request["tool_choice"] = match n % 5 {
                0 => json!({"type": "function", "function": {"name": "get_time"}}),
                1 => json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                    {"type": "function", "function": {"name": "get_weather"}}]}}),
                _ => "required".into(),
            };
            request
        };
        for (n, answer) in answers(&server, request).await?.iter().enumerate() {
            ensure!(answer.finish_reason.as_deref() == Some("tool_calls"), "{n}: {answer:?}");
            let [call] = answer.tool_calls.as_slice() else { anyhow::bail!("{n}: not one call: {answer:?}") };
            ensure!(answer.content.trim().is_empty(), "{n}: text beside the call: {answer:?}");
            match n % 5 {
                0 => ensure!(call.name == "get_time", "{n}: {answer:?}"),
                1 => ensure!(call.name == "get_weather", "{n}: {answer:?}"),
                _ => {}
            }
            obeys(&call.name, &call.arguments)?;
        }
        Ok(())
    });
}

#[test]
fn a_small_model_that_must_write_json_always_does() {
    block_on(async {
        let server = server()?;
        let schema = weather()["function"]["parameters"].clone();
        let request = |n: usize| {
            let mut request = ask("smollm2", "Write a weather query for any town, as JSON.");
            match n % 2 {
                0 => request["response_format"] = json!({"type": "json_schema", "json_schema": {"schema": schema}}),
                _ => request["structured_outputs"] = json!({"json": schema}),
            }
            request
        };
        for (n, answer) in answers(&server, request).await?.iter().enumerate() {
            ensure!(answer.finish_reason.as_deref() == Some("stop"), "{n}: {answer:?}");
            obeys("get_weather", &answer.content)?;
        }
        Ok(())
    });
}
