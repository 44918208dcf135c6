//! Rotary position embedding: base and scaling, in the old and the new spelling of config.json.

use serde::Deserialize;
use serde_json::Value;

use super::section;

/// How positions turn into rotation angles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// How the frequencies are stretched beyond the training length.
    pub scaling: RopeScaling,
}

/// Stretching of rotary frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// As trained.
    None,
    /// All frequencies divided by the factor.
    Linear {
        /// Divisor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided by the factor, high ones kept, a ramp between.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f64,
        /// Wavelengths above `original / low` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original / high` are kept.
        high_freq_factor: f64,
        /// Training length.
        original_max_position_embeddings: usize,
    },
    /// YaRN: a ramp by number of rotations over the training length.
    Yarn {
        /// Divisor of low frequencies.
        factor: f64,
        /// Rotations above which a frequency is kept.
        beta_fast: f64,
        /// Rotations below which a frequency is divided.
        beta_slow: f64,
        /// Training length.
        original_max_position_embeddings: usize,
    },
}

#[derive(Deserialize)]
struct Raw {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    original_max_position_embeddings: Option<usize>,
}

/// Reads `rope_theta` and `rope_scaling`, or transformers 5's `rope_parameters` that holds both.
pub(super) fn rope(json: &Value) -> Result<Rope, String> {
    let nested = ["rope_parameters", "rope_scaling"].iter().filter_map(|k| json.get(k)).find(|v| !v.is_null());
    let raw: Option<Raw> = nested.map(section).transpose()?;
    let theta = json.get("rope_theta").and_then(Value::as_f64).or_else(|| raw.as_ref()?.rope_theta).unwrap_or(10_000.0);
    if !(theta.is_finite() && theta > 1.0) {
        return Err(format!("rope_theta {theta} is not a number above 1"));
    }
    Ok(Rope { theta, scaling: raw.map_or(Ok(RopeScaling::None), scaling)? })
}

fn scaling(raw: Raw) -> Result<RopeScaling, String> {
    let need = |name: &str, v: Option<f64>| {
        v.filter(|v| v.is_finite() && *v > 0.0).ok_or_else(|| format!("rope scaling needs a positive `{name}`"))
    };
    let original = || {
        let n = raw.original_max_position_embeddings.filter(|n| *n > 0);
        n.ok_or_else(|| "rope scaling needs `original_max_position_embeddings`".to_owned())
    };
    Ok(match raw.rope_type.as_deref() {
        None | Some("default") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: need("factor", raw.factor)? },
        Some("llama3") => RopeScaling::Llama3 {
            factor: need("factor", raw.factor)?,
            low_freq_factor: need("low_freq_factor", raw.low_freq_factor)?,
            high_freq_factor: need("high_freq_factor", raw.high_freq_factor)?,
            original_max_position_embeddings: original()?,
        },
        Some("yarn") => RopeScaling::Yarn {
            factor: need("factor", raw.factor)?,
            beta_fast: raw.beta_fast.unwrap_or(32.0),
            beta_slow: raw.beta_slow.unwrap_or(1.0),
            original_max_position_embeddings: original()?,
        },
        Some(other) => return Err(format!("rope scaling `{other}` is not supported (linear, llama3, yarn are)")),
    })
}
