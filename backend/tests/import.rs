//! Imports: NVFP4 as ModelOpt writes it, GGUF tensors and tokenizer, and refusals.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test, in its helpers too")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sluicegate_backend::weights::import::{Target, import};
use sluicegate_backend::weights::{Checkpoint, Dtype, Tensor};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

fn tensors(dir: &Path) -> BTreeMap<String, Tensor> {
    Checkpoint::open(dir).unwrap().tensors().map(|t| (t.name().to_owned(), t.clone())).collect()
}

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn nvfp4_of_a_folder_is_what_modelopt_writes() {
    let out = tempfile::tempdir().unwrap();
    let mut last = (0, 1);
    let done = import(&golden("llama"), out.path(), Target::Nvfp4, &mut |n, all| last = (n, all)).unwrap();
    assert_eq!(last, (done.parameters, done.parameters));
    let (ours, theirs) = (tensors(out.path()), tensors(&golden("llama_nvfp4_modelopt")));
    assert!(ours.keys().eq(theirs.keys()));
    for (name, t) in &theirs {
        let o = &ours[name];
        assert_eq!((o.dtype(), o.shape()), (t.dtype(), t.shape()), "{name}");
        // Theirs is calibrated.
        assert!(name.ends_with(".input_scale") || o.bytes() == t.bytes(), "{name} differs");
    }
    assert_eq!(json(out.path().join("config.json"))["quantization_config"]["quant_algo"], "NVFP4");
    let exclude = &json(out.path().join("hf_quant_config.json"))["quantization"]["exclude_modules"];
    assert_eq!(*exclude, serde_json::json!(["lm_head"]));
    for file in ["tokenizer.json", "generation_config.json"] {
        assert_eq!(std::fs::read(out.path().join(file)).unwrap(), std::fs::read(golden("llama").join(file)).unwrap());
    }
}

/// `/dev/full` takes no byte, like a full disk.
#[test]
fn a_full_disk_is_said_and_the_import_goes_on_once_there_is_room() {
    let out = tempfile::tempdir().unwrap();
    let partial = out.path().join("model.safetensors.partial");
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let run = || import(&golden("llama"), out.path(), Target::Nvfp4, &mut |_, _| {});
    let error = run().unwrap_err().to_string();
    assert!(error.contains("model.safetensors.partial: No space left on device"), "{error}");
    assert!(error.contains("free space and run it again"), "{error}");
    assert!(!out.path().join("config.json").exists(), "a folder without config.json is no model");
    std::fs::remove_file(partial).unwrap();
    run().unwrap();
    assert!(out.path().join("config.json").exists());
}

#[test]
fn experts_are_quantized_and_routers_are_not() {
    let out = tempfile::tempdir().unwrap();
    import(&golden("qwen3moe"), out.path(), Target::Nvfp4, &mut |_, _| {}).unwrap();
    let all = tensors(out.path());
    assert_eq!(*all["model.layers.1.mlp.experts.3.up_proj.weight"].dtype(), Dtype::U8);
    assert_eq!(*all["model.layers.1.mlp.gate.weight"].dtype(), Dtype::Bf16);
    let global = |n: &str| all[&format!("model.layers.1.mlp.experts.3.{n}.weight_scale_2")].scalar_f32().unwrap();
    assert_eq!(global("up_proj"), global("gate_proj"));
    assert_ne!(global("up_proj"), global("down_proj"));
}

#[test]
fn routed_experts_of_v4_become_what_nvidia_publishes() {
    let out = tempfile::tempdir().unwrap();
    import(&golden("deepseek_v4"), out.path(), Target::Nvfp4, &mut |_, _| {}).unwrap();
    let (ours, theirs) = (tensors(out.path()), tensors(&golden("deepseek_v4_nvfp4_mixed")));
    let experts = theirs.keys().filter(|n| n.contains(".experts.") && !n.ends_with(".input_scale"));
    let mut compared = 0;
    for name in experts {
        assert_eq!(ours[name].bytes(), theirs[name].bytes(), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 4 * 8 * 3 * 3);
    assert_eq!(*ours["layers.0.attn.wq_a.weight"].dtype(), Dtype::Bf16);
    assert_eq!(*ours["layers.0.hc_attn_fn"].dtype(), Dtype::F32);
    assert_eq!(*ours["layers.0.ffn.gate.tid2eid"].dtype(), Dtype::I64);
}

#[test]
fn a_quantized_folder_is_copied_as_it_is() {
    let out = tempfile::tempdir().unwrap();
    import(&golden("llama_nvfp4_modelopt"), out.path(), Target::Bf16, &mut |_, _| {}).unwrap();
    let (ours, theirs) = (tensors(out.path()), tensors(&golden("llama_nvfp4_modelopt")));
    assert!(ours.iter().zip(&theirs).all(|((a, t), (b, u))| a == b && t.bytes() == u.bytes()));
}

#[test]
fn an_existing_model_is_not_overwritten() {
    let out = tempfile::tempdir().unwrap();
    std::fs::write(out.path().join("config.json"), "{}").unwrap();
    let error = import(&golden("llama"), out.path(), Target::Bf16, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("already holds a model"), "{error}");
}

/// GGUF metadata and tensors as bytes.
#[derive(Default)]
struct GgufFile {
    pairs: Vec<u8>,
    pair_count: u64,
    infos: Vec<u8>,
    data: Vec<u8>,
    tensor_count: u64,
}

impl GgufFile {
    fn text(out: &mut Vec<u8>, s: &str) {
        out.extend((s.len() as u64).to_le_bytes());
        out.extend(s.as_bytes());
    }

    fn pair(&mut self, key: &str, kind: u32, value: &[u8]) {
        Self::text(&mut self.pairs, key);
        self.pairs.extend(kind.to_le_bytes());
        self.pairs.extend(value);
        self.pair_count += 1;
    }

    fn string(&mut self, key: &str, value: &str) {
        let mut bytes = Vec::new();
        Self::text(&mut bytes, value);
        self.pair(key, 8, &bytes);
    }

    fn number(&mut self, key: &str, value: u32) {
        self.pair(key, 4, &value.to_le_bytes());
    }

    fn strings(&mut self, key: &str, values: &[&str]) {
        let mut bytes = [8u32.to_le_bytes().as_slice(), &(values.len() as u64).to_le_bytes()].concat();
        values.iter().for_each(|v| Self::text(&mut bytes, v));
        self.pair(key, 9, &bytes);
    }

    fn tensor(&mut self, name: &str, shape: &[usize], kind: u32, bytes: &[u8]) {
        Self::text(&mut self.infos, name);
        self.infos.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|d| self.infos.extend((*d as u64).to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.tensor_count += 1;
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.pair_count.to_le_bytes());
        out.extend(&self.pairs);
        out.extend(&self.infos);
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }
}

/// The golden Llama as llama.cpp would store it in F32, with the rows of q and k permuted its way.
fn llama_gguf() -> GgufFile {
    let mut g = GgufFile::default();
    g.string("general.architecture", "llama");
    for (key, v) in [
        ("embedding_length", 128),
        ("block_count", 3),
        ("feed_forward_length", 256),
        ("context_length", 1024),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        g.number(&format!("llama.{key}"), v);
    }
    g.pair("llama.attention.layer_norm_rms_epsilon", 6, &1e-5f32.to_le_bytes());
    g.string("tokenizer.ggml.model", "gpt2");
    g.string("tokenizer.ggml.pre", "smollm");
    g.strings("tokenizer.ggml.tokens", &["<eos>", "a", "b", "ab"]);
    g.strings("tokenizer.ggml.merges", &["a b"]);
    let types: Vec<u8> = [3i32, 1, 1, 1].iter().flat_map(|t| t.to_le_bytes()).collect();
    g.pair("tokenizer.ggml.token_type", 9, &[5u32.to_le_bytes().as_slice(), &4u64.to_le_bytes(), &types].concat());
    g.number("tokenizer.ggml.eos_token_id", 0);
    for (name, t) in tensors(&golden("llama")) {
        let values = t.to_f32().unwrap();
        let mut rows: Vec<&[f32]> = values.chunks(*t.shape().last().unwrap()).collect();
        if name.contains("q_proj") || name.contains("k_proj") {
            rows = (0..rows.len()).map(|r| rows[r / 32 * 32 + r % 2 * 16 + r % 32 / 2]).collect();
        }
        let bytes: Vec<u8> = rows.concat().iter().flat_map(|v| v.to_le_bytes()).collect();
        g.tensor(&ggml_name(&name), t.shape(), 0, &bytes);
    }
    g
}

fn ggml_name(name: &str) -> String {
    let pairs = [
        ("model.layers.", "blk."),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("_proj", ""),
        ("mlp.", "ffn_"),
    ];
    pairs.iter().fold(name.to_owned(), |n, (from, to)| n.replace(from, to))
}

#[test]
fn gguf_gives_back_the_hugging_face_model() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("m.gguf"), dir.path().join("out"));
    std::fs::write(&file, llama_gguf().bytes()).unwrap();
    import(&file, &out, Target::Bf16, &mut |_, _| {}).unwrap();
    let (ours, theirs) = (tensors(&out), tensors(&golden("llama")));
    assert!(ours.keys().eq(theirs.keys()));
    assert!(ours.values().zip(theirs.values()).all(|(a, b)| a.bytes() == b.bytes() && a.shape() == b.shape()));
    let (a, b) = (json(out.join("config.json")), json(golden("llama").join("config.json")));
    for key in ["head_dim", "num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "vocab_size"] {
        assert_eq!(a[key], b[key], "{key}");
    }
    assert_eq!(Checkpoint::open(&out).unwrap().eos_ids(), [0]);
    let tokenizer = json(out.join("tokenizer.json"));
    assert_eq!(tokenizer["model"]["merges"], serde_json::json!([["a", "b"]]));
    assert_eq!(tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
    assert_eq!(tokenizer["added_tokens"][0]["special"], true);
}

#[test]
fn gguf_refusals_say_what_is_not_supported() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |g: &GgufFile| {
        let file = dir.path().join("m.gguf");
        std::fs::write(&file, g.bytes()).unwrap();
        import(&file, &dir.path().join("out"), Target::Bf16, &mut |_, _| {}).unwrap_err().to_string()
    };
    let mut other = GgufFile::default();
    other.string("general.architecture", "mamba");
    assert!(refusal(&other).contains("GGUF architecture `mamba` is not supported"));
    let mut quantized = llama_gguf();
    quantized.tensor("blk.0.extra.weight", &[1, 256], 12, &[0; 144]);
    assert!(refusal(&quantized).contains("tensor `blk.0.extra.weight`: type Q4_K (ggml 12) is not supported"));
    let mut bias = llama_gguf();
    bias.tensor("blk.0.attn_q.bias", &[128], 0, &[0; 512]);
    assert!(refusal(&bias).contains("tensor `blk.0.attn_q.bias` is not understood"));
    assert!(!dir.path().join("out/config.json").exists());
}
