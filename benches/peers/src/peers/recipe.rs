//! `deepseek-recipe`, DeepSeek's own stream processor, fed with text.

use anyhow::Result;
use deepseek_recipe::stream::{
    ChunkGenerator, InferenceChunk, InferenceFinishReason, OutputChunk, ParsingOptions, StreamProcessor,
    ThinkingInitialStage,
};
use futures::StreamExt;
use futures::executor::block_on;
use sluicegate_laws::assemble::Message;

use super::{Peer, Request, call_delta, settle};

pub(super) struct Recipe;

/// Parsed chunks as they are.
struct AsParsed;

impl ChunkGenerator for AsParsed {
    type Chunk = OutputChunk;

    async fn generate(&mut self, chunk: OutputChunk) -> Vec<OutputChunk> {
        vec![chunk]
    }
}

impl Peer for Recipe {
    fn name(&self) -> &'static str {
        "deepseek-recipe 0.2.0"
    }

    fn supports(&self, format: &str) -> bool {
        matches!(format, "deepseek_v4" | "deepseek_v41")
    }

    fn stream(&mut self, request: &Request<'_>, chunks: &[&str]) -> Result<Message> {
        let options = ParsingOptions {
            parse_tool_calls: request.wants_calls(),
            thinking_initial_stage: request.thinking.then_some(ThinkingInitialStage::ReasoningStart),
            ..ParsingOptions::default()
        };
        let finish_reason =
            if request.finish == "length" { InferenceFinishReason::Length } else { InferenceFinishReason::Stop };
        let text = |text: &&str| InferenceChunk::Text { content: (*text).to_owned(), token_count: 1 };
        let input: Vec<_> = chunks.iter().map(text).chain([InferenceChunk::Finish { finish_reason }]).collect();
        let output = StreamProcessor::new(AsParsed, options).into_protocol_stream(futures::stream::iter(input));
        let (mut message, mut calls, mut failure) = (Message::default(), 0, None);
        block_on(output.for_each(|item| {
            match item {
                Ok(OutputChunk::Content { content, .. }) => message.content.push_str(&content),
                Ok(OutputChunk::Reasoning { content, .. }) => message.reasoning.push_str(&content),
                Ok(OutputChunk::ToolCallNamed { tool_name }) => {
                    call_delta(&mut message, calls, Some(&tool_name), "");
                    calls += 1;
                }
                Ok(OutputChunk::ToolCallArgumentsDelta { arguments }) => {
                    call_delta(&mut message, calls.saturating_sub(1), None, &arguments);
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
            std::future::ready(())
        }));
        settle(&mut message);
        failure.map_or(Ok(message), |error| Err(error.into()))
    }
}
