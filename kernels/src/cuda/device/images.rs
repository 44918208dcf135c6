//! Compiled kernels that are part of the binary.

/// Fatbins that `cargo xtask kernels` made before this crate was compiled; none where it did not run.
#[must_use]
pub fn embedded() -> &'static [&'static [u8]] {
    IMAGES
}

include!(concat!(env!("OUT_DIR"), "/images.rs"));
