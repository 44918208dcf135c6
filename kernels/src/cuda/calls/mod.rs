//! How each kernel is launched: grid, block, shared memory and parameters, from shapes and addresses alone.

mod rope;
mod rows;

pub use rope::{HeadGains, KvPlace, RopeRows, StepAt, rope_append};
pub use rows::{argmax, convert, embed, embed_nvfp4, gather_rows, rms_norm, silu_up};
