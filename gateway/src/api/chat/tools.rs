//! Declared tools and the choice among them.

use super::request::{check, invalid};
use super::wire;
use crate::chat::{Tool, ToolChoice};
use crate::error::Error;

/// Longest function name. OpenAI stops at 64 and at letters, digits, `_` and `-`; tools of MCP servers go beyond both.
const MAX_NAME: usize = 128;

pub(super) fn build(tools: Vec<wire::Tool>) -> Result<Vec<Tool>, Error> {
    let mut built: Vec<Tool> = Vec::with_capacity(tools.len());
    for (i, tool) in tools.into_iter().enumerate() {
        let at = |field: &str| format!("tools[{i}].{field}");
        check(tool.r#type == "function", at("type"), "must be \"function\"")?;
        let function = tool.function.ok_or_else(|| invalid(at("function"), "is required"))?;
        check(
            is_name(&function.name),
            at("function.name"),
            &format!("must be 1 to {MAX_NAME} characters out of letters, digits and _ - . : /"),
        )?;
        let taken = built.iter().any(|tool| tool.name == function.name);
        check(!taken, at("function.name"), "another tool has this name")?;
        let parameters = function.parameters.filter(|raw| raw.get() != "null");
        let object = parameters.as_ref().is_none_or(|raw| raw.get().starts_with('{'));
        check(object, at("function.parameters"), "must be a JSON Schema object")?;
        built.push(Tool {
            name: function.name,
            description: function.description,
            parameters,
            strict: function.strict.unwrap_or(false),
        });
    }
    Ok(built)
}

pub(super) fn choice(choice: Option<wire::ToolChoice>, tools: &[Tool]) -> Result<ToolChoice, Error> {
    let choice = match choice {
        None => ToolChoice::Auto,
        Some(wire::ToolChoice::Word(word)) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => return Err(invalid("tool_choice", "must be \"auto\", \"none\", \"required\" or name a function")),
        },
        Some(wire::ToolChoice::Object(named)) => {
            check(named.r#type == "function", "tool_choice.type", "must be \"function\"")?;
            let function = named.function.ok_or_else(|| invalid("tool_choice.function", "is required"))?;
            let declared = tools.iter().any(|tool| tool.name == function.name);
            check(declared, "tool_choice.function.name", "is none of the declared tools")?;
            ToolChoice::Named(function.name)
        }
    };
    let needs_tools = choice == ToolChoice::Required && tools.is_empty();
    check(!needs_tools, "tool_choice", "\"required\" needs at least one tool")?;
    Ok(choice)
}

pub(super) fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(legal)
}
