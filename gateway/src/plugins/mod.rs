//! Runs format plugins: WebAssembly components that turn one model family's output into events.
//!
//! A [`Registry`] holds what is loaded. A request pins a format's version ([`Registry::pin`]), opens a [`Stream`] for
//! each choice, pushes text and gets [`Event`]s. Replacing a plugin never touches streams in flight: they keep their
//! version, and it is freed with the last of them.
//!
//! Guests import nothing and are bounded in time, memory and output. Up to 64 streams share a store; a guest that
//! fails takes its store with it. The stream that failed is tried once more alone, its neighbours are replayed into
//! another store and go on where they were.
//!
//! This is the only place that knows wasmtime.

mod arguments;
mod ask;
mod bindings;
mod breaker;
mod brief;
mod candidate;
mod descriptor;
mod error;
mod escape;
mod event;
#[cfg(test)]
mod faces;
mod folder;
mod growing;
mod guest;
mod host;
mod ledger;
mod lower;
mod pinned;
mod record;
mod registry;
mod settings;
mod slot;
mod status;
mod stream;
mod tools;
mod version;

pub use descriptor::{Descriptor, Features, Hint, HintRule, Plugin};
pub use error::{Cause, PluginError, Refused, RefusedReason};
pub use event::{Event, Events, StopCause, StreamConfig, Tail};
pub use folder::Watch;
pub use host::Totals;
pub use pinned::{Constraint, GrammarInput, Piece, Pinned, RenderInput, Start};
pub use registry::Registry;
pub use settings::{Isolation, OnTrap, Settings};
pub use status::{LoadReport, Refusal, Status, VersionState, VersionStatus};
pub use stream::Stream;
pub use tools::ToolSet;
