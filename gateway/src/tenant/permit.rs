//! A running request's hold on its tenant's limits; dropping it gives everything back, whatever the reason.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{Refusal, Tenant};

/// Counts what a request has used so far, so that one that is cut off is settled with the truth.
pub trait Consumption: Send + Sync + fmt::Debug {
    /// Prompt and output tokens up to now.
    fn tokens(&self) -> u64;
}

/// One admitted request.
#[derive(Debug)]
pub struct Permit {
    tenant: Arc<Tenant>,
    reserved: u64,
    used: Arc<dyn Consumption>,
    since: Instant,
}

impl Permit {
    /// Takes one request, one slot and `reserve` tokens; when the permit is dropped, the slot comes back and the
    /// reservation is replaced by what `used` then says.
    ///
    /// # Errors
    /// The limit that stands in the way; nothing was taken.
    pub fn take(tenant: &Arc<Tenant>, reserve: u64, used: Arc<dyn Consumption>) -> Result<Self, Refusal> {
        let since = Instant::now();
        tenant.ledger.admit(reserve, since)?;
        Ok(Self { tenant: Arc::clone(tenant), reserved: reserve, used, since })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = Instant::now();
        self.tenant.ledger.settle(self.reserved, self.used.tokens(), now - self.since, now);
    }
}
