//! Token ids through tokenizer and format: split characters, invalid bytes, log probabilities.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate::chat::FinishReason;
use sluicegate::route::Route;

use super::{build, file, request, run};

const TOKENIZER: &str = include_str!("../golden/deepseek/tiny-tokenizer.json");

/// Ids of single bytes in the byte-level vocabulary, and of control tokens.
struct Ids(Value);

impl Ids {
    fn new() -> Self {
        Self(serde_json::from_str(TOKENIZER).expect("JSON"))
    }

    fn byte(&self, byte: u8) -> u32 {
        // The bytes used here: printable ones stand for themselves, 0x80 to 0xA0 begin at U+0122.
        let c = match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => u32::from(byte),
            0x00..=0x20 => 0x100 + u32::from(byte),
            0x7F..=0xA0 => 0x121 + u32::from(byte) - 0x7F,
            0xAD => 0x143,
        };
        let token = char::from_u32(c).expect("a character").to_string();
        u32::try_from(self.0["model"]["vocab"][&token].as_u64().expect("every byte is a token")).expect("small")
    }

    fn bytes(&self, text: &[u8]) -> Vec<u32> {
        text.iter().map(|&byte| self.byte(byte)).collect()
    }

    fn control(&self, spelling: &str) -> u32 {
        let added = self.0["added_tokens"].as_array().expect("a list");
        let token = added.iter().find(|token| token["content"] == spelling).expect("it is there");
        u32::try_from(token["id"].as_u64().expect("an id")).expect("small")
    }
}

fn model_folder() -> PathBuf {
    let folder = file("marker", "").parent().expect("a folder").join("tiny-model");
    std::fs::create_dir_all(&folder).expect("created");
    std::fs::write(folder.join("tokenizer.json"), TOKENIZER).expect("written");
    folder
}

fn route(format: Option<&str>, name: &str, lines: &[Value]) -> Arc<Route> {
    let recording: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let format = format.map(|format| format!("format = \"{format}\"\n")).unwrap_or_default();
    let toml = format!(
        "name = \"m\"\n{format}[upstream.replay]\nfile = {:?}\ntokenizer = {:?}\n",
        file(name, &recording).display().to_string(),
        model_folder().display().to_string()
    );
    Arc::clone(build(&toml).expect("valid").get("m").expect("there"))
}

/// Every byte is a token of its own, so every character is split; an invalid byte in the reasoning costs one character and
/// nothing else.
#[tokio::test]
async fn split_characters_are_whole_and_an_invalid_byte_spares_the_call() {
    let ids = Ids::new();
    let mut stream = ids.bytes("漢字 🌊".as_bytes());
    stream.push(ids.byte(0xFF));
    stream.extend(ids.bytes("한".as_bytes()));
    stream.push(ids.control("</think>"));
    stream.extend(ids.bytes("\n\n<".as_bytes()));
    stream.push(ids.control("｜DSML｜"));
    stream.extend(ids.bytes(b"tool_calls>\n<"));
    stream.push(ids.control("｜DSML｜"));
    stream.extend(ids.bytes(b"invoke name=\"lookup\">\n<"));
    stream.push(ids.control("｜DSML｜"));
    stream.extend(ids.bytes("parameter name=\"code\" string=\"true\">é🌊</".as_bytes()));
    stream.push(ids.control("｜DSML｜"));
    stream.extend(ids.bytes(b"parameter>\n</"));
    stream.push(ids.control("｜DSML｜"));
    stream.extend(ids.bytes(b"invoke>\n</"));
    stream.push(ids.control("｜DSML｜"));
    stream.extend(ids.bytes(b"tool_calls>"));
    let tokens = stream.len();
    let lines = [
        json!({"recording": "r", "prompt_tail": "<think>"}),
        json!({"ids": stream}),
        json!({"finish": "stop", "stop_id": 1}),
    ];
    let (message, error) = run(&route(Some("deepseek_v4"), "split.jsonl", &lines), request("r")).await;
    assert_eq!(error, None);
    assert_eq!(message.reasoning, "漢字 🌊\u{FFFD}한");
    assert_eq!(message.tool_calls[0].arguments, r#"{"code": "é🌊"}"#);
    assert_eq!(message.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(message.usage.completion_tokens as usize, tokens);
}

#[tokio::test]
async fn log_probabilities_line_up_with_the_content() {
    let ids = Ids::new();
    let chosen = |id: u32| json!({"logprob": -0.5, "top": [[id, -0.5], [ids.byte(b'z'), -1.5]]});
    let wave = ids.bytes("é".as_bytes());
    let all = [ids.bytes(b"hm"), vec![ids.control("</think>")], ids.bytes(b"ok"), wave].concat();
    let logprobs: Vec<Value> = all.iter().map(|&id| chosen(id)).collect();
    let lines = [
        json!({"recording": "r", "prompt_tail": "<think>"}),
        json!({"ids": all, "logprobs": logprobs}),
        json!({"finish": "stop"}),
    ];
    let mut asked = request("r");
    asked.logprobs = Some(2);
    let (message, _) = run(&route(Some("deepseek_v4"), "logprobs.jsonl", &lines), asked).await;
    assert_eq!((message.reasoning.as_str(), message.content.as_str()), ("hm", "oké"));
    let bytes: Vec<u8> = message.logprobs.iter().flat_map(|token| token.bytes.clone()).collect();
    let spelled = String::from_utf8_lossy(&bytes).into_owned();
    assert!(spelled.ends_with("oké"), "the tokens of the content, all of them: {spelled}");
    assert!(!spelled.contains("hm"), "reasoning has none: {spelled}");
    let last = message.logprobs.last().expect("some");
    assert_eq!((last.bytes.as_slice(), last.token.as_str()), ([0xA9].as_slice(), "\u{FFFD}"));
    assert_eq!(last.top[1], ("z".to_owned(), b"z".to_vec(), -1.5));
    let (message, _) = run(&route(None, "logprobs-plain.jsonl", &lines), request("r")).await;
    assert!(message.logprobs.is_empty(), "nobody asked");
    assert_eq!(message.content, "hm</think>oké");
}
