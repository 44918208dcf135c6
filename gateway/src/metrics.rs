//! Every metric of the gateway, in one place. Names follow vLLM's and Prometheus' conventions.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    tenant: String,
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    tenant: String,
    model: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    tenant: String,
    limit: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Model {
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Status {
    status: u16,
}

type Histograms = Family<Model, Histogram, fn() -> Histogram>;

/// What a finished request reports.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Tenant.
    pub tenant: &'a str,
    /// Model.
    pub model: &'a str,
    /// How it ended.
    pub outcome: &'static str,
    /// From receipt to end.
    pub duration: Duration,
    /// Time in the upstream's queue.
    pub queued: Duration,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub generation_tokens: u64,
}

/// All families.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    running: Family<Request, Gauge>,
    ended: Family<Ended, Counter>,
    refused: Family<Refused, Counter>,
    responses: Family<Status, Counter>,
    prompt_tokens: Family<Request, Counter>,
    generation_tokens: Family<Request, Counter>,
    first_token: Histograms,
    inter_token: Histograms,
    duration: Histograms,
    queued: Histograms,
    connections: Gauge,
    handshakes_failed: Counter,
}

impl Metrics {
    /// Families with no samples.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("sluicegate");
        let metrics = Self {
            running: Family::default(),
            ended: Family::default(),
            refused: Family::default(),
            responses: Family::default(),
            prompt_tokens: Family::default(),
            generation_tokens: Family::default(),
            first_token: Family::new_with_constructor(seconds_to_minutes),
            inter_token: Family::new_with_constructor(milliseconds_to_seconds),
            duration: Family::new_with_constructor(seconds_to_minutes),
            queued: Family::new_with_constructor(seconds_to_minutes),
            connections: Gauge::default(),
            handshakes_failed: Counter::default(),
            registry: Registry::default(),
        };
        let r = &mut registry;
        r.register("requests_running", "Admitted requests that have not ended", metrics.running.clone());
        r.register("requests", "Requests that ended, by how", metrics.ended.clone());
        r.register("requests_refused", "Requests refused by a tenant's limit", metrics.refused.clone());
        r.register("http_responses", "Responses, by status", metrics.responses.clone());
        r.register("prompt_tokens", "Prompt tokens of ended requests", metrics.prompt_tokens.clone());
        r.register("generation_tokens", "Generated tokens of ended requests", metrics.generation_tokens.clone());
        let mut time = |name: &str, help: &str, family: &Histograms| {
            r.register_with_unit(name, help, Unit::Seconds, family.clone());
        };
        time("time_to_first_token", "From receipt to the first event", &metrics.first_token);
        time("inter_token_latency", "Between two events of a stream", &metrics.inter_token);
        time("e2e_request_latency", "From receipt to the end", &metrics.duration);
        time("request_queue_time", "In the upstream's queue", &metrics.queued);
        r.register("connections", "Open connections", metrics.connections.clone());
        r.register("tls_handshakes_failed", "TLS handshakes that failed", metrics.handshakes_failed.clone());
        Self { registry, ..metrics }
    }

    /// Adds metrics that others keep; `register` gets the registry with this product's prefix.
    #[must_use]
    pub fn with(mut self, register: impl FnOnce(&mut Registry)) -> Self {
        register(&mut self.registry);
        self
    }

    /// A request was admitted.
    pub fn begin(&self, tenant: &str, model: &str) {
        self.running.get_or_create(&request(tenant, model)).inc();
    }

    /// An admitted request ended.
    pub fn end(&self, report: &Report<'_>) {
        let labels = request(report.tenant, report.model);
        self.running.get_or_create(&labels).dec();
        self.prompt_tokens.get_or_create(&labels).inc_by(report.prompt_tokens);
        self.generation_tokens.get_or_create(&labels).inc_by(report.generation_tokens);
        let Request { tenant, model } = labels;
        self.ended.get_or_create(&Ended { tenant, model, outcome: report.outcome }).inc();
        let model = Model { model: report.model.to_owned() };
        self.duration.get_or_create(&model).observe(report.duration.as_secs_f64());
        self.queued.get_or_create(&model).observe(report.queued.as_secs_f64());
    }

    /// A tenant's limit refused a request.
    pub fn refuse(&self, tenant: &str, limit: &'static str) {
        self.refused.get_or_create(&Refused { tenant: tenant.to_owned(), limit }).inc();
    }

    /// A response's status line is about to be sent.
    pub fn respond(&self, status: u16) {
        self.responses.get_or_create(&Status { status }).inc();
    }

    /// The latency histograms of one model, so that a stream finds them once.
    #[must_use]
    pub fn latencies(&self, model: &str) -> Latencies {
        let model = Model { model: model.to_owned() };
        Latencies {
            first_token: self.first_token.get_or_create_owned(&model),
            inter_token: self.inter_token.get_or_create_owned(&model),
        }
    }

    /// Counts an open connection until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> Open {
        self.connections.inc();
        Open(self.connections.clone())
    }

    /// A TLS handshake failed.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.inc();
    }

    /// The text that Prometheus reads.
    ///
    /// # Errors
    /// A collector can't write.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Latency histograms of one model.
#[derive(Clone, Debug)]
pub struct Latencies {
    first_token: Histogram,
    inter_token: Histogram,
}

impl Latencies {
    /// The first event came this long after receipt.
    pub fn first(&self, after: Duration) {
        self.first_token.observe(after.as_secs_f64());
    }

    /// The next event came this long after the one before.
    pub fn next(&self, after: Duration) {
        self.inter_token.observe(after.as_secs_f64());
    }
}

fn request(tenant: &str, model: &str) -> Request {
    Request { tenant: tenant.to_owned(), model: model.to_owned() }
}

fn milliseconds_to_seconds() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5])
}

fn seconds_to_minutes() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0])
}
