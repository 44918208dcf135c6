//! The pools of engine workers: one for each model that other processes serve.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate_backend::engine::Stats;
use sluicegate_backend::weights::Checkpoint;
use sluicegate_workers::{Expected, PoolConfig, Standing, WorkerPool, WorkerStatus};

use crate::config::{Model, Upstream, Workers};
use crate::engines::read_secret;
use crate::grammar::TokenSpace;
use crate::scrape::Family;

/// A model's workers, and what the gateway itself has to know of the model.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The workers.
    pub workers: WorkerPool,
    /// Longest sequence.
    pub context_length: u32,
    /// Its tokens, and those that end a turn.
    pub space: TokenSpace,
}

/// All of them, by the model's name.
#[derive(Clone, Debug, Default)]
pub struct Pools(BTreeMap<String, Pool>);

impl Pools {
    /// Begins to keep sessions with every model's workers, on the present Tokio runtime.
    ///
    /// # Errors
    /// A model folder or a secret can't be read. Workers that are down are none: they may come.
    pub fn start(models: &[Model]) -> Result<Self, String> {
        let mut pools = BTreeMap::new();
        for model in models {
            if let Upstream::Workers(workers) = &model.upstream {
                let pool = open(workers).map_err(|why| format!("model \"{}\": {why}", model.name))?;
                pools.insert(model.name.clone(), pool);
            }
        }
        Ok(Self(pools))
    }

    /// The pool of a model.
    #[must_use]
    pub fn get(&self, model: &str) -> Option<&Pool> {
        self.0.get(model)
    }

    /// Metrics of all workers, as the gateway last heard them.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "Prometheus' numbers are f64")]
    pub fn scrape(&self) -> Vec<Family> {
        let workers: Vec<WorkerStatus> = self.0.values().flat_map(|pool| pool.workers.workers()).collect();
        if workers.is_empty() {
            return Vec::new();
        }
        let family = |counter, name, help, value: &dyn Fn(&WorkerStatus) -> Option<f64>| Family {
            name,
            help,
            counter,
            label: "worker",
            samples: workers.iter().filter_map(|w| Some((w.address.to_string(), value(w)?))).collect(),
        };
        let figure = |counter, name, help, value: fn(&Stats) -> f64| {
            family(counter, name, help, &|w| match &w.standing {
                Standing::Up { stats, .. } => Some(value(stats)),
                Standing::Down { .. } => None,
            })
        };
        let gauge = |name, help, value: fn(&Stats) -> f64| figure(false, name, help, value);
        let total = |name, help, value: fn(&Stats) -> f64| figure(true, name, help, value);
        let rooms = self.0.iter().map(|(model, pool)| (model.clone(), pool.workers.rooms() as f64)).collect();
        vec![
            Family { name: "rooms", help: "Rooms minted and in use", counter: false, label: "model", samples: rooms },
            family(false, "worker_up", "1 if the worker can be used", &|w| {
                Some(f64::from(u8::from(matches!(w.standing, Standing::Up { .. }))))
            }),
            family(true, "worker_sessions", "Sessions made with the worker", &|w| Some(w.sessions_total as f64)),
            family(false, "worker_requests_running", "This gateway's requests at the worker", &|w| match w.standing {
                Standing::Up { running, .. } => Some(running as f64),
                Standing::Down { .. } => Some(0.0),
            }),
            gauge("worker_sequences", "Sequences in the worker's engine, in any phase", |s| s.running as f64),
            gauge("worker_sequences_waiting", "Sequences that wait", |s| s.waiting as f64),
            gauge("worker_sequences_prefilling", "Sequences being prefilled", |s| s.prefilling as f64),
            gauge("worker_sequences_transferring", "Sequences on their way between workers", |s| s.transferring as f64),
            gauge("worker_sequences_decoding", "Sequences being decoded", |s| s.decoding as f64),
            gauge("worker_turn_seconds", "How long the engine's present step has taken", |s| s.turn_ms as f64 / 1e3),
            gauge("worker_kv_blocks", "KV blocks in all", |s| s.blocks_total as f64),
            gauge("worker_kv_blocks_held", "KV blocks that sequences hold", |s| s.blocks_held as f64),
            gauge("worker_slots_used", "Sequence slots in use", |s| s.slots_used as f64),
            gauge("kv_transfer_rooms", "KV transfers in progress", |s| s.rooms as f64),
            gauge("kv_transfer_pages_in_flight", "Pages that wait to be sent", |s| s.pages_in_flight as f64),
            total("kv_transfers_completed", "KV transfers that arrived whole", |s| s.transfers_completed_total as f64),
            total("kv_transfers_aborted", "KV transfers that were given up", |s| s.transfers_aborted_total as f64),
            total("kv_transfers_lost", "KV transfers that the other end lost", |s| s.transfers_lost_total as f64),
            total("kv_transfer_bytes", "Bytes of pages moved", |s| s.transfer_bytes_total as f64),
        ]
    }
}

fn open(config: &Workers) -> Result<Pool, String> {
    let checkpoint = Checkpoint::open(&config.dir).map_err(|error| error.to_string())?;
    let model = checkpoint.config();
    let vocab_size = u32::try_from(model.vocab_size).unwrap_or(u32::MAX);
    let eos_ids = checkpoint.eos_ids().to_vec();
    let expected = Expected { architecture: model.architecture.clone(), vocab_size, eos_ids: eos_ids.clone() };
    let pool = PoolConfig {
        expected: Some(expected),
        silence: Duration::from_millis(config.silence_ms),
        turn_limit: Duration::from_millis(config.step_limit_ms),
        patience: Duration::from_millis(config.patience_ms),
        ..PoolConfig::new(config.addresses.clone(), read_secret(&config.secret_file)?)
    };
    let context_length = u32::try_from(model.max_position_embeddings).unwrap_or(u32::MAX);
    let space = TokenSpace { size: model.vocab_size, stop_ids: eos_ids };
    Ok(Pool { workers: WorkerPool::start(pool)?, context_length, space })
}
