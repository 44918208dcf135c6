//! What the configs say of quantization: shown to people, used for block sizes; every tensor's format is its own.

use std::path::Path;

use serde_json::Value;

use super::super::WeightsError;

/// Merged from `quantization_config` of config.json and from hf_quant_config.json, flat or nested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// `quant_method` or the producer's name: "modelopt", "compressed-tensors", "fp8".
    pub method: Option<String>,
    /// `quant_algo`: "NVFP4", "MIXED_PRECISION".
    pub algorithm: Option<String>,
    /// Rows and columns that share an FP8 scale.
    pub block: [usize; 2],
}

impl Default for Quantization {
    /// Nothing said.
    fn default() -> Self {
        Self { method: None, algorithm: None, block: [128, 128] }
    }
}

impl Quantization {
    /// Reads both places.
    pub(crate) fn read(dir: &Path) -> Result<Self, WeightsError> {
        let mut found = Self::default();
        let config = dir.join("config.json");
        let hf = dir.join("hf_quant_config.json");
        if let Some(q) = json(&config)?.and_then(|mut j| j.get_mut("quantization_config").map(Value::take)) {
            found.merge(&q).map_err(|what| WeightsError::config(&config, what))?;
        }
        if hf.is_file()
            && let Some(j) = json(&hf)?
        {
            let producer = j.get("producer").and_then(|p| p.get("name")).and_then(Value::as_str);
            found.method = found.method.or_else(|| producer.map(str::to_owned));
            found.merge(j.get("quantization").unwrap_or(&j)).map_err(|what| WeightsError::config(&hf, what))?;
        }
        Ok(found)
    }

    fn merge(&mut self, q: &Value) -> Result<(), String> {
        let text = |key: &str| q.get(key).and_then(Value::as_str).map(str::to_owned);
        self.method = self.method.take().or_else(|| text("quant_method"));
        self.algorithm = self.algorithm.take().or_else(|| text("quant_algo")).or_else(|| text("format"));
        if let Some(b) = q.get("weight_block_size").filter(|b| !b.is_null()) {
            let pair: Option<Vec<usize>> =
                b.as_array().map(|a| a.iter().filter_map(|v| Some(v.as_u64()? as usize)).collect());
            self.block = pair
                .and_then(|p| <[usize; 2]>::try_from(p).ok())
                .filter(|p| p.iter().all(|n| (1..=1 << 16).contains(n)))
                .ok_or_else(|| format!("weight_block_size {b} is not two positive numbers"))?;
        }
        self.refuse_other_groups(q)
    }

    /// NVFP4 has groups of 16 and MXFP4 of 32; anything else is some other format under the same tensor names.
    fn refuse_other_groups(&self, q: &Value) -> Result<(), String> {
        let mut sizes: Vec<(String, &Value)> =
            q.get("group_size").map(|g| ("group_size".into(), g)).into_iter().collect();
        if let Some(groups) = q.get("config_groups").and_then(Value::as_object) {
            for (name, group) in groups {
                let weights = group.get("weights").unwrap_or(&Value::Null);
                sizes
                    .extend(weights.get("group_size").map(|g| (format!("config_groups.{name}.weights.group_size"), g)));
                if weights.get("num_bits").and_then(Value::as_u64).is_some_and(|b| b != 4 && b != 8) {
                    return Err(format!(
                        "config_groups.{name}.weights.num_bits is {}; 4 and 8 are supported",
                        weights["num_bits"]
                    ));
                }
            }
        }
        match sizes.iter().find(|(_, g)| !(g.is_null() || [16, 32, 128].map(Some).contains(&g.as_u64()))) {
            Some((key, size)) => Err(format!("{key} is {size}; NVFP4 has groups of 16, MXFP4 of 32")),
            None => Ok(()),
        }
    }
}

fn json(path: &Path) -> Result<Option<Value>, WeightsError> {
    let text = std::fs::read(path).map_err(WeightsError::io(path))?;
    serde_json::from_slice(&text).map(Some).map_err(|e| WeightsError::config(path, e.to_string()))
}
