//! What a model folder says about text: tokenizer, chat template, special tokens, generation defaults.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sluicegate_backend::api::Sampling;

use crate::text::{ChatTemplate, SpecialTokens, Tokenizer};

/// A model folder's text side.
pub(super) struct Folder {
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) template: Option<Arc<ChatTemplate>>,
    /// The template's text.
    pub(super) template_source: Option<String>,
    /// What tokenizer_config.json declares about the model's output.
    pub(super) response_template: Option<Value>,
    /// `architectures` and `model_type` of config.json.
    pub(super) architectures: Vec<String>,
    pub(super) defaults: Sampling,
    pub(super) stop_ids: Vec<u32>,
}

impl Folder {
    /// Reads a folder. `template` takes the place of the folder's own.
    pub(super) fn load(dir: &Path, template: Option<&Path>) -> Result<Self, String> {
        let tokenizer = Arc::new(Tokenizer::load(&dir.join("tokenizer.json")).map_err(|error| error.to_string())?);
        let config = json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
        let map = json(&dir.join("special_tokens_map.json"))?.unwrap_or_default();
        let special = special_tokens(&[&map, &config]);
        let generation = json(&dir.join("generation_config.json"))?.unwrap_or_default();
        let mut stop_ids = ids(&generation["eos_token_id"]);
        let eos = special.get("eos_token").and_then(|eos| tokenizer.token_id(eos));
        stop_ids.extend(eos.filter(|id| !stop_ids.contains(id)));
        let architectures = architectures(&json(&dir.join("config.json"))?.unwrap_or_default());
        let source = match template {
            Some(path) => Some((path.display().to_string(), read(path)?)),
            None => own_template(dir, &config)?,
        };
        let compile = |(name, source): (String, String)| {
            ChatTemplate::new(&name, &source, special, Arc::clone(tokenizer.controls()))
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        let template_source = source.as_ref().map(|(_, source)| source.clone());
        let template = source.map(compile).transpose()?;
        let response_template = config.get("response_template").filter(|declared| declared.is_object()).cloned();
        let defaults = sampling(&generation);
        Ok(Self { tokenizer, template, template_source, response_template, architectures, defaults, stop_ids })
    }
}

fn architectures(config: &Value) -> Vec<String> {
    let names = config["architectures"].as_array().into_iter().flatten().chain([&config["model_type"]]);
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A template without a model folder, for upstreams that count their own tokens.
pub(super) fn bare_template(path: &Path) -> Result<Arc<ChatTemplate>, String> {
    ChatTemplate::new(&path.display().to_string(), &read(path)?, SpecialTokens::new(), Arc::default())
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// The folder's template: a file of its own, or in tokenizer_config.json. Of several, the one for tools, else the default.
fn own_template(dir: &Path, config: &Value) -> Result<Option<(String, String)>, String> {
    let file = dir.join("chat_template.jinja");
    if file.is_file() {
        return Ok(Some((file.display().to_string(), read(&file)?)));
    }
    let name = format!("{} (chat_template)", dir.join("tokenizer_config.json").display());
    Ok(match &config["chat_template"] {
        Value::String(source) => Some((name, source.clone())),
        Value::Array(templates) => {
            let named = |wanted: &str| templates.iter().find(|template| template["name"] == wanted);
            let chosen = named("tool_use").or_else(|| named("default")).or(templates.first());
            chosen.and_then(|template| template["template"].as_str()).map(|source| (name, source.to_owned()))
        }
        _ => None,
    })
}

/// `*_token` entries; later sources win. An entry is a string or an object with `content`.
fn special_tokens(sources: &[&Value]) -> SpecialTokens {
    let entries = sources.iter().filter_map(|source| source.as_object()).flatten();
    entries
        .filter(|(key, _)| key.ends_with("_token"))
        .filter_map(|(key, value)| {
            let spelling = value.as_str().or_else(|| value["content"].as_str())?;
            Some((key.clone(), spelling.to_owned()))
        })
        .collect()
}

fn sampling(generation: &Value) -> Sampling {
    let neutral = Sampling::default();
    #[allow(clippy::cast_possible_truncation, reason = "these parameters are f32 everywhere")]
    let float = |key: &str, otherwise: f32| generation[key].as_f64().map_or(otherwise, |value| value as f32);
    Sampling {
        temperature: float("temperature", neutral.temperature),
        top_p: float("top_p", neutral.top_p),
        min_p: float("min_p", neutral.min_p),
        repetition_penalty: float("repetition_penalty", neutral.repetition_penalty),
        top_k: generation["top_k"].as_u64().and_then(|k| u32::try_from(k).ok()).unwrap_or(neutral.top_k),
        ..neutral
    }
}

fn ids(value: &Value) -> Vec<u32> {
    let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    values.iter().filter_map(Value::as_u64).filter_map(|id| u32::try_from(id).ok()).collect()
}

fn json(path: &Path) -> Result<Option<Value>, String> {
    if !path.is_file() {
        return Ok(None);
    }
    serde_json::from_str(&read(path)?).map(Some).map_err(|error| format!("{}: not JSON: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
