//! Tenants: from an API key to who asks, what they may use, and their limits.

use std::sync::Arc;
use std::time::Instant;

use crate::config;

mod bucket;
pub mod key;
mod ledger;
mod permit;
#[cfg(test)]
mod tests;

pub use ledger::{Ledger, Limit, Rate, Refusal, Standing};
pub use permit::{Consumption, Permit};

/// Who asks.
#[derive(Debug)]
pub struct Tenant {
    /// For logs, metrics and the admin API.
    pub name: Arc<str>,
    /// Whose share of the engine this is.
    pub share: u64,
    /// Its part of a busy engine.
    pub weight: u32,
    /// Larger runs earlier.
    pub priority: i32,
    /// Limits and what is used of them.
    pub ledger: Ledger,
    keys: Vec<key::Hash>,
    models: Vec<String>,
}

impl Tenant {
    fn new(config: &config::Tenant, share: u64, now: Instant) -> Self {
        Self {
            name: config.name.as_str().into(),
            share,
            weight: config.weight,
            priority: config.priority,
            ledger: Ledger::new(config, now),
            keys: config.key_sha256.clone(),
            models: config.models.clone(),
        }
    }

    /// Whether it may use a model that goes by these names.
    pub fn may_use<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        let names: Vec<_> = names.into_iter().collect();
        self.models.iter().any(|allowed| allowed == "*" || names.contains(&allowed.as_str()))
    }
}

/// All tenants.
#[derive(Debug)]
pub struct Tenants {
    all: Vec<Arc<Tenant>>,
}

impl Tenants {
    /// Tenants of a configuration.
    #[must_use]
    pub fn new(configs: &[config::Tenant]) -> Self {
        let now = Instant::now();
        let tenant = |(share, config)| Arc::new(Tenant::new(config, share, now));
        Self { all: (1..).zip(configs).map(tenant).collect() }
    }

    /// The tenant that has this key. Every stored hash is compared, so the time tells nothing about them.
    #[must_use]
    pub fn by_key(&self, presented: &str) -> Option<&Arc<Tenant>> {
        let presented = key::Hash::of(presented);
        let mut found = None;
        for tenant in &self.all {
            for key in &tenant.keys {
                if bool::from(key.matches(&presented)) {
                    found = Some(tenant);
                }
            }
        }
        found
    }

    /// All of them, in the configuration's order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.all.iter()
    }
}
