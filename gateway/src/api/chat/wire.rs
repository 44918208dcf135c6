//! The request body as clients write it. Unknown fields are ignored: clients send many, and new ones all the time.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) model: String,
    pub(super) messages: Vec<Message>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) tools: Option<Vec<Tool>>,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) functions: Option<IgnoredAny>,
    pub(super) function_call: Option<IgnoredAny>,
    pub(super) response_format: Option<ResponseFormat>,
    pub(super) structured_outputs: Option<StructuredOutputs>,
    pub(super) guided_json: Option<Box<RawValue>>,
    pub(super) guided_regex: Option<String>,
    pub(super) guided_choice: Option<Vec<String>>,
    pub(super) guided_grammar: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) chat_template_kwargs: Option<Map<String, Value>>,
    pub(super) continue_final_message: Option<bool>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) stop: Option<Strings>,
    pub(super) n: Option<u32>,
    pub(super) logprobs: Option<bool>,
    pub(super) top_logprobs: Option<u8>,
    pub(super) temperature: Option<f32>,
    pub(super) top_p: Option<f32>,
    pub(super) top_k: Option<i64>,
    pub(super) min_p: Option<f32>,
    pub(super) presence_penalty: Option<f32>,
    pub(super) frequency_penalty: Option<f32>,
    pub(super) repetition_penalty: Option<f32>,
    pub(super) logit_bias: Option<BTreeMap<String, f32>>,
    pub(super) seed: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) content: Option<Content>,
    pub(super) refusal: Option<String>,
    pub(super) reasoning_content: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) tool_calls: Option<Vec<ToolCall>>,
    pub(super) tool_call_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) prefix: Option<bool>,
}

#[derive(Debug)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    pub(super) r#type: String,
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    pub(super) id: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) function: Option<CalledFunction>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CalledFunction {
    pub(super) name: String,
    pub(super) arguments: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tool {
    pub(super) r#type: String,
    pub(super) function: Option<Function>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<Box<RawValue>>,
    pub(super) strict: Option<bool>,
}

#[derive(Debug)]
pub(super) enum ToolChoice {
    Word(String),
    Object(NamedChoice),
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedChoice {
    pub(super) r#type: String,
    pub(super) function: Option<ChosenFunction>,
    pub(super) allowed_tools: Option<AllowedTools>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AllowedTools {
    pub(super) mode: String,
    pub(super) tools: Vec<AllowedTool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AllowedTool {
    pub(super) r#type: String,
    pub(super) function: Option<ChosenFunction>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChosenFunction {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponseFormat {
    pub(super) r#type: String,
    pub(super) json_schema: Option<JsonSchema>,
}

#[derive(Debug, Deserialize)]
pub(super) struct JsonSchema {
    pub(super) schema: Option<Box<RawValue>>,
}

/// vLLM's extension; the `guided_*` fields are its older spelling.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StructuredOutputs {
    pub(super) json: Option<Box<RawValue>>,
    pub(super) regex: Option<String>,
    pub(super) choice: Option<Vec<String>>,
    pub(super) grammar: Option<String>,
    pub(super) json_object: Option<bool>,
    pub(super) structural_tag: Option<IgnoredAny>,
}

/// A string or a list of them.
#[derive(Debug)]
pub(super) struct Strings(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E>(self, value: &str) -> Result<Strings, E> {
                Ok(Strings(vec![value.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strings, A::Error> {
                let mut strings = Vec::new();
                while let Some(string) = list.next_element()? {
                    strings.push(string);
                }
                Ok(Strings(strings))
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;
        impl<'de> Visitor<'de> for TextOrParts {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of content parts")
            }

            fn visit_str<E>(self, value: &str) -> Result<Content, E> {
                Ok(Content::Text(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Content, E> {
                Ok(Content::Text(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }
        deserializer.deserialize_any(TextOrParts)
    }
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrObject;
        impl<'de> Visitor<'de> for WordOrObject {
            type Value = ToolChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": ...}}",
                )
            }

            fn visit_str<E>(self, value: &str) -> Result<ToolChoice, E> {
                Ok(ToolChoice::Word(value.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolChoice, A::Error> {
                NamedChoice::deserialize(MapAccessDeserializer::new(map)).map(ToolChoice::Object)
            }
        }
        deserializer.deserialize_any(WordOrObject)
    }
}
