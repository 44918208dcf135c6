//! Damaged checkpoints are refused with a message that names the file, the tensor and the fault; the header parser
//! survives any bytes and agrees with the reference implementation.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test, in its helpers too")]

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate_backend::weights::{Checkpoint, Loader, WeightsError, read_header};

mod golden_llama;

use golden_llama::llama;

const UP: &str = "model.layers.1.mlp.up_proj";

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

/// A safetensors file taken apart.
struct Parts {
    header: Value,
    data: Vec<u8>,
}

impl Parts {
    fn of(file: &[u8]) -> Self {
        let n = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        Self { header: serde_json::from_slice(&file[8..8 + n]).unwrap(), data: file[8 + n..].to_vec() }
    }

    fn bytes(&self) -> Vec<u8> {
        let header = self.header.to_string();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &self.data].concat()
    }

    fn start(&self, tensor: &str) -> usize {
        self.header[tensor]["data_offsets"][0].as_u64().unwrap() as usize
    }
}

/// A copy of a golden folder that can be damaged.
struct Copy {
    dir: tempfile::TempDir,
}

impl Copy {
    fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(golden(name)).unwrap() {
            let file = file.unwrap();
            std::fs::write(dir.path().join(file.file_name()), std::fs::read(file.path()).unwrap()).unwrap();
        }
        Self { dir }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn file(self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = std::fs::read(self.path(name)).unwrap();
        damage(&mut bytes);
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    fn weights(self, damage: impl FnOnce(&mut Parts)) -> Self {
        self.file("model.safetensors", |bytes| {
            let mut parts = Parts::of(bytes);
            damage(&mut parts);
            *bytes = parts.bytes();
        })
    }

    fn json(self, name: &str, damage: impl FnOnce(&mut Value)) -> Self {
        self.file(name, |bytes| {
            let mut value = serde_json::from_slice(bytes).unwrap();
            damage(&mut value);
            *bytes = value.to_string().into_bytes();
        })
    }

    /// Moves the weights into one shard with an index.
    fn sharded(self) -> Self {
        let bytes = std::fs::read(self.path("model.safetensors")).unwrap();
        let header = Parts::of(&bytes).header;
        std::fs::rename(self.path("model.safetensors"), self.path("model-1.safetensors")).unwrap();
        let names = header.as_object().unwrap().keys().filter(|k| *k != "__metadata__");
        let map: serde_json::Map<_, _> = names.map(|k| (k.clone(), json!("model-1.safetensors"))).collect();
        std::fs::write(self.path("model.safetensors.index.json"), json!({"weight_map": map}).to_string()).unwrap();
        self
    }

    fn load(&self, build: impl FnOnce(&mut Loader<'_>)) -> Result<(), WeightsError> {
        Checkpoint::open(self.dir.path())?.load(build)
    }

    /// Expects a refusal that says all of these.
    fn refused(self, says: &[&str]) {
        let error = self.load(|l| drop(llama(l))).expect_err("damage was not seen").to_string();
        for word in says {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }
}

fn plain() -> Copy {
    Copy::of("llama")
}

fn nvfp4() -> Copy {
    Copy::of("llama_nvfp4_modelopt")
}

const FILE: &str = "model.safetensors";
const NORM: &str = "model.norm.weight";

#[test]
fn copies_load_before_they_are_damaged() {
    plain().load(|l| drop(llama(l))).unwrap();
    nvfp4().load(|l| drop(llama(l))).unwrap();
    plain().sharded().load(|l| drop(llama(l))).unwrap();
    plain().weights(|_| ()).load(|l| drop(llama(l))).unwrap();
}

#[test]
fn damaged_files() {
    plain().file(FILE, |b| b.truncate(b.len() - 100)).refused(&[FILE, "model.norm.weight", "file cut short?"]);
    plain().file(FILE, |b| b.truncate(500)).refused(&[FILE, "header needs", "the file ends after 492"]);
    plain().file(FILE, |b| b.truncate(5)).refused(&[FILE, "file has 5 bytes"]);
    plain().file(FILE, |b| b.clear()).refused(&[FILE]);
    plain().file(FILE, |b| b[5] = 1).refused(&[FILE, "header length", "above the limit"]);
    plain().file(FILE, |b| b[2] = 0x60).refused(&[FILE, "header needs"]);
    plain().file(FILE, |b| b[8] = b'[').refused(&[FILE, "header is not valid"]);
    plain().file(FILE, |b| b.extend([0; 7])).refused(&[FILE, "7 bytes after the last tensor"]);
    let dir = plain();
    std::fs::remove_file(dir.path(FILE)).unwrap();
    dir.refused(&["has neither model.safetensors nor model.safetensors.index.json"]);
}

#[test]
fn damaged_headers() {
    let offsets = |from: i64, to: i64| {
        move |p: &mut Parts| {
            let (a, b) = (p.start(NORM) as i64, p.start(NORM) as i64 + 256);
            p.header[NORM]["data_offsets"] = json!([a + from, b + to]);
        }
    };
    plain().weights(offsets(-2, -2)).refused(&[FILE, NORM, "overlaps the tensor before it by 2 bytes"]);
    plain().weights(offsets(2, 0)).refused(&[FILE, NORM, "needs 256 bytes, offsets give 254"]);
    plain().weights(offsets(300, 0)).refused(&[FILE, NORM, "run backwards"]);
    plain().weights(|p| p.header[NORM]["shape"] = json!([1u64 << 40, 1u64 << 40])).refused(&[NORM, "overflows"]);
    plain().weights(|p| p.header[NORM]["shape"] = json!([127])).refused(&[NORM, "shape [127] of BF16 needs 254"]);
    plain().weights(|p| p.header[NORM]["shape"] = json!([-1])).refused(&[FILE, NORM, "header is not valid"]);
    plain().weights(|p| p.header[NORM]["dtype"] = json!("F32")).refused(&[NORM, "of F32 needs 512 bytes"]);
    plain().weights(|p| p.header[NORM]["dtype"] = json!("F13")).refused(&[NORM, "has dtype F13, expected BF16"]);
    plain().weights(|p| p.header[NORM] = json!(7)).refused(&[FILE, NORM, "header is not valid"]);
    // A hole: the tensor is gone, its bytes are not.
    let up = format!("{UP}.weight");
    plain()
        .weights(|p| drop(p.header.as_object_mut().unwrap().shift_remove(&up)))
        .refused(&[FILE, "belong to no tensor"]);
    // The same name twice, which a JSON map would hide.
    plain()
        .file(FILE, |b| {
            let text = String::from_utf8_lossy(b).replacen(
                "model.layers.0.input_layernorm",
                "model.layers.1.input_layernorm",
                1,
            );
            assert_eq!(text.find("model.layers.0.input_layernorm"), None);
            let at = b.windows(30).position(|w| w == b"model.layers.0.input_layernorm").unwrap();
            b[at + 13] = b'1';
        })
        .refused(&["model.layers.1.input_layernorm.weight", "is listed twice"]);
}

#[test]
fn wrong_tensors() {
    let up = format!("{UP}.weight");
    plain()
        .weights(|p| {
            let entry = p.header.as_object_mut().unwrap().shift_remove(&up).unwrap();
            p.header["model.layers.1.mlp.upp_proj.weight"] = entry;
        })
        .refused(&["2 problems", &up, "is missing", "upp_proj.weight`: is not part of this architecture"]);
    plain()
        .weights(|p| p.header[&up]["shape"] = json!([128, 256]))
        .refused(&[&up, "has shape [128, 256], expected [256, 128]"]);
    plain().weights(|p| p.header[&up]["dtype"] = json!("I16")).refused(&[&up, "has dtype I16"]);
}

#[test]
fn damaged_scales() {
    let (scale, global) = (format!("{UP}.weight_scale"), format!("{UP}.weight_scale_2"));
    let poke = |name: &str, offset: usize, with: &'static [u8]| {
        let name = name.to_owned();
        move |p: &mut Parts| {
            let at = p.start(&name) + offset;
            p.data[at..at + with.len()].copy_from_slice(with);
        }
    };
    nvfp4().weights(poke(&scale, 17, &[0x7F])).refused(&[FILE, &scale, "NaN at row 2"]);
    nvfp4().weights(poke(&global, 0, &[0, 0, 0xC0, 0x7F])).refused(&[
        FILE,
        &global,
        "is NaN, expected a positive number",
    ]);
    nvfp4().weights(poke(&global, 0, &[0; 4])).refused(&[&global, "is 0, expected a positive number"]);
    nvfp4().weights(|p| p.header[&scale]["shape"] = json!([512, 4])).refused(&[&scale, "expected [256, 8]"]);
    nvfp4().weights(|p| p.header[&scale]["dtype"] = json!("U8")).refused(&[&scale, "has dtype U8, expected F8_E4M3"]);
    let rename = |p: &mut Parts| {
        let entry = p.header.as_object_mut().unwrap().shift_remove(&scale).unwrap();
        p.header[format!("{UP}.scales")] = entry;
    };
    nvfp4().weights(rename).refused(&[&scale, "is missing (the NVFP4 block scales)"]);
    let group =
        |q: &mut Value| q["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] = json!(24);
    nvfp4().json("config.json", group).refused(&["config.json", "group_size is 24; NVFP4 has groups of 16"]);
    nvfp4()
        .json("hf_quant_config.json", |q| q["quantization"]["group_size"] = json!(8))
        .refused(&["hf_quant_config.json", "group_size is 8"]);
    nvfp4()
        .json("config.json", |c| c["quantization_config"]["weight_block_size"] = json!([128]))
        .refused(&["config.json", "weight_block_size [128] is not two positive numbers"]);
}

#[test]
fn damaged_indexes() {
    const INDEX: &str = "model.safetensors.index.json";
    let dir = plain().sharded();
    std::fs::remove_file(dir.path("model-1.safetensors")).unwrap();
    dir.refused(&["model-1.safetensors", "shard can't be read"]);
    let entry = |name: &'static str, file: &'static str| move |i: &mut Value| i["weight_map"][name] = json!(file);
    plain().sharded().json(INDEX, entry("a.b", "model-1.safetensors")).refused(&["`a.b`", "which does not hold it"]);
    plain()
        .sharded()
        .json(INDEX, entry(NORM, "../x.safetensors"))
        .refused(&[INDEX, "`../x.safetensors`, which is not a plain file name"]);
    plain().sharded().json(INDEX, entry(NORM, "/etc/passwd")).refused(&[INDEX, "not a plain file name"]);
    plain()
        .sharded()
        .json(INDEX, entry(NORM, "model-2.safetensors"))
        .refused(&["model-2.safetensors", "shard can't be read"]);
    let forget = |i: &mut Value| drop(i["weight_map"].as_object_mut().unwrap().shift_remove(NORM));
    plain().sharded().json(INDEX, forget).refused(&["model-1.safetensors", NORM, "is not listed in the index"]);
    plain().sharded().json(INDEX, |i| *i = json!({})).refused(&[INDEX, "weight_map"]);
}

#[test]
fn damaged_configs() {
    const CONFIG: &str = "config.json";
    let set = |key: &'static str, v: Value| plain().json(CONFIG, move |c| c[key] = v);
    plain().file(CONFIG, |b| b.truncate(40)).refused(&[CONFIG, "EOF"]);
    plain()
        .json(CONFIG, |c| drop(c.as_object_mut().unwrap().remove("hidden_size")))
        .refused(&[CONFIG, "missing field `hidden_size`"]);
    set("architectures", json!(["GrokForCausalLM"])).refused(&[CONFIG, "`GrokForCausalLM` is not supported"]);
    set("num_key_value_heads", json!(3)).refused(&[CONFIG, "num_key_value_heads 3 does not divide"]);
    set("head_dim", json!(33)).refused(&[CONFIG, "head_dim 33 is odd"]);
    set("num_hidden_layers", json!(0)).refused(&[CONFIG, "num_hidden_layers is 0"]);
    set("vocab_size", json!(1u64 << 40)).refused(&[CONFIG, "vocab_size is"]);
    set("hidden_act", json!("gelu")).refused(&[CONFIG, "hidden_act `gelu` is not supported"]);
    set("attention_bias", json!(true)).refused(&[CONFIG, "attention_bias"]);
    set("rope_scaling", json!({"rope_type": "longrope"})).refused(&[CONFIG, "rope scaling `longrope`"]);
    plain().file("generation_config.json", |b| b.clear()).refused(&["generation_config.json"]);
    let dir = plain();
    std::fs::remove_file(dir.path(CONFIG)).unwrap();
    dir.refused(&[CONFIG, "No such file"]);
}

/// The reference implementation's verdict.
fn reference(bytes: &[u8]) -> bool {
    safetensors::SafeTensors::read_metadata(bytes).is_ok()
}

fn small_file() -> Vec<u8> {
    let header = json!({
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [8, 20]},
        "c": {"dtype": "U8", "shape": [], "data_offsets": [20, 21]},
    });
    Parts { header, data: vec![0; 21] }.bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn header_parser_agrees_with_the_reference(edits in proptest::collection::vec((0usize..400, any::<u8>()), 0..3), cut in 0usize..40) {
        let mut file = small_file();
        for (at, to) in edits {
            let at = at % file.len();
            file[at] = if to < 128 { b"0123456789[]{}\",:ab "[to as usize % 20] } else { to };
        }
        file.truncate(file.len() - cut / 20 * (cut % 20));
        match read_header(&file) {
            Ok(entries) => {
                prop_assert!(entries.iter().all(|e| e.start <= e.end && e.end <= file.len()));
                // Dtypes that the reference does not know are refused later, by name.
                let known = entries.iter().all(|e| e.dtype.bits().is_some());
                prop_assert!(!known || reference(&file));
            }
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                prop_assert!(!reference(&file), "{faults:?}");
            }
        }
    }

    #[test]
    fn header_parser_survives_noise(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_header(&noise);
        let framed = [&(noise.len() as u64).to_le_bytes(), noise.as_slice()].concat();
        let _ = read_header(&framed);
    }
}

#[test]
fn the_small_file_is_right() {
    let entries = read_header(&small_file()).unwrap();
    assert_eq!(entries.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(reference(&small_file()));
}
