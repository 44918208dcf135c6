//! Model name → format, renderer, tokenizer, upstream and defaults: everything that serves one model name.

mod build;
mod detect;
mod folder;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use build::{RouteError, build};
use serde::Deserialize;
use sluicegate_backend::api::Sampling;

use crate::chat::Reasoning;
use crate::error::{Error, Kind};
use crate::generate::Malformed;
use crate::grammar::Grammars;
use crate::plugins::{Pinned, PluginError, Registry};
use crate::text::{ChatTemplate, Tokenizer};
use crate::upstream::Upstream;

/// What serves one model name.
#[derive(Debug)]
pub struct Route {
    /// Model name as clients write it.
    pub model: String,
    /// Who generates.
    pub upstream: Arc<dyn Upstream>,
    /// The language of the model's output; none is plain text.
    pub format: Option<Format>,
    /// The model's Jinja template, for formats that write no prompts themselves.
    pub template: Option<Arc<ChatTemplate>>,
    /// The model's tokenizer.
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// Compiles what requests promise about their output; none where the upstream takes no grammars.
    pub grammars: Option<Arc<Grammars>>,
    /// Sampling for what the client leaves open: the checkpoint's generation config.
    pub defaults: Sampling,
    /// `chat_template_kwargs` that the client may override.
    pub template_kwargs: serde_json::Map<String, serde_json::Value>,
    /// Whether the model reasons when the client does not say.
    pub reasoning: Reasoning,
    /// Limit of generated tokens when the client gives none.
    pub max_tokens: Option<u32>,
    /// Longest prompt and output together, when it is known.
    pub context_length: Option<u32>,
    /// Ids that end a turn.
    pub stop_ids: Vec<u32>,
    /// What clients see of broken output.
    pub policy: Policy,
    /// Unix time of the route's start, for `/v1/models`.
    pub created: u64,
}

/// A route's binding to a format; the version is chosen for each request.
#[derive(Clone, Debug)]
pub struct Format {
    /// Where plugins are.
    pub registry: Registry,
    /// The format's name.
    pub name: String,
    /// Operator's options, JSON text.
    pub options: String,
}

impl Format {
    /// The version that serves now.
    ///
    /// # Errors
    /// No plugin exports the format any more, or its breaker is open.
    pub fn pin(&self) -> Result<Pinned, PluginError> {
        self.registry.pin(&self.name)
    }
}

/// What clients see of output that breaks a rule of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Text of a call that turned out malformed.
    pub malformed: Malformed,
    /// A call of a function that the request does not declare.
    pub undeclared_tools: Show,
}

/// Whether clients see something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// They do.
    #[default]
    Pass,
    /// They do not; operators see a log line either way.
    Hide,
}

/// The tokenizer and template of a model folder, for tests of text.
#[cfg(test)]
pub(crate) fn test_folder(dir: &std::path::Path) -> Result<(Arc<Tokenizer>, Option<Arc<ChatTemplate>>), String> {
    folder::Folder::load(dir, None).map(|folder| (folder.tokenizer, folder.template))
}

/// All routes of a gateway, by every name that clients may use.
#[derive(Debug, Default)]
pub struct Routes {
    by_name: BTreeMap<String, Arc<Route>>,
}

impl Routes {
    /// Adds a route under its model name and further names; the last one of a name wins.
    pub fn insert<'a>(&mut self, route: Route, aliases: impl IntoIterator<Item = &'a str>) {
        let route = Arc::new(route);
        self.by_name.extend(aliases.into_iter().map(|alias| (alias.to_owned(), Arc::clone(&route))));
        self.by_name.insert(route.model.clone(), route);
    }

    /// The route of a model name.
    ///
    /// # Errors
    /// `NotFound` with OpenAI's `model_not_found`.
    pub fn get(&self, model: &str) -> Result<&Arc<Route>, Error> {
        self.by_name.get(model).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!("The model `{model}` does not exist or you do not have access to it; see /v1/models"),
            )
            .param("model")
            .code("model_not_found")
        })
    }

    /// All names with their routes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Route>)> {
        self.by_name.iter().map(|(name, route)| (name.as_str(), route))
    }
}
