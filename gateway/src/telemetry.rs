//! Log lines: where they go and how they look.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, Server};

/// Sends log lines to standard error. `RUST_LOG` has precedence over the configuration's filter.
///
/// # Errors
/// The filter is not one, or log lines go somewhere already.
pub fn init(config: &Server) -> anyhow::Result<()> {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(&config.log_filter)?,
    };
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let set = match config.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    set.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
