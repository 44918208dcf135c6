//! Everything a request needs, built once at the start.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use crate::config::{self, Config};
use crate::drain::Drain;
use crate::engines::Engines;
use crate::error::{Error, Kind};
use crate::live::Running;
use crate::metrics::Metrics;
use crate::plugins::Registry;
use crate::pools::Pools;
use crate::route::{self, Route, Routes};
use crate::scrape::{self, Scrape};
use crate::state::StateDir;
use crate::tenant::{Tenant, Tenants, key};

/// The gateway's parts.
#[derive(Debug)]
pub struct App {
    /// The configuration.
    pub config: Config,
    /// Who may ask.
    pub tenants: Tenants,
    /// Hash of the operators' key.
    pub admin_key: key::Hash,
    /// What may be asked for.
    pub routes: Routes,
    /// Native engines.
    pub engines: Arc<Engines>,
    /// Format plugins.
    pub plugins: Registry,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Requests in flight.
    pub running: Arc<Running>,
    /// Shutting down.
    pub drain: Drain,
}

impl App {
    /// Opens everything that the configuration names. What is missing in it is made in the state folder.
    ///
    /// # Errors
    /// Something can't be opened.
    pub fn build(mut config: Config, state: &StateDir) -> anyhow::Result<Self> {
        let admin_key = match config.admin.key_sha256 {
            Some(hash) => hash,
            None => state.api_key("admin_key")?,
        };
        if config.tenants.is_empty() {
            config.tenants.push(config::Tenant::unlimited("default", state.api_key("api_key")?));
        }
        let dir = &config.plugins.dir;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
        let mut limits = config.plugins.limits.clone();
        limits.cache_dir = Some(config.plugins.cache_dir.clone().unwrap_or_else(|| state.path("compiled-plugins")));
        let plugins = Registry::open(dir, limits)?;
        let tenants = Tenants::new(&config.tenants);
        let pools = Pools::start(&config.models).map_err(anyhow::Error::msg)?;
        let mut engines = Engines::new(&config.engine, &tenants);
        let routes = route::build(&config.models, &plugins, &mut |dir: &Path| engines.start(dir), &pools)?;
        let engines = Arc::new(engines);
        let metrics = metrics(&plugins, &engines, pools);
        Ok(Self {
            tenants,
            admin_key,
            routes,
            plugins,
            metrics: Arc::new(metrics),
            engines,
            running: Arc::default(),
            drain: Drain::default(),
            config,
        })
    }

    /// The route of a model that a tenant may use. A model that it may not use looks like one that isn't there.
    ///
    /// # Errors
    /// `NotFound` with OpenAI's `model_not_found`.
    pub fn route(&self, tenant: &Tenant, model: &str) -> Result<&Arc<Route>, Error> {
        if self.allows(tenant, model) {
            return self.routes.get(model);
        }
        let message = format!("The model `{model}` does not exist or you do not have access to it; see /v1/models");
        Err(Error::new(Kind::NotFound, message).param("model").code("model_not_found"))
    }

    /// Whether a tenant may use a model by this name.
    #[must_use]
    pub fn allows(&self, tenant: &Tenant, model: &str) -> bool {
        self.config.models.iter().filter(|entry| entry.answers_to(model)).any(|entry| {
            tenant.may_use(std::iter::once(entry.name.as_str()).chain(entry.aliases.iter().map(String::as_str)))
        })
    }
}

fn metrics(plugins: &Registry, engines: &Arc<Engines>, pools: Pools) -> Metrics {
    let (plugins, engines) = (plugins.clone(), Arc::clone(engines));
    let read = move || {
        let mut families = engines.scrape();
        families.extend(scrape::plugins(&plugins));
        families.extend(pools.scrape());
        families
    };
    Metrics::new().with(|registry| registry.register_collector(Box::new(Scrape(Box::new(read)))))
}
