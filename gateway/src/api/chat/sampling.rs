//! Sampling parameters: the client's within their ranges, the route's for the rest.

use sluicegate_backend::api::Sampling;

use super::request::{check, invalid};
use super::wire::Body;
use crate::error::{Error, Kind};

pub(super) fn build(body: &Body, defaults: &Sampling) -> Result<Sampling, Error> {
    Ok(Sampling {
        temperature: within("temperature", body.temperature, defaults.temperature, 0.0..=2.0)?,
        top_p: top_p(body.top_p, defaults.top_p)?,
        top_k: top_k(body.top_k, defaults.top_k)?,
        min_p: within("min_p", body.min_p, defaults.min_p, 0.0..=1.0)?,
        presence_penalty: within("presence_penalty", body.presence_penalty, defaults.presence_penalty, -2.0..=2.0)?,
        frequency_penalty: within("frequency_penalty", body.frequency_penalty, defaults.frequency_penalty, -2.0..=2.0)?,
        repetition_penalty: repetition(body.repetition_penalty, defaults.repetition_penalty)?,
        logit_bias: logit_bias(body)?,
        seed: seed(body.seed)?,
    })
}

fn within(param: &str, value: Option<f32>, default: f32, range: std::ops::RangeInclusive<f32>) -> Result<f32, Error> {
    let Some(value) = value else { return Ok(default) };
    check(range.contains(&value), param, &format!("must be {} to {}", range.start(), range.end()))?;
    Ok(value)
}

fn top_p(value: Option<f32>, default: f32) -> Result<f32, Error> {
    let Some(value) = value else { return Ok(default) };
    check(value > 0.0 && value <= 1.0, "top_p", "must be above 0 and at most 1")?;
    Ok(value)
}

/// vLLM writes "off" as -1 and as 0.
fn top_k(value: Option<i64>, default: u32) -> Result<u32, Error> {
    match value {
        None => Ok(default),
        Some(-1) => Ok(0),
        Some(value) => u32::try_from(value).map_err(|_| invalid("top_k", "must be -1 or 0 (off) or more")),
    }
}

fn repetition(value: Option<f32>, default: f32) -> Result<f32, Error> {
    let Some(value) = value else { return Ok(default) };
    check(value > 0.0 && value.is_finite(), "repetition_penalty", "must be above 0")?;
    Ok(value)
}

fn logit_bias(body: &Body) -> Result<Vec<(u32, f32)>, Error> {
    let entry = |(token, bias): (&String, &f32)| {
        let at = || format!("logit_bias.{token}");
        let token = token.parse().map_err(|_| invalid(at(), "a key must be a token id"))?;
        check((-100.0..=100.0).contains(bias), at(), "must be -100 to 100")?;
        Ok((token, *bias))
    };
    body.logit_bias.iter().flatten().map(entry).collect()
}

fn seed(value: Option<i64>) -> Result<u64, Error> {
    match value {
        Some(seed) => Ok(seed.cast_unsigned()),
        None => getrandom::u64()
            .map_err(|error| Error::new(Kind::Internal, format!("the system gives no random numbers: {error}"))),
    }
}
