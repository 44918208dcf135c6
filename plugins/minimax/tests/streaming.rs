//! Text parameters of MiniMax-M3 stream like those of every other format.

use std::sync::Arc;

use serde_json::json;
use sluicegate_laws::tools::digest;
use sluicegate_sdk::config::ParserConfig;
use sluicegate_sdk::event::Step;

#[test]
fn text_parameters_stream() {
    let tools = json!([{"name": "f", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}]);
    let config = ParserConfig { format: "minimax_m3".to_owned(), ..ParserConfig::default() };
    let mut parser = format_minimax::plugin().parser(&config, Some(Arc::new(digest(&tools))));
    let ns = "]<]minimax[>[";
    parser.push(&format!("{ns}<tool_call>{ns}<invoke name=\"f\">{ns}<text>one"));
    assert_eq!(parser.push(" two"), Step::Args { index: 0, escaped: false });
}
