//! What a request must satisfy before it takes a place in the queue.

use super::Limits;
use crate::api::{EngineError, GenerateRequest, Pairing, Sampling};
use crate::exec::ModelSpec;

/// Most alternatives for which log probabilities are given, as in OpenAI's API.
const MAX_LOGPROBS: u8 = 20;

/// Checks ranges and sizes.
pub(super) fn check(request: &GenerateRequest, model: &ModelSpec, limits: &Limits) -> Result<(), EngineError> {
    let invalid = |what: String| Err(EngineError::Invalid(what));
    if request.prompt.is_empty() {
        return invalid("the prompt has no tokens; it needs at least one".into());
    }
    if let Some(id) = request.prompt.iter().find(|&&id| id >= model.vocab_size) {
        return invalid(format!("prompt token {id} is outside the vocabulary of {}", model.vocab_size));
    }
    if request.max_tokens == 0 {
        return invalid("max_tokens is 0; it must be at least 1".into());
    }
    if request.logprobs.is_some_and(|n| n > MAX_LOGPROBS) {
        return invalid(format!("top_logprobs is more than {MAX_LOGPROBS}"));
    }
    if request.grammar.is_some() && request.stop_ids.is_empty() {
        return invalid("a grammar needs a stop id to end with, and the model has none".into());
    }
    check_sampling(&request.sampling, model.vocab_size)?;
    let context = model.context_length as usize;
    if request.prompt.len() >= context {
        return Err(EngineError::PromptTooLong { prompt: request.prompt.len(), context });
    }
    let needed = (request.prompt.len() + 1).div_ceil(model.cache.block_tokens as usize);
    if needed > limits.blocks {
        return Err(EngineError::TooLarge { needed, total: limits.blocks });
    }
    Ok(())
}

/// Checks what a gateway decided for a request that [`check`] accepted.
pub(super) fn check_pairing(
    request: &GenerateRequest,
    pairing: &Pairing,
    paired: bool,
    (model, limits): (&ModelSpec, &Limits),
) -> Result<(), EngineError> {
    let invalid = |what: String| Err(EngineError::Invalid(what));
    match pairing.prefill {
        None if paired => return invalid("this worker only decodes; the request names no prefill worker".into()),
        Some(_) if !paired => return invalid("this worker prefills itself; the request names a prefill worker".into()),
        Some(_) if pairing.room == 0 || pairing.room >> 63 != 0 => {
            return invalid(format!("room {} is not a number from 1 to 2^63 - 1", pairing.room));
        }
        _ => {}
    }
    let output = &pairing.output;
    if output.len() >= request.max_tokens as usize || request.prompt.len() + output.len() >= limits.max_total_tokens {
        return if output.is_empty() { Ok(()) } else { invalid("the output to go on from is complete already".into()) };
    }
    match output.iter().find(|t| **t >= model.vocab_size) {
        Some(id) => invalid(format!("output token {id} is outside the vocabulary of {}", model.vocab_size)),
        None => Ok(()),
    }
}

fn check_sampling(s: &Sampling, vocab: u32) -> Result<(), EngineError> {
    let range = |name: &str, value: f32, ok: bool, must: &str| {
        if ok { Ok(()) } else { Err(EngineError::Invalid(format!("{name} is {value}; it must be {must}"))) }
    };
    range(
        "temperature",
        s.temperature,
        s.temperature.is_finite() && s.temperature >= 0.0,
        "a finite number, 0 or more",
    )?;
    range("top_p", s.top_p, s.top_p > 0.0 && s.top_p <= 1.0, "more than 0 and at most 1")?;
    range("min_p", s.min_p, (0.0..=1.0).contains(&s.min_p), "from 0 to 1")?;
    range("presence_penalty", s.presence_penalty, s.presence_penalty.is_finite(), "a finite number")?;
    range("frequency_penalty", s.frequency_penalty, s.frequency_penalty.is_finite(), "a finite number")?;
    let repetition = s.repetition_penalty.is_finite() && s.repetition_penalty > 0.0;
    range("repetition_penalty", s.repetition_penalty, repetition, "a finite number above 0")?;
    for &(id, bias) in &s.logit_bias {
        range("a logit_bias value", bias, !bias.is_nan(), "a number")?;
        if id >= vocab {
            return Err(EngineError::Invalid(format!("logit_bias names token {id}; the vocabulary has {vocab}")));
        }
    }
    Ok(())
}
