//! Model name → format, renderer, tokenizer, upstream and defaults: everything that serves one model name.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_backend::api::Sampling;

use crate::error::{Error, Kind};
use crate::upstream::Upstream;

/// What serves one model name.
#[derive(Debug)]
pub struct Route {
    /// Model name as clients write it.
    pub model: String,
    /// Who generates.
    pub upstream: Arc<dyn Upstream>,
    /// Sampling for what the client leaves open: the operator's settings over the checkpoint's generation config.
    pub defaults: Sampling,
    /// Limit of generated tokens when the client gives none.
    pub max_tokens: Option<u32>,
    /// Ids that end a turn.
    pub stop_ids: Vec<u32>,
    /// Unix time of the route's start, for `/v1/models`.
    pub created: u64,
}

/// All routes of a gateway, by model name.
#[derive(Debug, Default)]
pub struct Routes {
    by_model: BTreeMap<String, Arc<Route>>,
}

impl Routes {
    /// Adds a route; the last one of a name wins.
    pub fn insert(&mut self, route: Route) {
        self.by_model.insert(route.model.clone(), Arc::new(route));
    }

    /// The route of a model name.
    ///
    /// # Errors
    /// `NotFound` with OpenAI's `model_not_found`.
    pub fn get(&self, model: &str) -> Result<&Arc<Route>, Error> {
        self.by_model.get(model).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!("The model `{model}` does not exist or you do not have access to it; see /v1/models"),
            )
            .param("model")
            .code("model_not_found")
        })
    }

    /// All routes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.by_model.values()
    }
}
