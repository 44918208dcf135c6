//! The conversation: roles, text, and tool results that follow their calls.

use serde_json::value::RawValue;

use super::request::{check, invalid};
use super::{tools, wire};
use crate::chat::{Message, Role, ToolCall};
use crate::error::Error;

pub(super) fn build(messages: Vec<wire::Message>) -> Result<Vec<Message>, Error> {
    check(!messages.is_empty(), "messages", "needs at least one message")?;
    let mut built: Vec<Message> = Vec::with_capacity(messages.len());
    for (i, message) in messages.into_iter().enumerate() {
        let message = one(&format!("messages[{i}]"), message)?;
        if message.role == Role::Tool {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            let answers = answered(&built).is_some_and(|calls| calls.iter().any(|call| call.id == id));
            check(
                answers,
                format!("messages[{i}].tool_call_id"),
                &format!("\"{id}\" is no call of the assistant message before it"),
            )?;
        }
        built.push(message);
    }
    Ok(built)
}

/// The calls that a tool message in this place may answer: those of the last message that is no tool result.
fn answered(earlier: &[Message]) -> Option<&[ToolCall]> {
    let asked = earlier.iter().rev().find(|message| message.role != Role::Tool)?;
    (asked.role == Role::Assistant).then_some(&asked.tool_calls)
}

fn one(at: &str, message: wire::Message) -> Result<Message, Error> {
    let role = match message.role.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "latest_reminder" => Role::LatestReminder,
        "function" => return Err(invalid(format!("{at}.role"), "\"function\" is deprecated by OpenAI; use \"tool\"")),
        _ => {
            let roles = "must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"";
            return Err(invalid(format!("{at}.role"), roles));
        }
    };
    let assistant = role == Role::Assistant;
    let calls = message.tool_calls.unwrap_or_default();
    check(assistant || calls.is_empty(), format!("{at}.tool_calls"), "only an assistant message calls tools")?;
    check(
        role != Role::Tool || message.tool_call_id.as_ref().is_some_and(|id| !id.is_empty()),
        format!("{at}.tool_call_id"),
        "is required: the id of the call that this message answers",
    )?;
    let mut content = match message.content {
        Some(content) => text(at, content)?,
        None => {
            check(assistant, format!("{at}.content"), "is required")?;
            Vec::new()
        }
    };
    content.extend(message.refusal.filter(|_| assistant));
    let calls = calls.into_iter().enumerate();
    Ok(Message {
        role,
        content,
        reasoning: message.reasoning_content.or(message.reasoning).filter(|text| assistant && !text.is_empty()),
        tool_calls: calls
            .map(|(j, call)| tool_call(&format!("{at}.tool_calls[{j}]"), call))
            .collect::<Result<_, _>>()?,
        tool_call_id: message.tool_call_id.filter(|_| role == Role::Tool),
        name: message.name,
    })
}

fn text(at: &str, content: wire::Content) -> Result<Vec<String>, Error> {
    let parts = match content {
        wire::Content::Text(text) => return Ok(vec![text]),
        wire::Content::Parts(parts) => parts,
    };
    let text = |(j, part): (usize, wire::Part)| match part.r#type.as_str() {
        "text" => part.text.ok_or_else(|| invalid(format!("{at}.content[{j}].text"), "is required")),
        "refusal" => part.refusal.ok_or_else(|| invalid(format!("{at}.content[{j}].refusal"), "is required")),
        other => Err(invalid(
            format!("{at}.content[{j}].type"),
            &format!("\"{other}\" parts are not supported; this model reads text"),
        )),
    };
    parts.into_iter().enumerate().map(text).collect()
}

fn tool_call(at: &str, call: wire::ToolCall) -> Result<ToolCall, Error> {
    check(call.r#type.is_none_or(|t| t == "function"), format!("{at}.type"), "must be \"function\"")?;
    let id = call.id.filter(|id| !id.is_empty()).ok_or_else(|| invalid(format!("{at}.id"), "is required"))?;
    let function = call.function.ok_or_else(|| invalid(format!("{at}.function"), "is required"))?;
    check(!function.name.is_empty(), format!("{at}.function.name"), "must not be empty")?;
    check(tools::is_name(&function.name), format!("{at}.function.name"), "is not a function name")?;
    let arguments = arguments(&format!("{at}.function.arguments"), function.arguments.as_deref())?;
    Ok(ToolCall { id, name: function.name, arguments })
}

/// JSON text of an object, byte for byte. Some clients send the object itself, and some send nothing for no arguments.
fn arguments(at: &str, raw: Option<&RawValue>) -> Result<String, Error> {
    let raw = raw.map_or("null", RawValue::get);
    let text = match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(raw).map_err(|_| invalid(at, "is not a valid string"))?,
        Some(b'{') => raw.to_owned(),
        _ if raw == "null" => String::new(),
        _ => return Err(invalid(at, "must be a string that holds a JSON object")),
    };
    if text.trim().is_empty() {
        return Ok("{}".to_owned());
    }
    let object = text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(&text).is_ok();
    check(object, at, "must be a string that holds a JSON object")?;
    Ok(text)
}
