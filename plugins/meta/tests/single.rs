//! Python that models write now and then.

use serde_json::json;
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::ParserConfig;

#[test]
fn sets_and_dicts_of_keywords() {
    let tools = json!([{"name": "f", "parameters": {"type": "object", "properties": {}}}]);
    let config = ParserConfig { format: "pythonic".to_owned(), ..ParserConfig::default() };
    let text = "[f(a={1, 2}, **{'b': 12345678901234567890, 'a': 3}), f(**{}), f(c={'x'}, d={'x': {'y', 'z'}})]";
    let got = read(&format_meta::plugin(), &config, &tools, text);
    assert_eq!(
        calls(&got),
        [
            ("f", r#"{"a": [1, 2], "b": 12345678901234567890}"#),
            ("f", "{}"),
            ("f", r#"{"c": ["x"], "d": {"x": ["y", "z"]}}"#),
        ]
    );
}
