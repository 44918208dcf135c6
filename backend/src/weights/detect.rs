//! Which number format a linear layer is stored in: decided for each tensor from its dtype and its siblings' names.
//!
//! Configs are not asked. Exports that mix formats describe themselves wrongly or not at all, and reading MXFP4 scale
//! bytes as E4M3 gives a model that runs and is broken.

use super::linear::{Linear, MXFP4_GROUP, NVFP4_GROUP};
use super::loader::Loader;
use super::{Dtype, Tensor};

/// A wrong tensor's name and what is wrong with it.
pub(crate) type Complaint = (String, String);

impl Loader<'_> {
    /// Takes the weight of the linear layer `prefix`, whatever its format.
    pub(crate) fn detect_linear(&mut self, prefix: &str, out: usize, cols: usize) -> Result<Linear, Complaint> {
        if self.has(&format!("{prefix}.pre_quant_scale")) {
            let what = "AWQ pre-quantization scales (NVFP4_AWQ) are not supported; export the model as NVFP4";
            return Err((format!("{prefix}.pre_quant_scale"), what.into()));
        }
        if let Some(packed) = self.take(&format!("{prefix}.weight_packed")) {
            return self.compressed_tensors(prefix, packed, out, cols);
        }
        let name = format!("{prefix}.weight");
        let Some(weight) = self.take(&name) else {
            return Err((name, format!("is missing (a weight of {out} x {cols} in any supported format)")));
        };
        match weight.dtype() {
            Dtype::Bf16 | Dtype::F16 | Dtype::F32 => {
                expect_shape(&weight, &[out, cols])?;
                Ok(Linear::Float(weight))
            }
            Dtype::F8E4m3 => self.fp8(prefix, weight, out, cols),
            Dtype::U8 if self.has(&format!("{prefix}.weight_scale_2")) => self.modelopt(prefix, weight, out, cols),
            Dtype::U8 | Dtype::I8 | Dtype::F4 => self.mxfp4(prefix, weight, out, cols),
            other => Err((name, format!("has dtype {other}; a weight is BF16, F16, F32, F8_E4M3 or packed FP4"))),
        }
    }

    fn modelopt(&mut self, prefix: &str, packed: Tensor, out: usize, cols: usize) -> Result<Linear, Complaint> {
        let scales = self.nvfp4_parts(prefix, &packed, out, cols)?;
        let scale_2 = self.factor(&format!("{prefix}.weight_scale_2"))?;
        let input_scale = self.optional_factor(&format!("{prefix}.input_scale"))?;
        Ok(Linear::Nvfp4 { packed, scales, scale_2, input_scale })
    }

    fn compressed_tensors(
        &mut self,
        prefix: &str,
        packed: Tensor,
        out: usize,
        cols: usize,
    ) -> Result<Linear, Complaint> {
        if !self.has(&format!("{prefix}.weight_global_scale")) {
            return self.mxfp4(prefix, packed, out, cols);
        }
        let scales = self.nvfp4_parts(prefix, &packed, out, cols)?;
        let scale_2 = 1.0 / self.factor(&format!("{prefix}.weight_global_scale"))?;
        let input_scale = self.optional_factor(&format!("{prefix}.input_global_scale"))?.map(|g| 1.0 / g);
        Ok(Linear::Nvfp4 { packed, scales, scale_2, input_scale })
    }

    /// Checks the codes and takes the block scales that ModelOpt and compressed-tensors have in common.
    fn nvfp4_parts(&mut self, prefix: &str, packed: &Tensor, out: usize, cols: usize) -> Result<Tensor, Complaint> {
        if !cols.is_multiple_of(NVFP4_GROUP) {
            return Err((
                packed.name().into(),
                format!("{cols} columns do not divide into NVFP4 groups of {NVFP4_GROUP}"),
            ));
        }
        expect_dtype(packed, &[Dtype::U8])?;
        expect_shape(packed, &[out, cols / 2])?;
        let scales = self.require(&format!("{prefix}.weight_scale"), "the NVFP4 block scales")?;
        expect_dtype(&scales, &[Dtype::F8E4m3])?;
        expect_shape(&scales, &[out, cols / NVFP4_GROUP])?;
        refuse_bytes(&scales, |b| b & 0x7F == 0x7F)?;
        Ok(scales)
    }

    fn mxfp4(&mut self, prefix: &str, packed: Tensor, out: usize, cols: usize) -> Result<Linear, Complaint> {
        if !cols.is_multiple_of(MXFP4_GROUP) {
            return Err((
                packed.name().into(),
                format!("{cols} columns do not divide into MXFP4 groups of {MXFP4_GROUP}"),
            ));
        }
        // F4 counts elements, the integer types count bytes.
        expect_shape(&packed, &[out, if *packed.dtype() == Dtype::F4 { cols } else { cols / 2 }])?;
        let names = [".scale", ".weight_scale", ".weight_scale_inv"].map(|s| format!("{prefix}{s}"));
        let scales = self.first_of(&names, "the block scales of a packed FP4 weight")?;
        expect_dtype(&scales, &[Dtype::F8E8m0, Dtype::U8])?;
        expect_shape(&scales, &[out, cols / MXFP4_GROUP])?;
        refuse_bytes(&scales, |b| b == 0xFF)?;
        Ok(Linear::Mxfp4 { packed, scales, columns: cols })
    }

    fn fp8(&mut self, prefix: &str, codes: Tensor, out: usize, cols: usize) -> Result<Linear, Complaint> {
        expect_shape(&codes, &[out, cols])?;
        let names = [".scale", ".weight_scale_inv", ".weight_scale"].map(|s| format!("{prefix}{s}"));
        let scales = self.first_of(&names, "the scales of an FP8 weight")?;
        expect_dtype(&scales, &[Dtype::F8E8m0, Dtype::F32])?;
        // One scale for a tensor of several blocks is a block as large as the tensor.
        let block = self.checkpoint.quantization().block;
        let is_one = out <= block[0] && cols <= block[1];
        let block = if scales.elements() == 1 && !is_one { [out, cols] } else { block };
        if scales.elements() != 1 {
            expect_shape(&scales, &[out.div_ceil(block[0]), cols.div_ceil(block[1])])?;
        }
        if *scales.dtype() == Dtype::F8E8m0 {
            refuse_bytes(&scales, |b| b == 0xFF)?;
        } else if scales.to_f32().is_none_or(|s| s.iter().any(|v| !v.is_finite())) {
            return Err((scales.name().into(), "holds a scale that is not finite".into()));
        }
        Ok(Linear::Fp8Block { codes, scales, block })
    }

    fn require(&mut self, name: &str, role: &str) -> Result<Tensor, Complaint> {
        self.take(name).ok_or_else(|| (name.to_owned(), format!("is missing ({role})")))
    }

    fn first_of(&mut self, names: &[String], role: &str) -> Result<Tensor, Complaint> {
        let found = names.iter().find(|n| self.has(n)).unwrap_or(&names[0]);
        self.require(found, role)
    }

    fn factor(&mut self, name: &str) -> Result<f32, Complaint> {
        let t = self.require(name, "the tensor's global scale")?;
        let v = t
            .scalar_f32()
            .ok_or_else(|| (name.to_owned(), format!("is {} {:?}, expected one F32", t.dtype(), t.shape())))?;
        if v.is_finite() && v > 0.0 { Ok(v) } else { Err((name.into(), format!("is {v}, expected a positive number"))) }
    }

    fn optional_factor(&mut self, name: &str) -> Result<Option<f32>, Complaint> {
        if self.has(name) { self.factor(name).map(Some) } else { Ok(None) }
    }
}

pub(crate) fn expect_shape(t: &Tensor, shape: &[usize]) -> Result<(), Complaint> {
    if t.shape() == shape {
        return Ok(());
    }
    Err((t.name().into(), format!("has shape {:?}, expected {shape:?}", t.shape())))
}

pub(crate) fn expect_dtype(t: &Tensor, allowed: &[Dtype]) -> Result<(), Complaint> {
    if allowed.contains(t.dtype()) {
        return Ok(());
    }
    let names: Vec<&str> = allowed.iter().map(Dtype::name).collect();
    Err((t.name().into(), format!("has dtype {}, expected {}", t.dtype(), names.join(" or "))))
}

fn refuse_bytes(t: &Tensor, is_nan: impl Fn(u8) -> bool) -> Result<(), Complaint> {
    match t.bytes().iter().position(|&b| is_nan(b)) {
        None => Ok(()),
        Some(at) => {
            let row = t.shape().last().map_or(0, |&w| at / w.max(1));
            Err((t.name().into(), format!("holds NaN at row {row} (byte {at})")))
        }
    }
}
