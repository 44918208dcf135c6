//! What a plugin says about itself: the descriptor records of `wit/format.wit`.

/// What a format can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Splits reasoning from content.
    pub reasoning: bool,
    /// Reads tool calls.
    pub tools: bool,
    /// Several calls a message.
    pub parallel_tools: bool,
    /// Wants `push-tokens`.
    pub token_ids: bool,
    /// Must see special tokens as text.
    pub special_tokens: bool,
    /// Has grammars.
    pub grammar: bool,
    /// Renders prompts.
    pub render: bool,
}

/// A rule by which the gateway guesses the format of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Glob on the served model name, case-insensitive.
    Model(&'static str),
    /// `architectures[]` or `model_type` of config.json.
    Architecture(&'static str),
    /// Substring of the chat template.
    Template(&'static str),
    /// Text of an added token.
    Token(&'static str),
}

/// Everything the gateway and people learn about one format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// `[a-z0-9_]+`, the field's spelling.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// Rows of the format catalogue: "X19", "R4".
    pub catalogue: Vec<String>,
    /// (system, name) under which others know it.
    pub aliases: Vec<(String, String)>,
    /// Model families.
    pub models: Vec<String>,
    /// What it can do.
    pub features: Features,
    /// Detection rules with weights.
    pub hints: Vec<(Hint, u8)>,
    /// Literals that the parser looks for.
    pub markers: Vec<String>,
    /// Special tokens that the parser acts on.
    pub special_tokens: Vec<String>,
    /// Stop strings to add to every request.
    pub stop_strings: Vec<String>,
    /// A renderer in the host.
    pub renderer: Option<String>,
    /// JSON Schema of the options.
    pub options_schema: String,
    /// Why calls have no grammar; empty if they have, or if there are no calls.
    pub no_grammar: String,
}

/// Options that every format has.
pub const OPTIONS_SCHEMA: &str = r#"{"type":"object","properties":{"after_calls":{"enum":["drop","content"],"default":"drop","description":"What becomes of text that follows a tool call"}},"additionalProperties":false}"#;
