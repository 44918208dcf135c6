//! DeepSeek-V4 as compressed-tensors packs NVFP4: other names, and global scales that are reciprocals.

use std::path::Path;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::json;
use sluicegate_backend::run::CpuRunOptions;

use crate::drive::{logits, open};
use crate::golden::{Golden, distance, model};

/// A tensor of the new file.
struct Packed {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// The same tensor as compressed-tensors writes it.
fn pack(name: &str, t: &TensorView<'_>, quantized: impl Fn(&str) -> bool) -> Packed {
    let (module, part) = name.rsplit_once('.').unwrap_or(("", name));
    let whole = |name: String| Packed { name, dtype: t.dtype(), shape: t.shape().to_vec(), data: t.data().to_vec() };
    let global = match part {
        "weight" if quantized(module) => return whole(format!("{module}.weight_packed")),
        "weight_scale_2" => "weight_global_scale",
        "input_scale" => "input_global_scale",
        _ => return whole(name.to_owned()),
    };
    let reciprocal = 1.0 / f32::from_le_bytes(t.data().try_into().expect("one number"));
    let data = reciprocal.to_le_bytes().to_vec();
    Packed { name: format!("{module}.{global}"), dtype: Dtype::F32, shape: vec![1], data }
}

/// The ModelOpt checkpoint, packed anew.
fn write(dir: &Path) {
    let from = model("deepseek_v4_nvfp4_modelopt");
    let bytes = std::fs::read(from.join("model.safetensors")).expect("a golden");
    let all = SafeTensors::deserialize(&bytes).expect("a golden");
    let quantized = |module: &str| all.tensor(&format!("{module}.weight_scale_2")).is_ok();
    let packed: Vec<Packed> = all.tensors().iter().map(|(name, t)| pack(name, t, quantized)).collect();
    assert!(packed.iter().filter(|p| p.name.ends_with("weight_packed")).count() > 50);
    let views = packed.iter().map(|p| {
        let view = TensorView::new(p.dtype, p.shape.clone(), &p.data).expect("as many bytes as before");
        (p.name.as_str(), view)
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).expect("a file");
    let config = std::fs::read(from.join("config.json")).expect("a golden");
    let mut config: serde_json::Value = serde_json::from_slice(&config).expect("a config");
    let group = json!({ "num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16 });
    config["quantization_config"] = json!({
        "quant_method": "compressed-tensors",
        "format": "nvfp4-pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["embed", "head", "*.ffn.gate", "*.attn.compressor.*", "*.attn.indexer.weights_proj", "*hc_*"],
        "config_groups": { "group_0": { "targets": ["Linear"], "weights": group, "input_activations": group } },
    });
    std::fs::write(dir.join("config.json"), config.to_string()).expect("a config");
}

#[test]
fn deepseek_v4_is_the_same_in_both_layouts() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    crate::oracle::check("deepseek_v4_nvfp4", dir.path());
    let options = CpuRunOptions { block_tokens: 128, ..CpuRunOptions::reference() };
    let (mut direct, mut reciprocal) = (open(&model("deepseek_v4_nvfp4_modelopt"), options), open(dir.path(), options));
    let table: Vec<u32> = (0..8).collect();
    let mut worst = 0f32;
    for p in &Golden::read("deepseek_v4_nvfp4").prompts {
        let expected = logits(&mut direct, &p.ids, &[160], &table);
        let found = logits(&mut reciprocal, &p.ids, &[160], &table);
        worst = expected.iter().zip(&found).fold(worst, |m, (a, b)| m.max(distance(a, b)));
    }
    // Codes and block scales are the same bytes; a global scale is rounded once more.
    println!("compressed-tensors against ModelOpt: largest difference {worst:e}");
    assert!(worst < 1e-4, "{worst}");
}
