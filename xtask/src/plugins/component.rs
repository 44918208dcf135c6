//! From a core module to a component on disk.

use std::path::Path;

use anyhow::{Context, Result, bail};
use wit_component::{ComponentEncoder, DecodedWasm};

use super::door;
use crate::workspace::write_atomically;

/// Encodes `module` as a component at `component`. Returns whether the file changed: a running gateway watches it.
///
/// # Errors
/// The module exports no world, the component would import something, or a file cannot be read or written.
pub(crate) fn encode(module: &Path, component: &Path) -> Result<bool> {
    let core = std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let encoded = encode_bytes(&core).with_context(|| format!("{} is not a format plugin", module.display()))?;
    if std::fs::read(component).is_ok_and(|old| old == encoded) {
        return Ok(false);
    }
    write_atomically(component, &encoded)?;
    Ok(true)
}

fn encode_bytes(core: &[u8]) -> Result<Vec<u8>> {
    let encoded = door::add(&ComponentEncoder::default().module(core)?.validate(true).encode()?)?;
    let DecodedWasm::Component(resolve, world) = wit_component::decode(&encoded)? else {
        bail!("it exports no world of wit/format.wit");
    };
    let world = &resolve.worlds[world];
    let imports: Vec<String> = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();
    if !imports.is_empty() {
        bail!("a plugin imports nothing, this one wants {}", imports.join(", "));
    }
    if world.exports.is_empty() {
        bail!("it exports nothing; call the SDK's export macro");
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest module: magic and version.
    const EMPTY: [u8; 8] = *b"\0asm\x01\0\0\0";

    #[test]
    fn a_module_that_exports_nothing_is_refused() {
        let error = format!("{:#}", encode_bytes(&EMPTY).unwrap_err());
        assert!(error.contains("exports"), "{error}");
    }

    #[test]
    fn bytes_that_are_no_module_are_refused() {
        assert!(encode_bytes(b"not wasm").is_err());
    }
}
