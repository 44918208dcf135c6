//! The border between the text machine and the engines that read tool calls.

use std::fmt;
use std::sync::Arc;

use crate::config::{ParserConfig, ToolChoice};
use crate::emit::Emitter;
use crate::run::Run;
use crate::tools::ToolSet;

/// What engines may know about the request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The declared tools.
    pub tools: Arc<ToolSet>,
    /// Tool calls already in the conversation, for ids that count them.
    pub history_calls: u32,
    /// The function that the request wants called.
    pub named: Option<String>,
}

impl Request {
    /// What a parser's configuration says of the request.
    pub fn new(config: &ParserConfig, tools: Arc<ToolSet>) -> Request {
        let named = match &config.tool_choice {
            ToolChoice::Named(name) => Some(name.clone()),
            _ => None,
        };
        Request { tools, history_calls: config.history_calls, named }
    }
}

/// Where an opener counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere in text.
    Anywhere,
    /// Only as the first thing of the answer.
    Start,
}

/// Makes an id where the format prescribes its shape: the request, the function's name, the call's index.
pub type IdRule = fn(&Request, &str, u32) -> String;

/// A literal that may begin a block of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener {
    /// The literal.
    pub text: String,
    /// Where it counts.
    pub place: Place,
}

/// What an engine says about text that begins with one of its openers.
#[derive(Debug)]
pub enum Enter {
    /// More text is needed to tell.
    Hold,
    /// It is text after all.
    Text,
    /// A block: that many bytes are read, the reader takes what follows.
    Calls(usize, Box<dyn Reader>),
}

/// How far a reader came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// That many bytes are read; the rest is held until more text comes.
    More(usize),
    /// That many bytes are read and the block is over.
    Over(usize),
    /// That many bytes are read, and it was no block: this is text.
    Text(usize, String),
}

/// How a format writes tool calls, compiled for parsing.
pub trait Syntax: fmt::Debug + Send + Sync {
    /// The literals that may begin calls.
    fn openers(&self) -> Vec<Opener>;
    /// Judges `input`, which begins with opener number `opener`. With `last`, no more text comes.
    fn enter(&self, opener: usize, input: &str, last: bool, request: &Request) -> Enter;
    /// A reader for a text that is known to hold calls, such as the body of a message. `named`: a header already gave
    /// the function, and the text is its arguments.
    fn body(&self, named: Option<&str>) -> Option<Box<dyn Reader>>;
    /// Every literal that the engine looks for, for descriptors.
    fn markers(&self) -> Vec<String>;
}

/// Reads one block of calls. What it returns depends on the text alone, never on how it was cut.
pub trait Reader: fmt::Debug {
    /// Reads on. `input` begins with what the last call left unread.
    fn read(&mut self, input: &str, last: bool, request: &Request, out: &mut Emitter) -> Read;
    /// The run of arguments that the text is in, if nothing is held back; see [`Machine::run`](crate::stream::Machine::run).
    fn run(&self) -> Option<Run> {
        None
    }
    /// `text` was part of the run, as one delta or several, and has gone out.
    fn passed(&mut self, text: &str) {
        let _ = text;
    }
    /// What passed ended within an escape; see [`Machine::cut`](crate::stream::Machine::cut).
    fn cut(&mut self) {}
    /// The message ends inside the block; `stopped` if the model ended it itself. Text returned is content.
    fn finish(&mut self, stopped: bool, request: &Request, out: &mut Emitter) -> Option<String>;
}
