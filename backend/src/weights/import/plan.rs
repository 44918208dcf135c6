//! Decides what becomes of every tensor, and how tensors are distributed over files.

use std::collections::BTreeMap;

use super::super::Dtype;
use super::super::write::Planned;
use super::Target;
use super::source::{Source, SourceTensor};

/// What becomes of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Written in this dtype.
    Keep(Dtype),
    /// Written as NVFP4; tensors of one group share their global scale, as fused kernels want it.
    Quantize {
        /// Name of the group.
        group: String,
    },
}

/// The whole conversion.
pub(super) struct Plan {
    pub(super) fates: Vec<Fate>,
    /// Tensors of each group.
    pub(super) groups: BTreeMap<String, Vec<usize>>,
    /// Source tensors of each file.
    pub(super) shards: Vec<Vec<usize>>,
}

impl Plan {
    /// Files hold up to `shard_bytes`, or one tensor that is larger.
    pub(super) fn new(source: &dyn Source, target: Target, shard_bytes: usize) -> Self {
        let mut plan = Self { fates: Vec::new(), groups: BTreeMap::new(), shards: Vec::new() };
        let mut room = 0;
        for (i, t) in source.tensors().iter().enumerate() {
            let fate = match (target, source.verbatim(i), quantization_group(t)) {
                (Target::Nvfp4, None, Some(group)) => Fate::Quantize { group },
                _ => Fate::Keep(t.kept.clone()),
            };
            if let Fate::Quantize { group } = &fate {
                plan.groups.entry(group.clone()).or_default().push(i);
            }
            let bytes: usize = outputs(t, &fate).iter().map(Planned::bytes).sum();
            if plan.shards.is_empty() || bytes > room {
                plan.shards.push(Vec::new());
                room = shard_bytes;
            }
            room = room.saturating_sub(bytes);
            plan.shards.last_mut().expect("one was pushed").push(i);
            plan.fates.push(fate);
        }
        plan
    }

    pub(super) fn quantizes(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether layers in 8-bit floats are copied.
    pub(super) fn keeps_fp8(&self, source: &dyn Source) -> bool {
        let mut all = source.tensors().iter().zip(&self.fates);
        all.any(|(t, fate)| matches!(fate, Fate::Keep(Dtype::F8E4m3)) && t.name.ends_with(".weight"))
    }

    /// Names of the linear layers that stay as they are, for the quantization config.
    pub(super) fn unquantized_layers(&self, source: &dyn Source) -> Vec<String> {
        let kept =
            source.tensors().iter().zip(&self.fates).filter(|(t, f)| t.shape.len() == 2 && matches!(f, Fate::Keep(_)));
        let mut names: Vec<String> = kept
            .filter_map(|(t, _)| t.name.strip_suffix(".weight"))
            .filter(|n| !n.ends_with("embed_tokens") && *n != "embed")
            .map(str::to_owned)
            .collect();
        if !names.iter().any(|n| n == "lm_head" || n == "head") {
            // The tied head has no tensor of its own.
            names.push("lm_head".into());
        }
        names
    }
}

/// The tensors that a source tensor becomes.
pub(super) fn outputs(t: &SourceTensor, fate: &Fate) -> Vec<Planned> {
    match fate {
        Fate::Keep(dtype) => vec![Planned { name: t.name.clone(), dtype: dtype.clone(), shape: t.shape.clone() }],
        Fate::Quantize { .. } => {
            let part = |suffix: &str, dtype, shape| Planned { name: sibling(&t.name, suffix), dtype, shape };
            let (rows, cols) = (t.shape[0], t.shape[1]);
            vec![
                part("weight", Dtype::U8, vec![rows, cols / 2]),
                part("weight_scale", Dtype::F8E4m3, vec![rows, cols / 16]),
                part("weight_scale_2", Dtype::F32, Vec::new()),
                part("input_scale", Dtype::F32, Vec::new()),
            ]
        }
    }
}

/// `a.b.weight` with its last part replaced.
pub(super) fn sibling(name: &str, suffix: &str) -> String {
    format!("{}{suffix}", name.strip_suffix("weight").unwrap_or(name))
}

/// The scale group of a weight that is quantized; `None` for all that stays.
pub(super) fn quantization_group(t: &SourceTensor) -> Option<String> {
    if t.shape.len() != 2 || !t.shape[1].is_multiple_of(16) {
        return None;
    }
    let (parent, layer) = t.name.strip_suffix(".weight")?.rsplit_once('.')?;
    let routed_expert = parent.contains(".experts.");
    match layer {
        "q_proj" | "k_proj" | "v_proj" => Some(format!("{parent}.qkv_proj")),
        "gate_proj" | "up_proj" => Some(format!("{parent}.gate_up_proj")),
        "o_proj" | "down_proj" => Some(t.name.clone()),
        "w1" | "w3" if routed_expert => Some(format!("{parent}.w13")),
        "w2" if routed_expert => Some(t.name.clone()),
        _ => None,
    }
}
