//! The transfer protocol as two pure state machines, one for each end of a link; all input and output is explicit.
//!
//! ```text
//! sink (decode side)                source (prefill side)
//!   Start    ───────────────────────►  queue, compute
//!            ◄───────────────────────  Started
//!   reserve memory
//!   Grant    ───────────────────────►
//!            ◄───────────────────────  Page 0, Page 1, ... as they are computed
//!            ◄───────────────────────  Finish (with the first token)
//!   deliver to the decode role
//!   Ack      ───────────────────────►  free
//!
//!   Abort    ───────────────────────►  cancel, free            (at any moment)
//!   free     ◄───────────────────────  Closed
//! ```
//!
//! Rules that hold whatever the network does (messages late, twice, out of order; links that break; peers that die):
//!
//! 1. A transfer is one owned object with one key; a key's generation is never used twice on a link, and a retry is a
//!    new generation. A message whose key is not live is answered (`Abort`, `Closed`), never obeyed, and makes no state.
//! 2. Memory at the sink stays reserved from `Grant` until the source has promised to write no more (`Finish` with all
//!    pages, or `Closed`) or the link is gone; an abort by the client does not shorten that.
//! 3. Pages at the source stay pinned until `Ack`, `Abort` or the end of the link.
//! 4. A sequence is delivered once, after every page has arrived. Ends are final.
//!
//! `model` explores every interleaving, and again with each guarantee switched off in turn.

#[cfg(test)]
mod model;
mod sink;
mod source;

pub(crate) use sink::{Sink, SinkEffect};
pub(crate) use source::{Source, SourceEffect};

/// One attempt to transfer one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Minted by the side that asks: random, 63 bits, not zero. Names the request in both logs.
    pub(crate) room: u64,
    /// Grows with every attempt of every request on a link.
    pub(crate) generation: u64,
}

/// From the decode side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ToSource {
    /// Compute this sequence.
    Start,
    /// There is memory for its pages.
    Grant,
    /// Everything has arrived.
    Ack,
    /// Stop; answer with `Closed`.
    Abort,
}

/// From the prefill side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ToSink {
    /// It is being computed.
    Started,
    /// The content of a page.
    Page(u32),
    /// All pages have been sent; the first token and the state come with this.
    Finish,
    /// Nothing more will come for this key.
    Closed,
}

/// Guarantees that the model switches off one at a time, to see that it notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guarantee {
    /// A message acts only on the generation that it names.
    Generation,
    /// A generation that is not newer than the newest begins nothing.
    NoStaleStart,
    /// A message for a key that is not live is answered.
    AnswerUnknown,
    /// A sequence is delivered only when every page is there.
    CompleteBeforeDelivery,
    /// Reserved memory outlives an abort until the source has promised silence.
    PinUntilClosed,
    /// The end of a link ends its transfers.
    EndWithLink,
    /// A transfer that ended is forgotten: whatever comes for it later acts on nothing.
    EndsAreFinal,
    /// A page is written once.
    OneWriter,
    /// Nothing is written before there is memory for it.
    GrantBeforePages,
}

impl Guarantee {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 9] = [
        Self::Generation,
        Self::NoStaleStart,
        Self::AnswerUnknown,
        Self::CompleteBeforeDelivery,
        Self::PinUntilClosed,
        Self::EndWithLink,
        Self::EndsAreFinal,
        Self::OneWriter,
        Self::GrantBeforePages,
    ];
}

/// Guarantees in force: all of them, except in the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Guarantees {
    #[cfg(test)]
    without: Option<Guarantee>,
}

impl Guarantees {
    #[cfg(test)]
    pub(crate) fn without(guarantee: Guarantee) -> Self {
        Self { without: Some(guarantee) }
    }

    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "only the model switches guarantees off"))]
    pub(crate) fn hold(self, guarantee: Guarantee) -> bool {
        #[cfg(test)]
        return self.without != Some(guarantee);
        #[cfg(not(test))]
        {
            let _ = guarantee;
            true
        }
    }
}
