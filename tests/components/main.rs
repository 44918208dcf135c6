//! A component in the plugin host and the native build of the same code read the same: recorded texts, and calls that
//! every format's own grammar writes. The product's `plugin check` runs the components, in every chunking.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate_catalogue::{plugin_of, plugins};
use sluicegate_laws::assemble::run;
use sluicegate_laws::constrained::{Demand, toolbox};
use sluicegate_laws::tools::digest;
use sluicegate_laws::walk::{Compiler, seeded};
use sluicegate_sdk::config::{ReasoningMode, ToolChoice};
use sluicegate_sdk::event::StopCause;
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::grammar::Start;

/// Longer texts are left out: `plugin check` cuts a text at every place.
const SHORT: usize = 1200;
/// Generated texts for each format.
const WALKS: usize = 2;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The worked examples of every format.
fn recorded(plugins: &[Plugin]) -> Vec<Value> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("plugins")).expect("the plugins' folder").flatten() {
        for file in std::fs::read_dir(entry.path().join("golden")).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).expect("a readable file");
            let Ok(Value::Array(cases)) = serde_json::from_str(&text) else { continue };
            all.extend(cases.into_iter().filter(|c| {
                let format = c["format"].as_str().unwrap_or_default();
                plugin_of(plugins, format.trim_start_matches("reasoning:")).is_some()
            }));
        }
    }
    all
}

/// What every format's grammar makes a model write, and how the native build reads it.
fn generated(plugins: &[Plugin]) -> Vec<Value> {
    let compiler = Compiler::default();
    let mut rng = seeded();
    let mut all = Vec::new();
    for plugin in plugins {
        for format in plugin.describe().into_iter().filter(|d| d.features.grammar).map(|d| d.name) {
            let demand = Demand {
                tools: toolbox(false),
                choice: ToolChoice::Required,
                parallel: true,
                reasoning: ReasoningMode::Off,
            };
            let constraint = demand.constraint(plugin, &format).expect("a demand that can be met").expect("a grammar");
            let grammar = compiler.compile(&constraint.lark).expect("a grammar that compiles");
            let walks = (0..WALKS * 8).filter_map(|_| grammar.walk(&mut rng, false)).filter(|w| w.len() < SHORT);
            for (n, walk) in walks.take(WALKS).enumerate() {
                let text = match &constraint.start {
                    Start::After(close) => format!("so{close}{walk}"),
                    _ => walk,
                };
                all.push(case(plugin, &demand, &format, n, &text));
            }
        }
    }
    all
}

/// The native build's reading of `text` as a case.
fn case(plugin: &Plugin, demand: &Demand, format: &str, n: usize, text: &str) -> Value {
    let tools = Arc::new(digest(&demand.tools));
    let got = run(plugin, &demand.config(format), &tools, &[text], &StopCause::Eos(None)).expect("a lawful stream");
    let calls: Vec<Value> = got
        .ended()
        .map(|c| json!({"name": c.name, "arguments": serde_json::from_str::<Value>(&c.arguments).expect("JSON")}))
        .collect();
    json!({
        "id": format!("{format}-generated-{n}"),
        "format": format,
        "tools": demand.tools,
        "tool_choice": "required",
        "chunks": [text],
        "finish": "stop",
        "expect": {
            "content": got.content, "reasoning": got.reasoning, "tool_calls": calls, "finish_reason": "tool_calls",
        },
    })
}

#[test]
fn components_read_what_the_native_build_reads() {
    let plugins = plugins();
    let cases = [recorded(&plugins), generated(&plugins)].concat();
    let formats: BTreeSet<&str> = cases.iter().filter_map(|c| c["format"].as_str()).collect();
    assert!(cases.len() > 150 && formats.len() > 55, "{} cases of {} formats", cases.len(), formats.len());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cases.json");
    std::fs::write(&file, Value::Array(cases).to_string()).expect("a case file");
    let mut check = Command::new(sluicegate_tests::binary().expect("the product's binary"));
    check.args(["plugin", "check", "--cases"]).arg(&file).arg("--dir").arg(root().join("target/plugins"));
    let done = check.output().expect("a command that starts");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
}
