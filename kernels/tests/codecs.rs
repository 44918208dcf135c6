//! NVFP4 and FP8 codecs against vectors made with ModelOpt's rules: every code, scale and decoded number equal in bits.

use safetensors::SafeTensors;
use sluicegate_kernels::{fp8, nvfp4};

fn floats(t: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let bytes = t.tensor(name).expect("in the file").data().to_vec();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes"))).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn nvfp4_vectors() {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nvfp4.safetensors")).unwrap();
    let t = SafeTensors::deserialize(&file).unwrap();
    for set in ["edge", "real"] {
        let w = floats(&t, &format!("{set}.w"));
        let global = floats(&t, &format!("{set}.weight_scale_2"))[0];
        let part = |name: &str| t.tensor(&format!("{set}.{name}")).unwrap().data().to_vec();
        let (codes, scales) = nvfp4::quantize(&w, global).unwrap();
        assert!(scales == part("weight_scale"), "{set} scales");
        assert!(codes == part("packed"), "{set} codes");
        let mut decoded = vec![0f32; w.len()];
        nvfp4::dequantize(&codes, &scales, global, &mut decoded);
        assert!(bits(&decoded) == bits(&floats(&t, &format!("{set}.dequant"))), "{set} decoded");
    }
    let amax = floats(&t, "real.w").iter().fold(0f32, |m, x| m.max(x.abs()));
    assert!(nvfp4::global_scale(amax) <= floats(&t, "real.weight_scale_2")[0]);
}

#[test]
fn fp8_block128_vectors() {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fp8_block128.safetensors")).unwrap();
    let t = SafeTensors::deserialize(&file).unwrap();
    let w: Vec<f32> = t
        .tensor("w")
        .unwrap()
        .data()
        .chunks_exact(2)
        .map(|b| f32::from_bits(u32::from(b[1]) << 24 | u32::from(b[0]) << 16))
        .collect();
    let (codes, scales) = fp8::quantize_block128(&w, 256).unwrap();
    assert!(scales == t.tensor("scale").unwrap().data());
    assert!(codes == t.tensor("q").unwrap().data());
    let decoded: Vec<f32> =
        codes.iter().enumerate().map(|(i, &c)| fp8::e4m3_to_f32(c) * fp8::e8m0_to_f32(scales[i % 256 / 128])).collect();
    assert!(bits(&decoded) == bits(&floats(&t, "dequant")));
}
