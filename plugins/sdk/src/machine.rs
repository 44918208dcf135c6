//! What a parser of one message does, whatever the format.

use std::fmt;

use crate::event::{Step, StopCause, Tail};
use crate::run::Run;

/// One streamed message.
pub trait Machine: fmt::Debug {
    /// Reads a delta.
    fn push(&mut self, text: &str) -> Step;
    /// Like `push`, for formats that work on token ids.
    fn push_tokens(&mut self, text: &str, ids: &[u32]) -> Step {
        let _ = ids;
        self.push(text)
    }
    /// The run that the text is in, until the next push. Nothing is held back then.
    fn run(&self) -> Option<Run> {
        None
    }
    /// `text` was part of the run, as one delta or several, and has gone out.
    fn passed(&mut self, text: &str) {
        let _ = text;
    }
    /// What passed ended within an escape of a string: its backslash has gone out.
    fn cut(&mut self) {}
    /// Bytes of text that are held back, to be read again with the next delta. Bounded, so that work is linear.
    fn held(&self) -> usize;
    /// Ends the message.
    fn finish(&mut self, cause: &StopCause) -> Tail;
}
