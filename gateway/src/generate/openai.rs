//! The conversation back in OpenAI's JSON, normalised: what a plugin's `render` is given.

use serde_json::{Map, Value, json};

use crate::chat::{Message, Request, ToolCall};

/// Messages with content as a list of text parts and arguments as JSON text.
pub(super) fn openai_messages(request: &Request) -> String {
    Value::Array(request.messages.iter().map(message).collect()).to_string()
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".to_owned(), message.role.as_str().into());
    let parts = message.content.iter().map(|text| json!({ "type": "text", "text": text })).collect();
    object.insert("content".to_owned(), Value::Array(parts));
    let mut text = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            object.insert(key.to_owned(), value.as_str().into());
        }
    };
    text("reasoning_content", &message.reasoning);
    text("name", &message.name);
    text("tool_call_id", &message.tool_call_id);
    if !message.tool_calls.is_empty() {
        object.insert("tool_calls".to_owned(), Value::Array(message.tool_calls.iter().map(tool_call).collect()));
    }
    Value::Object(object)
}

fn tool_call(call: &ToolCall) -> Value {
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
}
