//! The configuration file as types. Unknown keys are refused, and every error names its line and key.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

mod admin;
mod engine;
mod model;
mod numbers;
mod plugins;
mod seconds;
mod server;
mod tenant;
#[cfg(test)]
mod tests;

pub use admin::Admin;
pub use engine::{Engine, SpeculativeConfig, SpeculativeMethod};
pub use model::{Model, Native, Replay, Thinking, Upstream, Workers};
pub use numbers::{Arithmetic, IndexDtype, KvDtype, Numbers, Nvfp4Gemm};
pub use plugins::Plugins;
pub use server::{Limits, LogFormat, Server};
pub use tenant::Tenant;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Public listener.
    pub server: Server,
    /// Operators' listener.
    pub admin: Admin,
    /// Time and size limits of one request or connection.
    pub limits: Limits,
    /// Who may ask. Empty: one tenant whose key is made on the first run.
    #[serde(rename = "tenant")]
    pub tenants: Vec<Tenant>,
    /// What may be asked for.
    #[serde(rename = "model")]
    pub models: Vec<Model>,
    /// Format plugins.
    pub plugins: Plugins,
    /// The native engine.
    pub engine: Engine,
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or a key is unknown, or a value has the wrong type.
    #[error("{path}:{line}: {key}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Path of the key, as far as it was understood.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// Every value is well-formed, but they don't fit together.
    #[error("{path}: {key}: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Path of the key.
        key: String,
        /// What is wrong and what to do.
        message: String,
    },
}

/// A rule that a value breaks: the key, and what to do.
type Broken = (String, String);

impl Config {
    /// Reads and checks a file. Relative paths in it are taken from the file's folder.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let base = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::parse(&text, path, base)
    }

    /// Parses and checks `text`; `path` is for messages, `base` is where relative paths start.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(text: &str, path: &Path, base: &Path) -> Result<Self, ConfigError> {
        let located = |error: &toml::de::Error, key: String| ConfigError::Parse {
            path: path.to_owned(),
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            key,
            message: error.message().to_owned(),
        };
        let document = toml::Deserializer::parse(text).map_err(|e| located(&e, "syntax".to_owned()))?;
        let mut config: Self =
            serde_path_to_error::deserialize(document).map_err(|e| located(e.inner(), e.path().to_string()))?;
        config.resolve(base);
        config.validate().map_err(|(key, message)| ConfigError::Invalid { path: path.to_owned(), key, message })?;
        Ok(config)
    }

    /// Takes the command line's address and port in place of the file's.
    ///
    /// # Errors
    /// The address is not allowed with the other settings.
    pub fn listen_on(&mut self, host: Option<IpAddr>, port: Option<u16>) -> anyhow::Result<()> {
        let listen = &mut self.server.listen;
        listen.set_ip(host.unwrap_or(listen.ip()));
        listen.set_port(port.unwrap_or(listen.port()));
        self.server.validate().map_err(|(key, message)| anyhow::anyhow!("{key}: {message}"))
    }

    /// Makes relative paths absolute from the file's folder.
    fn resolve(&mut self, base: &Path) {
        let at_base = |path: &mut PathBuf| *path = base.join(&*path);
        let server = &mut self.server;
        [&mut server.ssl_certfile, &mut server.ssl_keyfile].into_iter().flatten().for_each(at_base);
        at_base(&mut server.state_dir);
        at_base(&mut self.plugins.dir);
        self.plugins.cache_dir.iter_mut().for_each(at_base);
        self.engine.tuned_config_folder.iter_mut().for_each(at_base);
        for model in &mut self.models {
            model.paths().into_iter().for_each(at_base);
        }
    }

    /// Checks the rules that types can't express.
    fn validate(&self) -> Result<(), Broken> {
        self.server.validate()?;
        self.admin.validate()?;
        self.limits.validate()?;
        tenant::validate(&self.tenants)?;
        model::validate(&self.models)?;
        let known = |name: &String| name == "*" || self.models.iter().any(|m| m.answers_to(name));
        for (i, tenant) in self.tenants.iter().enumerate() {
            if let Some(name) = tenant.models.iter().find(|name| !known(name)) {
                return Err((format!("tenant[{i}].models"), format!("no [[model]] is named \"{name}\"")));
            }
        }
        self.engine.validate()
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
}

/// `Ok` when `holds`, else the broken rule.
fn require(holds: bool, key: impl Into<String>, message: impl Into<String>) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((key.into(), message.into())) }
}

/// An address to connect to, which one that is only good for listening is not.
fn require_reachable(address: SocketAddr, key: impl Into<String>) -> Result<(), Broken> {
    let reachable = !address.ip().is_unspecified() && address.port() != 0;
    require(reachable, key, format!("nobody can be reached at {address}; name the worker's own address and port"))
}
