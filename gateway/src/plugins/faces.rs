//! Every face by which a text can be pushed gives the same events, push by push, in every component.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use wasmtime::component::ResourceAny;

use super::ask::Answer;
use super::bindings::parse;
use super::brief::{self, Brief};
use super::event::{Events, StreamConfig};
use super::guest::{Code, Guest};
use super::host::Host;
use super::ledger::Ledger;
use super::lower;
use super::settings::Settings;
use super::tools::ToolSet;
use crate::chat::Tool;

/// Characters of a push: less and more than the words of `brief` hold.
const SIZES: [usize; 5] = [1, 4, 30, 80, 500];

/// How often each kind of answer came.
#[derive(Debug, Default)]
struct Seen {
    same: usize,
    short: usize,
    escaped: usize,
    taken: usize,
    long: usize,
}

impl Seen {
    fn count(&mut self, answer: &Brief, text: &str) {
        self.long += usize::from(text.len() > 64);
        match answer {
            Brief::Hold => {}
            Brief::Same(_) => self.same += 1,
            Brief::Text(..) => self.short += 1,
            Brief::Escaped => self.escaped += 1,
            Brief::Events(_) => self.taken += 1,
        }
    }
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|own| own == extension)).collect()
}

/// The worked examples of a vendor's formats.
fn examples(vendor: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(vendor).join("golden");
    let read = |path: PathBuf| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = files(&folder, "json").into_iter().flat_map(|path| match read(path) {
        Value::Array(cases) => cases,
        _ => Vec::new(),
    });
    cases.filter(|case| case["format"].is_string() && case["chunks"].is_array()).collect()
}

fn tools(case: &Value) -> Arc<ToolSet> {
    let tool = |tool: &Value| Tool {
        name: tool["function"]["name"].as_str().unwrap_or_default().to_owned(),
        description: None,
        parameters: Some(RawValue::from_string(tool["function"]["parameters"].to_string()).unwrap()),
        strict: false,
    };
    ToolSet::new(&case["tools"].as_array().into_iter().flatten().map(tool).collect::<Vec<_>>())
}

/// The text of an example; and once more, with source code in the place of its first argument that is a string.
fn texts(case: &Value) -> Vec<String> {
    let text: String = case["chunks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let calls = case["expect"]["tool_calls"].as_array().into_iter().flatten();
    let arguments = calls.filter_map(|call| call["arguments"].as_object());
    let value = arguments.flat_map(|arguments| arguments.values()).find_map(Value::as_str);
    let code = value.map(|value| text.replace(value, "fn main() {\n    print(\"1 \\ 2\");\n}\n\n// and so on"));
    std::iter::once(text).chain(code).collect()
}

/// A parser of the guest.
fn parser(guest: &mut Guest, config: &parse::ParserConfig, tools: &ToolSet) -> ResourceAny {
    let Guest { store, parse, .. } = guest;
    let tools = parse.toolset().call_constructor(&mut *store, &tools.tools).unwrap();
    parse.parser().call_constructor(store, config, Some(tools)).unwrap()
}

/// Pushes `text` in pieces to two parsers, each by another face.
fn compare(guest: &mut Guest, config: &parse::ParserConfig, tools: &ToolSet, pieces: &[String], seen: &mut Seen) {
    let (plain, other) = (parser(guest, config, tools), parser(guest, config, tools));
    let number = guest.brief.as_ref().unwrap().call_number(&mut guest.store, other).unwrap();
    let mut books = [Ledger::default(), Ledger::default()];
    for text in pieces {
        let step = guest.parse.parser().call_push(&mut guest.store, plain, text).unwrap();
        let answer = brief::push(guest, number, text).expect("the face is there").unwrap();
        seen.count(&answer, text);
        books.iter_mut().for_each(|ledger| ledger.pushed(text.len()));
        let [by_parse, by_brief]: [Events; 2] =
            [books[0].answer(Answer::Step(step), text), books[1].answer(Answer::Brief(answer), text)]
                .map(|events| events.unwrap());
        assert_eq!(by_parse, by_brief, "{}: {text:?} of {pieces:?}", config.format);
    }
}

#[test]
fn faces_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins");
    let cache_dir = Some(folder.join("../compiled-plugins"));
    let host = Host::new(Settings { cache_dir, push_budget_ms: 10_000, ..Settings::default() }).unwrap();
    let components = files(&folder, "wasm");
    assert!(!components.is_empty(), "no components: run `cargo xtask plugins`");
    let mut seen = Seen::default();
    for path in components {
        let code = Code::compile(&host.engine, &std::fs::read(&path).unwrap()).unwrap_or_else(|_| panic!("{path:?}"));
        let vendor = path.file_stem().unwrap().to_string_lossy().into_owned();
        for case in examples(&vendor) {
            let mut guest = Guest::start(&code, &host.settings).unwrap_or_else(|_| panic!("{vendor} starts"));
            let config = parse::ParserConfig {
                format: case["format"].as_str().unwrap().trim_start_matches("reasoning:").to_owned(),
                model: String::new(),
                tool_choice: lower::choice(&StreamConfig::default().tool_choice),
                parallel_tools: true,
                reasoning: lower::reasoning(StreamConfig::default().reasoning),
                prompt_tail: String::new(),
                history_calls: 0,
                special_tokens: Vec::new(),
                options: "{}".to_owned(),
            };
            let tools = tools(&case);
            for (text, size) in texts(&case).iter().flat_map(|text| SIZES.map(|size| (text, size))) {
                let chars: Vec<char> = text.chars().collect();
                let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
                compare(&mut guest, &config, &tools, &pieces, &mut seen);
            }
        }
    }
    let all = [seen.same, seen.short, seen.escaped, seen.taken, seen.long];
    assert!(all.iter().all(|count| *count > 0), "{seen:?}");
}
