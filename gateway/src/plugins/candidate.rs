//! Turns component bytes into a version that may serve, or says why not.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::bindings::types as wit;
use super::descriptor::{Faces, Plugin};
use super::error::{Cause, RefusedReason};
use super::event::StreamConfig;
use super::guest::{Budget, Code, Guest, StartError};
use super::host::Host;
use super::lower;
use super::version::{Identity, Version};

/// SHA-256 in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a plugin may be loaded under this name; it becomes a file name.
pub(super) fn is_plugin_name(name: &str) -> bool {
    let head = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let tail = |byte: u8| head(byte) || matches!(byte, b'-' | b'_');
    name.len() <= 64 && name.bytes().next().is_some_and(head) && name.bytes().all(tail)
}

/// Compiles, starts, asks for the description, and tries each format once. Takes tenths of a second.
pub(super) fn prepare(host: &Arc<Host>, identity: Identity) -> Result<Version, RefusedReason> {
    let (bytes, limit) = (identity.wasm.len(), host.settings.max_component_bytes);
    if bytes > limit {
        return Err(RefusedReason::TooLarge { bytes, limit });
    }
    let code = Code::compile(&host.engine, &identity.wasm)?;
    let mut guest = Guest::start(&code, &host.settings).map_err(|error| match error {
        StartError::Failed(cause, error) => RefusedReason::Failed { call: "its start", error: said(cause, &error) },
        StartError::Types(interface, error) => RefusedReason::Types { interface, error },
    })?;
    let budget = host.call_budget;
    let described = guest.call(budget, |guest| guest.meta.call_describe(&mut guest.store));
    let described = described.map_err(|cause| RefusedReason::Failed { call: "describe", error: cause.to_string() })?;
    let faces = Faces { grammar: code.has_grammar(), render: code.has_render() };
    let plugin = Plugin::check(described, &faces).map_err(RefusedReason::Description)?;
    for n in 0..plugin.formats.len() {
        try_format(&mut guest, &plugin, n, budget).map_err(|(call, cause)| {
            let error = format!("{cause} (format {:?}, a greeting as text)", plugin.formats[n].name);
            RefusedReason::Failed { call, error }
        })?;
    }
    drop(guest);
    Ok(Version::new(Arc::clone(host), identity, plugin, code))
}

/// A parser that cannot read a greeting would fail every stream.
fn try_format(guest: &mut Guest, plugin: &Plugin, n: usize, budget: Budget) -> Result<(), (&'static str, Cause)> {
    let config = lower::config(&plugin.formats[n], &StreamConfig::default());
    let parser = guest
        .call(budget, |guest| guest.parse.parser().call_constructor(&mut guest.store, &config, None))
        .map_err(|cause| ("the parser's constructor", cause))?;
    guest
        .call(budget, |guest| guest.parse.parser().call_push(&mut guest.store, parser, "Hello."))
        .map_err(|cause| ("push", cause))?;
    guest
        .call(budget, |guest| guest.parse.parser().call_finish(&mut guest.store, parser, &wit::StopCause::Eos(None)))
        .map_err(|cause| ("finish", cause))?;
    Ok(())
}

fn said(cause: Cause, error: &str) -> String {
    format!("{cause}: {}", error.lines().next().unwrap_or_default())
}
