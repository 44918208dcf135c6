//! What a parser is told about the request it serves.

/// What the request asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No calls: markup is text.
    None,
    /// At least one call.
    Required,
    /// This function.
    Named(String),
}

/// Whether the model thinks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningMode {
    /// Whatever the model's template does.
    #[default]
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}

/// A special token as the model's tokenizer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialToken {
    /// Its text.
    pub text: String,
    /// Its id, if the tokenizer has it.
    pub id: Option<u32>,
}

/// Everything a parser knows before the first delta.
///
/// Where generation begins is read from `prompt_tail` when the host has one: a tail that ends with the format's
/// reasoning opener means "inside reasoning". With an empty tail (tests, replay) `reasoning` decides: `On` means
/// that the prompt already opened the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParserConfig {
    /// A name that the plugin describes.
    pub format: String,
    /// The served model.
    pub model: String,
    /// See [`ToolChoice`].
    pub tool_choice: ToolChoice,
    /// Several calls allowed.
    pub parallel_tools: bool,
    /// See [`ReasoningMode`].
    pub reasoning: ReasoningMode,
    /// The end of the rendered prompt (at most 256 bytes).
    pub prompt_tail: String,
    /// Tool calls already in the conversation.
    pub history_calls: u32,
    /// One entry for each special token of the format, same order.
    pub special_tokens: Vec<SpecialToken>,
    /// Operator's settings, JSON.
    pub options: String,
}
