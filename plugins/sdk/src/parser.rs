//! A parser of one message: the format's machine, and before it the short way of what needs no machine.

use crate::event::{Step, StopCause, Tail};
use crate::machine::Machine;
use crate::run::Run;

/// Bytes of a run that are kept before the machine is told of them.
const PASSED: usize = 227;

/// Bytes in the words of a push.
#[cfg(target_arch = "wasm32")]
const BYTES: usize = 64;

/// A parser of one message. What a delta within a run reads and writes is two or three cache lines: thousands of messages are read at
/// once, and the machines, several lines each and scattered, would come from memory for each of their tokens.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Parser {
    run: Option<Run>,
    machine: Box<dyn Machine>,
    /// Bytes in `passed`.
    used: u8,
    /// What passed and the machine has not been told of.
    passed: [u8; PASSED],
}

impl Parser {
    /// A parser that runs on `machine`.
    pub fn new(machine: Box<dyn Machine>) -> Parser {
        Parser { run: machine.run(), machine, used: 0, passed: [0; PASSED] }
    }

    /// Reads a delta.
    #[inline]
    pub fn push(&mut self, text: &str) -> Step {
        if let Some(run) = &mut self.run
            && let Some(step) = run.step(text)
        {
            if run.is_kept() {
                self.keep(text);
            }
            return step;
        }
        self.ask(text, &[])
    }

    /// Like `push`, for a text of `length` bytes in words, little-endian; none if it has to be read as text.
    #[cfg(target_arch = "wasm32")]
    #[inline]
    pub(crate) fn push_words(&mut self, words: &[u64; 8], length: usize) -> Option<Step> {
        let run = self.run.as_ref()?;
        let step = run.step_words(words, length)?;
        if run.is_kept() {
            if usize::from(self.used) + BYTES > PASSED {
                self.make_room("");
            }
            let used = usize::from(self.used);
            // Whole words: no copy of theirs leaves the guest.
            let places = self.passed[used..].as_chunks_mut().0.iter_mut();
            for (place, word) in places.zip(words).take(length.div_ceil(8)) {
                *place = word.to_le_bytes();
            }
            self.used += length as u8;
        }
        Some(step)
    }

    /// Like `push`; `ids` are the tokens that `text` decodes to.
    pub fn push_tokens(&mut self, text: &str, ids: &[u32]) -> Step {
        if ids.is_empty() { self.push(text) } else { self.ask(text, ids) }
    }

    #[inline(never)]
    fn ask(&mut self, text: &str, ids: &[u32]) -> Step {
        self.settle();
        let step = if ids.is_empty() { self.machine.push(text) } else { self.machine.push_tokens(text, ids) };
        self.run = self.machine.run();
        step
    }

    #[inline]
    fn keep(&mut self, text: &str) {
        let used = usize::from(self.used);
        match self.passed.get_mut(used..used + text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                self.used += text.len() as u8;
            }
            None => self.make_room(text),
        }
    }

    /// Makes the machine know all that has passed.
    fn settle(&mut self) {
        self.tell("");
        if self.run.take().is_some_and(|run| run.is_cut()) {
            self.machine.cut();
        }
    }

    /// Tells the machine what has passed, and `text` behind it.
    fn tell(&mut self, text: &str) {
        let passed = &self.passed[..usize::from(std::mem::take(&mut self.used))];
        for piece in [std::str::from_utf8(passed).unwrap_or_default(), text] {
            if !piece.is_empty() {
                self.machine.passed(piece);
            }
        }
    }

    #[inline(never)]
    fn make_room(&mut self, text: &str) {
        self.tell(text);
        // The machine may have heard enough.
        self.run = self.run.and_then(|run| Some(self.machine.run()?.behind(&run)));
    }

    /// Bytes of text that are held back, to be read again with the next delta. Bounded, so that work is linear.
    pub fn held(&self) -> usize {
        self.machine.held()
    }

    /// Ends the message.
    pub fn finish(&mut self, cause: &StopCause) -> Tail {
        self.settle();
        self.machine.finish(cause)
    }
}
