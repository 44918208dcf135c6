//! `[plugins]`: where format plugins come from, and what a call may take.

use std::path::PathBuf;

use serde::Deserialize;

use crate::plugins::Settings;

/// `[plugins]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plugins {
    /// Folder of components (`*.wasm`); made when it does not exist.
    pub dir: PathBuf,
    /// Load a component again when its file changes.
    pub watch: bool,
    /// Where compiled components are kept between runs; `compiled-plugins` in the state folder when absent.
    pub cache_dir: Option<PathBuf>,
    /// What a call may take, and what happens when it takes more.
    pub limits: Settings,
}

impl Default for Plugins {
    fn default() -> Self {
        Self { dir: PathBuf::from("plugins"), watch: true, cache_dir: None, limits: Settings::default() }
    }
}
