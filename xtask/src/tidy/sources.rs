//! Rules about single files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const MAX_LINES: usize = 400;
const EXTENSIONS: [&str; 9] = ["rs", "toml", "wit", "py", "cu", "cuh", "cpp", "h", "sh"];
/// Folders without sources of ours.
const SKIPPED: [&str; 4] = ["target", "models", "node_modules", "__pycache__"];
/// Split, so that this file does not break its own rule.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Words that say nothing about what a file is for.
const EMPTY_NAMES: [&str; 4] = ["manager", "helper", "util", "misc"];

/// A heavy dependency and the only places that may name it, so that replacing it is a change in one place.
struct Door {
    name: &'static str,
    places: &'static [&'static str],
}

const DOORS: [Door; 10] = [
    Door { name: "llguidance", places: &["gateway/src/grammar/", "plugins/laws/"] },
    Door { name: "wasmtime", places: &["gateway/src/plugins/"] },
    Door {
        name: "rustls",
        places: &["gateway/src/tls", "gateway/src/upstream/", "backend/src/transfer/remote/tls/", "workers/src/tls.rs"],
    },
    Door { name: "tokio_rustls", places: &["gateway/src/tls", "gateway/src/upstream/", "workers/src/tls.rs"] },
    Door { name: "tokenizers", places: &["gateway/src/text/"] },
    Door { name: "minijinja", places: &["gateway/src/text/"] },
    Door { name: "safetensors", places: &["backend/src/weights/"] },
    Door { name: "cudarc", places: &["kernels/src/cuda/"] },
    Door { name: "tonic", places: &["workers/"] },
    Door { name: "governor", places: &["gateway/src/layers/"] },
];
/// Tests and tasks look in from outside and may use what they like.
const DOORLESS: [&str; 3] = ["tests/", "benches/", "xtask/"];

/// A source file.
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

/// All sources below `root`.
///
/// # Errors
/// A folder or file cannot be read.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let (mut sources, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                    folders.push(entry.path());
                }
            } else if is_source(&entry.path()) {
                sources.push(Source::read(root, entry.path())?);
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

impl Source {
    fn read(root: &Path, path: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        Ok(Self { path, text })
    }

    /// Lines with their numbers, comments taken off.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = |line: &'_ str| line.find("//").map_or(line.len(), |comment| comment);
        self.text.lines().enumerate().map(move |(i, line)| (i + 1, &line[..code(line)]))
    }
}

/// Every rule that `source` breaks.
pub(crate) fn breaches(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |line: usize, what: String| found.push(format!("{}:{line}: {what}", source.path));
    let lines = source.text.lines().count();
    if lines > MAX_LINES {
        add(lines, format!("more than {MAX_LINES} lines; split it by idea"));
    }
    let file = source.path.rsplit('/').next().unwrap_or_default();
    if EMPTY_NAMES.iter().any(|name| file.contains(name)) {
        add(1, "the file's name does not say what it is for".into());
    }
    for (i, line) in source.text.lines().enumerate() {
        if let Some(word) = UNFINISHED.iter().find(|word| names(line, word)) {
            add(i + 1, format!("{word}: finish it or file an issue"));
        }
    }
    if source.path.ends_with(".rs") {
        rust(source, &mut add);
    }
    if file == "Cargo.toml" && source.text.contains("[package]") && !inherits_lints(&source.text) {
        add(1, "a member says `[lints] workspace = true`".into());
    }
    found
}

fn rust(source: &Source, add: &mut impl FnMut(usize, String)) {
    if !source.text.starts_with("//!") {
        add(1, "the first line says in `//!` what the file is for".into());
    }
    if DOORLESS.iter().any(|place| source.path.starts_with(place)) || source.path.contains("/tests/") {
        return;
    }
    for (number, line) in source.code() {
        for door in &DOORS {
            let allowed = door.places.iter().any(|place| source.path.starts_with(place));
            if !allowed && names(line, door.name) && is_path_use(line, door.name) {
                add(number, format!("{} is used only in {}", door.name, door.places.join(", ")));
            }
        }
    }
}

fn inherits_lints(manifest: &str) -> bool {
    manifest.lines().skip_while(|line| line.trim() != "[lints]").any(|line| line.trim() == "workspace = true")
}

/// Whether `word` stands in `line` as a whole word.
fn names(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// Whether `line` names the crate: `use x`, `x::`, and not a local called the same.
fn is_path_use(line: &str, name: &str) -> bool {
    let own = line.contains(&format!("::{name}")) || line.contains(&format!("mod {name}"));
    !own && (line.contains(&format!("{name}::")) || line.trim_start().starts_with(&format!("use {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let found = breaches(&Source { path: path.into(), text: text.into() });
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (breach, part) in found.iter().zip(expected) {
            assert!(breach.contains(part), "{breach} should contain {part}");
        }
    }

    #[test]
    fn a_file_says_what_it_is_for_and_is_short() {
        check("backend/src/a.rs", "//! A.\n", &[]);
        check("backend/src/a.rs", "use std::fs;\n", &["first line"]);
        check("backend/src/a.rs", &format!("//! A.\n{}", "\n".repeat(400)), &["more than 400 lines"]);
        check("backend/src/text_utils.rs", "//! A.\n", &["does not say"]);
        check("backend/src/a.rs", &format!("//! A.\n// {}: later\n", UNFINISHED[0]), &["a.rs:2"]);
    }

    #[test]
    fn heavy_dependencies_have_one_door() {
        check("gateway/src/plugins/host.rs", "//! A.\nuse wasmtime::Engine;\n", &[]);
        check("gateway/src/api/chat.rs", "//! A.\nuse wasmtime::Engine;\n", &["only in gateway/src/plugins/"]);
        check("gateway/src/server.rs", "//! A.\nlet c = rustls::ServerConfig::builder();\n", &["gateway/src/tls"]);
        check("gateway/src/server.rs", "//! A.\nuse tokio_rustls::TlsAcceptor;\n", &["tokio_rustls"]);
        check("gateway/src/server.rs", "//! A.\n// rustls::ServerConfig is built elsewhere\n", &[]);
        check("kernels/tests/codecs.rs", "//! A.\nuse safetensors::SafeTensors;\n", &[]);
        check("tests/e2e/client.rs", "//! A.\nuse rustls::ClientConfig;\n", &[]);
    }

    #[test]
    fn members_inherit_the_lints() {
        check("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n", &[]);
        check("a/Cargo.toml", "[package]\nname = \"a\"\nversion.workspace = true\n", &["lints"]);
    }
}
