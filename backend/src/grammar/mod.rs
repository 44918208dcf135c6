//! Grammars at the engine's door: they say which tokens may come next. How they are written is the caller's business.
//!
//! A mask takes tens of microseconds to milliseconds, so it is computed on threads of its own while the engine does
//! something else. A sequence whose mask is not ready is left out of a step; the others do not wait for it.

mod guide;
mod pool;

pub(crate) use guide::Guide;
pub(crate) use pool::MaskPool;

use std::fmt::Debug;
use std::sync::Arc;

use crate::exec::TokenMask;

/// A compiled grammar; cheap to share.
pub trait Grammar: Debug + Send + Sync {
    /// A matcher for one generation, before its first token.
    fn matcher(&self) -> Box<dyn Matcher>;
    /// What it was compiled from, for a process that compiles it anew for the same model. None: it can't be sent.
    fn source(&self) -> Option<Arc<str>> {
        None
    }
}

/// A token of a text that must come.
#[derive(Clone, Debug)]
pub struct Forced {
    /// The token.
    pub token: u32,
    /// What may come after it; none: any.
    pub mask: Option<TokenMask>,
}

/// One generation's place in its grammar.
pub trait Matcher: Debug + Send {
    /// Takes the token that was generated. Stop tokens are never given.
    ///
    /// # Errors
    /// The grammar can't be followed any further, and why.
    fn accept(&mut self, token: u32) -> Result<(), String>;

    /// The tokens that may come next, the request's stop ids among them where the text may end; none: any.
    ///
    /// # Errors
    /// The grammar can't be followed any further, and why.
    fn mask(&mut self) -> Result<Option<TokenMask>, String>;

    /// Where only one text can come next: tokens that spell it, `most` at most, each with the mask behind it. The model may cut the
    /// same text into other tokens, so this is a guess, and the matcher stays where it is.
    fn forced(&mut self, _most: usize) -> Vec<Forced> {
        Vec::new()
    }
}
