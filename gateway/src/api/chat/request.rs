//! From the wire to a validated [`chat::Request`]; every refusal names the field at fault.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{messages, output, sampling, tools, wire};
use crate::chat::{self, Effort, Reasoning};
use crate::error::{Error, Kind};
use crate::route::Route;

/// Most stop strings, and most bytes of one.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 512;
/// Most alternatives per position, as in OpenAI's API.
const MAX_TOP_LOGPROBS: u8 = 20;

/// How the answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// As a stream of events.
    pub(super) stream: bool,
    /// With a usage chunk before the end.
    pub(super) include_usage: bool,
}

/// A client's mistake in one field.
pub(super) fn invalid(param: impl Into<String>, message: &str) -> Error {
    let param = param.into();
    Error::new(Kind::BadRequest, format!("{param}: {message}")).param(param)
}

/// `Ok` when `holds`, else the field's error.
pub(super) fn check(holds: bool, param: impl Into<String>, message: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(invalid(param, message)) }
}

/// How the answer is to be sent.
pub(super) fn delivery(body: &wire::Body) -> Result<Delivery, Error> {
    let stream = body.stream.unwrap_or(false);
    check(stream || body.stream_options.is_none(), "stream_options", "only allowed when stream is true")?;
    let include_usage = body.stream_options.as_ref().and_then(|o| o.include_usage).unwrap_or(false);
    Ok(Delivery { stream, include_usage })
}

/// Validates a body for a route.
pub(super) fn build(
    mut body: wire::Body,
    id: &Arc<str>,
    route: &Route,
    max_choices: u32,
) -> Result<chat::Request, Error> {
    check(body.functions.is_none(), "functions", "deprecated by OpenAI; use tools")?;
    check(body.function_call.is_none(), "function_call", "deprecated by OpenAI; use tool_choice")?;
    let response_format = output::build(&mut body)?;
    let sampling = sampling::build(&body, &route.defaults)?;
    let n = body.n.unwrap_or(1);
    check((1..=max_choices).contains(&n), "n", &format!("must be 1 to {max_choices}"))?;
    let template_kwargs = body.chat_template_kwargs.unwrap_or_default();
    let reasoning = reasoning(body.reasoning_effort.as_deref(), &template_kwargs)?;
    let logprobs = logprobs(body.logprobs, body.top_logprobs)?;
    let max_tokens = max_tokens(body.max_completion_tokens, body.max_tokens)?;
    let mut tools = tools::build(body.tools.unwrap_or_default())?;
    let tool_choice = tools::choice(body.tool_choice, &mut tools)?;
    let prefix = body.messages.last().and_then(|message| message.prefix).unwrap_or(false);
    let continue_final_message = body.continue_final_message.unwrap_or(prefix);
    let messages = messages::build(body.messages)?;
    let ends_open =
        messages.last().is_some_and(|last| last.role == chat::Role::Assistant && last.tool_calls.is_empty());
    check(
        !continue_final_message || ends_open,
        "continue_final_message",
        "the last message must be an assistant message without tool calls",
    )?;
    Ok(chat::Request {
        id: Arc::clone(id),
        model: body.model,
        messages,
        tools,
        tool_choice,
        parallel_tool_calls: body.parallel_tool_calls.unwrap_or(true),
        reasoning,
        response_format,
        continue_final_message,
        template_kwargs,
        sampling,
        max_tokens,
        stop: stop(body.stop)?,
        n,
        logprobs,
    })
}

fn max_tokens(completion: Option<u32>, legacy: Option<u32>) -> Result<Option<u32>, Error> {
    check(completion != Some(0), "max_completion_tokens", "must be at least 1")?;
    check(legacy != Some(0), "max_tokens", "must be at least 1")?;
    Ok(completion.or(legacy))
}

fn logprobs(wanted: Option<bool>, top: Option<u8>) -> Result<Option<u8>, Error> {
    let wanted = wanted.unwrap_or(false);
    check(wanted || top.is_none(), "top_logprobs", "only allowed when logprobs is true")?;
    let top = top.unwrap_or(0);
    check(top <= MAX_TOP_LOGPROBS, "top_logprobs", &format!("must be 0 to {MAX_TOP_LOGPROBS}"))?;
    Ok(wanted.then_some(top))
}

fn stop(stop: Option<wire::Strings>) -> Result<Vec<String>, Error> {
    let stop = stop.map(|strings| strings.0).unwrap_or_default();
    check(stop.len() <= MAX_STOPS, "stop", &format!("at most {MAX_STOPS} strings"))?;
    for (i, text) in stop.iter().enumerate() {
        let fits = (1..=MAX_STOP_BYTES).contains(&text.len());
        check(fits, format!("stop[{i}]"), &format!("must be 1 to {MAX_STOP_BYTES} bytes"))?;
    }
    Ok(stop)
}

/// `reasoning_effort` decides; without it the template's own switches do.
fn reasoning(effort: Option<&str>, kwargs: &Map<String, Value>) -> Result<Reasoning, Error> {
    let effort = match effort {
        None => {
            let switch = ["enable_thinking", "thinking"].iter().find_map(|key| kwargs.get(*key)?.as_bool());
            return Ok(match switch {
                None => Reasoning::Auto,
                Some(false) => Reasoning::Off,
                Some(true) => Reasoning::On(None),
            });
        }
        Some("none") => return Ok(Reasoning::Off),
        Some("minimal") => Effort::Minimal,
        Some("low") => Effort::Low,
        Some("medium") => Effort::Medium,
        Some("high") => Effort::High,
        Some("xhigh") => Effort::Xhigh,
        Some("max") => Effort::Max,
        Some(_) => {
            let words = "must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"";
            return Err(invalid("reasoning_effort", words));
        }
    };
    Ok(Reasoning::On(Some(effort)))
}
