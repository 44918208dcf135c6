//! What a generating request holds, and what is written down when it ends, however it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::error::outcome;
use crate::app::App;
use crate::chat::Event;
use crate::error::Error;
use crate::generate::{Stage, Timeline};
use crate::live::Listed;
use crate::metrics::{Latencies, Report};
use crate::tenant::Permit;

/// Dropping it gives slot and tokens back and reports the request.
#[derive(Debug)]
pub(super) struct Ticket {
    app: Arc<App>,
    latencies: Latencies,
    last_event: Option<Instant>,
    /// Tokens of each choice: counted on the way, corrected at its end.
    generated: Vec<u64>,
    outcome: &'static str,
    live: Listed,
    _permit: Permit,
}

impl Ticket {
    pub(super) fn new(app: &Arc<App>, live: Listed, permit: Permit, n: u32) -> Self {
        app.metrics.begin(&live.tenant, &live.model);
        Self {
            latencies: app.metrics.latencies(&live.model),
            app: Arc::clone(app),
            last_event: None,
            generated: vec![0; n as usize],
            // Whoever drops the ticket without a word was dropped by the client's departure.
            outcome: "client_gone",
            live,
            _permit: permit,
        }
    }

    /// The upstream is about to read this many prompt tokens.
    pub(super) fn prompt(&mut self, tokens: u64) {
        self.live.prompt(tokens);
    }

    /// Where the request's time goes.
    pub(super) fn timeline(&self) -> &Arc<Timeline> {
        &self.live.timeline
    }

    /// The request's id.
    pub(super) fn id(&self) -> &str {
        &self.live.id
    }

    /// Notes an event of the stream.
    pub(super) fn event(&mut self, choice: u32, event: &Event) {
        let now = Instant::now();
        match self.last_event.replace(now) {
            None => self.latencies.first(self.live.timeline.age()),
            Some(last) => self.latencies.next(now - last),
        }
        let Some(generated) = self.generated.get_mut(choice as usize) else { return };
        match event {
            Event::Finish { usage, .. } => {
                *generated = usage.completion_tokens.into();
                self.live.prompt(usage.prompt_tokens.into());
            }
            // An event is a token or a little more; close enough for a request that is cut off.
            Event::Content(_) | Event::Reasoning(_) | Event::ToolArgs { .. } => *generated += 1,
            Event::ToolStart { .. } | Event::Logprobs(_) => {}
        }
        self.live.set_generated(self.generated.iter().sum());
    }

    /// The answer is complete.
    pub(super) fn succeeded(&mut self) {
        self.outcome = "ok";
    }

    /// The request failed; returns the error for the client.
    pub(super) fn failed(&mut self, error: Error) -> Error {
        self.outcome = outcome(error.kind);
        error
    }

    /// The client did not read for too long.
    pub(super) fn stalled(&mut self) {
        self.outcome = "slow_client";
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let (prompt_tokens, generation_tokens) = self.live.counts();
        let timeline = &self.live.timeline;
        let (duration, queued) = (timeline.age(), timeline.spent(Stage::Queued));
        self.app.metrics.end(&Report {
            tenant: &self.live.tenant,
            model: &self.live.model,
            outcome: self.outcome,
            duration,
            queued,
            prompt_tokens,
            generation_tokens,
        });
        tracing::info!(
            id = %self.live.id,
            tenant = %self.live.tenant,
            model = %self.live.model,
            stream = self.live.stream,
            outcome = self.outcome,
            prompt_tokens,
            generation_tokens,
            ttft_ms = timeline.first_event().map(millis),
            duration_ms = millis(duration),
            "request ended"
        );
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
