//! The whole path from request to message over recordings, with the real format components.

mod auto;
mod concurrent;
mod constrained;
mod dsml;
mod mutations;
mod native;
mod routes;
mod speed;
mod tokens;
mod tools;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use futures_util::StreamExt as _;
use serde_json::json;
use sluicegate::chat::{Message as Turn, Reasoning, Request, ResponseFormat, Role, Tool, ToolChoice};
use sluicegate::config::Model;
use sluicegate::error::Error;
use sluicegate::generate::{self, Call, Collector, Message};
use sluicegate::plugins::{Registry, Settings};
use sluicegate::pools::Pools;
use sluicegate::route::{self, Route, RouteError, Routes};

/// The components of this repository.
fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins");
        assert!(
            folder.join("deepseek.wasm").is_file(),
            "no components in {}: run `cargo xtask plugins`",
            folder.display()
        );
        let cache_dir = Some(folder.join("../compiled-plugins"));
        Registry::open(&folder, Settings { cache_dir, ..Settings::default() }).expect("the components load")
    });
    &REGISTRY
}

/// Routes from a configuration, without a native engine.
fn build(toml: &str) -> Result<Routes, RouteError> {
    let model: Model = toml::from_str(toml).expect("the test's configuration is valid");
    route::build(&[model], registry(), &mut |dir| Err(format!("no engine for {}", dir.display())), &Pools::default())
}

/// A file that lives as long as the test process.
fn file(name: &str, text: &str) -> PathBuf {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));
    let path = FOLDER.path().join(name);
    std::fs::write(&path, text).expect("the file is written");
    path
}

/// The route of a recording under a format.
fn replay(format: &str, name: &str, recording: &str) -> Arc<Route> {
    let path = file(name, recording);
    let toml =
        format!("name = \"m\"\nformat = \"{format}\"\n[upstream.replay]\nfile = {:?}\n", path.display().to_string());
    Arc::clone(build(&toml).expect("the route is valid").get("m").expect("it is there"))
}

/// A recording of this text, cut every `step` characters.
fn recording(header: &serde_json::Value, text: &str, step: usize, end: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut file = format!("{header}\n");
    for piece in chars.chunks(step) {
        let piece: String = piece.iter().collect();
        writeln!(file, "{}", json!({ "text": piece })).expect("writing to a String");
    }
    if !end.is_empty() {
        writeln!(file, "{}", json!({ "finish": end })).expect("writing to a String");
    }
    file
}

fn request(text: &str) -> Request {
    let turn = Turn {
        role: Role::User,
        content: vec![text.to_owned()],
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
    };
    let schema = json!({"type": "object", "properties": {"code": {"type": "string"}, "limit": {"type": "integer"}}});
    Request {
        id: format!("req-{text}").into(),
        model: "m".to_owned(),
        messages: vec![turn],
        tools: vec![Tool {
            name: "lookup".to_owned(),
            description: None,
            parameters: Some(serde_json::value::to_raw_value(&schema).expect("JSON")),
            strict: false,
        }],
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

/// The first choice's message, and the error that ended the stream.
async fn run(route: &Arc<Route>, request: Request) -> (Message, Option<Error>) {
    let mut stream = generate::start(route, Arc::new(request), Call::default()).await.expect("it starts");
    let mut collector = Collector::default();
    while let Some(item) = stream.next().await {
        match item {
            Ok((choice, event)) => collector.push(choice, event),
            Err(error) => return (collector.finish().pop().unwrap_or_default(), Some(error)),
        }
    }
    (collector.finish().pop().expect("one choice"), None)
}
