//! `sluicegate plugin new`: a crate for a format of one's own, which builds and passes its one golden.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

/// Writes a plugin crate with one format: source, one golden, a test. It belongs into the `plugins` folder of a
/// checkout, whose SDK it uses; docs/write-a-format.md goes on from there.
#[derive(Debug, Args)]
pub(super) struct New {
    /// Name of the format: a-z, 0-9 and '_', as the configuration will name it.
    name: String,
    /// How the model writes calls.
    #[arg(long, value_enum)]
    family: Family,
    /// The plugins folder of the checkout [default: plugins].
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The engines of the SDK.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    /// JSON between markers: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
    Json,
    /// One tag for each parameter: `<invoke name="f"><parameter name="k">v</parameter></invoke>`.
    TagParams,
    /// Messages with headers that name a channel or a tool, as Harmony.
    Channels,
    /// Python calls: `[f(a=1)]`.
    Python,
    /// Brace literals: `call:f{k:v}`.
    Brace,
}

/// What a template calls itself: format, constant, plugin.
const PLACEHOLDERS: [&str; 3] = ["my_format", "MY_FORMAT", "my-format"];

impl Family {
    /// Source and golden.
    fn templates(self) -> [&'static str; 2] {
        macro_rules! template {
            ($name:literal) => {
                [
                    include_str!(concat!("../../../../plugins/templates/", $name, ".rs")),
                    include_str!(concat!("../../../../plugins/templates/", $name, ".json")),
                ]
            };
        }
        match self {
            Self::Json => template!("json"),
            Self::TagParams => template!("tag_params"),
            Self::Channels => template!("channels"),
            Self::Python => template!("python"),
            Self::Brace => template!("brace"),
        }
    }
}

impl New {
    pub(super) fn run(self) -> Result<()> {
        let words = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let name = self.name.as_str();
        ensure!(
            name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(words),
            "the name {name:?} must be made of a-z, 0-9 and '_', and begin with a letter"
        );
        let plugins = self.dir.unwrap_or_else(|| PathBuf::from("plugins"));
        if !plugins.join("sdk/Cargo.toml").is_file() {
            bail!(
                "{} has no sdk: run this in a checkout of sluicegate, or name its plugins folder with --dir",
                plugins.display()
            );
        }
        let plugin = name.replace('_', "-");
        let folder = plugins.join(&plugin);
        ensure!(!folder.exists(), "{} exists already", folder.display());
        let [source, golden] = self.family.templates().map(|template| fill(template, name, &plugin));
        write(&folder.join("Cargo.toml"), &manifest(&plugin, name))?;
        write(&folder.join("src/lib.rs"), &source)?;
        write(&folder.join(format!("golden/{name}.json")), &golden)?;
        write(&folder.join("tests/golden.rs"), &test(&plugin, name))?;
        println!(
            "{} written. Next:\n  cargo test --release -p format-{plugin}\n  cargo xtask plugins\n  \
             sluicegate plugin check --cases {}/golden/{name}.json",
            folder.display(),
            folder.display()
        );
        Ok(())
    }
}

fn fill(template: &str, name: &str, plugin: &str) -> String {
    let values = [name.to_owned(), name.to_uppercase(), plugin.to_owned()];
    PLACEHOLDERS.iter().zip(values).fold(template.to_owned(), |text, (from, to)| text.replace(from, &to))
}

fn manifest(plugin: &str, name: &str) -> String {
    format!(
        r#"[package]
name = "format-{plugin}"
description = "Format plugin: {name}"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[lib]
crate-type = ["cdylib", "rlib"]

[dependencies]
sluicegate-sdk.workspace = true

[dev-dependencies]
sluicegate-laws.workspace = true

[lints]
workspace = true
"#
    )
}

fn test(plugin: &str, name: &str) -> String {
    let crate_name = format!("format_{}", plugin.replace('-', "_"));
    format!(
        r#"//! What models wrote in {name} and what a client must see of it, in every chunking.

use sluicegate_laws::case::assert_golden;

#[test]
fn recorded_cases() {{
    assert_golden(&{crate_name}::plugin(), concat!(env!("CARGO_MANIFEST_DIR"), "/golden"));
}}
"#
    )
}

fn write(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str, family: Family, dir: &Path) -> Result<()> {
        New { name: name.to_owned(), family, dir: Some(dir.to_owned()) }.run()
    }

    #[test]
    fn every_family_gives_a_crate_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sdk")).unwrap();
        fs::write(dir.path().join("sdk/Cargo.toml"), "").unwrap();
        for (n, family) in Family::value_variants().iter().enumerate() {
            let name = format!("acme_{n}");
            new(&name, *family, dir.path()).unwrap();
            let folder = dir.path().join(format!("acme-{n}"));
            for file in ["Cargo.toml", "src/lib.rs", &format!("golden/{name}.json"), "tests/golden.rs"] {
                let text = fs::read_to_string(folder.join(file)).unwrap();
                assert!(PLACEHOLDERS.iter().all(|word| !text.contains(word)), "{file}: {text}");
                assert!(text.contains("acme"), "{file}");
            }
            let error = new(&name, *family, dir.path()).unwrap_err().to_string();
            assert!(error.contains("exists already"), "{error}");
        }
    }

    #[test]
    fn bad_names_and_places_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "Acme", "1acme", "acme-x", "acme x", "../acme"] {
            let error = new(name, Family::Json, dir.path()).unwrap_err().to_string();
            assert!(error.contains("must be made of"), "{error}");
        }
        let error = new("acme", Family::Json, dir.path()).unwrap_err().to_string();
        assert!(error.contains("--dir"), "{error}");
    }
}
