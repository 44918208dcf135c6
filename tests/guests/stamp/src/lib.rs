//! A plugin that writes its version into every piece of content, so that a test can tell which one served a stream.

// The exports have names that only a WebAssembly linker takes; a native build of the workspace has nothing here.
#![cfg(target_arch = "wasm32")]
#![allow(unreachable_pub, reason = "in code that the export macro generates")]

mod bindings;

use std::cell::Cell;
use std::hint::black_box;

use bindings::exports::sluicegate::format::meta::{Descriptor, Features, Guest as Meta, Plugin};
use bindings::exports::sluicegate::format::parse::{
    Guest as Parse, GuestParser, GuestToolset, Parser, ParserBorrow, ParserConfig, PushItem, Step, StopCause, Tail,
    TokenId, ToolsetBorrow,
};
use bindings::exports::sluicegate::format::types::{Event, Tool};

/// The plugin's version. A test makes a new version by replacing these bytes in the component, not by a build.
static VERSION: &str = "1.0.1000";

fn version() -> &'static str {
    // Keeps the bytes in the component as they are above, instead of spread over instructions.
    black_box(VERSION)
}

struct Component;

impl Meta for Component {
    fn describe() -> Plugin {
        let descriptor = Descriptor {
            name: "stamp".into(),
            description: "content with the plugin's version before each piece".into(),
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
            name: "stamp".into(),
            version: version().into(),
            description: "for tests of replacement under load".into(),
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

/// Counts its pushes, so that a stream that went on in another parser shows a wrong number.
struct Stamper {
    pushes: Cell<u32>,
}

impl Stamper {
    fn stamp(&self, text: &str) -> Step {
        let number = self.pushes.get();
        self.pushes.set(number + 1);
        Step::Events(vec![Event::Content(format!("[{} {number}]{text}", version()))])
    }
}

impl GuestParser for Stamper {
    fn new(_config: ParserConfig, _tools: Option<ToolsetBorrow<'_>>) -> Self {
        Self { pushes: Cell::new(0) }
    }

    fn push(&self, text: String) -> Step {
        self.stamp(&text)
    }

    fn push_tokens(&self, text: String, _ids: Vec<TokenId>) -> Step {
        self.stamp(&text)
    }

    fn finish(_parser: Parser, _cause: StopCause) -> Tail {
        Tail { events: Vec::new(), finish: None }
    }
}

impl Parse for Component {
    type Toolset = Toolset;
    type Parser = Stamper;

    fn push_batch(items: Vec<PushItem<'_>>) -> Vec<Step> {
        let push = |item: PushItem<'_>| parser(&item.parser).stamp(&item.text);
        items.into_iter().map(push).collect()
    }
}

fn parser<'a>(handle: &'a ParserBorrow<'a>) -> &'a Stamper {
    handle.get()
}

bindings::export!(Component with_types_in bindings);
