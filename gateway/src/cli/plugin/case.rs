//! A recorded case as a request to a plugin.

use serde_json::Value;
use serde_json::value::RawValue;
use sluicegate_cases::Case;

use crate::chat;
use crate::plugins::{StopCause, StreamConfig};

/// The tools that the case declares.
pub(super) fn tools(case: &Case) -> Vec<chat::Tool> {
    let functions = case.tools.as_array().into_iter().flatten().map(|tool| tool.get("function").unwrap_or(tool));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    functions
        .map(|function| chat::Tool {
            name: text(&function["name"]).unwrap_or_default(),
            description: text(&function["description"]),
            parameters: function.get("parameters").and_then(|schema| RawValue::from_string(schema.to_string()).ok()),
            strict: function["strict"].as_bool().unwrap_or(false),
        })
        .collect()
}

/// What the parser is told of the request.
pub(super) fn config(case: &Case) -> StreamConfig {
    let tool_choice = match case.tool_choice.as_deref() {
        None | Some("auto") => chat::ToolChoice::Auto,
        Some("none") => chat::ToolChoice::None,
        Some("required") => chat::ToolChoice::Required,
        Some(name) => chat::ToolChoice::Named(name.to_owned()),
    };
    let reasoning = if case.thinking { chat::Reasoning::On(None) } else { chat::Reasoning::Off };
    StreamConfig { tool_choice, reasoning, ..StreamConfig::default() }
}

/// Why the engine stopped.
pub(super) fn cause(case: &Case) -> StopCause {
    if case.is_cut() { StopCause::Length } else { StopCause::Eos(None) }
}
