//! The loading code of the golden Llama: every tensor it has, and no other.

use sluicegate_backend::weights::{Linear, Loader};

/// Every weight of a Llama of the golden set's size, by format.
pub(crate) fn llama(load: &mut Loader<'_>) -> Vec<Linear> {
    load.matrix("model.embed_tokens.weight", 512, 128);
    load.vector("model.norm.weight", 128);
    let mut all = Vec::new();
    for l in 0..3 {
        let p = format!("model.layers.{l}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            load.vector(&format!("{p}.{norm}.weight"), 128);
        }
        for (name, out, cols) in [
            ("self_attn.q_proj", 128, 128),
            ("self_attn.k_proj", 64, 128),
            ("self_attn.v_proj", 64, 128),
            ("self_attn.o_proj", 128, 128),
            ("mlp.gate_proj", 256, 128),
            ("mlp.up_proj", 256, 128),
            ("mlp.down_proj", 128, 256),
        ] {
            all.push(load.linear(&format!("{p}.{name}"), out, cols));
        }
    }
    all
}
