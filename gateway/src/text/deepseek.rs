//! DeepSeek V4 and V4.1 prompts, written by DeepSeek's own library.

use deepseek_recipe_core::conversation::{Conversation, ReasoningEffort, ResponseFormat};
use deepseek_recipe_core::messages::{InputMessage, ToolCall};
use deepseek_recipe_core::prompt::Prompt as RecipePrompt;
use deepseek_recipe_core::tools::{ToolChoice, ToolDefinition};
use deepseek_recipe_encoding::PromptEncoding;
use deepseek_recipe_encoding::dsv4::DeepseekV4Encoding;
use deepseek_recipe_encoding::dsv41::DeepseekV41Encoding;

use super::prompt::Prompt;
use crate::chat::{self, Effort, Message, Reasoning, Role};
use crate::error::{Error, Kind};

/// Which of DeepSeek's prompt formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeepSeek {
    /// V4 Flash and Pro.
    V4,
    /// V4.1.
    V41,
}

impl DeepSeek {
    /// The renderer of this name, as a format's `renderer` gives it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "deepseek-v4" => Some(Self::V4),
            "deepseek-v41" => Some(Self::V41),
            _ => None,
        }
    }

    /// Control tokens without which no prompt can be written.
    #[must_use]
    pub fn control_tokens(self) -> &'static [&'static str] {
        const COMMON: [&str; 7] = [
            "<｜begin▁of▁sentence｜>",
            "<｜end▁of▁sentence｜>",
            "<｜User｜>",
            "<｜Assistant｜>",
            "<think>",
            "</think>",
            "｜DSML｜",
        ];
        const V41: [&str; 8] =
            [COMMON[0], COMMON[1], COMMON[2], COMMON[3], COMMON[4], COMMON[5], COMMON[6], "<｜System｜>"];
        match self {
            Self::V4 => &COMMON,
            Self::V41 => &V41,
        }
    }

    /// Writes the prompt of a request.
    ///
    /// # Errors
    /// The client's fault: a schema that is not JSON, or a named tool that is not declared.
    pub fn render(self, request: &chat::Request) -> Result<Prompt, Error> {
        let conversation = conversation(request)?;
        let rendered = match self {
            Self::V4 => DeepseekV4Encoding::new().render_conversation(&conversation),
            Self::V41 => DeepseekV41Encoding::new().render_conversation(&conversation),
        };
        Prompt::from_parts(rendered.prompt, rendered.special_ranges).ok_or_else(|| {
            Error::new(Kind::Internal, "DeepSeek's renderer returned special ranges that do not fit its prompt")
        })
    }
}

fn conversation(request: &chat::Request) -> Result<Conversation, Error> {
    let thinking_mode = request.reasoning != Reasoning::Off;
    let last = request.messages.len().saturating_sub(1);
    let prefix = |at| request.continue_final_message && at == last;
    Ok(Conversation {
        messages: request.messages.iter().enumerate().map(|(at, m)| message(m, thinking_mode, prefix(at))).collect(),
        thinking_mode,
        tools: tools(request)?,
        tool_choice: match request.tool_choice {
            chat::ToolChoice::None => ToolChoice::None,
            // The block that forces a call cannot be opened before the model has thought.
            chat::ToolChoice::Required | chat::ToolChoice::Named(_) if !thinking_mode => ToolChoice::Required,
            _ => ToolChoice::Auto,
        },
        reasoning_effort: match request.reasoning {
            Reasoning::Auto | Reasoning::Off | Reasoning::On(None) => None,
            Reasoning::On(Some(effort)) => Some(match effort {
                Effort::Minimal | Effort::Low => ReasoningEffort::Low,
                Effort::Medium | Effort::High => ReasoningEffort::High,
                Effort::Xhigh => ReasoningEffort::Xhigh,
                Effort::Max => ReasoningEffort::Max,
            }),
        },
        response_format: match &request.response_format {
            // The model was told of JSON only; the others are for the grammar alone.
            chat::ResponseFormat::Text
            | chat::ResponseFormat::Regex(_)
            | chat::ResponseFormat::Choice(_)
            | chat::ResponseFormat::Grammar(_) => ResponseFormat::Text,
            chat::ResponseFormat::JsonObject => ResponseFormat::JsonObject,
            chat::ResponseFormat::JsonSchema(schema) => {
                ResponseFormat::JsonSchema(json(schema.get(), "response_format.json_schema.schema")?)
            }
        },
    })
}

fn message(message: &Message, thinking_mode: bool, prefix: bool) -> InputMessage {
    let content = message.content.join("\n\n");
    match message.role {
        Role::System => {
            InputMessage::System { content: RecipePrompt::plain(content), image_sources: Vec::new(), tools: None }
        }
        Role::User => InputMessage::User { content: RecipePrompt::plain(content), image_sources: Vec::new() },
        Role::Assistant => InputMessage::Assistant {
            content,
            // A turn whose reasoning the client did not send back gets an empty block, as in DeepSeek's own service.
            reasoning_content: thinking_mode.then(|| message.reasoning.clone().unwrap_or_default()),
            tool_calls: (!message.tool_calls.is_empty()).then(|| message.tool_calls.iter().map(tool_call).collect()),
            prefix,
        },
        Role::Tool => InputMessage::Tool {
            content: RecipePrompt::plain(content),
            image_sources: Vec::new(),
            tool_call_id: message.tool_call_id.clone(),
        },
        Role::LatestReminder => InputMessage::LatestReminder { content },
    }
}

fn tool_call(call: &chat::ToolCall) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() }
}

/// The declared tools; of a named choice only that one, as the library knows no names.
fn tools(request: &chat::Request) -> Result<Vec<ToolDefinition>, Error> {
    let wanted = |tool: &&chat::Tool| match &request.tool_choice {
        chat::ToolChoice::Named(name) => &tool.name == name,
        _ => true,
    };
    let tools: Result<Vec<ToolDefinition>, Error> = request
        .tools
        .iter()
        .filter(wanted)
        .map(|tool| {
            let schema = tool.parameters.as_deref().map_or("{}", |raw| raw.get());
            Ok(ToolDefinition {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: json(schema, &format!("the parameters of tool \"{}\"", tool.name))?,
                strict: Some(tool.strict),
                defer_loading: false,
            })
        })
        .collect();
    match (&request.tool_choice, tools?) {
        (chat::ToolChoice::Named(name), tools) if tools.is_empty() => {
            Err(Error::new(Kind::BadRequest, format!("tool_choice names \"{name}\", which is not among the tools"))
                .param("tool_choice"))
        }
        (_, tools) => Ok(tools),
    }
}

fn json(text: &str, what: &str) -> Result<serde_json::Value, Error> {
    serde_json::from_str(text).map_err(|error| Error::new(Kind::BadRequest, format!("{what}: not valid JSON: {error}")))
}
