//! What a grammar is made from.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::plugins::Start;

/// White space between JSON's tokens. Bounded, so that a model can't loop on it.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,24}";

/// One way in which text may be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Any JSON object.
    JsonObject,
    /// JSON that obeys a schema, given as JSON text.
    JsonSchema(String),
    /// Text that a regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A grammar in llguidance's Lark dialect.
    Lark(String),
}

/// What the generated text must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Any one of these.
    pub any_of: Vec<Rule>,
    /// From where on.
    pub start: Start,
    /// Control tokens may be generated where a rule spells them: for grammars of formats, whose markup they are.
    pub markup: bool,
}

impl Spec {
    pub(super) fn grammar(&self) -> Result<TopLevelGrammar, String> {
        if let [rule] = self.any_of.as_slice() {
            return Ok(TopLevelGrammar { grammars: vec![rule.grammar()?], max_tokens: None });
        }
        let names: Vec<String> = (0..self.any_of.len()).map(|i| format!("alternative_{i}")).collect();
        let start = names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(" | ");
        let mut grammars = vec![GrammarWithLexer::from_lark(format!("start: {start}"))];
        for (rule, name) in self.any_of.iter().zip(names) {
            grammars.push(GrammarWithLexer { name: Some(name), ..rule.grammar()? });
        }
        Ok(TopLevelGrammar { grammars, max_tokens: None })
    }

    /// Whether a rule spells this text.
    pub(super) fn spells(&self, text: &str) -> bool {
        let in_rule = |rule: &Rule| matches!(rule, Rule::Lark(lark) if lark.contains(text));
        let in_start = matches!(&self.start, Start::After(t) | Start::Triggered(t) if t.contains(text));
        self.markup && (in_start || self.any_of.iter().any(in_rule))
    }
}

impl Rule {
    fn grammar(&self) -> Result<GrammarWithLexer, String> {
        Ok(match self {
            Self::JsonObject => GrammarWithLexer::from_json_schema(bounded(json!({ "type": "object" }))),
            Self::JsonSchema(text) => {
                let schema = serde_json::from_str(text).map_err(|error| error.to_string())?;
                GrammarWithLexer::from_json_schema(bounded(schema))
            }
            Self::Regex(regex) => GrammarWithLexer::from_regex(regex),
            Self::Choice(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                GrammarWithLexer::from_lark(format!("start: {}", texts.join(" | ")))
            }
            Self::Lark(lark) => GrammarWithLexer::from_lark(lark.clone()),
        })
    }
}

/// A schema whose white space is bounded, unless the client says otherwise.
fn bounded(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.entry("x-guidance").or_insert_with(|| json!({ "whitespace_pattern": WHITE_SPACE }));
    }
    schema
}

/// A literal of a Lark grammar.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
