//! The admin API, as far as the tests use it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;

use crate::{Client, Reply};

/// Talks to the admin listener.
#[derive(Clone, Debug)]
pub struct Admin(Client);

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    /// `PUT /admin/plugins/NAME`: loads a component, in place of the one that has the name.
    ///
    /// # Errors
    /// The connection fails. A refusal is a reply.
    pub async fn install(&self, name: &str, component: Vec<u8>) -> Result<Reply> {
        self.0.send(Method::PUT, &format!("/admin/plugins/{name}"), component.into()).await
    }

    /// `GET` of a path that answers in JSON.
    ///
    /// # Errors
    /// The connection fails or the answer is none.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.0.send(Method::GET, path, Bytes::new()).await?.ok()?.json()
    }

    /// Value of a metric, summed over its labels; `None` when there is no such sample.
    ///
    /// # Errors
    /// The connection fails or a value is no number.
    pub async fn metric(&self, name: &str) -> Result<Option<f64>> {
        let reply = self.0.send(Method::GET, "/metrics", Bytes::new()).await?.ok()?;
        let text = String::from_utf8(reply.body.to_vec())?;
        let mut sum = None;
        for line in text.lines() {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']));
            if let Some(value) = rest.and_then(|rest| rest.rsplit(' ').next()) {
                *sum.get_or_insert(0.0) += value.parse::<f64>()?;
            }
        }
        Ok(sum)
    }

    /// Reads a metric until it has this value.
    ///
    /// # Errors
    /// It has not within `limit`, or there is no such metric.
    pub async fn wait_metric(&self, name: &str, limit: Duration, value: f64) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let found = self.metric(name).await?.with_context(|| format!("no metric {name}"))?;
            if (found - value).abs() < f64::EPSILON {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{name} is {found} and not {value} after {limit:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asks `path` until `holds` says yes to the answer.
    ///
    /// # Errors
    /// It has not within `limit`; the error carries the last answer.
    pub async fn wait(&self, path: &str, limit: Duration, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = Instant::now() + limit;
        loop {
            let answer = self.get(path).await?;
            if holds(&answer) {
                return Ok(answer);
            }
            if Instant::now() > deadline {
                bail!("{path} did not become as expected within {limit:?}: {answer}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
