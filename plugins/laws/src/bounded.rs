//! Law 5: what a parser holds back, and so what it reads again with the next delta, stays small whatever the model
//! writes. Counted, not timed: with a bounded hold, every byte is read a bounded number of times.

use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate_sdk::config::{ReasoningMode, ToolChoice};
use sluicegate_sdk::event::{Event, Step, StopCause};
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::grammar::Start;
use sluicegate_sdk::parser::Parser;

use crate::chunking::sized;
use crate::constrained::Demand;
use crate::tools;
use crate::walk::{Compiler, seeded};

/// Set to the bytes of the argument (1 MiB in the long run).
pub const BYTES_VARIABLE: &str = "SLUICEGATE_LAW_BYTES";
/// The longest tag or header that a format may wait for, with its layout.
const MAX_HELD: usize = 8 << 10;
/// Stands where the long text will be.
const PLACE: &str = "PLACEHOLDER";
/// What the long text is made of: plain, and beginnings of markup.
const PATTERNS: &[&str] = &["plain words, é 北京; ", "<", "</", "[{(<|", "</p </f </a ", "｜<｜", "```\u{20}"];

/// One string parameter, whose value the request lists, so that the grammar writes it.
fn echo() -> Value {
    json!([{"type": "function", "function": {"name": "echo", "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "enum": [PLACE]}},
        "required": ["text"],
    }}}])
}

/// Every format of `plugin` with a grammar reads long arguments and endless nonsense with a small hold.
pub fn assert_all_bounded(plugin: &Plugin) {
    let bytes = std::env::var(BYTES_VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(24 << 10);
    for format in plugin.describe().iter().filter(|d| d.features.grammar) {
        assert_bounded(plugin, &format.name, bytes);
    }
}

/// One format of them.
pub fn assert_bounded(plugin: &Plugin, format: &str, bytes: usize) {
    let demand = Demand {
        tools: echo(),
        choice: ToolChoice::Named("echo".to_owned()),
        parallel: false,
        reasoning: ReasoningMode::Off,
    };
    let constraint = demand.constraint(plugin, format).expect("a demand that can be met").expect("a grammar");
    let grammar = Compiler::default().compile(&constraint.lark).expect("a grammar that compiles");
    let mut rng = seeded();
    let walk = (0..50).find_map(|_| grammar.walk(&mut rng, false)).expect("a walk that ends");
    let walk = match &constraint.start {
        Start::After(close) => format!("so{close}{walk}"),
        _ => walk,
    };
    let (before, after) = walk.rsplit_once(PLACE).expect("the value that the request lists");
    let set =
        Arc::new(tools::digest(&json!([{"name": "echo", "parameters": {"properties": {"text": {"type": "string"}}}}])));
    let open = || plugin.parser(&demand.config(format), Some(Arc::clone(&set)));
    for pattern in PATTERNS {
        let value = pattern.repeat(bytes / pattern.len());
        let value = value.trim();
        for size in [4, 40, value.len()] {
            let what = format!("{format}, {pattern:?} by {size} bytes");
            let mut parser = open();
            let mut arguments = push(&mut parser, before, size, &what);
            arguments += &push(&mut parser, value, size, &what);
            arguments += &push(&mut parser, after, size, &what);
            let tail = parser.finish(&StopCause::Eos(None));
            arguments += &tail.events.into_iter().filter_map(piece).collect::<String>();
            let got: Value = serde_json::from_str(&arguments).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(got["text"].as_str().map(str::len), Some(value.len()), "{what}: another text");
        }
        // A call that goes wrong at once, and one that goes wrong where its value should stand.
        for start in [&before[..before.floor_char_boundary(before.len() / 2)], before.trim_end_matches(['"', '\''])] {
            // Padded, so that every place in a character stands where something is cut.
            for (pad, size) in [("", 7), ("", value.len()), ("a", value.len()), ("aa", value.len())] {
                push(&mut open(), &format!("{start}{pad}{value}"), size, &format!("{format}, broken {pattern:?}"));
            }
        }
    }
}

/// Pushes `text` in pieces; what of it is arguments. Panics if more is held back than a tag may need.
fn push(parser: &mut Parser, text: &str, size: usize, what: &str) -> String {
    let mut arguments = String::new();
    for chunk in sized(text, size) {
        match parser.push(chunk) {
            Step::Args { index, escaped } => arguments.extend(piece(Step::args(chunk, index, escaped))),
            Step::Events(events) => arguments.extend(events.into_iter().filter_map(piece)),
            Step::Hold | Step::Pass(_) => {}
        }
        assert!(parser.held() <= MAX_HELD, "{what}: {} bytes are held", parser.held());
    }
    arguments
}

fn piece(event: Event) -> Option<String> {
    match event {
        Event::ToolArgs { delta, .. } => Some(delta),
        _ => None,
    }
}
