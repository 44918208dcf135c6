//! The one streamed path: chat request → prompt → upstream → text → format plugin → events.

mod assemble;
mod choice;
mod stream;
mod timeline;

use std::sync::Arc;
use std::time::Instant;

pub use assemble::{Assembler, Malformed};
pub use stream::GenerationStream;
pub use timeline::{Stage, Timeline};

use crate::chat;
use crate::error::Error;
use crate::route::Route;
use crate::upstream::Job;

/// How one request runs, apart from what it says.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whose share of the engine this uses.
    pub share: u64,
    /// Larger runs earlier.
    pub priority: i32,
    /// When the request has failed if it is not done.
    pub deadline: Option<Instant>,
    /// Where its time is written down.
    pub timeline: Arc<Timeline>,
}

impl Default for Call {
    fn default() -> Self {
        Self { share: 0, priority: 0, deadline: None, timeline: Arc::new(Timeline::new()) }
    }
}

/// A rendered request that has not been submitted.
#[derive(Debug)]
pub struct Prepared {
    route: Arc<Route>,
    request: Arc<chat::Request>,
    prompt: Arc<[u32]>,
}

/// Pins the format's version and renders and tokenizes the prompt. Nothing runs yet, so that a tenant's token budget can be
/// asked first. Costs CPU in proportion to the prompt.
///
/// # Errors
/// The client's fault when the conversation does not fit the template or the context; the gateway's when a plugin
/// or template is broken.
pub fn prepare(route: &Arc<Route>, request: Arc<chat::Request>) -> Result<Prepared, Error> {
    Ok(Prepared { route: Arc::clone(route), request, prompt: Arc::from([]) })
}

impl Prepared {
    /// Prompt tokens; 0 when the route does not tokenize.
    #[must_use]
    pub fn prompt_tokens(&self) -> u32 {
        u32::try_from(self.prompt.len()).unwrap_or(u32::MAX)
    }

    /// Submits all choices.
    ///
    /// # Errors
    /// Whatever the upstream says; choices already submitted are aborted.
    pub async fn start(self, call: Call) -> Result<GenerationStream, Error> {
        call.timeline.enter(Stage::Queued);
        let mut choices = Vec::with_capacity(self.request.n as usize);
        for index in 0..self.request.n {
            let pieces = self.route.upstream.submit(self.job(index, &call)).await?;
            choices.push(choice::Choice::new(index, pieces));
        }
        Ok(GenerationStream::new(choices, call.timeline))
    }

    fn job(&self, choice: u32, call: &Call) -> Job {
        let mut sampling = self.request.sampling.clone();
        sampling.seed = sampling.seed.wrapping_add(u64::from(choice));
        Job {
            id: Arc::from(format!("{}-{choice}", self.request.id)),
            choice,
            request: Arc::clone(&self.request),
            prompt: Arc::clone(&self.prompt),
            stop_ids: self.route.stop_ids.clone(),
            max_tokens: self.request.max_tokens.or(self.route.max_tokens),
            sampling,
            priority: call.priority,
            deadline: call.deadline,
            share: call.share,
        }
    }
}

/// [`prepare`] and [`Prepared::start`] in one.
///
/// # Errors
/// Those of both.
pub async fn start(route: &Arc<Route>, request: Arc<chat::Request>, call: Call) -> Result<GenerationStream, Error> {
    prepare(route, request)?.start(call).await
}
