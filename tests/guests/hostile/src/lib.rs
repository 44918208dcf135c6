//! A plugin that misbehaves on command: it loops, traps or eats memory when the text tells it to.

// The exports have names that only a WebAssembly linker takes; a native build of the workspace has nothing here.
#![cfg(target_arch = "wasm32")]
#![allow(unreachable_pub, reason = "in code that the export macro generates")]

mod bindings;

use std::hint::black_box;

use bindings::exports::sluicegate::format::meta::{Descriptor, Features, Guest as Meta, Plugin};
use bindings::exports::sluicegate::format::parse::{
    Guest as Parse, GuestParser, GuestToolset, Parser, ParserConfig, PushItem, Step, StopCause, Tail, TokenId,
    ToolsetBorrow,
};
use bindings::exports::sluicegate::format::types::{Channel, Event, Tool};

struct Component;

impl Meta for Component {
    fn describe() -> Plugin {
        let descriptor = Descriptor {
            name: "hostile".into(),
            description: "passes text on, except @loop, @trap, @memory and @flood".into(),
            catalogue: Vec::new(),
            aliases: Vec::new(),
            models: Vec::new(),
            features: Features::empty(),
            hints: Vec::new(),
            markers: Vec::new(),
            special_tokens: Vec::new(),
            stop_strings: Vec::new(),
            renderer: None,
            options_schema: "{}".into(),
            extra: "{}".into(),
        };
        Plugin {
            name: "hostile".into(),
            version: "1.0.0".into(),
            description: "for tests of the sandbox".into(),
            formats: vec![descriptor],
        }
    }
}

/// Tools are of no interest here.
struct Toolset;

impl GuestToolset for Toolset {
    fn new(_tools: Vec<Tool>) -> Self {
        Self
    }
}

struct Saboteur;

impl GuestParser for Saboteur {
    fn new(_config: ParserConfig, _tools: Option<ToolsetBorrow<'_>>) -> Self {
        Self
    }

    fn push(&self, text: String) -> Step {
        obey(&text)
    }

    fn push_tokens(&self, text: String, _ids: Vec<TokenId>) -> Step {
        obey(&text)
    }

    fn finish(_parser: Parser, _cause: StopCause) -> Tail {
        Tail { events: Vec::new(), finish: None }
    }
}

fn obey(text: &str) -> Step {
    if text.contains("@loop") {
        run_forever();
    }
    if text.contains("@memory") {
        eat_memory();
    }
    if text.contains("@flood") {
        return Step::Events(vec![Event::Content("flood ".repeat(1 << 20))]);
    }
    assert!(!text.contains("@trap"), "told to trap");
    Step::Pass(Channel::Content)
}

fn run_forever() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

fn eat_memory() -> ! {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(black_box(vec![1; 1 << 20]));
    }
}

impl Parse for Component {
    type Toolset = Toolset;
    type Parser = Saboteur;

    fn push_batch(items: Vec<PushItem<'_>>) -> Vec<Step> {
        items.into_iter().map(|item| obey(&item.text)).collect()
    }
}

bindings::export!(Component with_types_in bindings);
