//! One message through a parser, in every chunking of a few: for tests of single behaviours.

use std::sync::Arc;

use serde_json::Value;
use sluicegate_sdk::config::ParserConfig;
use sluicegate_sdk::event::StopCause;
use sluicegate_sdk::format::Plugin;

use crate::assemble::{Message, run};
use crate::{chunking, tools};

/// What `text` is read as, ended by the model; panics if the cut matters or a law breaks.
pub fn read(plugin: &Plugin, config: &ParserConfig, declared: &Value, text: &str) -> Message {
    let set = Arc::new(tools::digest(declared));
    let parse = |chunks: &[&str]| run(plugin, config, &set, chunks, &StopCause::Eos(None)).expect("a lawful stream");
    let whole = parse(&chunking::whole(text));
    for chunks in chunking::halves(text, usize::MAX).chain([chunking::points(text)]) {
        assert_eq!(parse(&chunks), whole, "in chunks {chunks:?}");
    }
    whole
}

/// The calls of a message as name and arguments.
pub fn calls(message: &Message) -> Vec<(&str, &str)> {
    message.ended().map(|c| (c.name.as_str(), c.arguments.as_str())).collect()
}
