//! What a client assembles from a stream's chunks, with the API's shape checked on the way.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// A tool call, assembled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id, which is different in every answer.
    pub id: String,
    /// Function.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// One choice's message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Visible text.
    pub content: String,
    /// Reasoning text.
    pub reasoning: String,
    /// Calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// `logprobs.content` of all chunks.
    pub logprobs: Vec<Value>,
    /// Why it ended.
    pub finish_reason: Option<String>,
    /// The usage chunk.
    pub usage: Option<Value>,
    /// The error event that ended it.
    pub error: Option<Value>,
    /// Whether `[DONE]` came.
    pub done: bool,
}

impl Answer {
    /// Takes the data of one frame.
    ///
    /// # Errors
    /// The frame breaks the shape that OpenAI's clients rely on.
    pub fn push(&mut self, data: &str) -> Result<()> {
        ensure!(!self.done, "a frame after [DONE]: {data}");
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data).with_context(|| format!("not JSON: {data}"))?;
        if let Some(error) = chunk.get("error") {
            self.error = Some(error.clone());
            return Ok(());
        }
        ensure!(chunk["object"] == "chat.completion.chunk", "not a chunk: {data}");
        ensure!(self.usage.is_none(), "a chunk after the usage chunk: {data}");
        let choices = chunk["choices"].as_array().context("no choices")?;
        if chunk.get("usage").is_some_and(Value::is_object) && choices.is_empty() {
            self.usage = Some(chunk["usage"].clone());
            return Ok(());
        }
        choices.iter().filter(|choice| choice["index"] == 0).try_for_each(|choice| self.choice(choice))
    }

    fn choice(&mut self, choice: &Value) -> Result<()> {
        ensure!(self.finish_reason.is_none(), "a delta after the finish: {choice}");
        let delta = &choice["delta"];
        self.content.push_str(delta["content"].as_str().unwrap_or_default());
        self.reasoning.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call)?;
        }
        self.logprobs.extend(choice["logprobs"]["content"].as_array().into_iter().flatten().cloned());
        self.finish_reason = choice["finish_reason"].as_str().map(str::to_owned);
        Ok(())
    }

    fn call(&mut self, delta: &Value) -> Result<()> {
        let index = usize::try_from(delta["index"].as_u64().context("a call without index")?)?;
        let function = &delta["function"];
        if let Some(name) = function["name"].as_str() {
            ensure!(index == self.tool_calls.len(), "call {index} begins out of order or again: {delta}");
            let id = delta["id"].as_str().filter(|id| !id.is_empty()).context("a call without id")?;
            ensure!(delta["type"] == "function", "a call of another type: {delta}");
            self.tool_calls.push(ToolCall { id: id.to_owned(), name: name.to_owned(), ..ToolCall::default() });
        }
        let call = self.tool_calls.get_mut(index).with_context(|| format!("call {index} has not begun: {delta}"))?;
        call.arguments.push_str(function["arguments"].as_str().unwrap_or_default());
        Ok(())
    }

    /// Everything that must be equal between two runs of one stream: all but the calls' ids.
    #[must_use]
    pub fn comparable(&self) -> Self {
        let mut same = self.clone();
        same.tool_calls.iter_mut().for_each(|call| call.id.clear());
        same
    }
}
