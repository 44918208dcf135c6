//! Tests of text against golden prompts, hostile conversations and the tokenizer library itself.

mod deepseek;
mod detokenize;
mod fixtures;
mod segments;
mod stop;
mod template;
mod tokenizer;
