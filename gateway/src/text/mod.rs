//! Text and tokens: chat templates, tokenizer, detokenizer, stop strings.

mod controls;
mod deepseek;
mod detokenize;
mod mask;
mod prompt;
mod stop;
mod template;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocabulary;

pub use controls::Controls;
pub use deepseek::DeepSeek;
pub use detokenize::Detokenizer;
pub use prompt::Prompt;
pub use stop::{StopScanner, StopStrings};
pub use template::{ChatTemplate, TemplateError};
pub use tokenizer::{SpecialTokens, Tokenizer, TokenizerError};
pub use vocabulary::Vocabulary;
