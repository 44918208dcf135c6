//! Grammars of calls written as elements with one tag for each parameter.

use serde_json::Value;

use super::lark::{Lark, either, optional, quote, template};
use super::schema::{NAMES, Schema};
use super::{Block, Job, join, row, tree};
use crate::tags::{Brackets, CallForm, ParamForm, Slot, TagCalls, Typing, ValueTrim};
use crate::tools::{JsonTypes, Tool};

/// A parameter's key where the schema names none.
const ANY_KEY: &str = "/[A-Za-z_][A-Za-z0-9_.-]{0,63}/";

/// A writer of tags.
struct Writer<'a> {
    spec: &'a TagCalls,
    lark: &'a mut Lark,
    /// What no value may contain: the parser would end it there.
    never: Vec<String>,
}

/// A key of a parameter.
#[derive(Clone, Copy)]
enum Key<'a> {
    This(&'a str),
    Any,
}

/// Calls of a tag format.
pub(super) fn block(spec: &TagCalls, job: &mut Job<'_>) -> Result<Block, String> {
    let tools = std::mem::take(&mut job.tools);
    let many = job.many;
    let mut w = Writer::new(spec, job);
    let choices = tools.iter().map(|(tool, schema)| w.call(tool, schema)).collect::<Result<Vec<_>, _>>()?;
    let call = w.lark.rule(&either(choices));
    let frame = match (spec.call, spec.blocks.first()) {
        (CallForm::Leading { .. }, _) => spec.outer.first().copied(),
        (_, block) => block.copied(),
    };
    let (open, close) = match (frame, spec.opens.first(), spec.closes.first()) {
        (Some(name), ..) => (w.open(name, "", ""), w.close(name)),
        (None, Some(open), close) => (quote(open), close.map(|c| quote(c)).unwrap_or_default()),
        (None, None, _) => (String::new(), String::new()),
    };
    let calls = match (open.is_empty(), spec.wire.one_a_block) {
        (true, _) => row(&call, "SPACE?", many),
        (false, false) => join(&[&open, "SPACE?", &row(&call, "SPACE?", many), "SPACE?", &close]),
        (false, true) => {
            let block = w.lark.rule(&join(&[&open, "SPACE?", &call, "SPACE?", &close]));
            row(&block, "SPACE?", many)
        }
    };
    job.tools = tools;
    Ok(Block { calls, trigger: spec.trigger() })
}

/// The parameters of a call that a header names.
pub(super) fn parameters(spec: &TagCalls, job: &mut Job<'_>, tool: &Tool, schema: &Schema) -> Result<String, String> {
    Writer::new(spec, job).params(tool, schema)
}

/// The closers that end a value, in every spelling that the lexer reads, as terminals.
fn closers(spec: &TagCalls) -> Vec<String> {
    let b = spec.brackets;
    let mut all = Vec::new();
    for name in spec.closing_names() {
        for prefix in spec.prefixes {
            let begin = quote(&format!("{}{prefix}", b.close));
            let spaced = b != Brackets::ANGLE || !prefix.is_empty();
            let suffix = if spec.suffix { "/(:[0-9A-Za-z_-]+)?/" } else { "" };
            let space = if spaced { "/\\s*/" } else { "" };
            all.push(format!("({})", join(&[&begin, space, &quote(name), suffix, "/\\s*/", &quote(b.end)])));
        }
    }
    all
}

impl<'a> Writer<'a> {
    fn new(spec: &'a TagCalls, job: &'a mut Job<'_>) -> Writer<'a> {
        let cdata = spec.cdata.then(|| quote("<![CDATA["));
        let never = closers(spec).into_iter().chain(job.never.iter().map(|text| quote(text))).chain(cdata).collect();
        Writer { spec, lark: &mut job.lark, never }
    }

    /// `<name slot attributes>`; the attributes are a template.
    fn open(&self, name: &str, slot: &str, attributes: &str) -> String {
        let begin = format!("{}{}{name}", self.spec.brackets.open, self.spec.written_prefix());
        self.tag(&(begin + slot), attributes)
    }

    fn close(&self, name: &str) -> String {
        self.tag(&format!("{}{}{name}", self.spec.brackets.close, self.spec.written_prefix()), "")
    }

    fn tag(&self, begin: &str, attributes: &str) -> String {
        let end = self.spec.brackets.end;
        match (self.spec.suffix, attributes.is_empty()) {
            (true, _) => {
                let (begin, whole) = (quote(begin), quote(&format!("{begin}{end}")));
                format!("({whole} | {begin} SUFFIX {})", quote(end))
            }
            (false, true) => quote(&format!("{begin}{end}")),
            (false, false) => join(&[&quote(begin), &template(attributes), &quote(end)]),
        }
    }

    fn call(&mut self, tool: &Tool, schema: &Schema) -> Result<String, String> {
        self.check(&tool.name, "tool")?;
        let wire = self.spec.wire;
        let params = self.params(tool, schema)?;
        Ok(match self.spec.call {
            CallForm::Element { tag, name } => {
                let open = self.open(tag, &self.slot(name, &tool.name), wire.attributes);
                let (lead, tail) = (template(wire.lead), template(wire.tail));
                join(&[&lead, &open, "SPACE?", &params, &self.close(tag), &tail])
            }
            CallForm::Leading { .. } => {
                let block = self.spec.blocks.first().copied().unwrap_or_default();
                let ends: Vec<String> = wire.name_ends.iter().map(|end| template(end)).collect();
                let open = self.open(block, "", "");
                join(&[&open, &quote(&tool.name), &either(ends), "SPACE?", &params, &self.close(block)])
            }
        })
    }

    /// What an element's name is followed by.
    fn slot(&self, slot: Slot, text: &str) -> String {
        match slot {
            Slot::Attribute(attribute) if self.spec.entities => {
                format!(" {attribute}=\"{}\"", text.replace('&', "&amp;").replace('"', "&quot;"))
            }
            Slot::Attribute(attribute) => format!(" {attribute}=\"{text}\""),
            Slot::Equals => format!("={text}"),
        }
    }

    /// Parameters in the order of the schema, or any at all if the schema names none.
    fn params(&mut self, tool: &Tool, schema: &Schema) -> Result<String, String> {
        let tree = matches!(self.spec.param, ParamForm::Tree);
        if tool.params.is_empty() && !schema.is_closed() && !tree {
            let any = Value::Object(serde_json::Map::new());
            let one = self.param(Key::Any, JsonTypes::STRING, schema, &any);
            return Ok(format!("({one})*"));
        }
        let mut parts = Vec::new();
        for param in &tool.params {
            self.check(&param.name, "parameter")?;
            let part = schema.property(&param.name);
            let one = if tree {
                tree::element(self.lark, self.spec.brackets, schema, &param.name, &part)
            } else {
                self.param(Key::This(&param.name), param.accepts, schema, &part)
            };
            parts.push(if param.required { one } else { optional(&one) });
        }
        Ok(join(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// One parameter: a choice of its typings.
    fn param(&mut self, key: Key<'_>, accepts: JsonTypes, schema: &Schema, part: &Value) -> String {
        let choices = self.values(accepts, schema, part).into_iter().map(|(attribute, value)| match self.spec.param {
            ParamForm::Element { tag, key: slot } => {
                let open = match key {
                    Key::This(key) => self.open(tag, &(self.slot(slot, key) + &attribute), ""),
                    Key::Any => self.any_key(tag, slot, &attribute),
                };
                join(&[&open, &value])
            }
            ParamForm::Pair { key: name, value: tag, .. } => {
                let text = match key {
                    Key::This(key) => quote(key),
                    Key::Any => ANY_KEY.to_owned(),
                };
                let key = join(&[&self.open(name, "", ""), &text, &self.close(name)]);
                join(&[&key, "SPACE?", &self.open(tag, "", ""), &value])
            }
            ParamForm::Tree => String::new(),
        });
        let choices = choices.collect();
        let one = either(choices);
        self.lark.rule(&one)
    }

    fn any_key(&self, tag: &str, slot: Slot, attribute: &str) -> String {
        let begin = format!("{}{}{tag}", self.spec.brackets.open, self.spec.written_prefix());
        let (before, after) = match slot {
            Slot::Attribute(name) => (format!(" {name}=\""), "\""),
            Slot::Equals => ("=".to_owned(), ""),
        };
        let end = format!("{after}{attribute}{}", self.spec.brackets.end);
        join(&[&quote(&(begin + &before)), ANY_KEY, &quote(&end)])
    }

    /// The values that a parameter may have, closer included, each with the attribute that types it.
    fn values(&mut self, accepts: JsonTypes, schema: &Schema, part: &Value) -> Vec<(String, String)> {
        let texts = accepts.is_empty() || accepts.accepts(JsonTypes::STRING);
        let others: Vec<&str> = NAMES
            .iter()
            .filter(|(bit, _)| *bit != JsonTypes::STRING && accepts.accepts(*bit))
            .map(|(_, name)| *name)
            .collect();
        let mut all = Vec::new();
        match self.spec.typing {
            Typing::Schema if texts => all.push((String::new(), self.text(schema, part, false))),
            Typing::Schema => all.push((String::new(), self.json(&schema.json(part)))),
            Typing::Attribute(name) => {
                if texts {
                    all.push((format!(" {name}=\"true\""), self.text(schema, part, true)));
                }
                if !others.is_empty() {
                    let json = if texts { schema.json_of(part, &others) } else { schema.json(part) };
                    all.push((format!(" {name}=\"false\""), self.json(&json)));
                }
            }
            Typing::Named(name) => {
                if texts {
                    all.push((format!(" {name}=\"string\""), self.text(schema, part, true)));
                }
                let number = others.contains(&"number");
                for json in others.iter().filter(|n| **n != "integer" || !number) {
                    let written = if *json == "integer" { "number" } else { json };
                    let expression =
                        if others.len() == 1 && !texts { schema.json(part) } else { schema.json_of(part, &[json]) };
                    all.push((format!(" {name}=\"{written}\""), self.json(&expression)));
                }
            }
        }
        all
    }

    fn json(&self, json: &str) -> String {
        join(&["SPACE?", json, "SPACE?", &self.value_end(), "SPACE?"])
    }

    fn value_end(&self) -> String {
        match self.spec.param {
            ParamForm::Element { tag, .. } => self.close(tag),
            ParamForm::Pair { value, .. } => self.close(value),
            ParamForm::Tree => String::new(),
        }
    }

    /// Text up to the closer; one of the listed values if the schema lists them.
    fn text(&mut self, schema: &Schema, part: &Value, only_strings: bool) -> String {
        let end = join(&[&self.value_end(), "SPACE?"]);
        let layout = match self.spec.trim {
            ValueTrim::Nothing => "",
            ValueTrim::OneNewline => "/\\n?/",
            ValueTrim::Whitespace => "SPACE?",
        };
        if let Some(values) = schema.listed(part) {
            let texts = values.iter().filter_map(|value| match value {
                Value::String(text) => Some(text.clone()),
                other => (!only_strings).then(|| other.to_string()),
            });
            let texts = texts.filter(|text| !text.contains(self.spec.brackets.close));
            let choices: Vec<String> = texts.map(|text| quote(&text)).collect();
            if !choices.is_empty() {
                return self.lark.terminal(&join(&[layout, &either(choices), layout, &end]));
            }
        }
        let text = self.lark.text_until(&self.never, &end);
        if !self.spec.cdata {
            return text;
        }
        let closer = join(&[&quote("]]>"), &end]);
        let data = self.lark.text_until(&[quote("]]>")], &closer);
        let section = self.lark.terminal(&join(&[&quote("<![CDATA["), &data]));
        format!("({text} | {section})")
    }

    /// Refuses names that would break a tag.
    fn check(&self, name: &str, what: &str) -> Result<(), String> {
        let b = self.spec.brackets;
        let quoted = !self.spec.entities && name.contains(['"', '\'']);
        let broken = [b.open, b.close, b.end, "\n", "\r"].iter().any(|literal| name.contains(literal));
        if name.is_empty() || quoted || broken {
            return Err(format!("the {what} '{name}' has a name that this format can't write"));
        }
        Ok(())
    }
}
