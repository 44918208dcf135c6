//! Plays the requests through an engine in a mode.

use super::{Mode, Output, VerifyError};
use crate::api::{EngineError, Event, GenerateRequest};
use crate::engine::{Engine, Generation};

/// The outputs in order of requests, pass after pass.
pub(super) fn play(engine: &Engine, mode: &Mode, requests: &[GenerateRequest]) -> Result<Vec<Output>, VerifyError> {
    let mut outputs = Vec::new();
    for _ in 0..if mode.reuse { 2 } else { 1 } {
        if mode.together {
            outputs.extend(together(engine, mode, requests)?);
        } else {
            for (i, request) in requests.iter().enumerate() {
                let lost = |error| VerifyError::Request { request: i, mode: mode.name, error };
                outputs.push(engine.submit(request.clone()).and_then(read).map_err(lost)?);
            }
        }
    }
    Ok(outputs)
}

fn together(engine: &Engine, mode: &Mode, requests: &[GenerateRequest]) -> Result<Vec<Output>, VerifyError> {
    let mut streams = Vec::new();
    let mut doomed = Vec::new();
    for (i, request) in requests.iter().enumerate() {
        let lost = |error| VerifyError::Request { request: i, mode: mode.name, error };
        streams.push(engine.submit(request.clone()).map_err(lost)?);
        if mode.aborts {
            doomed.push((i, engine.submit(request.clone()).map_err(lost)?));
        }
    }
    let aborter = std::thread::spawn(move || doomed.into_iter().for_each(|(i, g)| abort_after(g, i % 9)));
    let outputs = streams.into_iter().enumerate().map(|(i, generation)| {
        read(generation).map_err(|error| VerifyError::Request { request: i, mode: mode.name, error })
    });
    let outputs = outputs.collect();
    // It cannot panic, and has nothing to say.
    let _ = aborter.join();
    outputs
}

/// Leaves a generation after some events: in the queue, in prefill, at the hand-over, or while it is decoded.
fn abort_after(mut generation: Generation, events: usize) {
    for _ in 0..events {
        if generation.blocking_recv().is_none() {
            return;
        }
    }
}

fn read(mut generation: Generation) -> Result<Output, EngineError> {
    let mut tokens = Vec::new();
    while let Some(event) = generation.blocking_recv() {
        match event {
            Event::Stage(_) | Event::Cached(_) => {}
            Event::Token { id, logprobs } => tokens.push((id, logprobs)),
            Event::Finished { reason, .. } => return Ok(Output { tokens, reason }),
            Event::Failed(error) => return Err(error),
        }
    }
    Err(EngineError::ShuttingDown)
}
