//! A prefill and a decode worker in processes of their own, and a gateway before them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sluicegate_tests::{Admin, Config, Model, Ports, Server, Worker, component, golden};
use tempfile::TempDir;

use crate::ask;

/// Without special tokens, so that any model takes it.
pub(crate) const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
/// Requests that are told apart in a storm; each has one right answer.
pub(crate) const PROMPTS: usize = 24;
/// The gateway's limit for one request, and what the client adds to it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Two workers that can be killed and started again, and what they need.
pub(crate) struct Pair {
    pub(crate) model: PathBuf,
    folder: TempDir,
    pub(crate) prefill: Ports,
    pub(crate) decode: Ports,
}

impl Pair {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("secret"), "known to gateway and workers")?;
        Ok(Self { model: golden("models/llama")?, folder, prefill: Ports::free()?, decode: Ports::free()? })
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.folder.path().join("secret")
    }

    pub(crate) fn start(&self, role: &str) -> Result<Worker> {
        let ports = if role == "prefill" { self.prefill } else { self.decode };
        Worker::start(role, &self.model, &self.secret(), ports, &self.folder.path().join(role))
    }

    /// A gateway with the same model in its own process, "alone", and at the pair, "pair".
    pub(crate) fn gateway(&self) -> Result<Server> {
        let addresses = vec![self.prefill.listen, self.decode.listen];
        let pair = Model::workers("pair", self.model.clone(), addresses, self.secret());
        let alone = Model::native("alone", self.model.clone());
        let limits = format!("[limits]\nrequest_timeout_s = {}\n", DEADLINE.as_secs());
        Server::start(
            &Config::new().component(component("qwen")?).model(written(alone)).model(written(pair)).extra(&limits),
        )
    }
}

/// A format that the golden model's tokens can write, and a prompt of plain text.
fn written(model: Model) -> Model {
    model.template(TEMPLATE).format("hermes")
}

pub(crate) fn request(model: &str, n: usize) -> Value {
    let n = n % PROMPTS;
    let mut request = ask(model, &format!("{n} {}", "boats pass the lock. ".repeat(1 + n % 7)));
    request["max_tokens"] = json!(4 + n * 2);
    if n.is_multiple_of(3) {
        request["temperature"] = 0.into();
    } else {
        request["seed"] = n.into();
    }
    request
}

pub(crate) async fn check_idle(admin: &Admin) -> Result<()> {
    let limit = Duration::from_secs(10);
    admin.wait("/admin/requests", limit, |requests| *requests == json!([])).await?;
    for gauge in IDLE {
        admin.wait_metric(gauge, limit, 0.0).await?;
    }
    Ok(())
}

/// What an idle gateway and idle workers have none of.
const IDLE: [&str; 13] = [
    "sluicegate_requests_running",
    "sluicegate_rooms",
    "sluicegate_worker_requests_running",
    "sluicegate_worker_sequences",
    "sluicegate_worker_sequences_waiting",
    "sluicegate_worker_sequences_prefilling",
    "sluicegate_worker_sequences_transferring",
    "sluicegate_worker_sequences_decoding",
    "sluicegate_worker_kv_blocks_held",
    "sluicegate_worker_slots_used",
    "sluicegate_kv_transfer_rooms",
    "sluicegate_kv_transfer_pages_in_flight",
    "sluicegate_engine_sequences_decoding",
];
