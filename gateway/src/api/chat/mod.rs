//! `POST /v1/chat/completions`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use tokio::time::Sleep;

use super::asked::Asked;
use super::{Shared, body};
use crate::app::App;
use crate::chat;
use crate::error::Error;
use crate::generate::{self, Call, Collector, GenerationStream};
use crate::layers::Deadline;
use crate::layers::admission::refused;
use crate::live::Live;
use crate::tenant::{Permit, Tenant};

mod chunk;
mod completion;
mod messages;
mod output;
mod request;
mod sampling;
mod shape;
mod stream;
#[cfg(test)]
mod tests;
mod ticket;
mod tools;
mod wire;

/// Output tokens reserved for a request that names no limit.
const DEFAULT_RESERVE: u64 = 512;

/// The endpoint.
pub(super) async fn create(State(app): Shared, asked: Asked, request_body: Body) -> Result<Response, Error> {
    let Asked { id, deadline, who, peer, version } = asked;
    let tenant = who.tenant()?;
    let bytes = body::read(request_body, &app.config.limits).await?;
    let wire: wire::Body = body::parse(&bytes)?;
    let delivery = request::delivery(&wire)?;
    let route = Arc::clone(app.route(tenant, &wire.model)?);
    let request = Arc::new(request::build(wire, &id.0, &route, app.config.limits.max_choices)?);
    let live = Live::new(Arc::clone(&id.0), Arc::clone(&tenant.name), request.model.clone(), delivery.stream);
    let live = app.running.enter(Arc::new(live));
    let prepared = generate::prepare(&route, Arc::clone(&request)).await?;

    let prompt = match prepared.prompt_tokens() {
        // An upstream that renders by itself: four bytes a token is the usual estimate.
        0 => bytes.len() as u64 / 4,
        tokens => u64::from(tokens),
    };
    let permit = admit(&app, tenant, &live, &request, prompt)?;
    let mut ticket = ticket::Ticket::new(&app, live, permit, request.n);
    let call = Call {
        share: tenant.share,
        priority: tenant.priority,
        deadline: Some(deadline.0),
        timeline: Arc::clone(ticket.timeline()),
    };
    let events = prepared.start(call).await.map_err(|error| ticket.failed(error))?;
    ticket.prompt(prompt);
    let answer = Answer::new(&id.0, &request);
    if !delivery.stream {
        let late = tokio::time::sleep_until(deadline.0.into());
        return unary(&app, ticket, &answer, &request, events, late).await;
    }
    let streaming = stream::Streaming {
        ticket,
        writer: chunk::ChunkWriter::new(answer, request.n, delivery.include_usage),
        peer,
        version,
        deadline,
        draining_expired: app.drain.expired(),
        keep_alive: app.config.limits.keep_alive,
        slow_client_timeout: app.config.limits.slow_client_timeout,
    };
    stream::respond(streaming, events).await
}

/// Takes one request, one slot, and as many tokens as the request may need.
fn admit(
    app: &App,
    tenant: &Arc<Tenant>,
    live: &Arc<Live>,
    request: &chat::Request,
    prompt: u64,
) -> Result<Permit, Error> {
    let output = request.max_tokens.map_or(DEFAULT_RESERVE, u64::from) * u64::from(request.n);
    Permit::take(tenant, prompt + output, Arc::clone(live) as _).map_err(|refusal| refused(app, tenant, refusal))
}

/// What every chunk of an answer repeats.
#[derive(Debug)]
struct Answer {
    id: String,
    created: u64,
    model: String,
}

impl Answer {
    fn new(id: &str, request: &chat::Request) -> Self {
        Self {
            id: format!("chatcmpl-{id}"),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()),
            model: request.model.clone(),
        }
    }
}

/// The whole answer at once. hyper drops this future when the client leaves, which aborts the generation.
async fn unary(
    app: &App,
    mut ticket: ticket::Ticket,
    answer: &Answer,
    request: &chat::Request,
    mut events: GenerationStream,
    late: Sleep,
) -> Result<Response, Error> {
    tokio::pin!(late);
    let mut collector = Collector::default();
    let expired = app.drain.expired();
    loop {
        let event = tokio::select! {
            () = expired.cancelled() => return Err(ticket.failed(stream::shutting_down())),
            () = &mut late => return Err(ticket.failed(Deadline::passed())),
            event = events.next() => event,
        };
        match event {
            Some(Ok((choice, event))) => {
                ticket.event(choice, &event);
                collector.push(choice, event);
            }
            Some(Err(error)) => return Err(ticket.failed(error)),
            None => break,
        }
    }
    match completion::Completion::new(answer, collector.finish(), request.n, request.logprobs.is_some()) {
        Some(completion) => {
            ticket.succeeded();
            Ok(Json(completion).into_response())
        }
        None => Err(ticket.failed(stream::cut_short())),
    }
}
