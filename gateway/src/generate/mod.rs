//! The one streamed path: chat request → prompt → upstream → text → format plugin → events.

mod assemble;
mod choice;
mod constrain;
mod logprobs;
mod message;
mod openai;
mod output;
mod prepare;
mod stream;
#[cfg(test)]
mod tests;
mod timeline;

use std::sync::Arc;
use std::time::Instant;

pub use assemble::{Assembler, Malformed};
pub use message::{Collector, Message, total as total_usage};
pub use prepare::{Prepared, prepare};
pub use stream::GenerationStream;
pub use timeline::{Stage, Timeline};

use crate::chat;
use crate::error::Error;
use crate::route::Route;

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

/// [`prepare`] and [`Prepared::start`] in one.
///
/// # Errors
/// Those of both.
pub async fn start(route: &Arc<Route>, request: Arc<chat::Request>, call: Call) -> Result<GenerationStream, Error> {
    prepare(route, request).await?.start(call).await
}
