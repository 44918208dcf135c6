//! A configuration for one test, as the TOML that an operator would write.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::paths;

/// Key of the tenant `main`, which has no limits.
pub const API_KEY: &str = "sk-e2e-main";
/// Key of the operator.
pub const ADMIN_KEY: &str = "sk-e2e-admin";

/// SHA-256 of [`API_KEY`].
const API_KEY_SHA256: &str = "3e08fc2b6e46feeed55d18f07430d09ae5cb9a8beb865068eebe4d69e8d0c613";
/// SHA-256 of [`ADMIN_KEY`].
const ADMIN_KEY_SHA256: &str = "074dac4fbc4e3ad5e1c5cff33fbea25259e6ea88a19093428aafea1c30989166";

/// A tenant besides `main`.
#[derive(Debug)]
pub struct Tenant {
    /// Name.
    pub name: &'static str,
    /// SHA-256 of its key.
    pub key_sha256: &'static str,
    /// Further keys of its table, as TOML lines.
    pub limits: &'static str,
}

/// A route.
#[derive(Debug)]
pub struct Model {
    name: &'static str,
    format: Option<&'static str>,
    template: Option<&'static str>,
    upstream: Upstream,
}

#[derive(Debug)]
enum Upstream {
    Native(PathBuf),
    Workers { dir: PathBuf, addresses: Vec<SocketAddr>, secret: PathBuf },
    Replay { lines: Vec<Value>, speed: f64 },
}

impl Model {
    /// A model folder in the native engine.
    #[must_use]
    pub fn native(name: &'static str, folder: PathBuf) -> Self {
        Self { name, format: None, template: None, upstream: Upstream::Native(folder) }
    }

    /// A model folder that worker processes serve.
    #[must_use]
    pub fn workers(name: &'static str, dir: PathBuf, addresses: Vec<SocketAddr>, secret: PathBuf) -> Self {
        Self { name, format: None, template: None, upstream: Upstream::Workers { dir, addresses, secret } }
    }

    /// Recordings, played at their own pace.
    #[must_use]
    pub fn replay(name: &'static str, lines: Vec<Value>) -> Self {
        Self { name, format: None, template: None, upstream: Upstream::Replay { lines, speed: 1.0 } }
    }

    /// A chat template in place of the folder's own.
    #[must_use]
    pub fn template(self, template: &'static str) -> Self {
        Self { template: Some(template), ..self }
    }

    /// The format that reads it.
    #[must_use]
    pub fn format(self, format: &'static str) -> Self {
        Self { format: Some(format), ..self }
    }
}

/// The lines of one recording: `deltas` with `delay_ms` before each, then a normal end. `marker` selects it by the text
/// of the last user message.
#[must_use]
pub fn recording(name: &str, marker: Option<&str>, delay_ms: f64, deltas: &[&str]) -> Vec<Value> {
    let mut header = json!({"recording": name, "prompt_tokens": 7});
    if let Some(marker) = marker {
        header["match"] = marker.into();
    }
    let mut lines = vec![header];
    lines.extend(deltas.iter().map(|text| json!({"text": text, "delay_ms": delay_ms})));
    lines.push(json!({"finish": "stop"}));
    lines
}

/// What a test's server serves.
#[derive(Debug, Default)]
pub struct Config {
    models: Vec<Model>,
    tenants: Vec<Tenant>,
    components: Vec<PathBuf>,
    extra: String,
}

impl Config {
    /// No models, no plugins, the tenant `main`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route.
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.models.push(model);
        self
    }

    /// Adds a tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: Tenant) -> Self {
        self.tenants.push(tenant);
        self
    }

    /// Puts a component into the plugin folder.
    #[must_use]
    pub fn component(mut self, path: PathBuf) -> Self {
        self.components.push(path);
        self
    }

    /// Adds tables, as TOML.
    #[must_use]
    pub fn extra(mut self, toml: &str) -> Self {
        self.extra.push_str(toml);
        self
    }

    /// Writes the configuration and what it names below `folder`; returns its path.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf> {
        let plugins = folder.join("plugins");
        std::fs::create_dir(&plugins)?;
        for component in &self.components {
            std::fs::copy(component, plugins.join(component.file_name().unwrap_or_default()))?;
        }
        let mut toml = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\nkey_sha256 = \"{ADMIN_KEY_SHA256}\"\n\n\
             [plugins]\ncache_dir = \"{}\"\n\n[[tenant]]\nname = \"main\"\nkey_sha256 = [\"{API_KEY_SHA256}\"]\n\n",
            paths::compiled_plugins().display()
        );
        for Tenant { name, key_sha256, limits } in &self.tenants {
            writeln!(toml, "[[tenant]]\nname = \"{name}\"\nkey_sha256 = [\"{key_sha256}\"]\n{limits}\n")?;
        }
        for model in &self.models {
            model.write(&mut toml, folder)?;
        }
        toml.push_str(&self.extra);
        let path = folder.join("config.toml");
        std::fs::write(&path, toml)?;
        Ok(path)
    }
}

impl Model {
    fn write(&self, toml: &mut String, folder: &Path) -> Result<()> {
        let name = self.name;
        writeln!(toml, "[[model]]\nname = \"{name}\"")?;
        if let Some(format) = self.format {
            writeln!(toml, "format = \"{format}\"")?;
        }
        if let Some(template) = self.template {
            std::fs::write(folder.join(format!("{name}.jinja")), template)?;
            writeln!(toml, "chat_template = \"{name}.jinja\"")?;
        }
        match &self.upstream {
            Upstream::Workers { dir, addresses, secret } => {
                let addresses: Vec<String> = addresses.iter().map(|a| format!("\"{a}\"")).collect();
                writeln!(toml, "upstream.workers.dir = \"{}\"", dir.display())?;
                writeln!(toml, "upstream.workers.addresses = [{}]", addresses.join(", "))?;
                writeln!(toml, "upstream.workers.secret_file = \"{}\"\n", secret.display())?;
            }
            Upstream::Native(dir) => writeln!(toml, "upstream.native.dir = \"{}\"\n", dir.display())?,
            Upstream::Replay { lines, speed } => {
                let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
                std::fs::write(folder.join(format!("{name}.jsonl")), lines.join("\n"))?;
                writeln!(toml, "upstream.replay.file = \"{name}.jsonl\"\nupstream.replay.speed = {speed:?}\n")?;
            }
        }
        Ok(())
    }
}
