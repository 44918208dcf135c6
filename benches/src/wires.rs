//! One message in the wire of each benchmarked format: prose, then calls with arguments of a given size.

use serde_json::Value;

/// Formats that are measured.
pub const FORMATS: [&str; 5] = ["deepseek_v4", "hermes", "qwen3_coder", "harmony", "pythonic"];

/// The tool that the messages call, in OpenAI's shape.
pub const TOOLS: &str = r#"[{"type": "function", "function": {"name": "save_file", "parameters": {"type": "object",
    "properties": {"path": {"type": "string"}, "body": {"type": "string"}}, "required": ["path", "body"]}}}]"#;

/// An argument that is all one line and means itself.
pub const LINE: &str = "let x = f(a, b) + 1; ";
/// An argument like most: lines, indented, with quotes. Line feeds and quotes are written otherwise in JSON.
pub const CODE: &str = "fn greet(name: &str) -> String {\n    let text = format!(\"Hello, {name}!\");\n    if text.len() > 80 {\n        \
    return \"too long\".to_owned();\n    }\n    text\n}\n\n";

/// `prose` bytes of text, then one call for each of `bodies`, whose argument has so many bytes of `phrase` again and again.
pub fn message(format: &str, prose: usize, phrase: &str, bodies: &[usize]) -> String {
    let lead = text("I will write the files you asked for, one after the other. ", prose);
    let calls = || bodies.iter().enumerate().map(|(n, size)| (format!("src/f{n}.rs"), text(phrase, *size)));
    let each =
        |write: &dyn Fn(String, String) -> String| calls().map(|(path, body)| write(path, body)).collect::<String>();
    match format {
        "deepseek_v4" => {
            let param = |key: &str, value: &str| {
                format!("<｜DSML｜parameter name=\"{key}\" string=\"true\">{value}</｜DSML｜parameter>\n")
            };
            let calls = each(&|path, body| {
                let params = param("path", &path) + &param("body", &body);
                format!("<｜DSML｜invoke name=\"save_file\">\n{params}</｜DSML｜invoke>\n")
            });
            format!("{lead}\n\n<｜DSML｜tool_calls>\n{calls}</｜DSML｜tool_calls>")
        }
        "hermes" => {
            let calls = each(&|path, body| {
                format!(
                    "\n<tool_call>\n{{\"name\": \"save_file\", \"arguments\": {}}}\n</tool_call>",
                    json(&path, &body)
                )
            });
            format!("{lead}{calls}")
        }
        "qwen3_coder" => {
            let param = |key: &str, value: &str| format!("<parameter={key}>\n{value}\n</parameter>\n");
            let calls = each(&|path, body| {
                let params = param("path", &path) + &param("body", &body);
                format!("\n<tool_call>\n<function=save_file>\n{params}</function>\n</tool_call>")
            });
            format!("{lead}{calls}")
        }
        "harmony" => {
            let calls = each(&|path, body| {
                let header =
                    "<|start|>assistant<|channel|>commentary to=functions.save_file <|constrain|>json<|message|>";
                format!("{header}{}<|call|>", json(&path, &body))
            });
            format!("<|channel|>commentary<|message|>{lead}<|end|>{calls}")
        }
        _ => {
            // A bare list is the whole answer, so there is no prose before it.
            let calls: Vec<String> = calls()
                .map(|(path, body)| format!("save_file(path={}, body={})", literal(&path), literal(&body)))
                .collect();
            format!("[{}]", calls.join(", "))
        }
    }
}

fn json(path: &str, body: &str) -> String {
    format!("{{\"path\": {}, \"body\": {}}}", literal(path), literal(body))
}

/// A string literal in JSON, and in Python.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

fn text(phrase: &str, bytes: usize) -> String {
    phrase.chars().cycle().take(bytes).collect()
}

/// Pieces of about `bytes` bytes, cut between code points.
pub fn cut(text: &str, bytes: usize) -> Vec<&str> {
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let mut end = bytes.max(1).min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, later) = rest.split_at(end);
        pieces.push(piece);
        rest = later;
    }
    pieces
}
