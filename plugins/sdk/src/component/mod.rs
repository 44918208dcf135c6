//! The component face: WIT types to native ones and back. Only built for wasm32.
#![allow(missing_docs, missing_debug_implementations, reason = "generated bindings")]

mod brief;
mod parsers;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::config;
use crate::describe::{Features, Hint};
use crate::event as native;
use crate::format::Plugin;
use crate::grammar as native_grammar;
use crate::tools as native_tools;

wit_bindgen::generate!({
    path: "../../wit",
    world: "format-plugin",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "sluicegate_sdk::component",
});

use exports::sluicegate::format::{grammar, meta, parse, render, types as t};

/// What a component crate provides.
pub trait Entry: 'static {
    /// Its formats; called once an instance.
    fn plugin() -> Plugin;
}

/// The exports of a component whose formats `E` provides.
pub struct Component<E>(PhantomData<E>);

thread_local! {
    /// Compiled formats: a cache that no request can observe.
    static PLUGIN: RefCell<Option<Arc<Plugin>>> = const { RefCell::new(None) };
}

fn plugin<E: Entry>() -> Arc<Plugin> {
    PLUGIN.with(|cell| Arc::clone(cell.borrow_mut().get_or_insert_with(|| Arc::new(E::plugin()))))
}

/// A digested set of tools.
pub struct Toolset(Arc<native_tools::ToolSet>);

/// One stream: the number of its parser.
pub struct Stream<E> {
    number: u32,
    entry: PhantomData<E>,
}

impl<E> Drop for Stream<E> {
    fn drop(&mut self) {
        drop(parsers::remove(self.number));
    }
}

impl<E> Stream<E> {
    fn push(&self, text: &str) -> t::Step {
        step(parsers::with(self.number, |parser| parser.push(text), native::Step::Hold), text)
    }
}

impl<E: Entry> parse::Guest for Component<E> {
    type Toolset = Toolset;
    type Parser = Stream<E>;

    fn push_batch(items: Vec<parse::PushItem<'_>>) -> Vec<t::Step> {
        items.iter().map(|item| item.parser.get::<Stream<E>>().push(&item.text)).collect()
    }
}

impl parse::GuestToolset for Toolset {
    fn new(tools: Vec<t::Tool>) -> Self {
        Toolset(Arc::new(native_tools::ToolSet::new(tools.into_iter().map(tool).collect())))
    }
}

impl<E: Entry> parse::GuestParser for Stream<E> {
    fn new(config: parse::ParserConfig, tools: Option<parse::ToolsetBorrow<'_>>) -> Self {
        let tools = tools.map(|t| Arc::clone(&t.get::<Toolset>().0));
        let parser = plugin::<E>().parser(&native_config(config), tools);
        Stream { number: parsers::add(parser), entry: PhantomData }
    }

    fn push(&self, text: String) -> t::Step {
        Stream::push(self, &text)
    }

    fn push_tokens(&self, text: String, ids: Vec<u32>) -> t::Step {
        step(parsers::with(self.number, |parser| parser.push_tokens(&text, &ids), native::Step::Hold), &text)
    }

    fn finish(parser: parse::Parser, cause: t::StopCause) -> t::Tail {
        let stream: Stream<E> = parser.into_inner();
        let cause = match cause {
            t::StopCause::Eos(id) => native::StopCause::Eos(id),
            t::StopCause::StopString(s) => native::StopCause::StopString(s),
            t::StopCause::Length => native::StopCause::Length,
            t::StopCause::Aborted => native::StopCause::Aborted,
        };
        let Some(mut parser) = parsers::remove(stream.number) else {
            return t::Tail { events: Vec::new(), finish: None };
        };
        let tail = parser.finish(&cause);
        t::Tail { events: tail.events.into_iter().map(event).collect(), finish: tail.finish.map(finish_reason) }
    }
}

impl<E: Entry> meta::Guest for Component<E> {
    fn describe() -> meta::Plugin {
        let plugin = plugin::<E>();
        meta::Plugin {
            name: plugin.name.to_owned(),
            version: plugin.version.to_owned(),
            description: plugin.description.to_owned(),
            formats: plugin.describe().into_iter().map(descriptor).collect(),
        }
    }
}

impl<E: Entry> grammar::Guest for Component<E> {
    fn constrain(i: grammar::GrammarInput) -> Result<Option<grammar::Constraint>, String> {
        let input = native_grammar::GrammarInput {
            format: i.format,
            tools: i.tools.into_iter().map(tool).collect(),
            tool_choice: tool_choice(i.tool_choice),
            parallel_tools: i.parallel_tools,
            reasoning: reasoning(i.reasoning),
            prompt_tail: i.prompt_tail,
            options: i.options,
        };
        let constraint = |c: native_grammar::Constraint| grammar::Constraint {
            lark: c.lark,
            start: match c.start {
                native_grammar::Start::Immediately => grammar::Start::Immediately,
                native_grammar::Start::After(text) => grammar::Start::After(text),
                native_grammar::Start::Triggered(text) => grammar::Start::Triggered(text),
            },
        };
        plugin::<E>().constrain(&input).map(|c| c.map(constraint))
    }
}

impl<E: Entry> render::Guest for Component<E> {
    fn render(input: render::RenderInput) -> Result<Vec<render::Piece>, render::RenderError> {
        Err(render::RenderError::Unsupported(format!("format '{}' renders with the model's template", input.format)))
    }
}

fn tool(tool: t::Tool) -> native_tools::Tool {
    native_tools::Tool {
        name: tool.name,
        description: tool.description,
        params: tool.params.into_iter().map(param).collect(),
        schema: tool.schema,
        strict: tool.strict,
    }
}

fn param(param: t::Param) -> native_tools::Param {
    use native_tools::JsonTypes as J;
    let map = [
        (t::JsonTypes::NULL, J::NULL),
        (t::JsonTypes::BOOLEAN, J::BOOLEAN),
        (t::JsonTypes::INTEGER, J::INTEGER),
        (t::JsonTypes::NUMBER, J::NUMBER),
        (t::JsonTypes::STRING, J::STRING),
        (t::JsonTypes::ARRAY, J::ARRAY),
        (t::JsonTypes::OBJECT, J::OBJECT),
    ];
    let known = map.iter().filter(|(flag, _)| (param.accepts & *flag) == *flag);
    let accepts = known.fold(J::empty(), |all, (_, own)| all | *own);
    native_tools::Param { name: param.name, accepts, required: param.required }
}

fn tool_choice(choice: t::ToolChoice) -> config::ToolChoice {
    match choice {
        t::ToolChoice::Auto => config::ToolChoice::Auto,
        t::ToolChoice::None => config::ToolChoice::None,
        t::ToolChoice::Required => config::ToolChoice::Required,
        t::ToolChoice::Named(name) => config::ToolChoice::Named(name),
    }
}

fn reasoning(mode: t::ReasoningMode) -> config::ReasoningMode {
    match mode {
        t::ReasoningMode::Auto => config::ReasoningMode::Auto,
        t::ReasoningMode::On => config::ReasoningMode::On,
        t::ReasoningMode::Off => config::ReasoningMode::Off,
    }
}

fn native_config(c: parse::ParserConfig) -> config::ParserConfig {
    config::ParserConfig {
        format: c.format,
        model: c.model,
        tool_choice: tool_choice(c.tool_choice),
        parallel_tools: c.parallel_tools,
        reasoning: reasoning(c.reasoning),
        prompt_tail: c.prompt_tail,
        history_calls: c.history_calls,
        special_tokens: c.special_tokens.into_iter().map(|s| config::SpecialToken { text: s.text, id: s.id }).collect(),
        options: c.options,
    }
}

/// What the push of `text` came to.
fn step(step: native::Step, text: &str) -> t::Step {
    match step {
        native::Step::Hold => t::Step::Hold,
        native::Step::Pass(native::Channel::Content) => t::Step::Pass(t::Channel::Content),
        native::Step::Pass(native::Channel::Reasoning) => t::Step::Pass(t::Channel::Reasoning),
        native::Step::Args { index, escaped } => t::Step::Events(vec![event(native::Step::args(text, index, escaped))]),
        native::Step::Events(events) => t::Step::Events(events.into_iter().map(event).collect()),
    }
}

fn event(event: native::Event) -> t::Event {
    match event {
        native::Event::Content(s) => t::Event::Content(s),
        native::Event::Reasoning(s) => t::Event::Reasoning(s),
        native::Event::ToolStart { index, id, name } => t::Event::ToolStart(t::ToolStart { index, id, name }),
        native::Event::ToolArgs { index, delta } => t::Event::ToolArgs(t::ToolArgs { index, delta }),
        native::Event::ToolEnd(index) => t::Event::ToolEnd(index),
        native::Event::Malformed(raw) => t::Event::Malformed(raw),
        native::Event::EndTurn => t::Event::EndTurn,
        native::Event::Note(s) => t::Event::Note(s),
        native::Event::Other { kind, data } => t::Event::Other(t::OtherEvent { kind, data }),
    }
}

fn finish_reason(reason: native::FinishReason) -> t::FinishReason {
    match reason {
        native::FinishReason::Stop => t::FinishReason::Stop,
        native::FinishReason::Length => t::FinishReason::Length,
        native::FinishReason::ToolCalls => t::FinishReason::ToolCalls,
        native::FinishReason::ContentFilter => t::FinishReason::ContentFilter,
        native::FinishReason::Other(s) => t::FinishReason::Other(s),
    }
}

fn features(f: Features) -> meta::Features {
    let all = [
        (f.reasoning, meta::Features::REASONING),
        (f.tools, meta::Features::TOOLS),
        (f.parallel_tools, meta::Features::PARALLEL_TOOLS),
        (f.token_ids, meta::Features::TOKEN_IDS),
        (f.special_tokens, meta::Features::SPECIAL_TOKENS),
        (f.grammar, meta::Features::GRAMMAR),
        (f.render, meta::Features::RENDER),
    ];
    all.iter().filter(|(has, _)| *has).fold(meta::Features::empty(), |sum, (_, flag)| sum | *flag)
}

fn descriptor(d: crate::describe::Descriptor) -> meta::Descriptor {
    let hint = |(hint, weight): &(Hint, u8)| meta::WeightedHint {
        hint: match hint {
            Hint::Model(s) => meta::Hint::Model((*s).to_owned()),
            Hint::Architecture(s) => meta::Hint::Architecture((*s).to_owned()),
            Hint::Template(s) => meta::Hint::Template((*s).to_owned()),
            Hint::Token(s) => meta::Hint::Token((*s).to_owned()),
        },
        weight: *weight,
    };
    meta::Descriptor {
        name: d.name,
        description: d.description,
        catalogue: d.catalogue,
        aliases: d.aliases.into_iter().map(|(system, name)| meta::Alias { system, name }).collect(),
        models: d.models,
        features: features(d.features),
        hints: d.hints.iter().map(hint).collect(),
        markers: d.markers,
        special_tokens: d.special_tokens,
        stop_strings: d.stop_strings,
        renderer: d.renderer,
        options_schema: d.options_schema,
        extra: match d.no_grammar.as_str() {
            "" => "{}".to_owned(),
            reason => serde_json::json!({"no_grammar": reason}).to_string(),
        },
    }
}

/// Makes a crate a component: `export!(plugin)` where `plugin` is a function that returns a [`Plugin`].
#[macro_export]
macro_rules! export {
    ($plugin:path) => {
        mod component_exports {
            //! Component exports.
            pub struct Formats;
            impl $crate::component::Entry for Formats {
                fn plugin() -> $crate::format::Plugin {
                    $plugin()
                }
            }
            type Exported = $crate::component::Component<Formats>;
            $crate::component::export_component!(Exported with_types_in $crate::component);
        }
    };
}
