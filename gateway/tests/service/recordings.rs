//! What the engine is made to say, by a marker in the user's message.

use serde_json::{Value, json};

/// The recording file.
pub(crate) fn file() -> String {
    let words = |n: usize, delay: u64| (0..n).map(move |i| json!({"text": format!("{i} "), "delay_ms": delay}));
    let stop = || std::iter::once(json!({"finish": "stop"}));
    let text = |text: &str, delay: u64| json!({"text": text, "delay_ms": delay});
    let mut file = String::new();
    let mut add = |marker: &str, lines: Vec<Value>| {
        let head = json!({"recording": marker, "match": marker, "prompt_tokens": 10, "cached_tokens": 4});
        for line in std::iter::once(head).chain(lines) {
            file.push_str(&line.to_string());
            file.push('\n');
        }
    };
    add("[short]", [text("Hello", 0), text(" world", 0)].into_iter().chain(stop()).collect());
    add("[ten]", words(9, 0).chain([json!({"text": "9", "tokens": 1}), json!({"finish": "length"})]).collect());
    add("[slow]", words(200, 50).chain(stop()).collect());
    add("[second]", words(20, 50).chain(stop()).collect());
    add("[three]", words(60, 50).chain(stop()).collect());
    add("[silent]", [text("late", 10_000)].into_iter().chain(stop()).collect());
    add("[pauses]", [text("late", 1300), text("later", 1300)].into_iter().chain(stop()).collect());
    add("[cut]", vec![text("one", 0), text("two", 20)]);
    add("[fails late]", vec![text("one", 0), text("two", 20), json!({"error": "device on fire", "delay_ms": 20})]);
    add("[fails first]", vec![json!({"error": "device on fire"})]);
    add("[hangs]", vec![json!({"stall": true})]);
    add("[many]", words(400, 0).chain(stop()).collect());
    let block = "x".repeat(64 << 10);
    add("[flood]", (0..128).map(|_| text(&block, 0)).chain(stop()).collect());
    file
}
