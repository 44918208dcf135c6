//! A request as the variables of a chat template.

use std::borrow::Cow;

use minijinja::value::Value;

use super::super::mask::Mask;
use super::super::tokenizer::SpecialTokens;
use super::{TemplateError, json};
use crate::chat::{Effort, Message, Reasoning, Request, Role, Tool, ToolCall, ToolChoice};

/// What a template is told.
pub(super) struct Conversation<'a> {
    pub(super) request: &'a Request,
    pub(super) source: &'a str,
    pub(super) special_tokens: &'a SpecialTokens,
}

type Pairs = Vec<(Cow<'static, str>, Value)>;

impl Conversation<'_> {
    /// All variables, the conversation's strings masked.
    pub(super) fn variables(&self, mask: &Mask<'_>) -> Result<Value, TemplateError> {
        let mut pairs: Pairs = self
            .special_tokens
            .iter()
            .map(|(role, spelling)| (Cow::Owned(role.clone()), Value::from(spelling.as_str())))
            .collect();
        let request = self.request;
        let last = request.messages.len().saturating_sub(1);
        let messages: Result<Vec<Value>, TemplateError> = request
            .messages
            .iter()
            .enumerate()
            .map(|(at, message)| self.message(message, mask, request.continue_final_message && at == last))
            .collect();
        pairs.push(("messages".into(), Value::from(messages?)));
        pairs.push(("tools".into(), self.tools(mask)?));
        pairs.push(("add_generation_prompt".into(), Value::from(!request.continue_final_message)));
        pairs.extend(reasoning(request.reasoning));
        for (key, value) in &request.template_kwargs {
            let value = json::parse(&value.to_string(), &|text| mask.cover(text))
                .map_err(|reason| TemplateError::Conversation(format!("chat_template_kwargs.{key} {reason}")))?;
            pairs.retain(|(known, _)| known != key.as_str());
            pairs.push((Cow::Owned(key.clone()), value));
        }
        Ok(Value::from_pairs(pairs.into_iter().map(|(key, value)| (key.into_owned(), value))))
    }

    fn message(&self, message: &Message, mask: &Mask<'_>, open: bool) -> Result<Value, TemplateError> {
        let text = |text: &str| Value::from(mask.cover(text));
        let content = message.content.join("\n");
        let (reasoning, content) = self.split_reasoning(message, &content);
        let mut visible = mask.cover(content);
        if open {
            visible.push(mask.end_mark());
        }
        let mut pairs: Pairs =
            vec![("role".into(), Value::from(message.role.as_str())), ("content".into(), visible.into())];
        if let Some(reasoning) = reasoning {
            pairs.push(("reasoning_content".into(), text(reasoning)));
        }
        if let Some(name) = &message.name {
            pairs.push(("name".into(), text(name)));
        }
        if let Some(id) = &message.tool_call_id {
            pairs.push(("tool_call_id".into(), text(id)));
        }
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(|call| tool_call(call, mask)).collect::<Vec<_>>();
            pairs.push(("tool_calls".into(), Value::from(calls)));
        }
        Ok(Value::from_pairs(pairs))
    }

    /// Clients that do not know `reasoning_content` send back reasoning as the model wrote it. Templates that care take it
    /// apart themselves, which they can't while markers are masked, so it is done for them in the same way.
    fn split_reasoning<'m>(&self, message: &'m Message, content: &'m str) -> (Option<&'m str>, &'m str) {
        const CLOSE: &str = "</think>";
        let given = message.reasoning.as_deref();
        let looks = || self.source.contains("'</think>'") || self.source.contains("\"</think>\"");
        if given.is_some() || message.role != Role::Assistant || !content.contains(CLOSE) || !looks() {
            return (given, content);
        }
        let before = content.split(CLOSE).next().unwrap_or_default().trim_end_matches('\n');
        let reasoning = before.rsplit("<think>").next().unwrap_or_default().trim_start_matches('\n');
        let visible = content.rsplit(CLOSE).next().unwrap_or_default().trim_start_matches('\n');
        (Some(reasoning), visible)
    }

    /// The tools, as OpenAI's objects; undefined when the model must not call any.
    fn tools(&self, mask: &Mask<'_>) -> Result<Value, TemplateError> {
        if self.request.tools.is_empty() || self.request.tool_choice == ToolChoice::None {
            return Ok(Value::from(()));
        }
        let tools: Result<Vec<Value>, TemplateError> = self.request.tools.iter().map(|t| tool(t, mask)).collect();
        Ok(Value::from(tools?))
    }
}

fn tool(tool: &Tool, mask: &Mask<'_>) -> Result<Value, TemplateError> {
    let mut function = vec![("name", Value::from(mask.cover(&tool.name)))];
    if let Some(description) = &tool.description {
        function.push(("description", Value::from(mask.cover(description))));
    }
    if let Some(parameters) = &tool.parameters {
        let schema = json::parse(parameters.get(), &|text| mask.cover(text)).map_err(|reason| {
            TemplateError::Conversation(format!("the parameters of tool \"{}\": the schema {reason}", tool.name))
        })?;
        function.push(("parameters", schema));
    }
    Ok(Value::from_pairs([("type", Value::from("function")), ("function", Value::from_pairs(function))]))
}

/// Arguments become a mapping, as templates expect; text that is no JSON object stays text.
fn tool_call(call: &ToolCall, mask: &Mask<'_>) -> Value {
    let cover = |text: &str| mask.cover(text);
    let is_object = call.arguments.trim_start().starts_with('{');
    let parsed = is_object.then(|| json::parse(&call.arguments, &cover).ok()).flatten();
    let arguments = parsed.unwrap_or_else(|| Value::from(cover(&call.arguments)));
    let function = [("name", Value::from(cover(&call.name))), ("arguments", arguments)];
    Value::from_pairs([
        ("id", Value::from(cover(&call.id))),
        ("type", Value::from("function")),
        ("function", Value::from_pairs(function)),
    ])
}

/// The names under which templates ask for it: `enable_thinking` (Qwen, GLM, SmolLM3), `thinking` (DeepSeek, Kimi, Granite),
/// `reasoning_effort` (gpt-oss and others). Undefined leaves the template's default.
fn reasoning(reasoning: Reasoning) -> Pairs {
    let switch = |on: bool| vec![("enable_thinking".into(), Value::from(on)), ("thinking".into(), Value::from(on))];
    match reasoning {
        Reasoning::Auto => Vec::new(),
        Reasoning::Off => switch(false),
        Reasoning::On(effort) => {
            let mut pairs: Pairs = switch(true);
            pairs.extend(effort.map(|effort| ("reasoning_effort".into(), Value::from(effort_name(effort)))));
            pairs
        }
    }
}

fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Xhigh => "xhigh",
        Effort::Max => "max",
    }
}
