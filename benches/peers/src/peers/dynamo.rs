//! `dynamo-parsers`: the reasoning parser feeding the tool-call jail, in the order of its frontend's preprocessor.

use anyhow::{Result, anyhow};
use dynamo_parsers::reasoning::{ReasoningParser, ReasoningParserType, ReasoningParserWrapper};
use dynamo_parsers::tool_calling::ToolDefinition;
use dynamo_parsers::tool_calling::jail::{Annotated, apply_tool_calling_jail_with_reasoning_parser};
use dynamo_protocols::types::{
    ChatChoiceStream, ChatCompletionMessageContent, ChatCompletionStreamResponseDelta,
    CreateChatCompletionStreamResponse, FinishReason, Role,
};
use futures::StreamExt;
use sluicegate_laws::assemble::Message;
use tokio::runtime::{Builder, Runtime};

use super::{Peer, Request, call_delta, settle};

type Chunk = Annotated<CreateChatCompletionStreamResponse>;

pub(super) struct Dynamo {
    /// Its Harmony parser moves work to a blocking thread of tokio.
    runtime: Runtime,
}

impl Dynamo {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { runtime: Builder::new_current_thread().build()? })
    }
}

/// Its names of a format: tool parser, reasoning parser, and whether the latter assumes that it begins inside the block, so
/// that a server leaves it out where thinking is off.
fn names(format: &str) -> Option<(Option<&'static str>, Option<&'static str>, bool)> {
    Some(match format {
        "deepseek_v4" => (Some("deepseek_v4"), Some("deepseek_v4"), false),
        "deepseek_v32" => (Some("deepseek_v3_2"), Some("deepseek_v3_2"), true),
        "deepseek_v31" => (Some("deepseek_v3_1"), Some("deepseek_v3_1"), true),
        "deepseek_v3" => (Some("deepseek_v3"), None, false),
        "hermes" => (Some("hermes"), None, false),
        "qwen3" => (Some("hermes"), Some("qwen3"), false),
        "qwen3_coder" => (Some("qwen3_coder"), Some("qwen3"), false),
        "glm45" => (None, Some("glm45"), false),
        "glm47" => (Some("glm47"), Some("glm45"), false),
        "kimi_k2" => (Some("kimi_k2"), Some("kimi_k25"), true),
        "minimax_m2" => (Some("minimax_m2"), Some("minimax_m2"), true),
        "llama3_json" => (Some("llama3_json"), None, false),
        "pythonic" => (Some("pythonic"), None, false),
        "mistral" => (Some("mistral"), None, false),
        "harmony" => (Some("harmony"), Some("gpt_oss"), false),
        "deepseek_r1" => (None, Some("deepseek_r1"), true),
        _ => return None,
    })
}

fn reasoning_for(request: &Request<'_>) -> Option<ReasoningParserWrapper> {
    let (_, name, forced) = names(request.format)?;
    let name = name.filter(|_| request.thinking || !forced)?;
    let mut parser = ReasoningParserType::get_reasoning_parser_from_name(name);
    if request.thinking {
        parser.set_in_reasoning(true);
    }
    Some(parser)
}

fn chunk(content: String, reasoning: String, finish: Option<FinishReason>) -> Chunk {
    let some = |text: String| (!text.is_empty()).then_some(text);
    let delta = ChatCompletionStreamResponseDelta {
        role: Some(Role::Assistant),
        content: some(content).map(ChatCompletionMessageContent::Text),
        tool_calls: None,
        function_call: None,
        refusal: None,
        reasoning_content: some(reasoning),
    };
    let choice = ChatChoiceStream { index: 0, delta, finish_reason: finish, logprobs: None };
    let response = CreateChatCompletionStreamResponse {
        id: "x".into(),
        choices: vec![choice],
        created: 0,
        model: "x".into(),
        system_fingerprint: None,
        object: "chat.completion.chunk".into(),
        usage: None,
        service_tier: None,
    };
    Annotated { data: Some(response), id: None, event: None, comment: None, error: None }
}

/// The reasoning stage: splits each delta, flushes before the end.
fn reasoning_stage(
    mut parser: Option<ReasoningParserWrapper>,
    deltas: Vec<String>,
    finish: FinishReason,
) -> impl futures::Stream<Item = Chunk> + Send + 'static {
    async_stream::stream! {
        for delta in deltas {
            match parser.as_mut() {
                Some(parser) => {
                    let part = parser.parse_reasoning_streaming_incremental(&delta, &[]);
                    yield chunk(part.normal_text, part.reasoning_text, None);
                }
                None => yield chunk(delta, String::new(), None),
            }
        }
        if let Some(parser) = parser.as_mut() {
            let part = parser.finish_reasoning_stream();
            if !part.normal_text.is_empty() || !part.reasoning_text.is_empty() {
                yield chunk(part.normal_text, part.reasoning_text, None);
            }
        }
        yield chunk(String::new(), String::new(), Some(finish));
    }
}

fn take(response: Chunk, message: &mut Message) {
    let Some(choice) = response.data.and_then(|data| data.choices.into_iter().next()) else { return };
    message.reasoning.push_str(&choice.delta.reasoning_content.unwrap_or_default());
    if let Some(ChatCompletionMessageContent::Text(text)) = choice.delta.content {
        message.content.push_str(&text);
    }
    for call in choice.delta.tool_calls.unwrap_or_default() {
        let (name, arguments) = call.function.map_or((None, None), |f| (f.name, f.arguments));
        call_delta(message, call.index as usize, name.as_deref(), arguments.as_deref().unwrap_or_default());
    }
}

impl Peer for Dynamo {
    fn name(&self) -> &'static str {
        "dynamo-parsers 11.0.1"
    }

    fn supports(&self, format: &str) -> bool {
        names(format).is_some() && (format != "harmony" || std::env::var_os("TIKTOKEN_ENCODINGS_BASE").is_some())
    }

    fn stream(&mut self, request: &Request<'_>, chunks: &[&str]) -> Result<Message> {
        let (tools, reasoning, _) = names(request.format).ok_or_else(|| anyhow!("no such format"))?;
        let finish = if request.finish == "length" { FinishReason::Length } else { FinishReason::Stop };
        let deltas = chunks.iter().map(|&text| text.to_owned()).collect();
        let deltas = reasoning_stage(reasoning_for(request), deltas, finish);
        let mut message = Message::default();
        let mut each = |response| {
            take(response, &mut message);
            std::future::ready(())
        };
        match tools.filter(|_| request.wants_calls()) {
            Some(tools) => {
                let defined = request.functions().map(|f| ToolDefinition {
                    name: f["name"].as_str().unwrap_or_default().to_owned(),
                    parameters: f.get("parameters").cloned(),
                    strict: None,
                });
                let jailed = apply_tool_calling_jail_with_reasoning_parser(
                    Some(tools.into()),
                    reasoning.map(String::from),
                    None,
                    Some(defined.collect()),
                    false,
                    true,
                    deltas,
                );
                self.runtime.block_on(jailed.for_each(&mut each));
            }
            None => self.runtime.block_on(deltas.for_each(&mut each)),
        }
        settle(&mut message);
        Ok(message)
    }
}
