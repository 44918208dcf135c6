//! Metrics that others count, read when Prometheus asks.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// One metric with one label.
#[derive(Debug)]
pub struct Family {
    /// Name without the product's prefix, and for counters without `_total`.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Only grows.
    pub counter: bool,
    /// Name of the label.
    pub label: &'static str,
    /// Value of the label, value of the metric.
    pub samples: Vec<(String, f64)>,
}

/// Reads families at each scrape.
pub struct Scrape(pub Box<dyn Fn() -> Vec<Family> + Send + Sync>);

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in (self.0)() {
            let kind = if family.counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (value, sample) in &family.samples {
                let labels = [(family.label, value.as_str())];
                let sample_encoder = metric.encode_family(&labels)?;
                if family.counter {
                    ConstCounter::new(*sample).encode(sample_encoder)?;
                } else {
                    ConstGauge::new(*sample).encode(sample_encoder)?;
                }
            }
        }
        Ok(())
    }
}

/// Metrics of the plugin host.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "Prometheus' numbers are f64")]
pub fn plugins(registry: &crate::plugins::Registry) -> Vec<Family> {
    let status = registry.status();
    let totals = status.totals;
    let versions = |value: fn(&crate::plugins::VersionStatus) -> f64| {
        status.versions.iter().map(|v| (format!("{}@{}", v.plugin, v.serial), value(v))).collect()
    };
    let by = |label, samples: &[(&str, u64)]| {
        (label, samples.iter().map(|(name, count)| ((*name).to_owned(), *count as f64)).collect::<Vec<_>>())
    };
    let (cause, failures) = by(
        "cause",
        &[
            ("time", totals.failures_time),
            ("memory", totals.failures_memory),
            ("output", totals.failures_output),
            ("trap", totals.failures_trap),
        ],
    );
    let (event, events) = by(
        "event",
        &[
            ("loaded", totals.versions_loaded),
            ("freed", totals.versions_freed),
            ("refused", totals.loads_refused),
            ("rolled_back", totals.rollbacks),
        ],
    );
    let (outcome, streams) =
        by("outcome", &[("opened", totals.streams), ("failed", totals.streams_failed), ("replayed", totals.replays)]);
    let family = |counter, name, help, label, samples| Family { name, help, counter, label, samples };
    vec![
        family(false, "plugin_streams_running", "Streams on a version", "version", versions(|v| v.live_streams as f64)),
        family(false, "plugin_stores", "Stores of a version", "version", versions(|v| v.stores as f64)),
        family(true, "plugin_failures", "Guest calls that failed", cause, failures),
        family(true, "plugin_versions", "Versions loaded, freed, refused, rolled back", event, events),
        family(true, "plugin_streams", "Streams opened, failed, mended by replay", outcome, streams),
    ]
}
