//! Limits and policies of the plugin host. The defaults are the measured recommendation.

use std::path::PathBuf;

use serde::Deserialize;

/// How streams share WebAssembly stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Up to `streams_per_store` streams of one plugin version share a store.
    #[default]
    Shared,
    /// Every stream has its own store: for plugins that nobody reviewed. About six times the cost of a push and
    /// 30 KiB a stream.
    Stream,
}

/// What the client sees when the plugin fails its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTrap {
    /// The stream ends with an error.
    #[default]
    Error,
    /// The text that the plugin had not answered for, and all later text, is passed on as content.
    Raw,
}

/// Settings of a [`super::Registry`]. Times are milliseconds, sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How streams share stores.
    pub isolation: Isolation,
    /// Most streams in one store when shared. Beyond 64 nothing is gained and a trap hits more neighbours.
    pub streams_per_store: usize,
    /// Most stores alive at once; a stream that would need one more is refused as overloaded. Each store costs four
    /// memory mappings of the 65,530 that Linux allows a process by default.
    pub max_stores: usize,
    /// Most memory of one store.
    pub memory_bytes: usize,
    /// Most CPU time of one push or finish.
    pub push_budget_ms: u64,
    /// Most CPU time of one describe, toolset, constrain, render, start-up or tear-down.
    pub call_budget_ms: u64,
    /// Longest text given to the guest at once; longer pushes are split at a code point.
    pub max_push_bytes: usize,
    /// Most text that a plugin may take without answering anything.
    pub max_held_bytes: usize,
    /// Most raw text kept of one stream for replay; a longer stream is not mended when a neighbour traps.
    pub max_replay_bytes: usize,
    /// Largest component file.
    pub max_component_bytes: usize,
    /// What the client sees when the plugin fails its stream.
    pub on_trap: OnTrap,
    /// More failed streams than this within `breaker_window_ms` open the breaker of a version.
    pub breaker_failures: usize,
    /// The window in which failed streams are counted.
    pub breaker_window_ms: u64,
    /// How long an opened breaker stays open the first time; doubles each time, up to 64-fold.
    pub breaker_backoff_ms: u64,
    /// How long a changed file must be still before it is read.
    pub settle_ms: u64,
    /// Where compiled components are kept between runs, so that a start costs no compilation; none: nowhere. Native code
    /// is loaded from it, so only the gateway's own user may write there. Set by the gateway, not by the file.
    #[serde(skip)]
    pub cache_dir: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            isolation: Isolation::Shared,
            streams_per_store: 64,
            max_stores: 8000,
            memory_bytes: 16 << 20,
            push_budget_ms: 20,
            call_budget_ms: 200,
            max_push_bytes: 64 << 10,
            max_held_bytes: 1 << 20,
            max_replay_bytes: 4 << 20,
            max_component_bytes: 32 << 20,
            on_trap: OnTrap::Error,
            breaker_failures: 3,
            breaker_window_ms: 60_000,
            breaker_backoff_ms: 1000,
            settle_ms: 50,
            cache_dir: None,
        }
    }
}

impl Settings {
    /// Streams that one store takes.
    pub(super) fn capacity(&self) -> usize {
        match self.isolation {
            Isolation::Shared => self.streams_per_store.max(1),
            Isolation::Stream => 1,
        }
    }
}
