//! Why a plugin was refused, and why a stream failed.

use std::time::Duration;

use crate::error::{Error, Kind};

/// A component that was not taken into service. Whatever served before goes on serving.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin:?} refused: {reason}")]
pub struct Refused {
    /// Name that it was loaded under.
    pub plugin: String,
    /// What is wrong.
    pub reason: RefusedReason,
}

/// What is wrong with a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedReason {
    /// The name is not usable as a file name.
    #[error("the name must be 1 to 64 characters of a-z, 0-9, '-', '_' and start with a letter or digit")]
    Name,
    /// The file could not be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// Which file or folder.
        path: String,
        /// The system's words.
        error: String,
    },
    /// The file is larger than the limit.
    #[error("the component has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Not a valid WebAssembly component.
    #[error("not a valid WebAssembly component: {0}")]
    Invalid(String),
    /// It wants something from the host.
    #[error("a plugin may import nothing, this one imports {}", .0.join(", "))]
    Imports(Vec<String>),
    /// It lacks an interface.
    #[error("it does not export sluicegate:format/{missing}@0.1; it exports {}", list(.exports))]
    World {
        /// The first missing interface.
        missing: &'static str,
        /// What it exports.
        exports: Vec<String>,
    },
    /// An interface has the right name and wrong types.
    #[error("its interface {interface} does not have the types of sluicegate:format@0.1: {error}")]
    Types {
        /// Which interface.
        interface: &'static str,
        /// Where they differ.
        error: String,
    },
    /// It failed while starting or answering `describe`.
    #[error("it failed in {call}: {error}")]
    Failed {
        /// Which call.
        call: &'static str,
        /// How.
        error: String,
    },
    /// What it says about itself is wrong.
    #[error("its description is wrong: {0}")]
    Description(String),
    /// Another plugin serves one of its formats.
    #[error("format {format:?} is already served by plugin {owner:?}")]
    Taken {
        /// The format.
        format: String,
        /// Who serves it.
        owner: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Why a stream, or a call outside a stream, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// No loaded plugin has this format.
    #[error("no loaded plugin has the format {0:?}")]
    UnknownFormat(String),
    /// The guest trapped, ran out of time or memory, or returned too much.
    #[error("plugin {plugin} {version}, format {format}: {cause} in {call}")]
    Failed {
        /// Plugin name.
        plugin: String,
        /// Plugin version.
        version: String,
        /// Format name.
        format: String,
        /// Which call.
        call: &'static str,
        /// What happened.
        cause: Cause,
    },
    /// The guest answered, but what it answered breaks the contract.
    #[error("plugin {plugin} {version}, format {format} broke its contract: {rule}")]
    Contract {
        /// Plugin name.
        plugin: String,
        /// Plugin version.
        version: String,
        /// Format name.
        format: String,
        /// Which rule.
        rule: String,
    },
    /// A neighbour's failure ended the store, and this stream could not be replayed to where it was.
    #[error("plugin {plugin} {version}, format {format}: the stream could not be replayed: {reason}")]
    Replay {
        /// Plugin name.
        plugin: String,
        /// Plugin version.
        version: String,
        /// Format name.
        format: String,
        /// Why.
        reason: String,
    },
    /// The plugin lacks this face (grammar or render).
    #[error("format {format} of plugin {plugin} has no {face}")]
    NoFace {
        /// Plugin name.
        plugin: String,
        /// Format name.
        format: String,
        /// Which interface.
        face: &'static str,
    },
    /// The plugin refused the input of `constrain` or `render`, in its words.
    #[error("format {format} cannot do this: {message}")]
    Unsupported {
        /// Format name.
        format: String,
        /// The plugin's words.
        message: String,
    },
    /// No store is free.
    #[error("all {0} plugin stores are in use; retry later")]
    Exhausted(usize),
    /// The stream has failed or ended before.
    #[error("the stream has already ended")]
    Ended,
}

/// How a guest failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// It used up its time.
    #[error("time limit exceeded")]
    Time,
    /// It asked for more memory than it may have.
    #[error("memory limit exceeded")]
    Memory,
    /// It returned more than it may.
    #[error("output limit exceeded")]
    Output,
    /// It trapped: a panic, an out-of-bounds access, a stack overflow...
    #[error("trap")]
    Trap,
    /// It returned something that is not a value of the declared type (bad UTF-8, a wrong case number).
    #[error("invalid value returned")]
    Value,
}

impl From<PluginError> for Error {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Exhausted(_) => {
                Self::new(Kind::Overloaded, error.to_string()).retry_after(Duration::from_secs(1))
            }
            PluginError::Unsupported { .. } => Self::new(Kind::BadRequest, error.to_string()),
            _ => Self::new(Kind::Plugin, error.to_string()).code("plugin_failed"),
        }
    }
}
