//! One entry for fuzzing every format: bytes become a format, a request, a text and its cuts, and the laws must hold.

use std::sync::Arc;

use sluicegate_laws::assemble::run;
use sluicegate_laws::chunking::{by_sizes, points, whole};
use sluicegate_laws::tools::digest;
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};
use sluicegate_sdk::event::StopCause;
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::tools::ToolSet;

use crate::{formats, plugins};

/// The engines that formats are built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// JSON in markers.
    Json,
    /// One tag for each parameter.
    Tags,
    /// Messages with headers.
    Channels,
    /// Python calls.
    Python,
    /// Brace literals.
    Brace,
    /// Regions that a tokenizer declares.
    Declarative,
    /// Reasoning alone.
    Reasoning,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 7] = [
        Family::Json,
        Family::Tags,
        Family::Channels,
        Family::Python,
        Family::Brace,
        Family::Declarative,
        Family::Reasoning,
    ];

    /// The folder of its corpus, and the name of its target.
    pub fn name(self) -> &'static str {
        match self {
            Family::Json => "json",
            Family::Tags => "tags",
            Family::Channels => "channels",
            Family::Python => "python",
            Family::Brace => "brace",
            Family::Declarative => "declarative",
            Family::Reasoning => "reasoning",
        }
    }

    /// Catalogue rows begin with the engine's letter.
    fn has(self, catalogue: &[String]) -> bool {
        let row = |letter: char| catalogue.iter().any(|id| id.starts_with(letter));
        match self {
            Family::Json => row('J'),
            Family::Tags => row('X'),
            Family::Channels => row('C'),
            Family::Python => row('P'),
            Family::Brace => row('G'),
            Family::Declarative => row('D'),
            Family::Reasoning => catalogue.iter().all(|id| id.starts_with('R')),
        }
    }
}

const TOOLS: &str = r#"[
    {"name": "f", "parameters": {"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "object"}, "d": {"type": ["string", "null"]}}}},
    {"name": "get_weather", "parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}},
    {"name": "ping", "parameters": {"type": "object"}}]"#;

/// What a tokenizer might declare, and its markers: the format has none of its own.
const DECLARED: &str = r#"{"response_template": {"version": 1, "fields": {
    "thinking": {"open": "<think>", "close": "</think>"},
    "content": {"open": "<say>", "close": ["</say>", "<end>"]},
    "tool_calls": {"open_pattern": "<call (?P<name>\\w+)>", "close": "</call>", "repeats": true, "content": "json",
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}}}}}"#;
const DECLARED_MARKERS: [&str; 8] =
    ["<think>", "</think>", "<say>", "</say>", "<end>", "<call f>", "{\"a\": 1}", "</call>"];

/// Words that get a text past the first tests of most readers.
const WORDS: [&str; 12] = [
    "f",
    "get_weather",
    "{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}",
    "name=\"f\"",
    "string=\"true\"",
    "=f>",
    "(a=\"x\", b=1)",
    "{a:1}",
    "\"",
    "\\",
    "functions.f:0",
    " to=functions.f",
];

/// The formats of one family, ready to be fuzzed.
#[derive(Debug)]
pub struct Target {
    plugins: Vec<Plugin>,
    /// Place in `plugins`, name, markers.
    formats: Vec<(usize, String, Vec<String>)>,
    tools: Arc<ToolSet>,
}

impl Target {
    /// Compiles the formats.
    pub fn new(family: Family) -> Target {
        let plugins = plugins();
        let place = |name: &str| plugins.iter().position(|plugin| plugin.name == name).unwrap_or_default();
        let mine = formats(&plugins).into_iter().filter(|(_, d)| family.has(&d.catalogue));
        let markers = |own: Vec<String>| {
            if own.is_empty() { DECLARED_MARKERS.map(str::to_owned).to_vec() } else { own }
        };
        let formats = mine.map(|(plugin, d)| (place(plugin), d.name, markers(d.markers))).collect();
        let tools = Arc::new(digest(&serde_json::from_str(TOOLS).unwrap_or_default()));
        Target { plugins, formats, tools }
    }

    /// Reads `data` as format, request, four cut sizes and text, in which control bytes stand for the format's markers and
    /// for words. Any cut must give what the whole text gives, and every law must hold.
    ///
    /// # Errors
    /// The law that is broken, with the text.
    pub fn check(&self, data: &[u8]) -> Result<(), String> {
        let Some((&[format, flags, a, b, c, d], rest)) = data.split_first_chunk() else { return Ok(()) };
        let Some((plugin, name, markers)) = self.formats.get(usize::from(format) % self.formats.len().max(1)) else {
            return Err("the family has no format".to_owned());
        };
        let text = text(rest, markers);
        let config = ParserConfig {
            format: name.clone(),
            tool_choice: if flags & 1 != 0 { ToolChoice::None } else { ToolChoice::Auto },
            reasoning: if flags & 2 != 0 { ReasoningMode::On } else { ReasoningMode::Off },
            options: if name == "response_template" {
                DECLARED.to_owned()
            } else if flags & 4 != 0 {
                r#"{"after_calls":"content"}"#.to_owned()
            } else {
                String::new()
            },
            parallel_tools: true,
            ..ParserConfig::default()
        };
        let cause = if flags & 8 != 0 { StopCause::Length } else { StopCause::Eos(None) };
        let parse = |chunks: &[&str]| {
            run(&self.plugins[*plugin], &config, &self.tools, chunks, &cause)
                .map_err(|error| format!("{name}, flags {flags}: {error}\nof {text:?}"))
        };
        let reference = parse(&whole(&text))?;
        let sizes = [a, b, c, d].map(|size| usize::from(size % 32) + 1);
        for chunks in [points(&text), by_sizes(&text, &sizes)] {
            let got = parse(&chunks)?;
            if got != reference {
                return Err(format!(
                    "{name}, flags {flags}: {text:?} in {chunks:?} gives\n{got:?}\nand whole\n{reference:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Bytes as text: those that are no printable ASCII name markers and words, so that a fuzzer finds them by one change.
fn text(bytes: &[u8], markers: &[String]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\n' | b' '..=b'~' => text.push(char::from(byte)),
            0x80..=0xBF => text.push_str(WORDS[usize::from(byte) % WORDS.len()]),
            0xC0..=0xDF => text.push_str(["é", "漢", "👩‍🚀", "｜", "▁", "\u{feff}"][usize::from(byte) % 6]),
            // Half a marker.
            0xE0..=0xFF if !markers.is_empty() => {
                let marker = &markers[usize::from(byte) % markers.len()];
                text.push_str(&marker[..marker.floor_char_boundary(marker.len() / 2)]);
            }
            _ if !markers.is_empty() => text.push_str(&markers[usize::from(byte) % markers.len()]),
            _ => text.push('\t'),
        }
    }
    text
}
