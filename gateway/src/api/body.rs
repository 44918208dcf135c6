//! A request's body: read within its limits, then turned into types, with the field at fault in every error.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError};
use serde::de::DeserializeOwned;

use crate::config::Limits;
use crate::error::{Error, Kind};
use crate::layers::body_limit;

/// Reads the whole body.
pub(super) async fn read(body: Body, limits: &Limits) -> Result<Bytes, Error> {
    match tokio::time::timeout(limits.body_timeout, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if too_long(&error) => Err(body_limit::too_large(limits.max_body_bytes)),
        Ok(Err(error)) => Err(Error::new(Kind::BadRequest, format!("the request body ended early: {error}"))),
        Err(_) => Err(Error::new(
            Kind::BadRequest,
            format!("the request body did not arrive within {} s", limits.body_timeout.as_secs()),
        )),
    }
}

fn too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Parses JSON. `param` of the error is the path of the field, in OpenAI's notation: `messages[2].content`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        located(if path == "." { "" } else { &path }, error.inner())
    })?;
    json.end().map_err(|error| located("", &error))?;
    Ok(parsed)
}

fn located(path: &str, error: &serde_json::Error) -> Error {
    if !error.is_data() {
        return Error::new(Kind::BadRequest, format!("the request body is not valid JSON: {error}"));
    }
    let text = plain(&error.to_string());
    // A field that is missing is no part of the path yet.
    let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let param = match missing {
        Some(field) if path.is_empty() => field.to_owned(),
        Some(field) => format!("{path}.{field}"),
        None => path.to_owned(),
    };
    if param.is_empty() {
        return Error::new(Kind::BadRequest, format!("the request body must be a JSON object: {text}"));
    }
    let message = match missing {
        Some(_) => format!("{param} is required"),
        None => format!("{param}: {text}"),
    };
    Error::new(Kind::BadRequest, message).param(param)
}

/// serde's message without the position and without Rust's type names.
fn plain(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let (head, expected) = message.split_once("expected ").unwrap_or((message, ""));
    let expected = match expected {
        "" => return message.to_owned(),
        "u8" | "u32" | "u64" | "usize" => "an integer of 0 or more",
        "i32" | "i64" => "an integer",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("{head}expected {expected}")
}
