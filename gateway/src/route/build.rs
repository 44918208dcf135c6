//! Routes from the configuration, checked before anything is served.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sluicegate_backend::api::Sampling;
use sluicegate_backend::engine::Engine;

use super::detect::{Evidence, detect};
use super::folder::{Folder, bare_template};
use super::{Format, Policy, Route, Routes};
use crate::chat::Reasoning;
use crate::config::{Model, Thinking, Upstream as UpstreamConfig};
use crate::grammar::Grammars;
use crate::plugins::Registry;
use crate::pools::{Pool, Pools};
use crate::text::{ChatTemplate, DeepSeek};
use crate::upstream::{Native, Recordings, Replay, Upstream, Workers};

/// A model that cannot be served as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model \"{model}\": {reason}")]
pub struct RouteError {
    /// The model's name in the configuration.
    pub model: String,
    /// What is wrong and what to do.
    pub reason: String,
}

/// Builds the route of every configured model. `engine` starts (or shares) the native engine for a model folder;
/// `pools` has the workers of the models that other processes serve.
///
/// # Errors
/// The first model that cannot be served.
pub fn build(
    models: &[Model],
    registry: &Registry,
    engine: &mut dyn FnMut(&Path) -> Result<Engine, String>,
    pools: &Pools,
) -> Result<Routes, RouteError> {
    let mut routes = Routes::default();
    for model in models {
        let refuse = |reason| RouteError { model: model.name.clone(), reason };
        let route = route(model, registry, engine, pools).map_err(refuse)?;
        routes.insert(route, model.aliases.iter().map(String::as_str));
    }
    Ok(routes)
}

fn route(
    model: &Model,
    registry: &Registry,
    engine: &mut dyn FnMut(&Path) -> Result<Engine, String>,
    pools: &Pools,
) -> Result<Route, String> {
    let template = model.chat_template.as_deref();
    let folder = folder_of(model).map(|dir| Folder::load(dir, template)).transpose()?;
    let format = match model.format.as_deref() {
        None => None,
        Some(AUTO) => Some(format(&guess(model, folder.as_ref(), registry)?, model, folder.as_ref(), registry)?),
        Some(name) => Some(format(name, model, folder.as_ref(), registry)?),
    };
    let takes_tokens = !matches!(model.upstream, UpstreamConfig::Replay(_));
    check_renderer(format.as_ref(), folder.as_ref(), takes_tokens)?;
    let mut context_length = model.max_model_len;
    let upstream: Arc<dyn Upstream> = match &model.upstream {
        UpstreamConfig::Native(native) => {
            let engine = engine(&native.dir)?;
            let limit = u32::try_from(engine.limits().max_total_tokens).unwrap_or(u32::MAX);
            context_length = Some(context_length.map_or(limit, |length| length.min(limit)));
            Arc::new(Native::new(native.dir.display().to_string(), engine))
        }
        UpstreamConfig::Workers(_) => {
            let Pool { workers, context_length: limit, space } =
                pools.get(&model.name).ok_or("its pool of workers was not started")?.clone();
            context_length = Some(context_length.map_or(limit, |length| length.min(limit)));
            Arc::new(Workers::new(model.name.clone(), workers, limit as usize, space))
        }
        UpstreamConfig::Replay(replay) => {
            let recordings = Recordings::load(&replay.file).map_err(|error| error.to_string())?;
            Arc::new(Replay::new(replay.file.display().to_string(), recordings, replay.speed))
        }
    };
    let stop_ids = folder.as_ref().map(|folder| folder.stop_ids.clone()).unwrap_or_default();
    let grammars = folder.as_ref().zip(upstream.token_space()).map(|(folder, mut space)| {
        space.stop_ids.extend(stop_ids.iter().filter(|id| !space.stop_ids.contains(id)).copied().collect::<Vec<_>>());
        Arc::new(Grammars::new(Arc::clone(folder.tokenizer.vocabulary()), space))
    });
    let bare = template.filter(|_| folder.is_none()).map(bare_template).transpose()?;
    let template = folder.as_ref().and_then(|folder| folder.template.clone()).or(bare);
    warn_of_hidden_tools(model, format.as_ref(), template.as_deref());
    Ok(Route {
        model: model.name.clone(),
        upstream,
        format,
        template,
        tokenizer: folder.as_ref().map(|folder| Arc::clone(&folder.tokenizer)),
        grammars,
        defaults: folder.as_ref().map_or_else(Sampling::default, |folder| folder.defaults.clone()),
        template_kwargs: model.default_chat_template_kwargs.clone(),
        reasoning: match model.reasoning {
            Thinking::Auto => Reasoning::Auto,
            Thinking::On => Reasoning::On(None),
            Thinking::Off => Reasoning::Off,
        },
        max_tokens: model.default_max_tokens,
        context_length,
        stop_ids,
        policy: Policy { malformed: model.malformed_tool_calls, undeclared_tools: model.undeclared_tools },
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()),
    })
}

/// The option, and the key of tokenizer_config.json, that declares a model's output.
pub(super) const DECLARED: &str = "response_template";

/// `format` when the model's own files decide.
const AUTO: &str = "auto";

/// The folder with the model's tokenizer, if there is one.
fn folder_of(model: &Model) -> Option<&Path> {
    match &model.upstream {
        UpstreamConfig::Native(native) => Some(&native.dir),
        UpstreamConfig::Workers(workers) => Some(&workers.dir),
        UpstreamConfig::Replay(replay) => replay.tokenizer.as_deref(),
    }
}

/// What `auto` stands for; the log says why.
fn guess(model: &Model, folder: Option<&Folder>, registry: &Registry) -> Result<String, String> {
    let mut names: Vec<&str> = std::iter::once(&model.name).chain(&model.aliases).map(String::as_str).collect();
    let dir = folder_of(model).and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    names.extend(dir.as_deref());
    let has_token = |token: &str| folder.is_some_and(|folder| folder.tokenizer.controls().id(token).is_some());
    let bare = match (&model.chat_template, folder) {
        (Some(path), None) => std::fs::read_to_string(path).ok(),
        _ => None,
    };
    let evidence = Evidence {
        names: &names,
        architectures: folder.map_or(&[], |folder| &folder.architectures),
        template: folder.and_then(|folder| folder.template_source.as_deref()).or(bare.as_deref()),
        has_token: &has_token,
        declares: folder.is_some_and(|folder| folder.response_template.is_some()),
    };
    let guess = detect(evidence, &registry.formats())?;
    tracing::info!(
        model = model.name,
        format = guess.format,
        score = guess.score,
        because = guess.because,
        "format chosen"
    );
    Ok(guess.format)
}

fn format(name: &str, model: &Model, folder: Option<&Folder>, registry: &Registry) -> Result<Format, String> {
    let mut format = Format { registry: registry.clone(), name: name.to_owned(), options: String::new() };
    let pinned = format.pin().map_err(|error| {
        let mut known: Vec<String> = registry.formats().into_iter().map(|format| format.name).collect();
        known.sort();
        let known = if known.is_empty() { "no plugin is loaded".to_owned() } else { known.join(", ") };
        format!("format \"{name}\": {error}; formats of the loaded plugins: {known}")
    })?;
    let mut options = model.format_options.clone();
    let schema = &pinned.descriptor().options_schema;
    // What the tokenizer declares counts unless the configuration says otherwise.
    if schema["properties"].get(DECLARED).is_some()
        && let Some(declared) = folder.and_then(|folder| folder.response_template.as_ref())
    {
        options.entry(DECLARED).or_insert_with(|| declared.clone());
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|key| !options.contains_key(*key)) {
        let nor = if missing == DECLARED { ", nor does the model's tokenizer_config.json" } else { "" };
        return Err(format!(
            "format \"{name}\" needs the option \"{missing}\", and format_options does not give it{nor}"
        ));
    }
    format.options = Value::Object(options).to_string();
    Ok(format)
}

/// Whether the model's prompts can be written.
fn check_renderer(format: Option<&Format>, folder: Option<&Folder>, takes_tokens: bool) -> Result<(), String> {
    let pinned = format.map(Format::pin).transpose().map_err(|error| error.to_string())?;
    if let Some(pinned) = &pinned {
        if let Some(name) = &pinned.descriptor().renderer {
            return match DeepSeek::named(name) {
                Some(renderer) => fits(renderer, folder),
                None => Err(format!(
                    "format \"{}\" asks for the renderer \"{name}\", which this gateway lacks",
                    pinned.descriptor().name
                )),
            };
        }
        if pinned.has_render() {
            return Ok(());
        }
    }
    if takes_tokens && folder.is_none_or(|folder| folder.template.is_none()) {
        return Err("has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json), and its \
                    format writes no prompts; set chat_template"
            .to_owned());
    }
    Ok(())
}

/// A template that never reads `tools` leaves the model blind to them, which looks like a model that won't call.
fn warn_of_hidden_tools(model: &Model, format: Option<&Format>, template: Option<&ChatTemplate>) {
    let rendered = |format: &Format| format.pin().is_ok_and(|p| p.descriptor().renderer.is_some() || p.has_render());
    if let Some(template) = template.filter(|template| !template.reads("tools"))
        && !format.is_some_and(rendered)
    {
        tracing::warn!(
            model = model.name,
            template = template.name(),
            "the chat template has no place for tools: the model will not see those of a request; set chat_template to one that has"
        );
    }
}

/// A renderer's control tokens must exist in the checkpoint.
fn fits(renderer: DeepSeek, folder: Option<&Folder>) -> Result<(), String> {
    let Some(folder) = folder else { return Ok(()) };
    let missing: Vec<&str> = renderer
        .control_tokens()
        .iter()
        .copied()
        .filter(|token| folder.tokenizer.controls().id(token).is_none())
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the tokenizer lacks {}, which the format's prompts need; is this the right format?",
            missing.join(", ")
        ))
    }
}
