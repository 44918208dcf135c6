//! What a plugin says about itself, checked once when it is loaded.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::bindings::meta;

/// A plugin's description.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plugin {
    /// The vendor family.
    pub name: String,
    /// Semantic version of the plugin.
    pub version: String,
    /// For people.
    pub description: String,
    /// The formats, at least one.
    pub formats: Vec<Descriptor>,
}

/// One format.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Descriptor {
    /// Unique within a registry.
    pub name: String,
    /// For people.
    pub description: String,
    /// Rows of the format catalogue.
    pub catalogue: Vec<String>,
    /// Names that other systems use: system, name.
    pub aliases: Vec<(String, String)>,
    /// Model families, for people.
    pub models: Vec<String>,
    /// What it can do.
    pub features: Features,
    /// How to recognise its models.
    pub hints: Vec<Hint>,
    /// Literal markers of the format.
    pub markers: Vec<String>,
    /// Texts of special tokens that the parser wants the ids of.
    pub special_tokens: Vec<String>,
    /// Stop strings to add to every request.
    pub stop_strings: Vec<String>,
    /// A renderer of the host.
    pub renderer: Option<String>,
    /// JSON Schema of the options.
    pub options_schema: Value,
    /// Anything else.
    pub extra: Value,
}

/// What a format can do and wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "mirrors the contract's flags")]
pub struct Features {
    /// Separates reasoning.
    pub reasoning: bool,
    /// Reads tool calls.
    pub tools: bool,
    /// Reads several calls in one message.
    pub parallel_tools: bool,
    /// Wants token ids.
    pub token_ids: bool,
    /// Must see special tokens as text.
    pub special_tokens: bool,
    /// Gives grammars.
    pub grammar: bool,
    /// Writes prompts.
    pub render: bool,
}

/// A rule by which a model is recognised, and how much it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// The rule.
    pub rule: HintRule,
    /// How much it counts.
    pub weight: u8,
}

/// A rule by which a model is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HintRule {
    /// Glob on the model's name, case-insensitive.
    Model(String),
    /// Entry of `architectures`, or `model_type`, of config.json.
    Architecture(String),
    /// Part of the chat template.
    Template(String),
    /// An added token of the tokenizer.
    Token(String),
}

/// What the component exports besides the parser.
pub(super) struct Faces {
    pub(super) grammar: bool,
    pub(super) render: bool,
}

/// Most formats of one plugin.
const MAX_FORMATS: usize = 256;

impl Plugin {
    /// Checks a description; the error says what is wrong with it.
    pub(super) fn check(plugin: meta::Plugin, faces: &Faces) -> Result<Self, String> {
        if !is_word(&plugin.name, b'-') {
            return Err(format!("the name {:?} is not made of a-z, 0-9 and '-'", plugin.name));
        }
        if let Err(error) = semver::Version::parse(&plugin.version) {
            return Err(format!("the version {:?} is not a semantic version: {error}", plugin.version));
        }
        if plugin.formats.is_empty() || plugin.formats.len() > MAX_FORMATS {
            return Err(format!("{} formats; 1 to {MAX_FORMATS} are allowed", plugin.formats.len()));
        }
        let mut names = BTreeSet::new();
        let mut formats = Vec::new();
        for format in plugin.formats {
            let name = format.name.clone();
            if !names.insert(name.clone()) {
                return Err(format!("format {name:?} is described twice"));
            }
            formats.push(Descriptor::check(format, faces).map_err(|error| format!("format {name:?}: {error}"))?);
        }
        Ok(Self { name: plugin.name, version: plugin.version, description: plugin.description, formats })
    }
}

impl Descriptor {
    fn check(format: meta::Descriptor, faces: &Faces) -> Result<Self, String> {
        if !is_word(&format.name, b'_') {
            return Err("the name is not made of a-z, 0-9 and '_'".to_owned());
        }
        let features = Features::from(format.features);
        for (claimed, exported, face) in
            [(features.grammar, faces.grammar, "grammar"), (features.render, faces.render, "render")]
        {
            if claimed && !exported {
                return Err(format!("it claims the feature {face}, and the component exports no such interface"));
            }
        }
        for (what, texts) in [
            ("marker", &format.markers),
            ("special token", &format.special_tokens),
            ("stop string", &format.stop_strings),
        ] {
            let mut seen = BTreeSet::new();
            for text in texts {
                if text.is_empty() {
                    return Err(format!("an empty {what}"));
                }
                if !seen.insert(text) {
                    return Err(format!("the {what} {text:?} is listed twice"));
                }
            }
        }
        if let Some(renderer) = format.renderer.as_deref().filter(|name| !is_word(name, b'-')) {
            return Err(format!("the renderer {renderer:?} is not made of a-z, 0-9 and '-'"));
        }
        Ok(Self {
            options_schema: object(&format.options_schema, "options-schema")?,
            extra: object(&format.extra, "extra")?,
            name: format.name,
            description: format.description,
            catalogue: format.catalogue,
            aliases: format.aliases.into_iter().map(|alias| (alias.system, alias.name)).collect(),
            models: format.models,
            features,
            hints: format.hints.into_iter().map(Hint::from).collect(),
            markers: format.markers,
            special_tokens: format.special_tokens,
            stop_strings: format.stop_strings,
            renderer: format.renderer,
        })
    }
}

impl From<meta::Features> for Features {
    fn from(flags: meta::Features) -> Self {
        let has = |flag| flags.contains(flag);
        Self {
            reasoning: has(meta::Features::REASONING),
            tools: has(meta::Features::TOOLS),
            parallel_tools: has(meta::Features::PARALLEL_TOOLS),
            token_ids: has(meta::Features::TOKEN_IDS),
            special_tokens: has(meta::Features::SPECIAL_TOKENS),
            grammar: has(meta::Features::GRAMMAR),
            render: has(meta::Features::RENDER),
        }
    }
}

impl From<meta::WeightedHint> for Hint {
    fn from(hint: meta::WeightedHint) -> Self {
        let rule = match hint.hint {
            meta::Hint::Model(glob) => HintRule::Model(glob),
            meta::Hint::Architecture(name) => HintRule::Architecture(name),
            meta::Hint::Template(text) => HintRule::Template(text),
            meta::Hint::Token(text) => HintRule::Token(text),
        };
        Self { rule, weight: hint.weight }
    }
}

fn is_word(text: &str, joint: u8) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == joint;
    !text.is_empty() && text.len() <= 64 && text.bytes().all(allowed)
}

fn object(text: &str, what: &str) -> Result<Value, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(format!("{what} is not a JSON object")),
        Err(error) => Err(format!("{what} is not JSON: {error}")),
    }
}
