//! From events to `chat.completion.chunk` objects.

use bytes::Bytes;
use serde::Serialize;

use super::Answer;
use super::shape::{FunctionShape, LogprobsShape, UsageShape, finish_reason};
use crate::api::sse;
use crate::chat::{Event, TokenLogprob, Usage};
use crate::generate::total_usage;

/// Writes one answer's chunks. The role comes once per choice, first; a call's id, type and name come once.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    answer: Answer,
    include_usage: bool,
    choices: Vec<Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    begun: bool,
    /// Waiting for the next chunk.
    logprobs: Vec<TokenLogprob>,
    finished: Option<Usage>,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [ChunkChoice],
    /// Absent unless asked for; then null in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageShape>>,
}

#[derive(Serialize)]
struct ChunkChoice {
    index: u32,
    delta: Delta,
    logprobs: Option<LogprobsShape>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolCallDelta; 1]>,
}

#[derive(Serialize)]
struct ToolCallDelta {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: FunctionShape,
}

impl ChunkWriter {
    pub(super) fn new(answer: Answer, n: u32, include_usage: bool) -> Self {
        let choices = (0..n).map(|_| Choice::default()).collect();
        Self { answer, include_usage, choices }
    }

    /// Whether every choice has finished.
    pub(super) fn is_complete(&self) -> bool {
        self.choices.iter().all(|choice| choice.finished.is_some())
    }

    /// Frames of one event, in order.
    pub(super) fn event(&mut self, index: u32, event: Event) -> Result<Vec<Bytes>, serde_json::Error> {
        let mut frames = Vec::with_capacity(1);
        let Some(choice) = self.choices.get_mut(index as usize) else { return Ok(frames) };
        if let Event::Logprobs(tokens) = event {
            choice.logprobs.extend(tokens);
            return Ok(frames);
        }
        let first = !std::mem::replace(&mut choice.begun, true);
        let (delta, finish) = match event {
            Event::Finish { reason, usage } => {
                choice.finished = Some(usage);
                (Delta::default(), Some(finish_reason(reason)))
            }
            event => (delta(event), None),
        };
        let logprobs = std::mem::take(&mut choice.logprobs);
        let logprobs = (!logprobs.is_empty()).then(|| LogprobsShape::of(logprobs));
        if first {
            let delta = Delta { role: Some("assistant"), content: Some(String::new()), ..Delta::default() };
            frames.push(self.frame(&[ChunkChoice { index, delta, logprobs: None, finish_reason: None }], None)?);
        }
        frames.push(self.frame(&[ChunkChoice { index, delta, logprobs, finish_reason: finish }], None)?);
        Ok(frames)
    }

    /// The usage chunk, if asked for, and the end.
    pub(super) fn end(&self) -> Result<Vec<Bytes>, serde_json::Error> {
        if !self.include_usage {
            return Ok(vec![sse::DONE]);
        }
        let usage = total_usage(self.choices.iter().filter_map(|choice| choice.finished));
        Ok(vec![self.frame(&[], Some(UsageShape::of(usage)))?, sse::DONE])
    }

    fn frame(&self, choices: &[ChunkChoice], usage: Option<UsageShape>) -> Result<Bytes, serde_json::Error> {
        sse::data(&Chunk {
            id: &self.answer.id,
            object: "chat.completion.chunk",
            created: self.answer.created,
            model: &self.answer.model,
            choices,
            usage: self.include_usage.then_some(usage),
        })
    }
}

fn delta(event: Event) -> Delta {
    match event {
        Event::Content(text) => Delta { content: Some(text), ..Delta::default() },
        // vLLM and SGLang say `reasoning_content`, OpenRouter and newer clients say `reasoning`.
        Event::Reasoning(text) => {
            Delta { reasoning_content: Some(text.clone()), reasoning: Some(text), ..Delta::default() }
        }
        Event::ToolStart { index, id, name } => call(ToolCallDelta {
            index,
            id: Some(id),
            r#type: Some("function"),
            function: FunctionShape { name: Some(name), arguments: String::new() },
        }),
        Event::ToolArgs { index, delta } => call(ToolCallDelta {
            index,
            id: None,
            r#type: None,
            function: FunctionShape { name: None, arguments: delta },
        }),
        Event::Logprobs(_) | Event::Finish { .. } => Delta::default(),
    }
}

fn call(call: ToolCallDelta) -> Delta {
    Delta { tool_calls: Some([call]), ..Delta::default() }
}
