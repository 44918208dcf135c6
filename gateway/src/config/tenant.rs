//! `[[tenant]]`: who may ask, for what, and how much.

use serde::Deserialize;

use super::{Broken, require};
use crate::tenant::key::Hash;

/// One `[[tenant]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// For logs, metrics and the admin API.
    pub name: String,
    /// SHA-256 of each of its keys, in hex: `sluicegate key` makes one.
    pub key_sha256: Vec<Hash>,
    /// Models it may use; `*` is all of them.
    #[serde(default = "all_models")]
    pub models: Vec<String>,
    /// Requests per minute; absent is unlimited.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, prompt and output together; absent is unlimited.
    pub tokens_per_minute: Option<u32>,
    /// Requests that may run at once; absent is unlimited.
    pub max_concurrent_requests: Option<u32>,
    /// Its part of a busy engine, relative to other tenants.
    #[serde(default = "one")]
    pub weight: u32,
    /// Larger runs earlier, whatever the weights.
    #[serde(default)]
    pub priority: i32,
}

impl Tenant {
    /// A tenant with one key and no limits.
    #[must_use]
    pub fn unlimited(name: &str, key: Hash) -> Self {
        Self {
            name: name.to_owned(),
            key_sha256: vec![key],
            models: all_models(),
            requests_per_minute: None,
            tokens_per_minute: None,
            max_concurrent_requests: None,
            weight: one(),
            priority: 0,
        }
    }
}

fn all_models() -> Vec<String> {
    vec!["*".to_owned()]
}

fn one() -> u32 {
    1
}

pub(super) fn validate(tenants: &[Tenant]) -> Result<(), Broken> {
    for (i, tenant) in tenants.iter().enumerate() {
        let at = |key: &str| format!("tenant[{i}].{key}");
        let earlier = &tenants[..i];
        require(!tenant.name.is_empty(), at("name"), "must not be empty")?;
        let taken = earlier.iter().any(|t| t.name == tenant.name);
        require(!taken, at("name"), format!("\"{}\" is already the name of another tenant", tenant.name))?;
        require(!tenant.key_sha256.is_empty(), at("key_sha256"), "needs at least one key hash")?;
        let shared = tenant.key_sha256.iter().any(|key| earlier.iter().any(|t| t.key_sha256.contains(key)));
        require(!shared, at("key_sha256"), "another tenant has the same key")?;
        for (value, key) in [
            (tenant.requests_per_minute, "requests_per_minute"),
            (tenant.tokens_per_minute, "tokens_per_minute"),
            (tenant.max_concurrent_requests, "max_concurrent_requests"),
            (Some(tenant.weight), "weight"),
        ] {
            require(value != Some(0), at(key), "must be at least 1; leave the key out for no limit")?;
        }
    }
    Ok(())
}
