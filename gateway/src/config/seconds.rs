//! Durations in the file: a number of seconds, whole or not.

use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// For `#[serde(deserialize_with)]`.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(Seconds)
}

struct Seconds;

impl Visitor<'_> for Seconds {
    type Value = Duration;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number of seconds above 0")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Duration, E> {
        match u64::try_from(value) {
            Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
            _ => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Duration, E> {
        match Duration::try_from_secs_f64(value) {
            Ok(duration) if !duration.is_zero() => Ok(duration),
            _ => Err(E::invalid_value(Unexpected::Float(value), &self)),
        }
    }
}
