//! What a format of messages with headers says about itself.

use crate::syntax::Request;

/// Where a body goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the user.
    Content,
    /// To the reasoning.
    Reasoning,
    /// Nowhere.
    Ignore,
    /// The body is the arguments of this call: function and id.
    Call(String, Option<String>),
    /// The body holds calls that the format's tool syntax reads.
    Calls,
}

/// Reads a header. `text` is what stands before the literal that begins the body, and `body` is that literal's place in
/// [`Channels::bodies`].
pub type RouteRule = fn(text: &str, body: usize, request: &Request) -> Route;

/// A format made of messages with headers.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// Literals that begin a header.
    pub starts: &'static [&'static str],
    /// Literals that end a header and begin the body.
    pub bodies: &'static [&'static str],
    /// Literals that end a body.
    pub ends: &'static [&'static str],
    /// Literals that mean nothing between messages.
    pub ignored: &'static [&'static str],
    /// How the output begins when the prompt already wrote the header's start. Text that begins otherwise, and not
    /// with one of the literals above, is content.
    pub headers: &'static [&'static str],
    /// See [`RouteRule`].
    pub route: RouteRule,
    /// The arguments of a [`Route::Call`] are not one JSON object but what the tool syntax reads.
    pub tagged: bool,
    /// Written between two bodies of the same channel.
    pub joint: &'static str,
    /// The output may begin with a declared function's name and a body literal, where the prompt already wrote what
    /// begins a header.
    pub names_first: bool,
    /// How a grammar writes messages.
    pub wire: ChannelWire,
}

/// How messages are written, of all the ways in which they are read.
#[derive(Clone, Copy, Debug)]
pub struct ChannelWire {
    /// Around the text of a reasoning message.
    pub reasoning: [&'static str; 2],
    /// Around the function's name in the header of a call; the second is a template (`~` is optional white space).
    pub call: [&'static str; 2],
    /// Behind a call.
    pub end: &'static str,
    /// Before a message that is not the first.
    pub next: &'static str,
    /// What shows that a call begins, if the model is free to call: one of `call`, or what a body begins with. Empty:
    /// nothing does.
    pub trigger: &'static str,
    /// The header of a message to the user, where there is no `trigger`.
    pub content: &'static str,
    /// Recipients that are no tools.
    pub reserved: &'static [&'static str],
}
