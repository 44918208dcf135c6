//! MXFP4 and FP8 weights in every layout that is found in checkpoints: a device gets the numbers that the format defines.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test, in its helpers too")]

mod stored;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate_backend::weights::{Checkpoint, Linear};
use sluicegate_kernels::fp8::{e4m3_to_f32, e8m0_to_f32};
use sluicegate_kernels::nvfp4::{self, E2M1};
use sluicegate_kernels::tensor::{Matrix, Values};
use stored::{Stored, llama, stored, write};

const NAME: &str = "model.layers.0.mlp.up_proj";

/// The one weight of a checkpoint that holds nothing else.
fn load(config: &Value, tensors: &[Stored], rows: usize, cols: usize) -> Linear {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), config, tensors);
    Checkpoint::open(dir.path()).unwrap().load(|load| load.linear(NAME, rows, cols)).unwrap()
}

/// Every number of a matrix.
fn numbers(m: &Matrix) -> Vec<f32> {
    m.check().unwrap();
    let halves =
        |b: &[u8]| b.chunks_exact(2).map(|b| u32::from(b[1]) << 24 | u32::from(b[0]) << 16).collect::<Vec<_>>();
    match &m.values {
        Values::F32(b) => b.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
        Values::Bf16(b) => halves(b).into_iter().map(f32::from_bits).collect(),
        Values::Nvfp4 { codes, scales, global } => {
            let mut out = vec![0f32; m.rows * m.cols];
            nvfp4::dequantize(codes, scales, *global, &mut out);
            out
        }
        Values::Fp8Block128 { codes, scales } => {
            let scale = |i: usize| scales[i / m.cols / 128 * m.cols.div_ceil(128) + i % m.cols / 128];
            codes.iter().enumerate().map(|(i, &c)| e4m3_to_f32(c) * e8m0_to_f32(scale(i))).collect()
        }
        Values::F16(_) => panic!("nothing here is half precision"),
    }
}

/// What MXFP4 says, without any detour.
fn mxfp4(packed: &[u8], scales: &[u8]) -> Vec<f32> {
    let codes = packed.iter().flat_map(|b| [b & 15, b >> 4]);
    // In double precision, where no product is subnormal.
    let value = |(i, c): (usize, u8)| (f64::from(E2M1[c as usize]) * (f64::from(scales[i / 32]) - 127.0).exp2()) as f32;
    codes.enumerate().map(value).collect()
}

/// Equal as numbers: the sign of a zero doesn't matter.
fn assert_numbers(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let odd = found.iter().zip(expected).position(|(a, b)| a != b);
    assert!(odd.is_none(), "number {odd:?}: {:?} instead of {:?}", odd.map(|i| found[i]), odd.map(|i| expected[i]));
}

fn packed_tensors(packed: &[u8], scales: &[u8], rows: usize, cols: usize) -> Vec<Stored> {
    vec![
        stored(&format!("{NAME}.weight"), "I8", &[rows, cols / 2], packed),
        stored(&format!("{NAME}.scale"), "F8_E8M0", &[rows, cols / 32], scales),
    ]
}

#[test]
fn mxfp4_under_all_its_names() {
    let packed: Vec<u8> = (0..128).map(|i| (i * 37 % 256) as u8).collect();
    let scales = [120u8, 127, 130, 125, 121, 122, 123, 124];
    let expected = mxfp4(&packed, &scales);
    for (weight, dtype, shape, scale, scale_dtype) in [
        ("weight", "I8", [4, 32], "scale", "F8_E8M0"),
        ("weight", "U8", [4, 32], "weight_scale", "U8"),
        ("weight", "F4", [4, 64], "weight_scale_inv", "F8_E8M0"),
        ("weight_packed", "U8", [4, 32], "weight_scale", "U8"),
    ] {
        let tensors = [
            stored(&format!("{NAME}.{weight}"), dtype, &shape, packed.clone()),
            stored(&format!("{NAME}.{scale}"), scale_dtype, &[4, 2], scales),
        ];
        let linear = load(&llama(64, 64), &tensors, 4, 64);
        assert_eq!((linear.format(), linear.shape()), ("mxfp4", (4, 64)), "{weight} {dtype}");
        assert!(matches!(linear.matrix().values, Values::Nvfp4 { .. }));
        assert_numbers(&numbers(&linear.matrix()), &expected);
    }
}

#[test]
fn a_block_of_zeros_does_not_widen_the_range() {
    for idle in [0u8, 1, 254] {
        // Plain zeros in one block, negative ones in another; the others use the whole span of E4M3's exponents.
        let packed = [[0u8; 16], [0x22; 16], [0x88; 16], [0x77; 16]].concat();
        let scales = [idle, 120, idle, 137];
        let linear = load(&llama(64, 64), &packed_tensors(&packed, &scales, 2, 64), 2, 64);
        let matrix = linear.matrix();
        assert!(
            matches!(matrix.values, Values::Nvfp4 { .. }),
            "zeros at 2^{} widened the range",
            i32::from(idle) - 127
        );
        assert_numbers(&numbers(&matrix), &mxfp4(&packed, &scales));
    }
    let nothing = load(&llama(64, 64), &packed_tensors(&[0; 32], &[0, 254], 1, 64), 1, 64).matrix();
    assert!(matches!(nothing.values, Values::Nvfp4 { .. }));
    assert_numbers(&numbers(&nothing), &[0.0; 64]);
}

#[test]
fn a_range_too_wide_for_block_scales_stays_exact_in_bf16() {
    let (packed, scales) = ([0x31u8; 32], [119u8, 137]);
    let matrix = load(&llama(64, 64), &packed_tensors(&packed, &scales, 1, 64), 1, 64).matrix();
    assert!(matches!(matrix.values, Values::Bf16(_)));
    assert_numbers(&numbers(&matrix), &mxfp4(&packed, &scales));
}

proptest! {
    #[test]
    fn mxfp4_keeps_every_number(
        packed in prop::collection::vec(any::<u8>(), 128),
        base in 0..=254u8,
        steps in prop::collection::vec(0..=20u8, 8),
    ) {
        let scales: Vec<u8> = steps.iter().map(|s| base.saturating_sub(*s)).collect();
        let matrix = load(&llama(64, 64), &packed_tensors(&packed, &scales, 4, 64), 4, 64).matrix();
        let (found, expected) = (numbers(&matrix), mxfp4(&packed, &scales));
        let odd = found.iter().zip(&expected).find(|(a, b)| a != b);
        prop_assert!(odd.is_none(), "{:?} at scales {:?}", odd, scales);
    }
}

/// Codes without NaN.
fn codes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 89 % 256) as u8).map(|c| if c & 0x7f == 0x7f { c - 1 } else { c }).collect()
}

fn fp8(config: &Value, scale: Stored, rows: usize, cols: usize) -> (Matrix, Vec<u8>) {
    let codes = codes(rows * cols);
    let weight = stored(&format!("{NAME}.weight"), "F8_E4M3", &[rows, cols], codes.clone());
    (load(config, &[weight, scale], rows, cols).matrix(), codes)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn fp8_with_power_of_two_blocks_keeps_its_bytes() {
    let scale = stored(&format!("{NAME}.scale"), "F8_E8M0", &[2, 3], [120u8, 121, 122, 123, 124, 0]);
    let (matrix, codes) = fp8(&llama(64, 64), scale, 200, 300);
    assert!(matches!(matrix.values, Values::Fp8Block128 { .. }));
    let scales = [120u8, 121, 122, 123, 124, 0].map(|s| (f64::from(s) - 127.0).exp2());
    let value = |(i, &c): (usize, &u8)| (f64::from(e4m3_to_f32(c)) * scales[i / 300 / 128 * 3 + i % 300 / 128]) as f32;
    assert_numbers(&numbers(&matrix), &codes.iter().enumerate().map(value).collect::<Vec<_>>());
}

/// A tensor that is no larger than a block has one scale, and stays as it is all the same.
#[test]
fn fp8_that_fits_in_a_block_keeps_its_bytes() {
    for (rows, cols) in [(64, 128), (128, 64), (128, 128), (4, 32)] {
        let scale = stored(&format!("{NAME}.scale"), "F8_E8M0", &[1, 1], [125u8]);
        let (matrix, codes) = fp8(&llama(cols, rows), scale, rows, cols);
        assert!(matches!(matrix.values, Values::Fp8Block128 { .. }), "{rows} x {cols}");
        assert_numbers(&numbers(&matrix), &codes.iter().map(|&c| e4m3_to_f32(c) / 4.0).collect::<Vec<_>>());
    }
}

#[test]
fn fp8_with_other_scales_is_expanded() {
    let with_block = |side: usize| {
        let mut config = llama(96, 64);
        config["quantization_config"] = json!({"quant_method": "fp8", "weight_block_size": [side, side]});
        config
    };
    // Single-precision scales per 128 x 128; E8M0 scales per 32 x 32; one scale for the whole tensor, in two shapes.
    let whole = [0.003f32];
    let cases = [
        (with_block(128), "weight_scale_inv", "F32", vec![1, 1], floats(&[0.25]), vec![0.25], 128),
        (
            with_block(32),
            "scale",
            "F8_E8M0",
            vec![2, 3],
            vec![125, 126, 127, 128, 129, 130],
            vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
            32,
        ),
        (llama(96, 64), "weight_scale", "F32", vec![], floats(&whole), whole.to_vec(), 128),
        (llama(96, 64), "weight_scale", "F32", vec![1], floats(&whole), whole.to_vec(), 128),
    ];
    for (config, name, dtype, shape, bytes, scales, side) in cases {
        let (matrix, codes) = fp8(&config, stored(&format!("{NAME}.{name}"), dtype, &shape, bytes), 64, 96);
        let across = 96usize.div_ceil(side);
        let scale = |i: usize| scales[if scales.len() == 1 { 0 } else { i / 96 / side * across + i % 96 / side }];
        let expected: Vec<f32> = codes.iter().enumerate().map(|(i, &c)| e4m3_to_f32(c) * scale(i)).collect();
        assert_numbers(&numbers(&matrix), &expected);
    }
}

/// An architecture's groups of rows are cut before a device sees them.
#[test]
fn rows_are_cut_through_fp8_blocks() {
    let scale = stored(&format!("{NAME}.scale"), "F8_E8M0", &[2, 1], [120u8, 131]);
    let weight = stored(&format!("{NAME}.weight"), "F8_E4M3", &[192, 64], codes(192 * 64));
    let linear = load(&llama(64, 192), &[weight, scale], 192, 64);
    let parts: Vec<f32> = linear.split_rows(4).iter().flat_map(numbers).collect();
    assert_numbers(&parts, &numbers(&linear.matrix()));
}

/// Exports say what they are in config.json (flat) or in hf_quant_config.json (nested); the tensors decide either way.
#[test]
fn flat_and_nested_configs_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let groups =
        json!({"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}});
    let mut flat = llama(64, 64);
    flat["quantization_config"] =
        json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "config_groups": groups});
    let nested = json!({
        "producer": {"name": "modelopt", "version": "0.47.0"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": null, "group_size": 16, "exclude_modules": ["lm_head"]},
    });
    write(&dir.path().join("flat"), &flat, &[]);
    write(&dir.path().join("nested"), &llama(64, 64), &[]);
    std::fs::write(dir.path().join("nested/hf_quant_config.json"), nested.to_string()).unwrap();
    let said = |name: &str| Checkpoint::open(&dir.path().join(name)).unwrap().quantization().clone();
    assert_eq!(said("flat"), said("nested"));
    assert_eq!((said("flat").method.as_deref(), said("flat").algorithm.as_deref()), (Some("modelopt"), Some("NVFP4")));
}

/// Drafting layers are left in MXFP4 by newer exports whose config says NVFP4: E8M0 bytes must not be read as E4M3.
#[test]
fn tensors_are_believed_and_configs_are_not() {
    let mut config = llama(64, 64);
    config["quantization_config"] =
        json!({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4", "group_size": 16});
    let (packed, scales) = ([0x5fu8; 64], [121u8, 122, 123, 124]);
    let linear = load(&config, &packed_tensors(&packed, &scales, 2, 64), 2, 64);
    assert_eq!(linear.format(), "mxfp4");
    assert_numbers(&numbers(&linear.matrix()), &mxfp4(&packed, &scales));
    // And an unquantized tensor under the same config is what it is.
    let plain = stored(&format!("{NAME}.weight"), "BF16", &[2, 64], [0x80u8, 0x3f].repeat(128));
    assert_numbers(&numbers(&load(&config, &[plain], 2, 64).matrix()), &[1.0; 128]);
}
