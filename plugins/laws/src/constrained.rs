//! Laws of the grammar face: a grammar admits its format's calls, refuses what is none, and whatever it admits is read
//! back as valid calls of declared tools.

use std::sync::Arc;

use proptest::test_runner::TestRng;
use serde_json::{Value, json};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};
use sluicegate_sdk::event::StopCause;
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::grammar::{Constraint, GrammarInput, Start};

use crate::assemble::{Message, run};
use crate::walk::{Compiler, seeded};
use crate::{chunking, schema, tools};

/// Set to a number to walk that many times through each grammar.
pub const WALKS_VARIABLE: &str = "SLUICEGATE_LAW_WALKS";

/// The request that a grammar is for.
#[derive(Clone, Debug)]
pub struct Demand {
    /// OpenAI tool declarations.
    pub tools: Value,
    /// See [`ToolChoice`].
    pub choice: ToolChoice,
    /// Several calls allowed.
    pub parallel: bool,
    /// See [`ReasoningMode`].
    pub reasoning: ReasoningMode,
}

impl Demand {
    fn input(&self, format: &str) -> GrammarInput {
        GrammarInput {
            format: format.to_owned(),
            tools: tools::digest(&self.tools).iter().cloned().collect(),
            tool_choice: self.choice.clone(),
            parallel_tools: self.parallel,
            reasoning: self.reasoning,
            ..GrammarInput::default()
        }
    }

    /// The constraint of `format` for this demand.
    pub fn constraint(&self, plugin: &Plugin, format: &str) -> Result<Option<Constraint>, String> {
        plugin.constrain(&self.input(format))
    }

    /// The configuration of the parser that reads the answer.
    pub fn config(&self, format: &str) -> ParserConfig {
        ParserConfig {
            format: format.to_owned(),
            tool_choice: self.choice.clone(),
            parallel_tools: self.parallel,
            reasoning: self.reasoning,
            ..ParserConfig::default()
        }
    }
}

/// Tools with every kind of parameter.
pub fn toolbox(strict: bool) -> Value {
    let function = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "strict": strict, "parameters": parameters}});
    json!([
        function(
            "get_weather",
            json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "metric": {"type": "boolean"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
            })
        ),
        function(
            "search",
            json!({
                "type": "object",
                "properties": {
                    "opts": {
                        "type": "object",
                        "properties": {
                            "lang": {"type": "string"},
                            "tags": {"type": "array", "items": {"type": "string"}},
                            "limit": {"type": "number"},
                        },
                        "required": ["tags"],
                    },
                    "query": {"type": "string"},
                    "after": {"type": ["integer", "null"]},
                },
                "required": ["opts", "query"],
            })
        ),
        function(
            "plot",
            json!({
                "type": "object",
                "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/point"}}, "title": {"$ref": "#/$defs/name"}},
                "required": ["points"],
                "$defs": {
                    "name": {"type": "string"},
                    "point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "integer"}}, "required": ["x", "y"]},
                },
            })
        ),
        function("ping", json!({"type": "object", "properties": {}})),
    ])
}

/// Walks through the grammars of every format of `plugin` that has calls. `before` says for some formats what a model
/// may have written before it triggers a grammar; the others write text.
pub fn assert_all_walks_parse(plugin: &Plugin, before: &[(&str, &str)]) {
    let formats: Vec<_> = plugin.describe().into_iter().filter(|d| d.features.tools).collect();
    for format in formats.iter().filter(|d| d.no_grammar.is_empty()) {
        let before = before.iter().find(|(name, _)| *name == format.name).map_or("Well.", |(_, text)| text);
        assert_walks_parse(plugin, &format.name, before);
    }
}

/// Walks at random through the grammars of `format` for every kind of demand; every text must be read as calls that the
/// demand allows.
pub fn assert_walks_parse(plugin: &Plugin, format: &str, before: &str) {
    let walks: usize = std::env::var(WALKS_VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let compiler = Compiler::default();
    let mut rng = seeded();
    let described = plugin.describe().into_iter().find(|d| d.name == format).expect("a format of the plugin");
    assert!(described.features.grammar, "{format} has no grammar");
    let json = described.catalogue.iter().any(|row| row.starts_with('J'));
    for demand in demands() {
        let what = format!("{format}, {:?}, {:?}, parallel {}", demand.choice, demand.reasoning, demand.parallel);
        let constraint = demand.constraint(plugin, format).unwrap_or_else(|e| panic!("{what}: {e}"));
        let Some(constraint) = constraint else {
            assert_eq!(demand.choice, ToolChoice::Auto, "{what}: nothing to constrain");
            continue;
        };
        let grammar = compiler.compile(&constraint.lark).unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut lost = 0;
        for _ in 0..walks {
            let Some(text) = grammar.walk(&mut rng, json) else {
                lost += 1;
                continue;
            };
            check_walk(plugin, format, &demand, &constraint, [before, &text])
                .unwrap_or_else(|e| panic!("{what}: {e}\nwalk {text:?}\n{}", constraint.lark));
        }
        assert!(lost * 2 <= walks, "{what}: {lost} of {walks} walks did not end\n{}", constraint.lark);
    }
    assert_exact(plugin, format, &compiler, &mut rng, walks);
}

/// Walks through the grammar of tools that demand less; the grammar of the toolbox must admit what is valid for it and
/// refuse what is not: undeclared tools, missing parameters, wrong types, values that are not listed.
fn assert_exact(plugin: &Plugin, format: &str, compiler: &Compiler, rng: &mut TestRng, walks: usize) {
    let demand = |tools| Demand { tools, choice: ToolChoice::Required, parallel: false, reasoning: ReasoningMode::Off };
    let (exact, loose) = (demand(toolbox(false)), demand(loosened()));
    let grammar = |demand: &Demand| {
        let constraint = demand.constraint(plugin, format).ok().flatten().expect("a grammar");
        compiler.compile(&constraint.lark).unwrap_or_else(|e| panic!("{format}: {e}"))
    };
    let (admits, writes) = (grammar(&exact), grammar(&loose));
    let set = Arc::new(tools::digest(&exact.tools));
    let mut refused = 0;
    for text in (0..walks * 4).filter_map(|_| writes.walk(rng, false)) {
        let got = run(plugin, &exact.config(format), &set, &[&text], &StopCause::Eos(None));
        let valid = got.and_then(|message| check_message(&exact, &message));
        let verdict = admits.admits(&text);
        assert_eq!(verdict.is_ok(), valid.is_ok(), "{format}: {verdict:?}, but {valid:?}: {text:?}");
        refused += usize::from(verdict.is_err());
    }
    assert!(refused > 0, "{format}: nothing was refused");
}

/// The toolbox without demands, with another type and value, and one tool more.
fn loosened() -> Value {
    let mut tools = toolbox(false);
    for tool in tools.as_array_mut().into_iter().flatten() {
        if let Some(parameters) = tool["function"]["parameters"].as_object_mut() {
            parameters.remove("required");
        }
    }
    tools[0]["function"]["parameters"]["properties"]["days"] = json!({"type": "boolean"});
    tools[0]["function"]["parameters"]["properties"]["unit"]["enum"] = json!(["celsius", "kelvin"]);
    let other =
        json!({"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}});
    tools.as_array_mut().expect("a list of tools").push(other);
    tools
}

fn demands() -> Vec<Demand> {
    let demand = |strict, choice, parallel, reasoning| Demand { tools: toolbox(strict), choice, parallel, reasoning };
    vec![
        demand(false, ToolChoice::Required, true, ReasoningMode::Off),
        demand(false, ToolChoice::Required, true, ReasoningMode::Auto),
        demand(true, ToolChoice::Required, false, ReasoningMode::On),
        demand(false, ToolChoice::Named("search".to_owned()), true, ReasoningMode::Off),
        demand(true, ToolChoice::Auto, true, ReasoningMode::Off),
    ]
}

fn check_walk(
    plugin: &Plugin,
    format: &str,
    demand: &Demand,
    constraint: &Constraint,
    [before, walk]: [&str; 2],
) -> Result<(), String> {
    let before = match &constraint.start {
        Start::Immediately => String::new(),
        Start::After(text) => format!("so{text}"),
        Start::Triggered(text) if walk.starts_with(text.as_str()) => before.to_owned(),
        Start::Triggered(text) => return Err(format!("a walk that does not begin with its trigger {text:?}")),
    };
    let text = before + walk;
    let set = Arc::new(tools::digest(&demand.tools));
    let config = demand.config(format);
    let parse = |chunks: &[&str]| run(plugin, &config, &set, chunks, &StopCause::Eos(None));
    let message = parse(&chunking::whole(&text))?;
    // Where nothing marks calls, the grammar of a model that is free to call covers its text too.
    let free = demand.choice == ToolChoice::Auto && !matches!(constraint.start, Start::Triggered(_));
    if !(free && message.calls.is_empty() && message.malformed.is_empty()) {
        check_message(demand, &message)?;
    }
    let pieces = parse(&chunking::points(&text))?;
    if pieces == message { Ok(()) } else { Err(format!("in pieces {pieces:?}\nas a whole {message:?}")) }
}

/// `Err` if the message is not what the demand allows.
fn check_message(demand: &Demand, message: &Message) -> Result<(), String> {
    let say = |what: &str| Err(format!("{what}: {message:?}"));
    if message.calls.is_empty() || !message.calls.iter().all(|c| c.ended) || !message.malformed.is_empty() {
        return say("not calls alone");
    }
    if !matches!(message.content.trim(), "" | "Well.") {
        return say("content");
    }
    let single = !demand.parallel || matches!(demand.choice, ToolChoice::Named(_));
    if single && message.calls.len() > 1 {
        return say("more than one call");
    }
    for call in &message.calls {
        if matches!(&demand.choice, ToolChoice::Named(name) if *name != call.name) {
            return say("another tool than the named one");
        }
        let list = demand.tools.as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(tool) = list.iter().find(|t| t["function"]["name"] == call.name.as_str()) else {
            return say("a tool that nobody declared");
        };
        let arguments: Value = serde_json::from_str(&call.arguments).map_err(|e| e.to_string())?;
        let root = &tool["function"]["parameters"];
        schema::check(&arguments, root, root).map_err(|e| format!("{e} in {}", call.arguments))?;
    }
    Ok(())
}

/// The part of `text` that a grammar governs.
pub fn governed<'a>(constraint: &Constraint, text: &'a str) -> Option<&'a str> {
    match &constraint.start {
        Start::Immediately => Some(text),
        Start::After(close) => text.split_once(close.as_str()).map(|(_, rest)| rest),
        Start::Triggered(trigger) => text.find(trigger.as_str()).map(|at| &text[at..]),
    }
}
