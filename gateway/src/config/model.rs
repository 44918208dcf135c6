//! `[[model]]`: a route, from a model name to a format and an upstream.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Broken, require, require_reachable};
use crate::generate::Malformed;
use crate::route::Show;

/// One `[[model]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name that clients ask for.
    pub name: String,
    /// Further names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Format that writes and reads this model's language, as a plugin exports it; `auto` chooses by the model's name,
    /// architecture, vocabulary and chat template. Absent: plain text.
    pub format: Option<String>,
    /// Options of the format; each format documents its own.
    #[serde(default)]
    pub format_options: serde_json::Map<String, serde_json::Value>,
    /// Who generates.
    pub upstream: Upstream,
    /// Jinja chat template, in place of the one in the model's folder.
    pub chat_template: Option<PathBuf>,
    /// `chat_template_kwargs` for requests that give none of that name.
    #[serde(default)]
    pub default_chat_template_kwargs: serde_json::Map<String, serde_json::Value>,
    /// Whether the model reasons when the request doesn't say.
    #[serde(default)]
    pub reasoning: Thinking,
    /// What clients see of a tool call that the model wrote wrongly: `drop` (operators see a log line) or `content`.
    #[serde(default)]
    pub malformed_tool_calls: Malformed,
    /// A call of a tool that the request does not declare: `pass` it on or `hide` it.
    #[serde(default)]
    pub undeclared_tools: Show,
    /// Longest sequence, prompt and output; absent: the model's own limit.
    pub max_model_len: Option<u32>,
    /// Output limit for requests that give none; absent: what the context leaves.
    pub default_max_tokens: Option<u32>,
}

/// `model.reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// Whatever the template does.
    #[default]
    Auto,
    /// On.
    On,
    /// Off.
    Off,
}

/// `model.upstream`: exactly one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Upstream {
    /// The engine in this process.
    Native(Native),
    /// Engines in other processes.
    Workers(Workers),
    /// A recorded stream, played as if an engine produced it.
    Replay(Replay),
}

/// `model.upstream.native`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// Model folder, as `sluicegate import` writes it.
    pub dir: PathBuf,
}

/// `model.upstream.workers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    /// Model folder, for tokenizer and template; the workers load the same one.
    pub dir: PathBuf,
    /// Where the `sluicegate engine` processes listen. Their roles they say themselves.
    pub addresses: Vec<SocketAddr>,
    /// File with the secret that they have too.
    pub secret_file: PathBuf,
    /// Milliseconds after which a worker that says nothing is lost.
    #[serde(default = "silence")]
    pub silence_ms: u64,
    /// Milliseconds that one step of a worker's engine may take before the worker counts as stuck.
    #[serde(default = "step_limit")]
    pub step_limit_ms: u64,
    /// Milliseconds that a request waits for workers to come up.
    #[serde(default = "patience")]
    pub patience_ms: u64,
}

fn silence() -> u64 {
    2_000
}

fn step_limit() -> u64 {
    60_000
}

fn patience() -> u64 {
    2_000
}

/// `model.upstream.replay`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// JSON lines.
    pub file: PathBuf,
    /// Model folder whose tokenizer counts and encodes; absent: tokens are counted as deltas.
    pub tokenizer: Option<PathBuf>,
    /// Divides every recorded delay; 0 plays without delays.
    #[serde(default = "unit")]
    pub speed: f64,
}

fn unit() -> f64 {
    1.0
}

impl Model {
    /// Whether clients may call it `name`.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Every path in the entry.
    pub(super) fn paths(&mut self) -> Vec<&mut PathBuf> {
        let mut paths: Vec<_> = self.chat_template.iter_mut().collect();
        match &mut self.upstream {
            Upstream::Native(native) => paths.push(&mut native.dir),
            Upstream::Workers(workers) => paths.extend([&mut workers.dir, &mut workers.secret_file]),
            Upstream::Replay(replay) => {
                paths.push(&mut replay.file);
                paths.extend(&mut replay.tokenizer);
            }
        }
        paths
    }
}

impl Workers {
    fn validate(&self, at: &dyn Fn(&str) -> String) -> Result<(), Broken> {
        let addresses = &self.addresses;
        require(!addresses.is_empty(), at("upstream.workers.addresses"), "must name at least one worker")?;
        for (i, address) in addresses.iter().enumerate() {
            let key = || at(&format!("upstream.workers.addresses[{i}]"));
            require_reachable(*address, key())?;
            require(!addresses[..i].contains(address), key(), format!("{address} is named twice"))?;
        }
        require(self.silence_ms >= 500, at("upstream.workers.silence_ms"), "must be at least 500")?;
        require(self.step_limit_ms >= 1000, at("upstream.workers.step_limit_ms"), "must be at least 1000")
    }
}

pub(super) fn validate(models: &[Model]) -> Result<(), Broken> {
    for (i, model) in models.iter().enumerate() {
        let at = |key: &str| format!("model[{i}].{key}");
        for name in std::iter::once(&model.name).chain(&model.aliases) {
            let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
            require(plain, at("name"), format!("\"{name}\" must be printable ASCII without spaces"))?;
            let taken = models[..i].iter().any(|m| m.answers_to(name));
            require(!taken, at("name"), format!("\"{name}\" is already the name of another model"))?;
        }
        require(model.max_model_len != Some(0), at("max_model_len"), "must be at least 1")?;
        require(model.default_max_tokens != Some(0), at("default_max_tokens"), "must be at least 1")?;
        if let Upstream::Workers(workers) = &model.upstream {
            workers.validate(&at)?;
        }
        if let Upstream::Replay(replay) = &model.upstream {
            let holds = replay.speed.is_finite() && replay.speed >= 0.0;
            require(holds, at("upstream.replay.speed"), "must be 0 or more")?;
        }
    }
    Ok(())
}
