//! The control protocol's messages, and what they are in the engine's own types.

use std::time::{Duration, Instant};

use sluicegate_backend::api::{
    EngineError, Event, FinishReason, GenerateRequest, Logprob, Logprobs, Pairing, Sampling, Stage, Usage,
};

#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code"
)]
pub(crate) mod proto {
    tonic::include_proto!("sluicegate.worker.v1");
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Computes prompts.
    Prefill = 1,
    /// Runs everything after the first token.
    Decode = 2,
    /// Both.
    Both = 3,
}

impl Role {
    /// As the command line and the metrics name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Both => "both",
        }
    }

    pub(crate) fn of(role: proto::Role) -> Option<Self> {
        match role {
            proto::Role::Unspecified => None,
            proto::Role::Prefill => Some(Self::Prefill),
            proto::Role::Decode => Some(Self::Decode),
            proto::Role::Both => Some(Self::Both),
        }
    }

    pub(crate) fn proto(self) -> proto::Role {
        match self {
            Self::Prefill => proto::Role::Prefill,
            Self::Decode => proto::Role::Decode,
            Self::Both => proto::Role::Both,
        }
    }
}

/// A request as it is sent.
pub(crate) fn submit(number: u64, request: &GenerateRequest, pairing: &Pairing) -> proto::Submit {
    let s = &request.sampling;
    let left = |deadline: Instant| {
        let left = deadline.saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    };
    proto::Submit {
        request: number,
        id: request.id.to_string(),
        room: pairing.room,
        prefill: pairing.prefill.map(|a| a.to_string()).unwrap_or_default(),
        prompt: request.prompt.clone(),
        output: pairing.output.clone(),
        sampling: Some(proto::Sampling {
            temperature: s.temperature,
            top_k: s.top_k,
            top_p: s.top_p,
            min_p: s.min_p,
            presence_penalty: s.presence_penalty,
            frequency_penalty: s.frequency_penalty,
            repetition_penalty: s.repetition_penalty,
            bias_ids: s.logit_bias.iter().map(|b| b.0).collect(),
            bias_values: s.logit_bias.iter().map(|b| b.1).collect(),
            seed: s.seed,
        }),
        stop_ids: request.stop_ids.clone(),
        max_tokens: request.max_tokens,
        logprobs: request.logprobs.map(u32::from),
        priority: request.priority,
        deadline_ms: request.deadline.map(left),
        share: request.share,
        grammar: request.grammar.as_ref().and_then(|g| g.source()).map(|source| source.to_string()),
    }
}

/// What a gateway has asked for.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) request: GenerateRequest,
    pub(crate) pairing: Pairing,
    /// What a grammar is to be compiled from.
    pub(crate) grammar: Option<String>,
}

/// A request as it was sent, its grammar still to be compiled.
///
/// # Errors
/// What makes no sense.
pub(crate) fn submitted(message: proto::Submit) -> Result<Submitted, EngineError> {
    let invalid = |what: String| EngineError::Invalid(what);
    let s = message.sampling.ok_or_else(|| invalid("the request has no sampling".into()))?;
    let prefill = match message.prefill.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| invalid(format!("\"{text}\" is not the address of a worker")))?),
    };
    let logprobs = message.logprobs.map(u8::try_from).transpose();
    let request = GenerateRequest {
        id: message.id.into(),
        prompt: message.prompt,
        sampling: Sampling {
            temperature: s.temperature,
            top_k: s.top_k,
            top_p: s.top_p,
            min_p: s.min_p,
            presence_penalty: s.presence_penalty,
            frequency_penalty: s.frequency_penalty,
            repetition_penalty: s.repetition_penalty,
            logit_bias: s.bias_ids.into_iter().zip(s.bias_values).collect(),
            seed: s.seed,
        },
        stop_ids: message.stop_ids,
        max_tokens: message.max_tokens,
        logprobs: logprobs.map_err(|_| invalid("top_logprobs is more than 255".into()))?,
        grammar: None,
        priority: message.priority,
        deadline: message.deadline_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))),
        share: message.share,
    };
    let pairing = Pairing { room: message.room, prefill, output: message.output };
    Ok(Submitted { request, pairing, grammar: message.grammar })
}

/// An event as it is sent.
pub(crate) fn said(request: u64, event: Event) -> proto::Said {
    use proto::said::Event as Wire;
    let event = match event {
        Event::Stage(Stage::Prefill) => Wire::Stage(proto::Stage::Prefill as i32),
        Event::Stage(Stage::Transfer) => Wire::Stage(proto::Stage::Transfer as i32),
        Event::Stage(Stage::Decode) => Wire::Stage(proto::Stage::Decode as i32),
        Event::Cached(tokens) => Wire::Cached(tokens),
        Event::Token { id, logprobs } => {
            let all: Vec<Logprob> =
                logprobs.iter().flat_map(|l| std::iter::once(&l.chosen).chain(&l.top)).copied().collect();
            Wire::Token(proto::Token {
                id,
                logprob_ids: all.iter().map(|l| l.id).collect(),
                logprobs: all.iter().map(|l| l.logprob).collect(),
            })
        }
        Event::Finished { reason, usage } => {
            use proto::finished::Reason;
            let (reason, stop_id) = match reason {
                FinishReason::Stop(id) => (Reason::Stop, id),
                FinishReason::Length => (Reason::Length, 0),
                FinishReason::Deadline => (Reason::Deadline, 0),
            };
            Wire::Finished(proto::Finished {
                reason: reason as i32,
                stop_id,
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                completion_tokens: usage.completion_tokens,
            })
        }
        // The type always serializes.
        Event::Failed(error) => Wire::Failed(serde_json::to_vec(&error).unwrap_or_default()),
    };
    proto::Said { request, event: Some(event) }
}

/// What a worker says about a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    /// Its engine has it.
    Accepted,
    /// What the engine yields.
    Event(Event),
}

/// Events that a worker may send for a request before the gateway has passed one on.
pub(crate) const CREDIT: u32 = 64;

/// That the engine has a request.
pub(crate) fn accepted(request: u64) -> proto::Said {
    proto::Said { request, event: Some(proto::said::Event::Accepted(true)) }
}

/// An event as it was sent; none if it makes no sense.
pub(crate) fn heard(event: proto::said::Event) -> Option<Heard> {
    use proto::said::Event as Wire;
    Some(Heard::Event(match event {
        Wire::Accepted(_) => return Some(Heard::Accepted),
        Wire::Stage(stage) => Event::Stage(match proto::Stage::try_from(stage).ok()? {
            proto::Stage::Unspecified => return None,
            proto::Stage::Prefill => Stage::Prefill,
            proto::Stage::Transfer => Stage::Transfer,
            proto::Stage::Decode => Stage::Decode,
        }),
        Wire::Cached(tokens) => Event::Cached(tokens),
        Wire::Token(token) => {
            let pairs = token.logprob_ids.into_iter().zip(token.logprobs);
            let mut all = pairs.map(|(id, logprob)| Logprob { id, logprob });
            let logprobs = all.next().map(|chosen| Box::new(Logprobs { chosen, top: all.collect() }));
            Event::Token { id: token.id, logprobs }
        }
        Wire::Finished(f) => {
            let reason = match proto::finished::Reason::try_from(f.reason).ok()? {
                proto::finished::Reason::Unspecified => return None,
                proto::finished::Reason::Stop => FinishReason::Stop(f.stop_id),
                proto::finished::Reason::Length => FinishReason::Length,
                proto::finished::Reason::Deadline => FinishReason::Deadline,
            };
            let (prompt_tokens, cached_tokens) = (f.prompt_tokens, f.cached_tokens);
            let usage = Usage { prompt_tokens, cached_tokens, completion_tokens: f.completion_tokens };
            Event::Finished { reason, usage }
        }
        Wire::Failed(error) => Event::Failed(serde_json::from_slice(&error).ok()?),
    }))
}
