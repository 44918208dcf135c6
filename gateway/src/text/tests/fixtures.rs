//! Tokenizers of the three kinds in use, chat templates in the styles in use, and requests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{ChatTemplate, SpecialTokens, Tokenizer};
use crate::chat::{Message, Reasoning, Request, ResponseFormat, Role, Tool, ToolCall, ToolChoice};

/// Control tokens in the spellings of ChatML, Qwen, Llama 3, Mistral, Phi, Gemma and DeepSeek. `flagged` ones are special.
const CONTROLS: &[(&str, bool)] = &[
    ("<|im_start|>", true),
    ("<|im_end|>", true),
    ("<think>", false),
    ("</think>", false),
    ("<tool_call>", false),
    ("</tool_call>", false),
    ("<tool_response>", false),
    ("</tool_response>", false),
    ("<|start_header_id|>", true),
    ("<|end_header_id|>", true),
    ("<|eot_id|>", true),
    ("[INST]", true),
    ("[/INST]", true),
    ("[TOOL_CALLS]", true),
    ("<|user|>", true),
    ("<|assistant|>", true),
    ("<|system|>", true),
    ("<|tool|>", true),
    ("<|end|>", true),
    ("<start_of_turn>", true),
    ("<end_of_turn>", true),
    ("<s>", true),
    ("</s>", true),
    ("<｜User｜>", false),
    ("<｜Assistant｜>", false),
];

fn added(first: u32, tokens: &[(&str, bool)]) -> Value {
    let token = |(at, (content, special)): (usize, &(&str, bool))| {
        json!({"id": first + at as u32, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": special})
    };
    tokens.iter().enumerate().map(token).collect()
}

/// GPT-2's byte alphabet in the order of bytes.
fn byte_alphabet() -> Vec<String> {
    let mut next = 0x100;
    (0..=255u32)
        .map(|byte| {
            let printable = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
            let code = if printable { byte } else { next };
            next += u32::from(!printable);
            char::from_u32(code).unwrap().to_string()
        })
        .collect()
}

/// Byte-level BPE with GPT-2's pre-tokenizer. The vocabulary holds the control tokens' spellings too, as SmolLM2's does, and
/// white-space tokens, as GPT-NeoX's does.
pub(super) fn byte_level() -> Tokenizer {
    let mut vocab: Vec<String> = byte_alphabet();
    let mut merges = Vec::new();
    for (left, right) in [
        ("i", "m"),
        ("e", "n"),
        ("en", "d"),
        ("t", "h"),
        ("th", "i"),
        ("thi", "n"),
        ("thin", "k"),
        ("u", "s"),
        ("us", "e"),
        ("use", "r"),
        ("Ġ", "t"),
        ("Ġ", "a"),
        ("l", "l"),
        ("o", "ll"),
        ("Ċ", "Ċ"),
    ] {
        merges.push(format!("{left} {right}"));
        vocab.push(format!("{left}{right}"));
    }
    let mut tokens = CONTROLS.to_vec();
    tokens.extend([("    ", false), ("        ", false)]);
    let first = vocab.len() as u32;
    vocab.extend(CONTROLS.iter().map(|(spelling, _)| (*spelling).to_owned()));
    let vocab: serde_json::Map<String, Value> =
        vocab.into_iter().enumerate().map(|(id, token)| (token, Value::from(id))).collect();
    load(&json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": added(first, &tokens),
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
                  "vocab": vocab, "merges": merges},
    }))
}

/// SentencePiece BPE with byte fallback and a space put before the text, as Llama 2's.
pub(super) fn sentence_piece() -> Tokenizer {
    let mut vocab = vec!["<unk>".to_owned()];
    vocab.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    vocab.extend(('a'..='z').map(|c| c.to_string()));
    vocab.extend(["▁", "▁t", "▁a", "en", "end"].map(str::to_owned));
    let first = vocab.len() as u32;
    let vocab: serde_json::Map<String, Value> =
        vocab.into_iter().enumerate().map(|(id, token)| (token, Value::from(id))).collect();
    load(&json!({
        "version": "1.0", "truncation": null, "padding": null, "post_processor": null,
        "added_tokens": added(first, CONTROLS),
        "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                  "vocab": vocab, "merges": ["▁ t", "▁ a", "e n", "en d"]},
    }))
}

/// Unigram, whose base vocabulary holds the control tokens and would find them in any text.
pub(super) fn unigram() -> Tokenizer {
    let mut vocab = vec![json!(["<unk>", 0.0])];
    vocab.extend((0..=255).map(|byte| json!([format!("<0x{byte:02X}>"), -20.0])));
    vocab.extend((' '..='~').filter(|c| *c != ' ').map(|c| json!([c.to_string(), -10.0])));
    vocab.push(json!(["▁", -3.0]));
    let first = vocab.len() as u32;
    vocab.extend(CONTROLS.iter().map(|(spelling, _)| json!([spelling, -1.0])));
    load(&json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": added(first, CONTROLS),
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": vocab},
    }))
}

fn load(json: &Value) -> Tokenizer {
    Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap()
}

/// Templates in our own words, each in the manner of a family.
pub(super) const TEMPLATES: &[(&str, &str)] = &[
    ("chatml", CHATML),
    ("qwen", QWEN),
    ("xml-keys", XML_KEYS),
    ("llama3", LLAMA3),
    ("mistral", MISTRAL),
    ("phi", PHI),
    ("gemma", GEMMA),
    ("r1", R1),
];
pub(super) const CHATML: &str = include_str!("../../../tests/golden/templates/chatml.jinja");
pub(super) const QWEN: &str = include_str!("../../../tests/golden/templates/qwen.jinja");
pub(super) const XML_KEYS: &str = include_str!("../../../tests/golden/templates/xml-keys.jinja");
pub(super) const LLAMA3: &str = include_str!("../../../tests/golden/templates/llama3.jinja");
pub(super) const MISTRAL: &str = include_str!("../../../tests/golden/templates/mistral.jinja");
pub(super) const PHI: &str = include_str!("../../../tests/golden/templates/phi.jinja");
pub(super) const GEMMA: &str = include_str!("../../../tests/golden/templates/gemma.jinja");
pub(super) const R1: &str = include_str!("../../../tests/golden/templates/r1.jinja");

pub(super) fn template(name: &str, source: &str, tokenizer: &Tokenizer) -> ChatTemplate {
    let special = [("bos_token", "<s>"), ("eos_token", "</s>")];
    let special: SpecialTokens = special.map(|(role, spelling)| (role.to_owned(), spelling.to_owned())).into();
    ChatTemplate::new(name, source, special, Arc::clone(tokenizer.controls())).unwrap()
}

/// A template that knows of no control tokens, so that nothing is masked: what Jinja itself would write.
pub(super) fn unmasked(name: &str, source: &str) -> ChatTemplate {
    let special = [("bos_token", "<s>"), ("eos_token", "</s>")];
    let special: SpecialTokens = special.map(|(role, spelling)| (role.to_owned(), spelling.to_owned())).into();
    ChatTemplate::new(name, source, special, Arc::default()).unwrap()
}

pub(super) fn message(role: Role, content: &str) -> Message {
    Message {
        role,
        content: vec![content.to_owned()],
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
    }
}

pub(super) fn request(messages: Vec<Message>) -> Request {
    Request {
        id: "req".into(),
        model: "m".to_owned(),
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        reasoning: Reasoning::Auto,
        response_format: ResponseFormat::Text,
        continue_final_message: false,
        template_kwargs: serde_json::Map::new(),
        sampling: sluicegate_backend::api::Sampling::default(),
        max_tokens: None,
        stop: Vec::new(),
        n: 1,
        logprobs: None,
    }
}

/// A request that has a string of the client wherever one can be: `text` gives them.
pub(super) fn everywhere(text: &mut dyn FnMut() -> String) -> Request {
    let call = ToolCall {
        id: text(),
        name: text(),
        arguments: json!({ text(): text(), "list": [text(), 1.5, {text(): text()}] }).to_string(),
    };
    let mut asked = message(Role::Assistant, &text());
    asked.reasoning = Some(text());
    let mut called = message(Role::Assistant, &text());
    called.tool_calls = vec![call];
    let mut result = message(Role::Tool, &text());
    result.tool_call_id = Some(text());
    result.name = Some(text());
    let mut request = request(vec![
        message(Role::System, &text()),
        message(Role::User, &text()),
        asked,
        message(Role::User, &text()),
        called,
        result,
        message(Role::Assistant, &text()),
        message(Role::User, &text()),
    ]);
    let schema = json!({ "type": "object", "properties": { text(): { "description": text(), "type": "string", text(): text() } } });
    request.tools = vec![tool(&text(), &text(), &schema)];
    request.template_kwargs.insert("note".to_owned(), Value::from(text()));
    request
}

pub(super) fn tool(name: &str, description: &str, schema: &Value) -> Tool {
    Tool {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        parameters: Some(serde_json::value::to_raw_value(schema).unwrap()),
        strict: false,
    }
}
