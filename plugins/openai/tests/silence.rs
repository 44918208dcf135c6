//! White space between calls, where every message has a frame.

use serde_json::{Value, json};
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode};

#[test]
fn white_space_between_calls_says_nothing_however_long_it_is() {
    let tools: Value = json!([{"name": "f", "parameters": {}}]);
    let config = ParserConfig {
        format: "harmony".to_owned(),
        reasoning: ReasoningMode::Off,
        options: r#"{"after_calls":"content"}"#.to_owned(),
        ..ParserConfig::default()
    };
    let front = "<|channel|>commentary<|message|>Looking.<|end|><|start|>assistant";
    let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>";
    // Also of several bytes, so that what is withheld is cut between characters.
    for blank in [" ".repeat(1000), "\u{3000} \n".repeat(300)] {
        let text = format!("{front}{call}{blank}<|start|>assistant{call}");
        let got = read(&format_openai::plugin(), &config, &tools, &text);
        assert_eq!((calls(&got), got.content.as_str()), (vec![("f", "{}"); 2], "Looking."));
    }
}
