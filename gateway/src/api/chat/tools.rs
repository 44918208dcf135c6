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

/// The choice. `allowed_tools` takes the other tools away: what a model doesn't know, it can't call.
pub(super) fn choice(choice: Option<wire::ToolChoice>, tools: &mut Vec<Tool>) -> Result<ToolChoice, Error> {
    let choice = match choice {
        None => ToolChoice::Auto,
        Some(wire::ToolChoice::Word(word)) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => return Err(invalid("tool_choice", "must be \"auto\", \"none\", \"required\" or name a function")),
        },
        Some(wire::ToolChoice::Object(named)) if named.r#type == "allowed_tools" => {
            allowed(named.allowed_tools, tools)?
        }
        Some(wire::ToolChoice::Object(named)) => {
            check(named.r#type == "function", "tool_choice.type", "must be \"function\" or \"allowed_tools\"")?;
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

fn allowed(allowed: Option<wire::AllowedTools>, tools: &mut Vec<Tool>) -> Result<ToolChoice, Error> {
    let at = "tool_choice.allowed_tools";
    let allowed = allowed.ok_or_else(|| invalid(at, "is required"))?;
    let mut names = Vec::with_capacity(allowed.tools.len());
    for (i, tool) in allowed.tools.into_iter().enumerate() {
        let at = format!("{at}.tools[{i}]");
        check(tool.r#type == "function", format!("{at}.type"), "must be \"function\"")?;
        let function = tool.function.ok_or_else(|| invalid(format!("{at}.function"), "is required"))?;
        let declared = tools.iter().any(|tool| tool.name == function.name);
        check(declared, format!("{at}.function.name"), "is none of the declared tools")?;
        names.push(function.name);
    }
    tools.retain(|tool| names.contains(&tool.name));
    match allowed.mode.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "required" => Ok(ToolChoice::Required),
        _ => Err(invalid(format!("{at}.mode"), "must be \"auto\" or \"required\"")),
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(legal)
}
